"""From official files and from the hub to checked examples: what is read, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from datasets.utils.logging import disable_progress_bar

from benchmarks.tasks.load import (
    HUB,
    REVISIONS,
    UNKNOWN,
    check_data,
    has_data,
    load_data,
    split_by_group,
)
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.rows import GoldAnswer
from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import SUITE_TASKS
from tests.benchmarks.records import (
    COLA,
    DP,
    HATE_SPEECH,
    MNLI,
    MRPC,
    NAVER_NER,
    NER,
    NLI,
    OFFICIAL_FILES,
    QNLI,
    QUESTION_PAIR,
    RE,
    STSB,
    YNAT,
    YNAT_ROW,
    write,
)

disable_progress_bar()


@pytest.fixture
def hub(monkeypatch):
    """Loads a task whose splits on the hub are these."""

    def load(task, features, **splits):
        columns = Features(features)
        made = {name: Dataset.from_list(rows, columns) for name, rows in splits.items()}
        monkeypatch.setattr("benchmarks.tasks.load.load_splits", lambda *_: DatasetDict(made))
        return load_data(task, Path(HUB))

    return load


TEXT = Value("string")
SPLITS = ("train", "validation")
# the hub's order, which is not KLUE-baseline's
TOPICS = ClassLabel(names=["IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"])
YNAT_FEATURES = {"guid": TEXT, "title": TEXT, "label": TOPICS, "url": TEXT, "date": TEXT}


def topic(number, label):
    return {"guid": f"g{number}", "title": f"제목 {number}", "label": label, "url": "", "date": ""}


def test_class_labels_are_taken_by_name(hub):
    rows = [topic(0, 0), topic(1, 6)]
    data = hub(YNAT, YNAT_FEATURES, train=rows, validation=rows)
    found = [(e.id, *e.texts, YNAT.labels[e.gold]) for e in data.reported]
    assert found == [("g0", "제목 0", "IT과학"), ("g1", "제목 1", "정치")]


def test_what_is_missing_or_other_is_named(hub, tmp_path):
    other = YNAT_FEATURES | {"label": ClassLabel(names=["IT과학", "경제", "날씨"])}
    with pytest.raises(ValueError, match="has the labels IT과학, 경제, 날씨 in 'label'"):
        hub(YNAT, other, validation=[topic(0, 0)])
    with pytest.raises(ValueError, match=r"has no split validation .*there are: train\)"):
        hub(YNAT, YNAT_FEATURES, train=[topic(0, 0)])
    features = {"guid": TEXT, "label": TOPICS}
    with pytest.raises(ValueError, match="klue/klue ynat dev row 1: field 'title' is missing"):
        hub(YNAT, features, validation=[{"guid": "a", "label": 0}])
    with pytest.raises(ValueError, match=r"korean-naver-ner is not on the hub.*nlp-challenge"):
        load_data(NAVER_NER, Path(HUB))
    assert not has_data(NAVER_NER, Path(HUB))
    with pytest.raises(ValueError, match="xnli is read from the hub alone"):
        load_data(TASKS["xnli"], tmp_path)


PAIR = {"sentence1": TEXT, "sentence2": TEXT}


def test_equal_rows_have_one_hash_wherever_they_come_from(hub, tmp_path):
    """Also numbers that the hub has in single precision."""
    numbers = ["3.800", "4.57142857142857", "5.000"]
    rows = [f"{n}\ta{n}\tb\t{number}\n" for n, number in enumerate(numbers)]
    for split in ("train", "dev"):
        table = "".join(["index\tsentence1\tsentence2\tscore\n", *rows])
        write(tmp_path / f"files/STS-B/{split}.tsv", table)
    labels = enumerate(map(float, numbers))
    saved = [{"sentence1": f"a{n}", "sentence2": "b", "label": label} for n, label in labels]
    features = {**PAIR, "label": Value("float32")}
    of_hub = hub(STSB, features, train=saved, validation=saved)
    of_files = load_data(STSB, tmp_path / "files")
    assert of_hub.sha256 == of_files.sha256
    assert set(of_hub.sha256) == {"train", "dev"}
    other = hub(STSB, features, train=saved, validation=saved[::-1])
    assert other.sha256["train"] == of_files.sha256["train"]
    assert other.sha256["dev"] != of_files.sha256["dev"]


def test_the_commit_of_the_rows_is_kept(monkeypatch, caplog):
    """As the rows say it: without the hub, `datasets` reads whatever commit its cache has."""
    for commit in (REVISIONS["klue/klue"], "b" * 40, UNKNOWN):
        caplog.clear()
        features = Features(YNAT_FEATURES)
        sets = DatasetDict(
            {s: Dataset.from_list([topic(n, 1)], features=features) for n, s in enumerate(SPLITS)}
        )
        address = f"hf://datasets/klue/klue@{commit}/ynat/train-00000-of-00001.parquet"
        for dataset in sets.values():
            dataset.info.download_checksums = {address: {"num_bytes": 1, "checksum": None}}
        monkeypatch.setattr("benchmarks.tasks.load.load_splits", lambda *_, sets=sets: sets)
        assert load_data(YNAT, Path(HUB)).commits == {"klue/klue": commit}
        assert ("which is read for" in caplog.text) == (commit == "b" * 40)


TEXTS = List(TEXT)
CHARACTERS = {"tokens": list("국회 가"), "ner_tags": ["B-OG", "I-OG", "O", "O"]}
WORDS = {"word_form": ["나", "간다"], "pos": ["NP", "EF"], "head": [2, 0], "deprel": ["NP", "VP"]}


@pytest.mark.parametrize(
    ("task", "row", "features", "lines"),
    [
        (NER, CHARACTERS, {"tokens": TEXTS, "ner_tags": List(ClassLabel(names=sorted(NER.labels)))},
         "국\tB-OG\n회\tI-OG\n \tO\n가\tO\n"),
        (DP, WORDS,
         {"word_form": TEXTS, "pos": TEXTS, "head": List(Value("int32")), "deprel": TEXTS},
         "1\t나\t나\tNP\t2\tNP\n2\t간다\t가 ㄴ다\tEF\t0\tVP\n"),
    ],
)  # fmt: skip
def test_a_sentence_is_one_example_in_files_and_on_the_hub(
    hub, tmp_path, task, row, features, lines
):
    """But for its id, which the hub does not have."""
    for split in ("train", "dev"):
        text = "\n".join(f"## klue-{n}\t나는\n{lines}" for n in range(3))
        (tmp_path / task.files[split][0]).write_text(text, encoding="utf-8")
    of_hub = hub(task, features, train=[row] * 3, validation=[row] * 3)
    of_files = load_data(task, tmp_path)
    assert of_hub.sha256 == of_files.sha256
    assert [e.id for e in of_hub.reported] != [e.id for e in of_files.reported]
    assert not task.hub.has_ids


def test_a_suite_leaves_out_what_its_place_does_not_have(tmp_path, caplog):
    """With a warning; a task that is named, and a suite of which nothing is there, are errors."""

    def checked(*places, **names):
        return [task.name for task, _ in check_data(EvaluateConfig(data_dir=places, **names))]

    korean = [name for name in SUITE_TASKS["korean"] if TASKS[name].hub]
    assert checked(HUB, suites=("korean",)) == korean
    assert "no data of korean-naver-ner (naver-ner/train.tsv, naver-ner/test.tsv" in caplog.text
    with pytest.raises(ValueError, match=r"are not on the hub .*korean-naver-ner"):
        checked(HUB, suites=("korean",), tasks=("korean-naver-ner",))
    for split in ("train", "dev"):
        write(tmp_path / f"ynat-v1.1_{split}.json", [YNAT_ROW])
    assert checked(str(tmp_path), suites=("klue",)) == ["klue-ynat"]
    with pytest.raises(ValueError, match=r"no data of glue-cola .*glue-wnli"):
        checked(str(tmp_path), suites=("klue", "glue"))
    assert checked(str(tmp_path), HUB, suites=("klue", "korean")) == [*SUITE_TASKS["klue"], *korean]


# Official files.


def read(task, folder, old="", new="", split=None):
    name, content = OFFICIAL_FILES[task]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    assert old in text
    path = write(folder / name, text.replace(old, new) if old else text)
    return list(TASKS[task].read(split or TASKS[task].reported, path))


def gold(example):
    return {name: value for name, value in vars(example).items() if name not in ("id", "texts")}


def test_every_format_becomes_examples(tmp_path):
    found = {task: read(task, tmp_path) for task in OFFICIAL_FILES}
    texts = {task: [(e.id, e.texts) for e in examples] for task, examples in found.items()}
    squad_texts = ("나는 가는 다는", "누구 ?")
    assert texts == {
        "klue-ynat": [("a", ("코스피 상승",))],
        "glue-sst2": [("dev-1", ("fine",))],
        "glue-stsb": [("dev-1", ("a", "b"))],
        "korean-naver-ner": [("test-1", ("국회 오늘",))],
        "klue-ner": [("n-1", ("국회",))],
        "klue-re": [("re-0", ("민수는 서울에 산다",))],
        "klue-dp": [("dp-0", ("민수는 서울에 산다.",)), ("dp-1", ("간다",))],
        "klue-wos": [
            ("wos-0-0", ("식당",)),
            ("wos-0-1", ("식당", "이름 은", "미담")),
            ("wos-0-2", ("식당", "이름 은", "미담", "나", "주차")),
        ],
        "squad-1.1": [("q1", squad_texts)],
        "squad-2.0": [("q1", squad_texts)],
        "klue-mrc": [("g", squad_texts)],
    }
    of_dp = [(word.form, word.pos, word.head, word.label) for word in found["klue-dp"][0].words]
    words = ("민수는", "JX", 3, "NP_SBJ"), ("서울에", "JKB", 3, "NP_AJT"), ("산다.", "SF", 0, "VP")
    assert of_dp == [*words]
    golds = {task: gold(found[task][-1]) for task in found if task != "klue-dp"}
    answers = (GoldAnswer("가는", 3),)
    assert golds == {
        "klue-ynat": {"gold": 1},
        "glue-sst2": {"gold": 1},
        "glue-stsb": {"gold": 2.5},
        "korean-naver-ner": {
            "words": ("국회", "오늘"),
            "tags": tuple(map(NAVER_NER.labels.index, ("ORG-B", "O"))),
        },
        "klue-ner": {"gold": tuple(map(NER.labels.index, ("B-OG", "I-OG")))},
        "klue-re": {
            "gold": RE.labels.index("per:place_of_residence"),
            "marked": "<subj>민수</subj>는 <obj>서울</obj>에 산다",
        },
        "klue-wos": {"gold": ("식당-이름-미담", "식당-주차 가능-yes")},
        "squad-1.1": {"answers": answers, "question_type": None},
        "squad-2.0": {"answers": answers, "question_type": None},
        "klue-mrc": {"answers": answers, "question_type": 2},
    }


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("klue-ynat", "", ""),
        ("glue-sst2", "sentence\tlabel\nfine\t1", "index\tsentence\n0\tfine"),
        ("glue-stsb", "\tscore\n0\ta\tb\t2.5", "\n0\ta\tb"),
        ("klue-re", "", ""),
        ("klue-wos", "", ""),
        ("klue-mrc", "", ""),
    ],
)
def test_without_labels_gold_values_are_unknown(tmp_path, task, old, new):
    for example in read(task, tmp_path, old, new, split="test"):
        (value,) = (v for k, v in gold(example).items() if k not in ("marked", "question_type"))
        assert value is None


@pytest.mark.parametrize(
    ("task", "old", "new", "message"),
    [
        ("klue-ynat", '"title"', '"name"', r"dev\.json row 1: field 'title' is missing"),
        ("klue-ynat", "경제", "문화", r"row 1: unknown label '문화' \(allowed: 정치, 경제"),
        ("klue-ynat", "}]", "", "is not valid JSON: .*line 1"),
        ("glue-sst2", "\t1", "", r"dev\.tsv row 1: 1 columns, not 2 \(sentence, label\)"),
        ("glue-stsb", "2.5", "5.01", "row 1: score '5.01' is no number from 0 to 5"),
        ("korean-naver-ner", " O", "", "line 1: 2 tokens and 1 labels"),
        ("klue-ner", "국\t", "국국\t", "line 2: .* is not a character"),
        ("klue-re", '4, "end_idx": 5', '0, "end_idx": 1', "subject and object are the same"),
        ("klue-dp", "NNP+JX", "NNP+XX", "line 3: unknown POS tag 'XX'"),
        ("klue-dp", "\t3\tNP_SBJ", "\t7\tNP_SBJ", "line 3: head 7 in a sentence of 3 words"),
        ("klue-wos", "식당-이름-미담", "식당-맛-좋은", "unknown slot in '식당-맛-좋은'"),
        ("squad-1.1", '[{"text": "가는", "answer_start": 3}]', "[]", "'q1' has no answer"),
        ("klue-mrc", 'type": 2', 'type": 4', "question_type is 4, KLUE-MRC has"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path, task, old, new, message):
    with pytest.raises(ValueError, match=message):
        read(task, tmp_path, old, new)


def test_cola_has_no_header_and_quotation_marks_are_characters(tmp_path):
    content = 'gj04\t1\t\tHe said " so .\ngj04\t0\t*\t"Him left\x0cnow\u2028here.\n'
    for split in ("train", "dev"):
        write(tmp_path / "CoLA" / f"{split}.tsv", content)
    rows = load_data(COLA, tmp_path).reported
    assert [(e.id, e.gold) for e in rows] == [("dev-1", 1), ("dev-2", 0)]
    assert [e.texts[0] for e in rows] == ['He said " so .', '"Him left\x0cnow\u2028here.']
    assert load_data(COLA, tmp_path / "CoLA").reported == rows  # the folder itself may be named


def test_headers_byte_order_marks_and_carriage_returns(tmp_path):
    """MNLI's dev files have five labels of raters, its training file one, its test files none."""
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\ta b\tb a\r\n"
    (example,) = MRPC.read("dev", write(tmp_path / "MRPC/dev.tsv", header))
    assert example.texts == ("a b", "b a")
    for split, table in (
        ("train", "sentence1\tsentence2\tlabel1\tgold_label\na\tb\t-\tneutral\n"),
        ("dev", "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tx\tneutral\n"),
        ("test", "index\tsentence1\tsentence2\n0\ta\tb\n"),
    ):
        (example,) = MNLI.read(split, write(tmp_path / f"{split}.tsv", table))
        assert (example.texts, example.gold) == (("a", "b"), None if split == "test" else 2)
    cells = 'id,question1,question2,is_duplicate\n1,"a, b",c,0\n'
    (example,) = QUESTION_PAIR.read("train", write(tmp_path / "pair.csv", cells))
    assert example.texts == ("a, b", "c")
    table = "title\tcomment\tbias\thate\nx\tc\tnone\thate\n"
    (example,) = HATE_SPEECH.read("train", write(tmp_path / "hate.tsv", table))
    assert (example.texts, example.gold) == (("c",), 2)


