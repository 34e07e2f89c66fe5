"""The report of a grid: which runs count, intervals equal to scipy's, cautious verdicts."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.ablate.grid import Claim, load_grid, plan_runs
from benchmarks.ablate.report import MEAN, RunFigures, fit_scores, judge, write_report
from benchmarks.statistics.uncertainty import Fit

SCRATCH = Path("configs/scratch.toml").absolute()
GRID = (
    f"name = 'tiny'\nbase = '{SCRATCH}'\nseeds = [0, 1]\n"
    "claims = ['a > b|<i>', 'a > c']\n"
    "[variants]\na = {}\n'b|<i>' = { 'pretrain.objective' = 'mlm' }\nc = {}\n"
)
TASKS = ("klue-ner", "klue-ynat", "glue-sst2")


def figures(variant: str, seed: int, score: float) -> RunFigures:
    return RunFigures(
        variant=variant,
        seed=seed,
        summary={"num_steps": 10, "tokens": 640, "flops_matmul": 2e9, "device": "CPU"},
        valid={"generator_loss": 5.0 + seed},
        scores=dict.fromkeys(TASKS, score) | {"glue-sst2": score + 0.3},
        num_degenerate=0,
        hours=0.5,
    )


@pytest.fixture
def grid(tmp_path: Path):
    (tmp_path / "grid.toml").write_text(GRID)
    return load_grid(tmp_path / "grid.toml")


RUNS = [
    *(figures("a", 0, 0.60), figures("a", 1, 0.62)),
    *(figures("b|<i>", 0, 0.40), figures("b|<i>", 1, 0.41)),
]


def test_claims_are_judged_by_the_mean_and_corrected_over_all(grid, tmp_path):
    planned = plan_runs(grid, [])
    of_runs = {f"{run.variant}, seed {run.seed}": run for run in RUNS}
    write_report(grid, planned, of_runs, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    fits = fit_scores(RUNS)
    assert list(fits) == [MEAN, *TASKS]
    claims = judge([grid.claims[0], *grid.claims[1:] * 5], fits[MEAN])
    told = "no significant difference"  # alone, the first claim would hold
    assert [claim.outcome for claim in claims] == [told, *["not run"] * 5]
    p = claims[0].difference.p
    assert p < 0.05
    # of six, five of which have not been run: a grid under way is judged as the whole one
    assert claims[0].p_corrected == pytest.approx(6 * p, rel=1e-6)
    assert r"**a \> c: not run.**" in page
    assert page.count("| a |") == 1 + 2  # a variant, and its runs


Table = dict[str, dict[int, float]]


def table(num_variants: int, num_seeds: int, of_seeds: float = 0.05) -> Table:
    generator = np.random.default_rng(3)
    shift = generator.normal(0, of_seeds, num_seeds)
    return {
        str(variant): {
            seed: float(generator.normal(0.5 + 0.02 * variant + shift[seed], 0.01))
            for seed in range(num_seeds)
        }
        for variant in range(num_variants)
    }


def test_of_two_variants_it_is_the_paired_t_test():
    values = table(2, 4)
    found = Fit(values).difference("1", "0")
    reference = stats.ttest_rel(list(values["1"].values()), list(values["0"].values()))
    interval = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_outcomes():
    values = {
        "low": {0: 0.1, 1: 0.11},
        "high": {0: 0.9, 1: 0.912},
        "alike": {0: 0.1, 1: 0.112},
        "odd": {0: 0.5, 1: 0.51},
        "other": {0: 0.3, 1: 0.309},
    }
    claims = [
        Claim("high", "low", False),
        Claim("low", "high", False),
        Claim("alike", "low", False),
        Claim("low", "alike", True),
        Claim("low", "odd", True),
        Claim("low", "none", False),
    ]
    assert [v.outcome for v in judge(claims, Fit(values))] == [
        "holds",
        "does not hold: the other way round",
        "no significant difference",
        "no significant difference",
        "does not hold: they differ",
        "not run",
    ]


def test_variants_are_compared_by_the_seeds_that_all_have():
    """Those of one may be harder."""
    values = {"a": {0: 0.5, 1: 0.6}, "b": {0: 0.7, 1: 0.81, 2: 0.1}}
    assert Fit(values).difference("b", "a").value == pytest.approx(0.205)
    assert fit_scores([figures("a", 0, 0.5), figures("b|<i>", 1, 0.5)]) == {}
    (found,) = judge([Claim("b", "a", False)], Fit({"a": {0: 0.5}, "b": {0: 0.7}}))
    assert found.outcome == "too few seeds to tell"
