"""What the top of a report says of differences: no more than their outcomes."""

from dataclasses import replace

import pytest

from benchmarks.report.report import Summary
from benchmarks.report.scores import Encoder
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.statistics.comparison import Against, Comparison
from benchmarks.statistics.scores import TaskScore, task_scores
from benchmarks.statistics.uncertainty import Estimate
from electrify.stage.folder import write_text
from tests.benchmarks.conftest import make_result

OUTCOMES = {
    "a": "better",
    "b": "better",
    "c": "cannot tell apart",
    "d": "worse",
    "e": "not comparable",
}


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """Five tasks with three seeds, the encoder and both floors; nothing of its pretraining."""
    records = [
        make_result(task=task, role=role, seed=seed, value=0.5 + seed / 100)
        for task in OUTCOMES
        for role in ("pretrained", *BASELINES)
        for seed in range(3)
    ]
    lines = "".join(record.model_dump_json() + "\n" for record in records)
    (tmp_path / "evaluate.partial").mkdir()
    write_text(tmp_path / "evaluate.partial" / "results.jsonl", lines)
    return replace(read_run(tmp_path), unfinished=())


def compared_of(scores: list[TaskScore]) -> list[Against]:
    return [
        Against(score, "", floor, Comparison(OUTCOMES[score.first.task], "", Estimate(0.1), 0.04))
        for floor in BASELINES.values()
        for score in scores
    ]


def test_undecided_is_neither_better_nor_worse_and_nothing_is_advised(run):
    scores = task_scores("evaluate", run.evaluations["evaluate"])
    encoder = Encoder("ours", {score.first.task: score for score in scores})
    summary = Summary([run], ["ours"], [encoder], compared_of(scores))
    [sentence] = summary.verdicts()
    for floor in BASELINES.values():
        # what cannot be compared is not counted
        assert f"than {floor} on 2 of 4 (worse on 1, undecided on 1)" in sentence
    figures = {label: value for value, label in summary.key_figures()}
    assert next(v for k, v in figures.items() if "undecided" in k) == "2 / 1 / 1"
    [warning] = summary.warnings()
    lists = [
        "; ".join(f"{task} (against {floor})" for floor in BASELINES.values()) for task in "dc"
    ]
    worse, undecided = warning.split(". ")
    assert worse.endswith(lists[0])
    assert undecided.endswith(f"not decided on {lists[1]}.")
