"""Records and predictions: read as they were written, and refused where they are not whole."""

import json
import math

import pytest

from benchmarks.results.predictions import (
    predictions_of_result,
    read_predictions,
    write_predictions,
    write_submissions,
)
from benchmarks.results.results import Result, append_result, current_results, read_results
from benchmarks.statistics.scores import overall
from tests.benchmarks.conftest import make_result

RECORD = make_result(key="5f", predictions="klue-ynat/pretrained-0-5f", device="cpu")
FIELDS = RECORD.model_dump(mode="json")


def result(**changes):
    return Result(**FIELDS | changes)


def test_records_read_back_as_written(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read_results(path) == []
    written = [result(), result(seed=1, value=0.7)]
    for record in written:
        append_result(path, record)
    assert read_results(path) == written
    assert json.loads(path.read_text().splitlines()[0]) == FIELDS
    append_result(path, result(value=math.nan, metrics={"accuracy": math.nan}))
    assert json.loads(path.read_text().splitlines()[-1])["value"] is None  # JSON has no nan
    undefined = read_results(path)[-1]
    assert math.isnan(undefined.value)
    assert math.isnan(undefined.metrics["accuracy"])
    path.write_text(path.read_text().replace("}\n", ',"sha256":"00"}\n'))  # of a version before
    assert read_results(path)[:2] == written


def test_a_torn_last_line_is_left_out_and_overwritten_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    append_result(path, result())
    append_result(path, result(seed=1))
    path.write_bytes(path.read_bytes()[:-20])
    warnings: list[str] = []
    monkeypatch.setattr("benchmarks.results.results.warn", warnings.append)
    assert read_results(path) == [result()]
    assert "line 2 was cut off" in warnings[0]
    append_result(path, result(seed=2))
    assert read_results(path) == [result(), result(seed=2)]
    for line in ("no json", json.dumps(FIELDS | {"role": "x"})):  # any other is refused
        path.write_text(f"{result().model_dump_json()}\n{line}\n")
        with pytest.raises(ValueError, match="line 2 is no result record"):
            read_results(path)


def test_of_a_task_the_settings_of_the_last_record_count(tmp_path):
    path = tmp_path / "results.jsonl"
    for key, seed in (("a-0", 0), ("b-0", 0), ("b-1", 1), ("a-1", 1), ("a-0", 0)):
        append_result(path, result(key=key, seed=seed))
    append_result(path, result(key="c-0", role="random-init"))
    append_result(path, result(key="d-0", train_fraction=0.1))
    assert [r.key for r in current_results(tmp_path)] == ["a-0", "a-1", "c-0", "d-0"]
    append_result(path, result(key="e-0", data_sha256={"dev.json": "01"}))
    assert [r.key for r in current_results(tmp_path)] == ["e-0"]


SETTINGS = {"learning_rate": 3e-4, "freeze": "none", "num_steps": 20, "precision": "fp32"}
ENCODER = {"hyper_parameters": SETTINGS}
OF_SEARCH = ENCODER | {"search": {"chosen": {"learning_rate": 3e-4}, "num_trials": 2}}


def control(search=None, **settings):
    of_search = {"search": search} if search else {}
    return {"role": "random-init", "hyper_parameters": SETTINGS | settings, **of_search}


def words(**changes):
    return {"role": "bag-of-words", "hyper_parameters": {"C": 4.0}, **changes}


@pytest.mark.parametrize(
    ("records", "counting"),
    [
        # a random initialisation counts that was trained as the encoder
        ([control()], [0]),
        ([control(), ENCODER], [1, 0]),
        ([control(learning_rate=1e-5), ENCODER], [1]),
        ([control(freeze="encoder"), ENCODER], [1]),
        ([control(precision="bf16", micro_batch_size=8), ENCODER], [1, 0]),
        ([control(num_steps=21), ENCODER], [1, 0]),  # as many rows as the seed drew
        ([control(), control() | {"train_fraction": 0.1}, ENCODER], [2, 0, 1]),  # alone at 0.1
        ([control(), control(learning_rate=1e-5), ENCODER], [2, 0]),  # another is later
        # a bag of words, that learnt from its rows
        ([words()], [0]),
        ([words(), {}], [1, 0]),
        ([words(num_train_examples=100), {}], [1]),
        # what a search chose for each may differ, and nothing else
        ([OF_SEARCH, control(OF_SEARCH["search"], learning_rate=1e-3)], [0, 1]),
        ([OF_SEARCH, control(OF_SEARCH["search"], freeze="encoder")], [0]),
        ([OF_SEARCH, control()], [0]),  # without a search
    ],
)
def test_baselines_count_that_differ_from_the_encoder_by_nothing_else(tmp_path, records, counting):
    written = [result(**changes) for changes in records]
    for record in written:
        append_result(tmp_path / "results.jsonl", record)
    assert current_results(tmp_path) == [written[number] for number in counting]


def glue(task, **metrics):
    return result(suite="glue", task=f"glue-{task}", metrics=metrics)


def test_overall_scores_of_glue_are_given_where_all_tasks_are_there():
    """Of means over seeds; their arithmetic is that of the golden vectors."""
    values = {"mcc": 0.4, "accuracy": 0.9, "spearman": 0.8, "pearson": 0.6, "f1": 0.7}
    tasks = ("cola", "sst2", "stsb", "mrpc", "qqp", "qnli", "mnli", "rte")
    records = [glue(task, **values) for task in tasks]
    records.append(glue("rte", **values | {"accuracy": 0.7}))
    name = "GLUE, 8 tasks as the ELECTRA paper"
    electra = (0.4 + 5 * 0.9 + 0.8 + 0.8) / 8
    assert overall(records) == {(name, "pretrained"): pytest.approx(electra)}
    part = records[0].model_copy(update={"split": "dev-part"})
    ((other_name, _),) = overall([part, *records[1:]])
    assert other_name == f"{name}, not on the official rows"
    records += [glue("wnli", **values), glue("mnli", **values, dev_mismatched_accuracy=0.6)]
    del records[6]  # MNLI with one of its sets
    nine = "GLUE, 9 tasks", "pretrained"
    scores = (0.4, 0.9, 0.7, 0.8, 0.8, 0.9, 0.75, 0.8, 0.9)
    assert overall(records)[nine] == pytest.approx(sum(scores) / 9)
    assert overall(records[2:]) == {}
    assert overall([result()]) == {}


LINES = [{"id": f"dev-{n}", "gold": "사회", "prediction": None} for n in range(5)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.rpartition('{"id"')[0], "has 4 lines, its header says 5"),
        (lambda text: text.replace('"dev-3"', "dev-3"), "dev-0.jsonl|pretrained-0.jsonl"),
        (lambda text: text.partition("\n")[2], "does not begin with a header"),
        (lambda text: text[20:], "line 1 is damaged"),
        (lambda text: text.replace('"seed": 0', '"seed": 7'), "has seed 7, its result has 0"),
    ],
)
def test_predictions_that_are_not_whole_are_refused(tmp_path, damage, message):
    result = make_result()
    write_predictions(tmp_path, result, {"dev": LINES})
    (path,) = tmp_path.rglob("*.jsonl")
    assert read_predictions(path)[0]["num_examples"] == 5
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        predictions_of_result(tmp_path, result)


def test_submissions_are_those_of_the_records_that_count(tmp_path):
    record = glue("mnli", accuracy=0.7)
    predictions = [{"id": "ax-0", "gold": None, "prediction": "neutral"}]
    write_predictions(tmp_path, record, {"ax": predictions})
    append_result(tmp_path / "results.jsonl", record)
    stale = tmp_path / "submission" / "pretrained-7" / "AX.tsv"
    stale.parent.mkdir(parents=True)
    stale.touch()
    (written,) = write_submissions(tmp_path)
    assert written == tmp_path / "submission" / "pretrained-0" / "AX.tsv"
    assert list(tmp_path.rglob("*.tsv")) == [written]
