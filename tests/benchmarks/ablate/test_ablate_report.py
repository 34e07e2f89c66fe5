"""The page of a grid: every finished run counts, no other does, figures are those of the runs."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.ablate.grid import MEAN, UNTRAINED, load_grid, plan_runs
from benchmarks.ablate.report import write_report
from benchmarks.ablate.scores import GridScores, RunFigures, judge
from tests.benchmarks.conftest import make_result, text_of

SCRATCH = Path("configs/scratch.toml").absolute()
GRID = (
    f"name = 'tiny'\nbase = '{SCRATCH}'\nseeds = [0, 1]\n"
    "notes = ['One night.']\n[variants]\n"
    "a = {}\n'b|<i>' = { 'pretrain.objective' = 'mlm' }\nc = {}\n"
    "[experiments.'Which one?']\nsource = 'Table 5'\nvariants = ['a', 'b|<i>', 'c']\n"
    "claims = ['a > b|<i>', 'a > c']\n"
)
TASKS = {"klue-ner": "entity_macro_f1", "klue-ynat": "macro_f1", "glue-sst2": "accuracy"}
RECORDS = {task: make_result(task=task, metric=metric) for task, metric in TASKS.items()}


def figures(variant: str, seed: int, score: float, **changes) -> RunFigures:
    summary = {
        "num_steps": 10,
        "tokens": 640,
        "flops_matmul": 2e9,
        "seconds": 30.0,
        "flops_paper": 3e9,
        "tokens_per_second": 21.3,
        "device": "CPU",
    }
    scores = dict.fromkeys(TASKS, score) | {"glue-sst2": score + 0.3}
    found = RunFigures(
        variant=variant,
        seed=seed,
        summary=summary,
        valid={"generator_loss": 5.0 + seed},
        scores=scores,
        untrained={},
        records=RECORDS,
        num_degenerate=0,
        hours=0.5,
        made_by={"git_commit": "abc", "versions": {"torch": "2.13.0"}},
    )
    return replace(found, **changes)


@pytest.fixture
def grid(tmp_path: Path):
    (tmp_path / "grid.toml").write_text(GRID)
    return load_grid(tmp_path / "grid.toml")


RUNS = [
    figures("a", 0, 0.60, untrained=dict.fromkeys(TASKS, 0.2)),
    figures("a", 1, 0.62),
    figures("b|<i>", 0, 0.40),
    figures("b|<i>", 1, 0.41),
]


def test_columns_are_means_over_all_tasks_over_those_of_a_language_and_each_task():
    scores = GridScores(RUNS)
    assert list(scores.groups) == [MEAN, "ko", *TASKS]  # English has one task
    assert scores.values("ko", with_control=True) == {
        "a": pytest.approx({0: 0.60, 1: 0.62}),
        "b|<i>": pytest.approx({0: 0.40, 1: 0.41}),
        UNTRAINED: pytest.approx({0: 0.2}),
    }
    assert UNTRAINED not in scores.values("ko")  # its seeds vary otherwise
    assert scores.values(MEAN)["a"] == pytest.approx({0: 0.70, 1: 0.72})


def test_the_page_says_what_was_run_what_holds_and_what_is_missing(grid, tmp_path):
    text = write_report(grid, plan_runs(grid, []), RUNS, tmp_path / "out")
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page, short = text_of(html), (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "4 of 6 runs" in page
    assert "2 runs are not finished" in page
    assert "c, seed 0; c, seed 1." in page
    assert "One night." in page
    assert "<i>" not in html.split("<body")[1].replace("<i class", "")
    assert "Of 2 claims 1 hold (a > b|<i>), 1 were not run." in page
    (claim,) = (line for line in page.splitlines() if line.startswith("| a > b|<i> | Table 5 |"))
    assert claim.endswith("| holds |")
    assert "| +20.50 ± " in claim
    assert "| a > c | Table 5 | all tasks | – | – | not run |" in page
    assert "2 runs are not finished" in short
    assert "with 1 degrees of freedom" in page
    assert (
        sum("| 1 | 10 | 640 |" in line or "| 0 | 10 | 640 |" in line for line in page.splitlines())
        == 4
    )
    rows = [line for line in text.splitlines() if line.startswith("| b")]
    half = GridScores(RUNS).fits[MEAN].difference("b|<i>", "a").half_width
    assert f"{100 * (0.405 - 0.61):+.2f} ± {100 * half:.2f}" in rows[0]
    assert "untrained" in text


def test_the_page_sets_the_spread_of_variants_beside_that_of_seeds(grid, tmp_path):
    write_report(grid, plan_runs(grid, []), RUNS, tmp_path / "out")
    page = text_of((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    said = (
        "all tasks: the other variants lie between -20.50 and -20.50 points of a, its own 2 seeds "
        "between -1.00 and +1.00."
    )
    assert said in page
    assert said in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_claims_are_judged_by_every_column_asked_for_and_corrected_over_all(grid, tmp_path):
    planned = plan_runs(grid, [])
    grid = grid.model_copy(update={"judged_by": (MEAN, "klue-ner", "no-rows")})
    write_report(grid, planned, RUNS, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    claims = judge(grid.claims, grid.judged_by, GridScores(RUNS))
    told, not_run = "cannot be told apart", "not run"  # alone, the first claim would hold
    assert [(c.column, c.claim.text, c.outcome) for c in claims] == [
        (MEAN, "a > b|<i>", told),
        (MEAN, "a > c", not_run),
        ("klue-ner", "a > b|<i>", told),
        ("klue-ner", "a > c", not_run),
        ("no-rows", "a > b|<i>", not_run),
        ("no-rows", "a > c", not_run),
    ]
    p = claims[0].difference.p
    assert p < 0.05
    # of six, four of which have not been run: a grid under way is judged as the whole one
    assert claims[0].p_corrected == pytest.approx(6 * p, rel=1e-6)
    assert "Of 2 claims 1 cannot be told apart, 1 were not run." in page


def test_seeds_of_a_task_that_only_some_runs_have_are_refused_not_averaged():
    """A run without a task's score has no mean over tasks: it must not look better for it."""
    odd = figures("c", 0, 0.9)
    del odd.scores["klue-ner"]
    scores = GridScores([*RUNS, odd])
    assert "c" not in scores.values(MEAN)
    assert "c" in scores.values("klue-ynat")


