"""Golden files of confidence intervals and tests of significance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.golden.adapter import Adapter, Comparison, Golden, compare_cases
from benchmarks.metrics.classification import MetricFunction, f1, mcc
from benchmarks.metrics.statistics import (
    Significance,
    bootstrap_stderr,
    mcnemar,
    mean_stderr,
    normal_interval,
    pooled_sample_stderr,
    wilcoxon,
)

_NUM_RESAMPLES = 2000  # where a case does not say
_MAX_RESAMPLES = 20_000


def _statistics(golden: Golden) -> Iterator[Comparison]:
    """What a case is of stands before the slash of its name."""

    def compute(case: str) -> Mapping[str, Any]:
        kind = case.partition("/")[0]
        if kind not in _COMPUTE:
            return {}  # not covered
        return _COMPUTE[kind](golden["predictions"][case], golden["expected"][case])

    for comparison in compare_cases(golden["expected"], compute):
        # p may be far below the tolerance of sums
        yield comparison._replace(absolute_tolerance=0.0) if comparison.name == "p" else comparison


def _trials(values: Any, expected: Mapping[str, Any]) -> Mapping[str, float]:
    interval = normal_interval([float(value) for value in values])
    return {"mean": interval.mean, "ci95_half_width": interval.half_width}


def _bootstrap(pairs: Any, expected: Mapping[str, Any]) -> Mapping[str, float]:
    num_resamples = expected.get("iters", _NUM_RESAMPLES)
    if not isinstance(num_resamples, int) or not 0 < num_resamples <= _MAX_RESAMPLES:
        raise ValueError(f"iters is {num_resamples!r}, not 1 to {_MAX_RESAMPLES:,}")

    def stderr(metric: MetricFunction) -> float:
        def of_pairs(drawn: Sequence[Sequence[int]]) -> float:
            return metric([pair[0] for pair in drawn], [pair[1] for pair in drawn])

        return bootstrap_stderr(of_pairs, pairs, num_resamples)

    return {"iters": num_resamples, "f1_stderr": stderr(f1), "mcc_stderr": stderr(mcc)}


def _test(result: Significance) -> Mapping[str, float]:
    return {"stat": result.statistic, "p": result.p}


_COMPUTE: Mapping[str, Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]] = {
    "trials": _trials,
    "items": lambda items, expected: {"mean_stderr": mean_stderr(items)},
    "bootstrap": _bootstrap,
    "pooled": lambda sets, expected: {
        "pooled_sample_stderr": pooled_sample_stderr(sets["stderrs"], sets["sizes"])
    },
    "mcnemar": lambda systems, expected: _test(
        mcnemar(systems["references"], systems["predictions1"], systems["predictions2"])
    ),
    "wilcoxon": lambda systems, expected: _test(
        wilcoxon(systems["predictions1"], systems["predictions2"])
    ),
}
ADAPTERS: Mapping[str, Adapter] = {"confidence intervals and significance": _statistics}
