"""Metrics of labels and of numbers: official values of GLUE, KLUE and KLUE-RE, and GLUE's overall
scores.

Every metric takes gold and predicted label ids or numbers (equal length, one an example) and gives
0..1 (mcc and correlations -1..1) where the official scripts print that times 100. It is `nan` over
no rows, and a correlation also where a side is constant: never 0.
KLUE: KLUE-baseline klue_baseline/metrics/functional.py; GLUE: google-research/electra
finetune/classification/classification_metrics.py and huggingface/evaluate metrics/glue/glue.py.
scikit-learn and scipy are imported where a score is made, for tasks are listed and read where there
are none. No code of GLUE's leaderboard is public; its definition gives the published 80.5 of
BERT-large and 78.3 of BERT-base from their rows (Wang et al. 2019; Devlin et al. 2019).
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

Labels = Sequence[int] | NDArray[np.integer[Any]]
Probabilities = NDArray[np.floating[Any]] | Sequence[Sequence[float]]
LabelSets = NDArray[np.bool_]
Values = Sequence[float] | NDArray[np.floating[Any]]

PARAPHRASE_THRESHOLD = 3.0  # KLUE-STS: a pair of this value or more is one of the same meaning

# The trapezoid between the only points of a label without gold rows in scikit-learn since 1.1:
# recall 1 at precision 0, and recall 0 at precision 1.
_AREA_WITHOUT_GOLD = 0.5


def accuracy(gold: Labels, predicted: Labels) -> float:
    """Fraction of equal labels."""
    gold, predicted = checked(gold, predicted)
    return float(np.mean(gold == predicted)) if len(gold) else math.nan


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """Mean F1 over the classes that occur in gold or predictions (KLUE functional.py:23). A class
    in neither is left out of the mean; one that is predicted but never gold counts 0."""
    return mean_f1(gold, predicted, np.union1d(gold, predicted))


def mean_f1(gold: Labels, predicted: Labels, classes: Labels, absent: float = 0.0) -> float:
    """Mean F1 of the classes; one that is on neither side counts `absent`. The value of
    scikit-learn's `f1_score`, without its checks: resampling calls it hundreds of times."""
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    right = gold[gold == predicted]
    scores = []
    for label in classes:
        total = np.count_nonzero(gold == label) + np.count_nonzero(predicted == label)
        scores.append(2 * np.count_nonzero(right == label) / total if total else absent)
    return float(np.mean(scores))


def mcc(gold: Labels, predicted: Labels) -> float:
    """Matthews correlation of two classes or more (R_K, Gorodkin 2004); 0 where one side is all of
    one class."""
    from sklearn.metrics import matthews_corrcoef

    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    if min(len(np.unique(side)) for side in (gold, predicted)) < 2:
        return 0.0  # of which scikit-learn warns
    return float(matthews_corrcoef(gold, predicted))


def f1(gold: Labels, predicted: Labels) -> float:
    """F1 of label 1, which GLUE reports for MRPC and QQP; 0 without any true positive. Not the
    `F1Scorer` of the ELECTRA code, which counts gold positives as predicted ones."""
    return mean_f1(gold, predicted, [1])


def mean_of_accuracy_and_f1(gold: Labels, predicted: Labels) -> float:
    """The one number the GLUE leaderboard makes of MRPC and QQP."""
    return (accuracy(gold, predicted) + f1(gold, predicted)) / 2


def micro_f1(gold: Labels, probabilities: Probabilities, no_relation: int = 0) -> float:
    """KLUE-RE: micro F1 over the relations, `no_relation` left out of both sides (:66). 0 where
    neither gold nor predictions have a relation, and over no rows, as scikit-learn says."""
    gold, predicted = checked(gold, np.argmax(probabilities, axis=1))
    counts = [np.count_nonzero(side != no_relation) for side in (gold, predicted)]
    right = gold[gold == predicted]
    return float(2 * np.count_nonzero(right != no_relation) / max(1, int(sum(counts))))


def auprc(gold: Labels, probabilities: Probabilities) -> float:
    """KLUE-RE: mean over all labels, `no_relation` too, of the area under the precision-recall
    curve.

    `probabilities` is (rows, labels). The area is that of trapezoids, so equal probabilities
    everywhere give about .52 with 30 labels, not the base rate. A label without gold rows makes
    the mean nan, as the scikit-learn 0.24.1 does that KLUE-baseline pins (functional.py:74).
    """
    return _mean(_areas(gold, probabilities))


def auprc_absent_as_half(gold: Labels, probabilities: Probabilities) -> float:
    """`auprc` by scikit-learn since 1.1: a label without gold rows counts .5, whatever is said."""
    areas = _areas(gold, probabilities)
    return _mean(np.where(np.isnan(areas), _AREA_WITHOUT_GOLD, areas))


def auprc_without_no_relation(gold: Labels, probabilities: Probabilities) -> float:
    """The mean area over the relations that have gold rows; nan where none has. Of the rows that
    micro F1 speaks of, and defined on a split that lacks a rare relation."""
    areas = _areas(gold, probabilities)[1:]  # the first is that of no_relation
    return _mean(areas[~np.isnan(areas)])


