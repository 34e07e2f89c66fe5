"""Scores and differences for programs: what report.json holds of them."""

from typing import Any

from benchmarks.baselines import Against, Baseline, within
from benchmarks.run_folder import RunFolder
from benchmarks.scores import Sample, scores_of
from benchmarks.uncertainty import Estimate


def scores_numbers(run: RunFolder, baseline: Baseline) -> list[dict[str, Any]]:
    """The scores of a run for programs, each with its difference to the baseline."""
    against = {(a.score.stage, a.score.first.task): a for a in within(run, baseline)}
    same = ("suite", "task", "task_version", "metric", "higher_is_better", "split",
            "num_examples", "num_train_examples", "train_fraction", "selection",
            "hyper_parameters")  # fmt: skip
    rows = []
    for score in scores_of(run):
        found = against.get((score.stage, score.first.task))
        rows.append({
            "stage": score.stage,
            **score.first.model_dump(mode="json", include=set(same)),
            "pretrained": _sample_numbers(score.pretrained),
            "random_init": _sample_numbers(score.untrained),
            "difference": against_numbers(found) if found else None,
            "note": score.note,
            "degenerate": [
                {"model": r.model, "seed": r.seed, "what": r.degenerate}
                for r in score.results
                if r.degenerate
            ],
        })  # fmt: skip
    return rows


def against_numbers(against: Against) -> dict[str, Any]:
    """A difference for programs."""
    comparison, found = against.comparison, against.comparison.difference
    interval = {} if found is None else {
        **_interval_numbers(found.estimate), "p": found.p, "paired_by_seed": found.paired_by_seed,
        "p_examples": found.p_examples, "test_of_examples": found.test,
    }  # fmt: skip
    return {
        "baseline": against.baseline, "gain": comparison.gain, "outcome": comparison.outcome,
        "why": comparison.why, "p_corrected": comparison.p_corrected, **interval,
    }  # fmt: skip


def _interval_numbers(found: Estimate) -> dict[str, Any]:
    return {
        "interval": [found.low, found.high],
        "interval_over": found.over,
        "undefined_resamples": found.num_undefined,
    }


def _sample_numbers(sample: Sample) -> dict[str, Any]:
    low, high = sample.range
    return {
        "mean": sample.summary.mean,
        "median": sample.median,
        "sd": sample.summary.sd,
        "lowest": low,
        "highest": high,
        "by_seed": {str(seed): value for seed, value in sorted(sample.values.items())},
        **_interval_numbers(sample.estimate),
    }
