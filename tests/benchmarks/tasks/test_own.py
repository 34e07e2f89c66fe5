"""Tasks of the user's own: what is guessed, what is refused, and which rows stand where."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.tasks.data import load_data, load_tasks
from benchmarks.tasks.own import own_task, record_of, task_of_record
from benchmarks.tasks.registry import TASKS
from electrify.config.evaluate import EvaluateConfig, OwnTask

REVIEWS = [
    {"id": str(n), "document": f"review {n} of a film", "label": str(n % 2)} for n in range(60)
]
ENTITIES = [
    {"words": ["In", f"town-{n}", "."], "ner_tags": ["O", "B-LOC", "O"]} for n in range(40)
] + [{"words": ["New", "York", "is", "big"], "ner_tags": ["B-LOC", "I-LOC", "O", "O"]}]

SPANS = [
    {"text": "Ann is in New York.", "entities": [[0, 3, "PER"], [10, 18, "LOC"]]},
    {"text": "No one is.", "entities": []},
    {"text": "Bob", "entities": [{"start": 0, "end": 3, "label": "PER"}]},
] * 20
QUESTIONS = [
    {
        "context": f"Town {n} has a bridge.",
        "question": "What has it?",
        "answers": {"text": ["a bridge"], "answer_start": [len(f"Town {n} has ")]},
    }
    for n in range(30)
]


def write(path, rows):
    """In the format that the name says."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".tsv":
        lines = [rows[0].keys(), *(row.values() for row in rows)]
        path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def load(folder, options):
    task = own_task(options)
    return task, load_data(task, folder)


def kind_of(task):
    return record_of(task)["kind"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".parquet"])
def test_equal_rows_are_one_task_in_every_format(tmp_path, suffix):
    task, data = load(
        tmp_path, OwnTask(train=write(tmp_path / f"reviews{suffix}", REVIEWS), name="films")
    )
    other, of_csv = load(
        tmp_path, OwnTask(train=write(tmp_path / "other.csv", REVIEWS), name="films")
    )
    assert (task.version, data.sha256) == (other.version, of_csv.sha256)
    assert data.reported == of_csv.reported
    assert (task.text_fields, task.label_field, task.labels) == (("document",), "label", ("0", "1"))


@pytest.mark.parametrize(
    ("rows", "kind", "texts", "labels"),
    [
        ([{"title": "a", "topic": "x"}, {"title": "b", "topic": "y"}], "classification",
         ("title",), ("x", "y")),
        ([{"text": "a", "label": n} for n in (10, 9, 2)], "classification",
         ("text",), ("2", "9", "10")),
        ([{"text": "a", "score": n / 2} for n in range(9)], "regression", ("text",), ()),
        ([{"text": "a", "score": n} for n in range(40)], "regression", ("text",), ()),
        ([{"premise": "a", "hypothesis": "b", "label": x} for x in "xy"], "classification",
         ("premise", "hypothesis"), ("x", "y")),
        ([{"a": "short", "b": "much longer text", "label": x} for x in "xy"], "classification",
         ("b",), ("x", "y")),
        (ENTITIES, "tagging", ("words",), ("O", "B-LOC", "I-LOC")),
        (SPANS, "entities", ("text",), ("B-LOC", "I-LOC", "B-PER", "I-PER", "O")),
        (QUESTIONS, "reading", ("context", "question"), ()),
        ([{"text": "a", "label": x} for x in ("1", "2", "2 ")], "classification",
         ("text",), ("1", "2")),
        ([{"text": "a", "label": x} for x in ("0", "0.0", 1.0, 1, "-1.00")], "classification",
         ("text",), ("-1", "0", "1")),
    ],
)  # fmt: skip
def test_what_is_guessed(tmp_path, rows, kind, texts, labels):
    task = own_task(OwnTask(train=write(tmp_path / "mine.jsonl", rows)))
    assert (kind_of(task), task.text_fields, task.labels) == (kind, texts, labels)
    assert task.name == "mine"
    assert task.headline in task.score([])
    assert {metric.__name__ for metric in task.metrics} <= set(task.score([]))


def test_a_fifth_of_the_texts_is_held_out_and_no_text_stands_on_both_sides(tmp_path, caplog):
    rows = [{"text": f"text {n % 200}", "label": str(n % 3)} for n in range(400)]
    caplog.set_level("INFO", "electrify")
    _, data = load(tmp_path, OwnTask(train=write(tmp_path / "reviews.csv", rows)))
    train, reported = ({e.texts for e in part} for part in (data.train, data.reported))
    assert not train & reported
    assert len(train | reported) == 200
    assert 0.1 < len(reported) / 200 < 0.3
    assert data.split == "train-split-eval"
    ((line, hint),) = [r.getMessage().split("\n") for r in caplog.records]
    assert hint.startswith("for other columns: --set 'evaluate.own_tasks=[{ train = ")
    assert line == (
        "reviews: classification of column 'label' (3 labels: 0, 1, 2), text in 'text', 400 rows; "
        "no dev file: 20 % of the texts are held out (200 rows of a text that stood before are on "
        f"its side); {len(data.train)} rows to learn from, {len(data.reported)} of train reported"
    )