def test_files_are_found_by_their_names_and_parts_joined(tmp_path):
    write(tmp_path / "ynat-v1.1_dev.json", [YNAT_ROW])
    write(tmp_path / "deep" / "ynat-v1.1_train_part.json", [YNAT_ROW | {"guid": "part"}])
    assert load_data(YNAT, tmp_path).train[0].id == "part"
    write(tmp_path / "ynat-v1.1_train.json", [YNAT_ROW | {"guid": "whole"}])
    assert load_data(YNAT, tmp_path).train[0].id == "whole"
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)  # is walked once
    assert len(load_data(YNAT, tmp_path).reported) == 1
    header = "index\tquestion\tsentence\tlabel\n"
    write(tmp_path / "QNLI/dev.tsv", header + "0\ta\tb\tentailment\n")
    for part in "ab":
        write(tmp_path / f"QNLI/train_part_{part}.tsv", header + f"0\t{part}\tx\tentailment\n")
    assert [e.texts[0] for e in load_data(QNLI, tmp_path).train] == ["a", "b"]
    write(tmp_path / "two" / "ynat-v1.1_dev.json", [YNAT_ROW])
    with pytest.raises(ValueError, match=r"two/ynat-v1\.1_dev\.json and .*/ynat-v1\.1_dev"):
        load_data(YNAT, tmp_path)


