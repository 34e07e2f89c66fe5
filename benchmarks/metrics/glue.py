"""GLUE over its tasks: the score of each and the overall scores.

`Scores` are by task, then by metric, all on one scale (0..1 or percent), tasks named "cola",
"sst2", "mrpc", "stsb", "qqp", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli". No code of
the leaderboard is public; its definition gives the published 80.5 of BERT-large and 78.3 of
BERT-base from their rows (Wang et al. 2019; Devlin et al. 2019).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from electrify.storage.files import read_toml

Scores = Mapping[str, Mapping[str, float]]

_TABLES = read_toml(Path(__file__).with_suffix(".toml"))


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
