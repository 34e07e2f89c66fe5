"""Tasks of the user's own: what is guessed, what is refused, and which rows stand where."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import numpy as np
import pytest
from huggingface_hub import HfApi

from benchmarks.tasks.load import load_data
from benchmarks.tasks.own import files_on_hub, is_on_hub, own_task, record_of, task_of_record
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Features
from electrify.config.evaluate import OwnTask
from electrify.config.load import evaluation_of
from tests.benchmarks.records import own_task_of, write, write_table

REVIEWS = [{"id": str(n), "document": f"film review {n}", "label": str(n % 2)} for n in range(60)]
ENTITIES = [
    {"words": ["In", f"town-{n}", "."], "ner_tags": ["O", "B-LOC", "O"]} for n in range(40)
] + [{"words": ["New", "York", "is", "big"], "ner_tags": ["B-LOC", "I-LOC", "O", "O"]}]

SPANS = [
    {"text": "Ann is in New York.", "entities": [[0, 3, "PER"], [10, 18, "LOC"]]},
    {"text": "No one is.", "entities": []},
    {"text": "Bob", "entities": [{"start": 0, "end": 3, "label": "PER"}]},
    {"text": "Bob", "entities": [{"start_offset": 0, "end_offset": 3, "label": "PER"}]},  # doccano
    {"text": "Bob", "entities": [{"start": 0, "end": 3, "labels": ["PER"]}]},  # Label Studio
] * 20
QUESTIONS = [
    {
        "context": f"Town {n} has a bridge.",
        "question": "What has it?",
        "answers": {"text": ["a bridge"], "answer_start": [len(f"Town {n} has ")]},
    }
    for n in range(30)
]

# tags of another scheme, with the sentence beside its words
SENTENCE = {"sentence": "홍길동 은 대구 광역시", "tokens": ["홍길동", "은", "대구", "광역시"]}
SCHEME = [SENTENCE | {"ner_tags": ["PER_B", "-", "LOC_B", "LOC_I"]}] * 20
CONTEXT = "Town {} has a bridge and a mill. A mill is old."
BRIDGE = len("Town 0 has a ")


def labelled(*labels, count=40):
    """Texts with the labels in turn, and the rest with the first of them."""
    return [{"text": f"text {n}", "label": labels[n % len(labels)]} for n in range(count)]


def questions(answers, **more):
    """Ten of them, and one with an answer."""
    about = {"question": "What?", "answers": answers, **more}
    return [*({"context": CONTEXT.format(n), **about} for n in range(10)), QUESTIONS[0]]


def named(span):
    return [{"text": f"Ann in {n}", "entities": [span]} for n in range(20)]


def load(options):
    task = own_task(options)
    return task, load_data(task, Path())


def load_rows(folder, rows, **options):
    task = own_task_of(folder, rows, **options)
    return task, load_data(task, folder)


def all_rows(data):
    return [*data.train, *data.reported]


@pytest.mark.parametrize(
    ("rows", "kind", "texts", "labels"),
    [
        ([{"title": "a", "topic": "x"}, {"title": "b", "topic": "y"}], "classification",
         ("title",), ("x", "y")),
        ([{"text": "a", "label": n} for n in (10, 9, 2)], "classification",
         ("text",), ("2", "9", "10")),
        ([{"text": "a", "score": n / 2} for n in range(9)], "regression", ("text",), ()),
        ([{"text": "a", "score": 3 * n} for n in range(40)], "regression", ("text",), ()),
        (labelled("001", "002"), "classification", ("text",), ("001", "002")),
        (labelled("1_0", "5_7"), "classification", ("text",), ("1_0", "5_7")),
        ([{"premise": "a", "hypothesis": "b", "label": x} for x in "xy"], "classification",
         ("premise", "hypothesis"), ("x", "y")),
        ([{"a": "short", "b": "much longer text", "label": x} for x in "xy"], "classification",
         ("b",), ("x", "y")),
        (ENTITIES, "tagging", ("words",), ("O", "B-LOC", "I-LOC")),
        (SPANS, "entities", ("text",), ("B-LOC", "I-LOC", "B-PER", "I-PER", "O")),
        (SCHEME, "tagging", ("tokens",), ("O", "B-LOC", "B-PER", "I-LOC")),
        (QUESTIONS, "reading", ("context", "question"), ()),
        ([{"text": "a", "label": x} for x in ("1", "2", "2 ")], "classification",
         ("text",), ("1", "2")),
        ([{"text": "a", "label": x} for x in ("0", "0.0", 1.0, 1, "-1.00")], "classification",
         ("text",), ("-1", "0", "1")),
        (labelled("none", "offensive", "hate"), "classification",
         ("text",), ("hate", "none", "offensive")),
        (labelled("긍정", "\u1100\u1173\u11bc\u110c\u1165\u11bc", "부정\u200b", " 부정"),
         "classification", ("text",), ("긍정", "부정")),
        (labelled(True, False, "TRUE"), "classification", ("text",), ("false", "true")),
        ([{"text": "a", "labels": ["x"] * n} for n in (0, 1)], "multi-label", ("text",), ("x",)),
        ([{"text": "a", "labels": x, "annotators": ["b", "c"]} for x in (["y"], ["z"])],
         "multi-label", ("text",), ("y", "z")),
    ],
)  # fmt: skip
def test_what_is_guessed(tmp_path, rows, kind, texts, labels):
    task = own_task_of(tmp_path, rows)
    assert (record_of(task)["kind"], task.text_fields, task.labels) == (kind, texts, labels)
    assert task.name == "mine"
    assert task.headline in task.score([])
    assert {metric.__name__ for metric in task.metrics} <= set(task.score([]))
    assert task_of_record(json.loads(json.dumps(record_of(task)))) == task


def test_the_label_is_no_column_that_is_named_as_the_text(tmp_path):
    rows = [{"answers": f"answer {n}", "grade": n % 2} for n in range(40)]
    assert own_task_of(tmp_path, rows, text="answers").label_field == "grade"


def test_what_an_error_says_to_set_can_be_set(tmp_path):
    rows = [{"text": "a", "x": "1", "y": "2"}] * 2
    options = OwnTask(train=write_table(tmp_path / "mine.csv", rows), name="two")
    with pytest.raises(ValueError, match="which column is the label") as raised:
        own_task(options)
    (override,) = re.findall("`(.*)`", str(raised.value))
    (said,) = evaluation_of("any", [override]).evaluate.own_tasks
    assert said == options.model_copy(update={"label": "COLUMN"})


def test_a_row_without_its_text_is_left_out(tmp_path):
    rows = [{"d": {"text": f"a{n}", "label": str(n % 2)}} for n in range(40)]
    rows[0]["d"]["text"] = rows[1]["d"]["text"] = None
    _, data = load_rows(tmp_path, rows, text="d.text", label="d.label")
    assert len(all_rows(data)) == 38


def test_columns_of_files_are_called_the_same(tmp_path):
    test = [{"Text": row["document"], "label": row["label"]} for row in REVIEWS[:9]]
    train = [{"text": row["document"], "label": row["label"]} for row in REVIEWS]
    paths = {"train": write_table(tmp_path / "train.csv", train)}
    paths["test"] = write_table(tmp_path / "b.csv", test)
    with pytest.raises(ValueError, match=r"b\.csv has the column 'Text', train\.csv 'text'"):
        own_task(OwnTask(**paths))


def test_columns_of_words_and_tags_may_be_named(tmp_path):
    path = tmp_path / "a.conll"
    sentence = "1\t나는\t나\tPRON\tx\n2\t{}간다\t가다\tVERB\ty\n\n"
    path.write_text("".join(map(sentence.format, range(12))))
    with pytest.raises(ValueError, match=r"which column is the label.*column 4"):
        own_task(OwnTask(train=str(path)))
    task = own_task(OwnTask(train=str(path), kind="word-labels", word_column=2, tag_column=4))
    assert task.labels == ("PRON", "VERB")
    assert load_data(task, tmp_path).train[0].texts == ("나는 0간다",)
    with pytest.raises(ValueError, match="label or tag_column: give one"):
        OwnTask(train=str(path), label="x", tag_column=2)


def test_further_files_are_scored_by_the_same_fine_tuning(tmp_path, caplog):
    """And their texts are not learnt from."""
    caplog.set_level("INFO", "electrify")
    rows = [{"text": f"text {n}", "label": str(n % 2)} for n in range(9)]
    other = {"ko": write_table(tmp_path / "ko.csv", [*rows[:1], {"text": "글", "label": "1"}])}
    paths = {"train": write_table(tmp_path / "train.csv", rows)}
    paths["test"] = write_table(tmp_path / "test.csv", [{"text": "one", "label": "0"}])
    task = own_task(OwnTask(**paths, further=other))
    assert task.reported_splits == ("test", "ko")
    data = load_data(task, tmp_path)
    assert [e.texts for e in data.further["ko"]] == [("text 0",), ("글",)]
    assert ("text 0",) not in [e.texts for e in data.train]
    (tmp_path / "[ja]").mkdir()
    for name in ("en.csv", "ja.csv"):
        (tmp_path / "[ja]" / name).write_bytes((tmp_path / "ko.csv").read_bytes())
    own = {"test": str(tmp_path / "[ja]" / "en.csv")}
    found = own_task(OwnTask(**paths | own, further=str(tmp_path / "[ja]" / "*.csv")))
    assert found.reported_splits == ("test", "ja")
    with pytest.raises(ValueError, match="finds no other file"):
        own_task(OwnTask(**paths | own, further=str(tmp_path / "[ja]" / "e*.csv")))
    with pytest.raises(ValueError, match="has no `\\*`"):
        OwnTask(**paths, further="ko.csv")
    with pytest.raises(ValueError, match="'dev' is no name"):
        OwnTask(**paths, further={"dev": "a.csv"})
    with pytest.raises(ValueError, match=r"ko\.csv: there is no such file"):
        own_task(OwnTask(**paths, further={"ko": str(tmp_path / "x" / "ko.csv")}))


def test_a_fifth_of_the_texts_is_held_out_and_no_text_stands_on_both_sides(tmp_path, caplog):
    rows = [{"text": f"text {n % 200}", "label": str(n % 3)} for n in range(400)]
    caplog.set_level("INFO", "electrify")
    _, data = load_rows(tmp_path, rows)
    train, reported = ({e.texts for e in part} for part in (data.train, data.reported))
    assert not train & reported
    assert len(train | reported) == 200
    assert 0.1 < len(reported) / 200 < 0.3
    assert data.split == "train-split-eval"
    assert f"{100 * len(data.reported) / 400:.0f} % of the rows are held out;" in caplog.text


def test_training_rows_of_reported_texts_are_left_out(tmp_path, caplog):
    """Of pairs in either order; the data of every scored split are in the digests."""
    caplog.set_level("INFO", "electrify")
    pairs = [{"sentence1": f"a{n}", "sentence2": f"b{n}", "label": str(n % 2)} for n in range(10)]
    turned = {"sentence1": " b3", "sentence2": "a3\n", "label": "1"}
    options = OwnTask(
        train=write_table(tmp_path / "train.csv", pairs),
        dev=write_table(tmp_path / "dev.csv", [turned, pairs[0]]),
        test=write_table(tmp_path / "test.csv", [pairs[9] | {"label": "0"}]),
        name="pairs",
    )
    task, data = load(options)
    assert [e.texts[0] for e in data.train] == ["a1", "a2", "a4", "a5", "a6", "a7", "a8"]
    assert (data.split, len(data.reported), len(data.further["dev"])) == ("test", 1, 2)
    assert task.reported_splits == ("test", "dev")
    assert set(data.sha256) == {"train", "dev", "test"}
    assert "3 training rows are left out" in caplog.text
    assert "1 of test reported, beside them 2 of dev" in caplog.text


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a", "labels": "x"}] * 2, {"kind": "multi-label"}, "'x' .* is no list"),
        ([{"text": "a", "label": {"id": 0, "name": "x"}}] * 4, {},
         r"no label; .*: label\.id, label\.name"),
        ([{"data": {"text": "a", "gold": "x"}}] * 4, {},
         r"the text\? There are data, data\.text, data\.gold\."),
        ([{"text": f"text {n}", "row": n} for n in range(1, 41)], {}, "the numbers of the rows"),
        ([{"text": f"text {n}", "topic": f"t{n}"} for n in range(12)], {},
         "different values in 12 rows"),
        ([{"text": "a", "x": "1", "y": "2"}], {}, r"which column is the label\? There are text, x"),
        (REVIEWS, {"label": "labl"}, "no column 'labl'; did you mean label"),
        (REVIEWS, {"metric": "f1"}, "unknown metric 'f1'.*classification has accuracy, macro_f1"),
        (REVIEWS, {"kind": "tagging"}, "row 1: .* is no list of words, which tags need"),
        (REVIEWS[:1], {}, "is '0' in every row: nothing to learn"),
        ([{"text": "a", "labels": ["x"]}] * 9, {}, "is 'x' in every row: nothing to learn"),
        ([{"text": "a", "labels": []}] * 9, {}, "has no label in any row: nothing to learn"),
        ([*REVIEWS, {"id": "", "document": "a", "label": ""}], {}, "row 61: no value in column"),
        ([{"document": "a"}, {"document": "b"}], {}, "no column is left for the label"),
        ([{"words": ["a"], "tags": ["NOUN"]}], {}, "row 1, column 'tags': 'NOUN' is no tag"),
        ([{"text": "a", "spans": [[0, 2, "X"]]}], {}, "0 to 2 .X. ends behind the text"),
        ([{"text": "abc", "spans": [[0, 2, "X"], [1, 3, "X"]]}], {}, "1 to 3 .X. overlaps"),
        ([{"text": "a", "answers": [{"text": "a", "answer_start": 0}]}], {},
         "reading has the columns context, question and answers"),
        (QUESTIONS, {"text": ("question", "context")}, "in this order"),
        ([{"passage": "a", "question": "b", "answers": []}], {}, "in this order, .* are passage"),
        ([s | {"context": "a", "question": "b"} for s in SPANS], {}, "entities are of one text"),
        ([{"sentence1": "a", "sentence2": f"b{n}", "label": str(n % 2)} for n in range(9)], {},
         "they have one first text"),
        (labelled(*range(30), count=120), {}, "whole numbers 0 to 29: say kind"),
        (labelled("1", "2", "else"), {}, "row 3 and 12 more .*: 'else' .* is no number, 27 others"),
        ([{"text": "a", "tags": ["O", "B-X"]}] * 9, {"kind": "tagging"}, 'kind = "multi-label"'),
        (REVIEWS, {"text": ("document", "titel")}, "no column 'titel'"),
        ([{"tokens": ["a", "b"], "ner_tags": [0, 1]}] * 9, {}, "0 is no tag of an entity"),
        ([{"text": "a", "Label": "0", "label": "1"}] * 9, {}, "which column is the label"),
        (questions([{"text": "castle", "answer_start": 0}]), {},
         "row 1: .*'castle' has start 0, and is 0 times"),
        (questions([{"text": "mill"}]), {}, "'mill' has no start, and is 2 times"),
        (questions([{"text": "bridge", "answer_start": "13"}]), {}, "'13', no whole number"),
        (questions([], is_impossible="yes"), {}, "is_impossible is 'yes'; write true or false"),
        (questions({"text": ["bridge", ""], "answer_start": [BRIDGE, -1]}), {},
         "one answer is empty"),
        (questions([], is_impossible=False), {}, "is_impossible is false, and there is no answer"),
        ([{"tokens": ["a", "b"], "upos": ["X", "Y"]}] * 9, {}, 'kind = "word-labels"'),
        ([{"text": "", "label": "a"}] * 3, {}, "no row has a text in text"),
        ([{"premise": "a", "choice1": "b", "choice2": "c", "label": 0}] * 2, {},
         "choice1, choice2: tasks of several choices are not scored"),
        (named({"start": 0, "end": 3, "label": "PER", "text": "Bob"}), {},
         "row 1: the span 'Bob' has start"),
        (named({"start": 3, "end": 4, "label": "PER", "text": "n"}), {},
         "row 1: .* is 3 times"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_task_is_refused(tmp_path, rows, options, message):
    with pytest.raises(ValueError, match=message):
        load_rows(tmp_path, rows, **options)


@pytest.mark.parametrize(
    "span",
    [
        {"start": 0, "end": 3, "label": "PER", "text": "Ann"},
        {"begin": 0, "end": 2, "type": "PER", "form": "Ann"},
        {"start": 1, "end": 4, "label": "PER", "word": "Ann"},
    ],
)
def test_a_span_holds_the_text_that_it_has(tmp_path, span):
    task, data = load_rows(tmp_path, named(span))
    assert [task.labels[tag] for tag in data.train[0].gold[:4]] == ["B-PER", "I-PER", "I-PER", "O"]


@pytest.mark.parametrize(
    ("answers", "more", "is_answered"),
    [
        ([], {}, False),
        (None, {}, False),
        ({"text": [""], "answer_start": [-1]}, {}, False),
        ([{"text": " ", "answer_start": 0}], {}, False),
        ([{"text": "bridge", "answer_start": BRIDGE}], {"is_impossible": True}, False),
        ([{"text": "bridge", "answer_start": BRIDGE}], {"is_impossible": 1.0}, False),
        ([], {"is_impossible": None}, False),
        ([{"text": "bridge", "answer_start": BRIDGE}], {"is_impossible": False}, True),
        ({"text": ["bridge"], "answer_start": [float(BRIDGE)]}, {"is_impossible": 0}, True),
        ({"text": [" bridge"], "answer_start": [BRIDGE - 1]}, {}, True),
        ({"text": ["bridge"], "answer_start": [-1]}, {}, True),
        ({"text": ["bridge"], "answer_start": [3]}, {"is_impossible": None}, True),
        ([{"text": "bridge"}], {}, True),
    ],
)
def test_an_answer_or_none_however_it_is_spelt(tmp_path, answers, more, is_answered):
    task, data = load_rows(tmp_path, questions(answers, question_type="a place", **more))
    assert task.has_unanswerable != is_answered
    found = [e.answers for e in all_rows(data)]
    assert found.count((("bridge", BRIDGE),) if is_answered else ()) == 10


def test_files_of_other_tools(tmp_path, caplog):
    """JSON lines that are named .json, texts that are null, ids that repeat or are numbers."""
    rows = [row | {"guid": 7} for row in REVIEWS]
    rows[3] = rows[3] | {"document": None}
    lines = write(tmp_path / "lines.json", "\n".join(map(json.dumps, rows)))
    _, data = load(OwnTask(train=str(lines)))
    assert "1 rows with an empty text are left out" in caplog.text
    assert len({e.id for e in all_rows(data)}) == len(all_rows(data)) == len(REVIEWS) - 1
    # nothing else of such a row is looked at
    rows = [*QUESTIONS, {"context": None, "question": "What?", "answers": [{"text": "a"}]}]
    _, data = load_rows(tmp_path, rows)
    assert len(all_rows(data)) == len(QUESTIONS)


def test_official_tasks_have_no_record_and_another_record_gives_no_task():
    assert record_of(TASKS["klue-ynat"]) is None
    with pytest.raises(ValueError, match="describes no task"):
        task_of_record({"kind": "spans"})


def test_numbers_are_learnt_as_fractions_of_their_range(tmp_path, tokenizer):
    """A prediction may lie outside of it."""
    rows = [{"text": f"a{n}", "score": n / 4} for n in range(17)]
    task = own_task_of(tmp_path, rows, kind="regression")
    examples = list(task.from_rows("train", enumerate(rows[:3]), "mine"))
    outputs = [{"logits": [value]} for value in (-0.2, 0.5, 1.5)]
    predictions = task.predictions(examples, Features.from_rows([]), outputs)
    assert [p["prediction"] for p in predictions] == pytest.approx([-0.8, 2.0, 6.0])
    features = task.featurize(examples, tokenizer, 16, train=True)
    learnt = task.label_arrays(features, np.arange(3), 16)["values"]
    assert learnt.tolist() == [0.0, 1 / 16, 2 / 16]  # of 0 to 4


def test_a_third_text_stands_behind_the_second_and_a_separator(tmp_path, tokenizer):
    rows = [{"a": "국회", "b": "증시 오늘", "c": "경찰", "label": n % 2} for n in range(10)]
    task = own_task_of(tmp_path, rows, text=("a", "b", "c"), label="label")
    assert task.text_fields == ("a", "b", "c")
    assert task.has_parts
    examples = list(task.from_rows("train", enumerate(rows), "mine"))
    features = task.featurize(examples, tokenizer, 32, train=False)
    pieces = tokenizer.convert_ids_to_tokens(features.input_ids[0])
    assert pieces == ["[CLS]", "국회", "[SEP]", "증시", "오늘", "[SEP]", "경찰", "[SEP]"]
    assert features.token_type_ids[0].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def test_spans_become_labels_of_characters(tmp_path, tokenizer):
    task, data = load_rows(tmp_path, SPANS[:3])
    example = next(e for e in all_rows(data) if e.texts[0].startswith("Ann"))
    prediction = {"text": example.texts[0]}
    prediction |= {side: [task.labels[t] for t in example.gold] for side in ("gold", "prediction")}
    marks = [tag[0] for tag in prediction["gold"]]  # the blank within a name belongs to it
    assert "".join(marks) == "BIIOOOOOOOBIIIIIIIO"
    assert task.score([prediction])["entity_micro_f1"] == 1.0
    prediction["prediction"] = ["O"] * 10 + prediction["gold"][10:]
    assert task.score([prediction])["entity_micro_f1"] == pytest.approx(2 / 3)


def test_without_the_hub_what_was_read_last_is_taken(tmp_path: Path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    assert all(map(is_on_hub, ("skt/kobest_v1:boolq", "klue/klue", "google/xtreme:PAN-X.ko")))
    assert OwnTask(train="google/xtreme:PAN-X.ko").task_name == "xtreme-PAN-X.ko"
    assert not any(map(is_on_hub, ("data/rows.csv", "rows.csv", "/data/rows", "a/b/c")))
    monkeypatch.setattr(HfApi, "dataset_info", fail)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    files_on_hub.cache_clear()
    with pytest.raises(ValueError, match="connection to the hub fails"):
        files_on_hub("made/rows:a")
    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: SimpleNamespace(sha="a" * 40))
    reason = "Config name is missing.\nPlease pick one among the available configs: ['a']"
    monkeypatch.setattr("benchmarks.tasks.own.load_splits", Mock(side_effect=ValueError(reason)))
    with pytest.raises(ValueError, match=r"configs: \['a'\] Here: made/rows:CONFIG"):
        files_on_hub("made/rows")
    monkeypatch.setattr(HfApi, "dataset_info", fail)
    folder = tmp_path / "electrify" / "made--rows--a@0123456789ab"
    folder.mkdir(parents=True)
    (folder / "train.parquet").touch()
    assert files_on_hub("made/rows:a") == {"train": folder / "train.parquet"}
    files_on_hub.cache_clear()