def test_without_a_training_file_the_dev_rows_are_split_by_group(tmp_path):
    rows = [
        {"guid": f"{g}-{k}", "premise": f"전제 {g}", "hypothesis": f"{k}", "gold_label": label}
        for g in range(200)
        for k, label in enumerate(NLI.labels)
    ]
    write(tmp_path / "klue-nli-v1.1_dev.json", rows)
    data = load_data(replace(NLI, num_rows={"dev": 600}), tmp_path)
    assert (data.split, data.parts) == ("dev-split-eval", {})
    train, reported = ({e.texts[0] for e in rows} for rows in (data.train, data.reported))
    assert not train & reported
    assert len(data.train) + len(data.reported) == 600
    assert 0.6 < len(data.train) / 600 < 0.8
    # the side of a row depends on its group alone
    again, others = split_by_group(NLI, [*data.train, *data.reported][::-2])
    assert set(again) <= set(data.train)
    assert set(others) <= set(data.reported)


@pytest.mark.parametrize(
    ("official", "split", "parts"),
    [
        ({"train": 1, "dev": 3}, "dev", {}),
        ({"dev": 7}, "dev-part", {"dev": (3, 7)}),
        ({"dev": 2}, "dev-enlarged", {"dev": (3, 2)}),
        ({"train": 9, "dev": 3}, "dev", {"train": (1, 9)}),
        ({}, "dev", {}),  # nobody knows
    ],
)
def test_rows_of_another_number_than_the_official_one_have_a_name_of_their_own(
    tmp_path, official, split, parts
):
    write(tmp_path / "ynat-v1.1_train.json", [YNAT_ROW])
    rows = [YNAT_ROW | {"guid": str(number)} for number in range(3)]
    write(tmp_path / "ynat-v1.1_dev.json", rows)
    data = load_data(replace(YNAT, num_rows=official), tmp_path)
    assert (data.split, data.parts) == (split, parts)
