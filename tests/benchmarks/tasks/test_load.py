"""Tasks read by `datasets`, as the hub gives them."""

from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from datasets.utils.logging import disable_progress_bar

from benchmarks.tasks.load import HUB, REVISIONS, UNKNOWN, check_data, has_data, load_data
from benchmarks.tasks.registry import TASKS
from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import SUITE_TASKS
from tests.benchmarks.records import DP, NAVER_NER, NER, STSB, YNAT, YNAT_ROW, write

disable_progress_bar()


@pytest.fixture
def hub(monkeypatch):
    """Loads a task whose splits on the hub are these."""

    def load(task, features, **splits):
        made = {
            name: Dataset.from_list(rows, features=Features(features))
            for name, rows in splits.items()
        }
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
    assert [(e.id, e.texts, YNAT.labels[e.gold]) for e in data.reported] == [
        ("g0", ("제목 0",), "IT과학"),
        ("g1", ("제목 1",), "정치"),
    ]


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
    saved = [
        {"sentence1": f"a{n}", "sentence2": "b", "label": float(number)}
        for n, number in enumerate(numbers)
    ]
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
WORDS = {
    "word_form": ["나", "간다"],
    "pos": ["NP", "EF"],
    "head": [2, 0],
    "deprel": ["NP", "VP"],
}


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
    assert checked(str(tmp_path), HUB, suites=("klue", "korean")) == [
        *SUITE_TASKS["klue"],
        *korean,
    ]