def _mean(areas: NDArray[np.float64]) -> float:
    return float(np.mean(areas)) if len(areas) else math.nan


def _areas(gold: Labels, probabilities: Probabilities) -> NDArray[np.float64]:
    """Area of every label, (labels,); nan without gold rows and for probabilities that are nan."""
    from sklearn.metrics import auc, precision_recall_curve

    labels, scores = np.asarray(gold), np.asarray(probabilities, dtype=np.float64)
    areas = np.full(scores.shape[1], math.nan)
    for label in np.unique(labels):
        if np.isfinite(scores[:, label]).all():
            precision, recall, _ = precision_recall_curve(labels == label, scores[:, label])
            areas[label] = auc(recall, precision)
    return areas


def label_set_macro_f1(gold: LabelSets, predicted: LabelSets) -> float:
    """Mean F1 over the labels that occur on either side; nan where none does. Label sets are
    (rows, labels), true where a label is given."""
    right, both = (gold & predicted).sum(axis=0), gold.sum(axis=0) + predicted.sum(axis=0)
    return _mean(2 * right[both > 0] / both[both > 0])


def label_set_micro_f1(gold: LabelSets, predicted: LabelSets) -> float:
    """F1 of all labels of all rows together; 0 where neither side has one."""
    if not len(gold):
        return math.nan
    return float(2 * (gold & predicted).sum() / max(1, gold.sum() + predicted.sum()))


def exact_match(gold: LabelSets, predicted: LabelSets) -> float:
    """Fraction of rows whose label sets are equal."""
    return float((gold == predicted).all(axis=1).mean()) if len(gold) else math.nan


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

    first, second = _numbers(gold, predicted)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # infinite values give nan
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(getattr(stats, name)(first, second).statistic)


def mean_of_pearson_and_spearman(gold: Values, predicted: Values) -> float:
    """The one number the GLUE leaderboard makes of STS-B."""
    return (pearson(gold, predicted) + spearman(gold, predicted)) / 2


def f1_at_3(gold: Values, predicted: Values) -> float:
    """KLUE-STS: F1 of the pairs of 3 or more, both sides cut there (functional.py:35). Not the
    file's `binary-label`. 0 where neither side has such a pair."""
    first, second = _numbers(gold, predicted)
    return f1(
        (first >= PARAPHRASE_THRESHOLD).astype(np.int64),
        (second >= PARAPHRASE_THRESHOLD).astype(np.int64),
    )


def f1_at_3_float32(gold: Values, predicted: Values) -> float:
    """`f1_at_3` as KLUE-baseline's trainer calls it, in single precision: 2.9999999 becomes 3.0."""
    first, second = _numbers(gold, predicted)
    return f1_at_3(first.astype(np.float32), second.astype(np.float32))


def _numbers(gold: Values, predicted: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = (np.asarray(side, dtype=np.float64) for side in (gold, predicted))
    checked(first, second)  # type: ignore[arg-type]  # of one shape
    return first, second


def checked(
    gold: Labels, predicted: Labels
) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Both as arrays of one length; `ValueError` if they are not."""
    first, second = np.asarray(gold), np.asarray(predicted)
    if first.shape != second.shape or first.ndim != 1:
        raise UserError(
            f"gold labels have shape {first.shape} and predictions {second.shape}; "
            "give one label id an example in both"
        )
    return first, second


# by task, then by metric, all on one scale (0..1 or percent); tasks are "cola", "sst2", "mrpc",
# "stsb", "qqp", "mnli_matched", "mnli_mismatched", "qnli", "rte" and "wnli"
Scores = Mapping[str, Mapping[str, float]]

_TABLES = read_toml(Path(__file__).with_name("glue.toml"))


def task_scores(scores: Scores) -> dict[str, float]:
    """One number for each of the nine tasks: the mean of its metrics, MNLI that of both its sets.

    The diagnostic set counts for nothing. Raises `KeyError` for a task or metric that is missing.
    """
    return {name: _task_score(scores, name) for name in _TABLES["leaderboard"]}


def glue_9_tasks(scores: Scores) -> float:
    """The leaderboard's overall score: the mean of the nine numbers of `task_scores`."""
    return float(np.mean(list(task_scores(scores).values())))


def glue_8_tasks_without_wnli(scores: Scores) -> float:
    """`glue_9_tasks` without WNLI, as many papers have it; the scores of WNLI need not be there."""
    return float(
        np.mean([_task_score(scores, name) for name in _TABLES["leaderboard"] if name != "wnli"])
    )


def electra_dev_8_tasks(scores: Scores) -> float:
    """The dev mean of the ELECTRA paper: MCC, Spearman, accuracy; MNLI matched only; no WNLI."""
    return float(np.mean([scores[name][metric] for name, metric in _TABLES["electra"].items()]))


def _task_score(scores: Scores, name: str) -> float:
    parts = _TABLES["leaderboard"][name].items()
    return float(np.mean([scores[part][metric] for part, used in parts for metric in used]))
