"""GLUE over its tasks: the score of each and the overall scores.

`Scores` are by task, then by metric, all on one scale (0..1 or percent), tasks named "cola",
"sst2", "mrpc", "stsb", "qqp", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli". No code of
the leaderboard is public; its definition gives the published 80.5 of BERT-large and 78.3 of
BERT-base from their rows (Wang et al. 2019; Devlin et al. 2019).
"""

from collections.abc import Mapping

import numpy as np

Scores = Mapping[str, Mapping[str, float]]

# what stands for a task on the leaderboard: the mean of these metrics of these parts
_PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cola": {"cola": ("mcc",)},
    "sst2": {"sst2": ("accuracy",)},
    "mrpc": {"mrpc": ("f1", "accuracy")},
    "stsb": {"stsb": ("pearson", "spearman")},
    "qqp": {"qqp": ("f1", "accuracy")},
    "mnli": {"mnli_matched": ("accuracy",), "mnli_mismatched": ("accuracy",)},
    "qnli": {"qnli": ("accuracy",)},
    "rte": {"rte": ("accuracy",)},
    "wnli": {"wnli": ("accuracy",)},
}
# the dev columns of the ELECTRA paper (Clark et al. 2020): no WNLI, one metric a task
_ELECTRA_METRICS = {
    "cola": "mcc",
    "sst2": "accuracy",
    "mrpc": "accuracy",
    "stsb": "spearman",
    "qqp": "accuracy",
    "mnli_matched": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
}


def task_scores(scores: Scores) -> dict[str, float]:
    """One number for each of the nine tasks: the mean of its metrics, MNLI that of both its sets.

    The diagnostic set counts for nothing. Raises `KeyError` for a task or metric that is missing.
    """
    return {name: _task_score(scores, name) for name in _PARTS}


def glue_9_tasks(scores: Scores) -> float:
    """The leaderboard's overall score: the mean of the nine numbers of `task_scores`."""
    return float(np.mean(list(task_scores(scores).values())))


def glue_8_tasks_without_wnli(scores: Scores) -> float:
    """`glue_9_tasks` without WNLI, as many papers have it; the scores of WNLI need not be there."""
    return float(np.mean([_task_score(scores, name) for name in _PARTS if name != "wnli"]))


def electra_dev_8_tasks(scores: Scores) -> float:
    """The dev mean of the ELECTRA paper: MCC, Spearman, accuracy; MNLI matched only; no WNLI."""
    return float(np.mean([scores[name][metric] for name, metric in _ELECTRA_METRICS.items()]))


def _task_score(scores: Scores, name: str) -> float:
    parts = _PARTS[name].items()
    return float(np.mean([scores[part][metric] for part, used in parts for metric in used]))
