"""The page of a grid: every finished run counts, no other does, figures are those of the runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.ablate.columns import MEAN
from benchmarks.ablate.figures import RunFigures
from benchmarks.ablate.grid import load_grid
from benchmarks.ablate.report import write_report
from benchmarks.ablate.scores import UNTRAINED, GridScores

DEMO = Path("configs/demo.toml").absolute()
GRID = (
    f"name = 'tiny'\nbase = '{DEMO}'\nseeds = [0, 1]\nbudget_hours = 4.0\n"
    "notes = ['One night.']\n[variants]\n"
    "a = {}\n'b|<i>' = { 'pretrain.objective' = 'mlm' }\nc = {}\n"
    "[experiments.'Which one?']\nsource = 'Table 5'\nvariants = ['a', 'b|<i>', 'c']\n"
    "claims = ['a > b|<i>', 'a > c']\n"
)
TASKS = {"klue-ner": "entity_macro_f1", "klue-ynat": "macro_f1", "glue-sst2": "accuracy"}


def figures(variant: str, seed: int, score: float, **changes) -> RunFigures:
    summary = {"num_steps": 10, "tokens": 640, "flops_matmul": 2e9, "seconds": 30.0,
               "tokens_per_second": 21.3, "device": "CPU, 1 threads"}  # fmt: skip
    scores = dict.fromkeys(TASKS, score) | {"glue-sst2": score + 0.3}
    losses = {"generator_loss": [(1e9, 6.0), (2e9, 5.0)], "language_loss": [], "rtd_loss": []}
    found = RunFigures(
        variant=variant, seed=seed, summary=summary, valid={"generator_loss": 5.0 + seed},
        losses=losses, scores=scores, untrained={}, metrics=TASKS, on_the_way=(), hours=0.5,
        made_by={"git_commit": "abc", "versions": {"torch": "2.13.0"}},
    )  # fmt: skip
    return replace(found, **changes)


@pytest.fixture
def grid(tmp_path: Path):
    (tmp_path / "grid.toml").write_text(GRID)
    return load_grid(tmp_path / "grid.toml")


RUNS = [
    figures("a", 0, 0.60, untrained=dict.fromkeys(TASKS, 0.2)), figures("a", 1, 0.62),
    figures("b|<i>", 0, 0.40), figures("b|<i>", 1, 0.41),
]  # fmt: skip


def test_columns_are_means_over_all_tasks_over_those_of_a_language_and_each_task():
    scores = GridScores(RUNS)
    assert list(scores.groups) == [MEAN, "ko", *TASKS]  # English has one task
    assert scores.values("ko") == {
        "a": pytest.approx({0: 0.60, 1: 0.62}), "b|<i>": pytest.approx({0: 0.40, 1: 0.41}),
        UNTRAINED: pytest.approx({0: 0.2}),
    }  # fmt: skip
    assert scores.values(MEAN)["a"] == pytest.approx({0: 0.70, 1: 0.72})


def test_the_page_says_what_was_run_what_holds_and_what_is_missing(grid, tmp_path):
    text = write_report(grid, 6, RUNS, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert "4 of 6 runs" in page
    assert "2 runs are not finished" in page
    assert "2.0 of 4 planned" in page
    assert "One night." in page
    assert "<i>" not in html.split("<body")[1].replace("<i class", "")
    outcomes = {claim["claim"]: claim["outcome"] for claim in record["claims"]}
    assert outcomes == {"a > b|<i>": "holds", "a > c": "not run"}
    (claim, _) = record["claims"]
    assert claim["difference"] == pytest.approx(0.61 - 0.405)
    assert record["spread"][MEAN]["degrees"] == 1
    assert record["means"]["ko"]["a"] == pytest.approx(0.61)
    assert len(record["runs"]) == 4
    rows = [line for line in text.splitlines() if line.startswith("| b")]
    half = GridScores(RUNS).fits[MEAN].difference("b|<i>", "a").half_width
    assert f"{0.405 - 0.61:+.4f} ± {half:.4f}" in rows[0]
    assert "untrained" in text


def test_claims_are_judged_by_every_column_asked_for_and_corrected_over_all(grid, tmp_path):
    write_report(replace(grid, judged_by=(MEAN, "klue-ner", "no-rows")), 6, RUNS, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    claims = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["claims"]
    assert [(c["judged_by"], c["claim"], c["outcome"]) for c in claims] == [
        (MEAN, "a > b|<i>", "holds"), (MEAN, "a > c", "not run"),
        ("klue-ner", "a > b|<i>", "holds"), ("klue-ner", "a > c", "not run"),
        ("no-rows", "a > b|<i>", "not run"), ("no-rows", "a > c", "not run"),
    ]  # fmt: skip
    assert claims[2]["p_corrected"] == pytest.approx(2 * claims[2]["p"])
    assert "1 of 2 hold: a \\> b\\|\\<i\\>. 1 of 2 were not run: a \\> c." in page


def test_seeds_of_a_task_that_only_some_runs_have_are_refused_not_averaged(grid, tmp_path):
    """A run without a task's score has no mean over tasks: it must not look better for it."""
    odd = figures("c", 0, 0.9)
    del odd.scores["klue-ner"]
    scores = GridScores([*RUNS, odd])
    assert "c" not in scores.values(MEAN)
    assert "c" in scores.values("klue-ynat")


def test_of_no_finished_run_the_page_says_so(grid, tmp_path):
    assert "no run of tiny is finished" in write_report(grid, 6, [], tmp_path / "out")
    assert "No run is finished" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_runs_without_scores_still_have_their_losses(grid, tmp_path):
    runs = [figures("a", 0, 0.5, scores={}), figures("b|<i>", 0, 0.5, scores={})]
    text = write_report(grid, 6, runs, tmp_path / "out")
    assert "MLM loss" in text
    assert "claim" not in json.dumps(json.loads((tmp_path / "out" / "report.json").read_text())
                                     ["claims"])  # fmt: skip


def test_checkpoints_make_a_curve_with_a_band(grid, tmp_path):
    points = ((1e9, dict.fromkeys(TASKS, 0.3)), (2e9, dict.fromkeys(TASKS, 0.5)))
    runs = [figures("a", 0, 0.5, on_the_way=points), figures("a", 1, 0.52)]  # nothing of a spread
    write_report(grid, 2, runs, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| a | 1e+09 | 0.3 |" in page
    assert "<svg" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert math.isnan(GridScores(runs).fits[MEAN].sd)
