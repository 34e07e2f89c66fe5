"""Metrics of a number for each pair: STS-B and KLUE-STS.

Every metric takes gold and predicted numbers of one length, one a row. Correlations are -1..1 where
the official scripts print them times 100, and `nan` where a side is constant: never 0.
STS-B: google-research/electra finetune/classification/classification_metrics.py and
huggingface/evaluate metrics/glue/glue.py; KLUE-STS: KLUE-baseline klue_baseline/metrics/
functional.py:31-39. All of them call scipy, and so does this, which imports it where it is used.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.classification import checked, f1
from electrify.system.outcome import UserError

Values = Sequence[float] | NDArray[np.floating[Any]]
PARAPHRASE_THRESHOLD = 3.0  # KLUE-STS: a pair of this value or more is one of the same meaning


def pearson(gold: Values, predicted: Values) -> float:
    """Pearson's correlation; `nan` where a side is constant. `ValueError` of less than two rows."""
    if len(gold) < 2:
        raise UserError(f"Pearson's correlation needs two rows or more, not {len(gold)}")
    return _correlation("pearsonr", gold, predicted)


def spearman(gold: Values, predicted: Values) -> float:
    """Pearson's correlation of ranks, equal values at their mean rank; `nan` where undefined."""
    return _correlation("spearmanr", gold, predicted)


def _correlation(name: str, gold: Values, predicted: Values) -> float:
    from scipy import stats

    first, second = _checked(gold, predicted)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # infinite values give nan
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(getattr(stats, name)(first, second).statistic)


def mean_of_pearson_and_spearman(gold: Values, predicted: Values) -> float:
    """The one number the GLUE leaderboard makes of STS-B."""
    return (pearson(gold, predicted) + spearman(gold, predicted)) / 2


def f1_at_3(gold: Values, predicted: Values) -> float:
    """KLUE-STS: F1 of the pairs of 3 or more, both sides cut there (functional.py:35).

    Not the file's `binary-label`. 0 where neither side has such a pair.
    """
    first, second = _checked(gold, predicted)
    return f1(
        (first >= PARAPHRASE_THRESHOLD).astype(np.int64),
        (second >= PARAPHRASE_THRESHOLD).astype(np.int64),
    )


def f1_at_3_float32(gold: Values, predicted: Values) -> float:
    """`f1_at_3` as KLUE-baseline's trainer calls it, in single precision: 2.9999999 becomes 3.0."""
    first, second = _checked(gold, predicted)
    return f1_at_3(first.astype(np.float32), second.astype(np.float32))


def _checked(gold: Values, predicted: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = (np.asarray(side, dtype=np.float64) for side in (gold, predicted))
    checked(first, second)  # type: ignore[arg-type]  # of one shape
    return first, second