def test_training_rows_of_reported_texts_are_left_out(tmp_path, caplog):
    """Of pairs in either order; the data of every scored split are in the digests."""
    caplog.set_level("INFO", "electrify")
    pairs = [{"sentence1": f"a{n}", "sentence2": f"b{n}", "label": str(n % 2)} for n in range(10)]
    turned = {"sentence1": "b3", "sentence2": "a3", "label": "1"}
    options = OwnTask(
        train=write(tmp_path / "train.csv", pairs),
        dev=write(tmp_path / "dev.csv", [turned, pairs[0]]),
        test=write(tmp_path / "test.csv", [pairs[9] | {"label": "0"}]),
        name="pairs",
    )
    task, data = load(tmp_path, options)
    assert [e.texts[0] for e in data.train] == ["a1", "a2", "a4", "a5", "a6", "a7", "a8"]
    assert (data.split, len(data.reported), len(data.further["dev"])) == ("test", 1, 2)
    assert task.reported_splits == ("test", "dev")
    assert set(data.sha256) == {"train", "dev", "test"}
    assert "3 training rows are left out" in caplog.text


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a", "x": "1", "y": "2"}], {}, r"which column is the label\? There are text, x"),
        (REVIEWS, {"label": "labl"}, "no column 'labl'; did you mean label"),
        (REVIEWS, {"metric": "f1"}, "unknown metric 'f1'.*classification has accuracy, macro_f1"),
        (REVIEWS, {"label": "document", "text": "id"}, "60 different values in 60 rows"),
        (REVIEWS, {"kind": "tagging"}, "row 1: '0' in column 'label' is no tag"),
        (REVIEWS, {"kind": "regression", "label": "document"}, "'review 0 of a film'.*no number"),
        (REVIEWS[:1], {}, "is '0' in every row: nothing to learn"),
        ([*REVIEWS, {"id": "", "document": "a", "label": ""}], {}, "row 61: no value in column"),
        ([*REVIEWS, {"id": "", "document": "a", "label": " "}], {}, "row 61: no value in column"),
        ([*REVIEWS, *[{"id": "", "document": "a", "label": ""}] * 3], {}, "row 61 and 2 more: no"),
        ([{"document": "a"}, {"document": "b"}], {}, "no column is left for the label"),
        ([{"words": ["a"], "tags": ["NOUN"]}], {}, "'NOUN' in column 'tags' is no tag"),
        ([{"words": ["a"], "tags": ["O"]}], {}, "has no entity in any row"),
        ([{"text": "a", "tags": [{"start": 0}]}], {}, "'tags' is no span: write"),
        ([{"text": "a", "spans": [[0, 2, "X"]]}], {}, "0 to 2 .X. ends behind the text"),
        ([{"text": "abc", "spans": [[0, 2, "X"], [1, 3, "X"]]}], {}, "1 to 3 .X. overlaps"),
        ([{"text": "a", "spans": []}], {"kind": "entities"}, "has no span in any row"),
        ([{"text": "a", "answers": [{"text": "a", "answer_start": 0}]}], {},
         "reading has the columns context, question and answers"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_task_is_refused(tmp_path, rows, options, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, OwnTask(train=write(tmp_path / "mine.jsonl", rows), **options))


def test_files_of_other_tools(tmp_path, caplog):
    """JSON lines that are named .json, texts that are null, ids that repeat or are numbers."""
    rows = [row | {"guid": 7} for row in REVIEWS]
    rows[3] = rows[3] | {"document": None}
    lines = Path(write(tmp_path / "lines.jsonl", rows))
    _, data = load(tmp_path, OwnTask(train=str(lines.rename(tmp_path / "lines.json"))))
    assert len(data.train) + len(data.reported) == len(REVIEWS) - 1
    assert "1 rows with an empty text are left out" in caplog.text
    assert len({example.id for example in (*data.train, *data.reported)}) == len(REVIEWS) - 1


def test_files_that_are_not_there_are_named_beside_those_of_official_tasks(tmp_path):
    own = (OwnTask(train=str(tmp_path / "a.csv")), OwnTask(train=str(tmp_path / "b.csv")))
    options = EvaluateConfig(own_tasks=own, tasks=("klue-ynat",), data_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"a: no file .*\nb: no file .*\n.*no data of klue-ynat"):
        load_tasks(options)
    with pytest.raises(ValueError, match=r"sheet.xlsx: a task is read from \.csv"):
        own_task(OwnTask(train=str(tmp_path / "sheet.xlsx")))


@pytest.mark.parametrize(
    "rows",
    [REVIEWS, ENTITIES, SPANS, QUESTIONS, [{"text": "a", "score": n} for n in range(40)]],
)
def test_a_record_gives_the_same_task(tmp_path, rows):
    task = own_task(OwnTask(train=write(tmp_path / "mine.jsonl", rows)))
    assert task_of_record(json.loads(json.dumps(record_of(task)))) == task
    assert record_of(TASKS["klue-ynat"]) is None
    with pytest.raises(ValueError, match="describes no task"):
        task_of_record({"kind": "spans"})


def test_a_note_stands_beside_the_name_and_makes_no_other_task(tmp_path):
    path = write(tmp_path / "mine.jsonl", REVIEWS)
    plain, noted = (own_task(OwnTask(train=path, note=note)) for note in (None, "made up"))
    assert (plain.title, noted.title) == ("mine", "mine (made up)")
    assert noted.version == plain.version
    record = record_of(noted)
    assert task_of_record(record).title == noted.title
    del record["note"]  # as older ones
    assert task_of_record(record) == plain


def test_words_and_tags_become_labels_of_first_pieces(tmp_path, tokenizer):
    task, data = load(tmp_path, OwnTask(train=write(tmp_path / "mine.jsonl", ENTITIES)))
    example = next(e for e in (*data.train, *data.reported) if len(e.words) == 4)
    assert example.texts == ("New York is big",)
    assert [task.labels[tag] for tag in example.tags] == ["B-LOC", "I-LOC", "O", "O"]
    features = task.featurize([example], tokenizer, 16, train=True)
    assert features.labels["labels"][0][1:5].tolist() == list(example.tags)
    line = {"id": "a", "gold": ["B-LOC", "I-LOC", "O"], "prediction": ["B-LOC", "O", "O"]}
    assert task.score([line])["seqeval_micro_f1"] == 0.0
    assert task.score([line | {"prediction": line["gold"]}])["seqeval_micro_f1"] == 1.0
    assert task.entities_of(line, "gold") == {("LOC", 0, 2)}


def test_spans_become_labels_of_characters(tmp_path, tokenizer):
    task, data = load(tmp_path, OwnTask(train=write(tmp_path / "mine.jsonl", SPANS[:3])))
    example = next(e for e in (*data.train, *data.reported) if e.texts[0].startswith("Ann"))
    gold = {("PER", 0, 3), ("LOC", 10, 18)}
    line = {"text": example.texts[0], "frame": ["O", "O"]}
    line |= {side: [task.labels[t] for t in example.tags] for side in ("gold", "prediction")}
    assert task.entities_of(line, "gold") == gold  # the blank within a name is of it
    assert task.score([line])["entity_micro_f1"] == 1.0
    line["prediction"] = ["O"] * 10 + line["gold"][10:]
    assert task.score([line])["entity_micro_f1"] == pytest.approx(2 / 3)


def test_questions_in_the_json_of_squad_are_those_of_rows(tmp_path):
    """Without an answer to one of them the score is that of SQuAD 2.0."""
    articles = [{"paragraphs": [{"context": r["context"], "qas": [r]}]} for r in QUESTIONS]
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    task, data = load(tmp_path, OwnTask(train=str(tmp_path / "squad.json")))
    _, other = load(tmp_path, OwnTask(train=write(tmp_path / "squad.jsonl", QUESTIONS)))
    assert (data.train, data.reported) == (other.train, other.reported)
    assert not task.has_unanswerable
    none = QUESTIONS[0] | {"context": "Nothing.", "answers": {"text": [], "answer_start": []}}
    task = own_task(OwnTask(train=write(tmp_path / "two.jsonl", [*QUESTIONS, none])))
    assert task.has_unanswerable


def test_names_of_official_tasks_and_of_each_other_are_refused():
    with pytest.raises(ValueError, match='name = "my-klue-ynat"'):
        OwnTask(train="data/klue-ynat.csv")
    with pytest.raises(ValueError, match="two tasks are called 'a'"):
        EvaluateConfig(own_tasks=(OwnTask(train="x/a.csv"), OwnTask(train="y/a.tsv")))
    own = (OwnTask(train="리뷰 2.csv"),)
    options = {"리뷰-2": {"num_epochs": 2.0}}
    assert EvaluateConfig(own_tasks=own, tasks_options=options).tasks_options.keys() == {"리뷰-2"}
    with pytest.raises(ValueError, match="unknown task '리뷰-2'"):
        EvaluateConfig(tasks_options=options)