def test_scores_of_other_examples_and_undefined_ones_are_left_out_and_named():
    other = RECORDS["klue-ner"].model_copy(update={"data_sha256": {"dev": "2"}})
    odd = figures("b|<i>", 1, 0.9, records=RECORDS | {"klue-ner": other})
    blank = figures("c", 0, 0.9)
    blank.scores["glue-sst2"] = math.nan
    scores = GridScores([*RUNS[:3], odd, blank])
    assert scores.left_out == [
        "b|<i>, seed 1, klue-ner: data sha256 differs",
        "c, seed 0, glue-sst2: it is undefined",
    ]
    # seed 1 is .02 better for "a"
    assert scores.fits["klue-ner"].mean("c") == pytest.approx(0.91)
    assert "c" not in scores.fits[MEAN].variants


def test_the_control_is_that_of_one_variant(grid, tmp_path):
    """Of another width or vocabulary it is another network."""
    runs = [
        replace(run, untrained=dict.fromkeys(TASKS, 0.1 + 0.1 * i)) for i, run in enumerate(RUNS)
    ]
    values = GridScores(runs).values("klue-ner", with_control=True)[UNTRAINED]
    assert values == pytest.approx({0: 0.1, 1: 0.2})
    text = write_report(grid, plan_runs(grid, []), runs, tmp_path / "out")
    assert f"| {UNTRAINED} | 2 |" in text
    page = text_of((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    gain = GridScores(runs).control_fits["klue-ner"].difference("a", UNTRAINED)
    (row,) = [line for line in page.splitlines() if line.startswith(f"| a > {UNTRAINED} |")]
    assert row.split(" | ")[3] == f"{100 * (0.61 - 0.15):+.2f} ± {100 * gain.half_width:.2f}"
