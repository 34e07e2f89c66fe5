"""Tasks read by `datasets`, from folders that `save_to_disk` wrote."""

from dataclasses import replace

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from datasets.utils.logging import disable_progress_bar

from benchmarks.evaluate import evaluate
from benchmarks.glue import MNLI, MRPC, STSB
from benchmarks.hub import load_hub_task, saved_folder
from benchmarks.klue import NER, STS, YNAT
from benchmarks.korean import NSMC

disable_progress_bar()


def save(task, folder, features, **splits):
    made = {
        name: Dataset.from_list(rows, features=Features(features)) for name, rows in splits.items()
    }
    DatasetDict(made).save_to_disk(str(folder / task.name))
    return load_hub_task(task, saved_folder(task, folder))


TEXT = Value("string")
# the hub's order, which is not KLUE-baseline's
TOPICS = ClassLabel(names=["IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"])
YNAT_FEATURES = {"guid": TEXT, "title": TEXT, "label": TOPICS, "url": TEXT, "date": TEXT}


def topic(number, label):
    return {"guid": f"g{number}", "title": f"제목 {number}", "label": label, "url": "", "date": ""}


def test_class_labels_are_taken_by_name(tmp_path):
    rows = [topic(0, 0), topic(1, 6)]
    data = save(YNAT, tmp_path, YNAT_FEATURES, train=rows, validation=rows)
    assert [(e.id, e.texts, YNAT.labels[e.label]) for e in data.reported] == [
        ("g0", ("제목 0",), "IT과학"), ("g1", ("제목 1",), "정치"),
    ]  # fmt: skip
    assert data.split == "dev"
    assert len(data.files) == len(data.sha256) == 2


def test_other_labels_are_refused(tmp_path):
    other = YNAT_FEATURES | {"label": ClassLabel(names=["IT과학", "경제", "날씨"])}
    with pytest.raises(ValueError, match=r"has the labels IT과학, 경제, 날씨 in 'label', the task"):
        save(YNAT, tmp_path, other, validation=[topic(0, 0)])


def test_names_of_the_hub_become_those_of_the_files(tmp_path):
    features = {
        "sentence1": TEXT, "sentence2": TEXT, "idx": Value("int32"),
        "label": ClassLabel(names=["not_equivalent", "equivalent"]),
    }  # fmt: skip
    rows = [{"sentence1": f"a{n}", "sentence2": "b", "label": n, "idx": n} for n in (0, 1)]
    unlabelled = [row | {"label": -1} for row in rows]
    data = save(MRPC, tmp_path, features, train=rows, validation=rows, test=unlabelled)
    assert [(e.texts, e.label) for e in data.train] == [(("a0", "b"), 0), (("a1", "b"), 1)]
    assert [e.label for e in data.further["test"]] == [None, None]


def test_the_splits_of_mnli_are_found_and_its_labels_put_in_order(tmp_path):
    features = {
        "premise": TEXT, "hypothesis": TEXT,
        "label": ClassLabel(names=["entailment", "neutral", "contradiction"]),
    }  # fmt: skip
    rows = [{"premise": f"p{n}", "hypothesis": "h", "label": n} for n in range(3)]
    data = save(
        MNLI,
        tmp_path,
        features,
        train=rows,
        validation_matched=rows,
        validation_mismatched=rows[:1],
    )
    assert [MNLI.labels[e.label] for e in data.train] == ["entailment", "neutral", "contradiction"]
    assert [e.texts for e in data.further["dev_mismatched"]] == [("p0", "h")]


def test_numbers_and_fields_of_fields(tmp_path):
    pair = {"sentence1": TEXT, "sentence2": TEXT}
    row = {"sentence1": "a", "sentence2": "b"}
    values = [row | {"label": 2.5}, row | {"label": 0.0}]
    data = save(
        STSB, tmp_path, {**pair, "label": Value("float32")}, train=values, validation=values
    )
    assert [e.value for e in data.reported] == [2.5, 0.0]
    labels = {"label": Value("float64"), "real-label": Value("float64"), "binary-label": TEXT}
    nested = [
        row | {"guid": "g", "labels": {"label": 3.7, "real-label": 3.71, "binary-label": "1"}}
    ]
    features = {**pair, "guid": TEXT, "labels": labels}
    data = save(STS, tmp_path, features, train=nested, validation=nested)
    assert data.reported[0].value == 3.71


def test_tags_are_taken_by_name(tmp_path):
    names = sorted(NER.labels)  # the hub's order
    features = {"sentence": TEXT, "tokens": List(TEXT), "ner_tags": List(ClassLabel(names=names))}
    tags = [names.index(name) for name in ("B-LC", "I-LC", "O")]
    rows = [{"sentence": "<국회:LC>가", "tokens": ["국", "회", "가"], "ner_tags": tags}]
    data = save(NER, tmp_path, features, train=rows, validation=rows)
    assert data.reported[0].texts == ("국회가",)
    assert [NER.labels[tag] for tag in data.reported[0].tags] == ["B-LC", "I-LC", "O"]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no split validation \(has: train\)"):
        save(YNAT, tmp_path, YNAT_FEATURES, train=[topic(0, 0)])
    features = {"guid": TEXT, "label": TOPICS}
    with pytest.raises(ValueError, match="dev row 1 of klue/klue has no field 'title'"):
        save(YNAT, tmp_path / "b", features, validation=[{"guid": "a", "label": 0}])
    with pytest.raises(ValueError, match=r"korean-nsmc is not read by `datasets`.*e9t/nsmc"):
        load_hub_task(NSMC, None)
    assert saved_folder(NSMC, tmp_path) is None


def test_a_saved_folder_is_scored_like_the_official_file(
    make_config, model_folder, ynat_folder, tmp_path
):
    from benchmarks.load import load_task
    from benchmarks.results import read_results

    data = load_task(YNAT, ynat_folder)
    splits = {
        name: [
            topic(0, TOPICS.str2int(YNAT.labels[e.label])) | {"guid": e.id, "title": e.texts[0]}
            for e in rows
        ]
        for name, rows in (("train", data.train), ("validation", data.reported))
    }
    save(YNAT, tmp_path / "saved", YNAT_FEATURES, **splits)
    scores = []
    for number, folder in enumerate((ynat_folder, tmp_path / "saved")):
        config = make_config(data_dir=str(folder), num_epochs=2)
        config = config.model_copy(update={"output_dir": str(tmp_path / str(number))})
        evaluate(config, str(model_folder), overwrite=False)
        (made,) = (tmp_path / str(number)).glob("evaluate-*")
        (result,) = read_results(made / "results.jsonl")
        scores.append(result.metrics)
    assert scores[0] == scores[1]


def test_without_a_training_split_the_reported_one_is_divided(tmp_path):
    rows = [topic(n, n % 7) for n in range(60)]
    data = save(YNAT, tmp_path, YNAT_FEATURES, validation=rows)
    assert data.split == "dev-split-eval"
    assert len(data.train) + len(data.reported) == 60


def test_a_task_is_named_where_the_hub_cannot_be_reached(monkeypatch):
    def load_dataset(*arguments):
        raise ConnectionError("Couldn't reach 'nobody/nothing' on the Hub\nmore")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    task = replace(YNAT, hub=replace(YNAT.hub, path="nobody/nothing"))
    with pytest.raises(
        ValueError, match=r"klue-ynat: `datasets` cannot read nobody/nothing: Could"
    ):
        load_hub_task(task, None)
