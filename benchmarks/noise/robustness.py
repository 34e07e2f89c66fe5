"""How a fine-tuned task's score changes when its rows are perturbed.

The perturbed rows are a further split of the task: one fine-tuning predicts them next to the clean
ones. `KINDS` says which perturbations there are.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoder import ModelSource
from benchmarks.noise.perturb import KINDS
from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import Result
from benchmarks.results.table import write_csv
from benchmarks.statistics.comparison import Tested, corrected_lines
from benchmarks.statistics.uncertainty import (
    Interval,
    estimate,
    of_variances,
    scored,
    variance_of_mean,
)
from benchmarks.tasks.labels import Classification, Regression, RelationExtraction
from benchmarks.tasks.load import TaskData, rows_digest
from benchmarks.tasks.task import Example, Line, Task

TABLE = "robustness.csv"
DEFAULT_TASKS = ("klue-ynat", "korean-hate-speech")
NUM_ROWS = 400  # reported rows of a task that are perturbed by every kind and strength
SPLIT = "perturbed"
_HANGUL_FRACTION = 0.2  # of the letters of a Korean text, at least
_SEPARATOR = "|"  # in ids of this split: kind|strength|id


class Condition(Tested):
    """One kind and strength on one task and encoder. Scores are of all rows; `flips` are of the
    rows that the perturbation changed."""

    task: str
    metric: str
    encoder: str  # "pretrained", "random-init" or "bag-of-words"
    kind: str
    strength: float
    num_rows: int
    changed_fraction: float  # of the rows
    seeds: int
    clean: float
    perturbed: float
    drop: float
    drop_low: float
    drop_high: float
    flips: float  # fraction of the changed rows whose prediction is another one; nan of a number
    flips_low: float
    flips_high: float

    @property
    def is_worse(self) -> bool:
        return self.drop > 0 and self.is_found

    @property
    def changes_nothing(self) -> bool:
        """Whether every seed has the same score with and without it, on any resample of rows."""
        return self.drop == self.drop_low == self.drop_high == 0


def accepts(task: Task) -> bool:
    """Whether a row of the task is a text, or two, with a label or a number that no place in the
    text carries."""
    is_of_rows = isinstance(task, Classification | Regression)
    return is_of_rows and not isinstance(task, RelationExtraction)


def add_rows(task: Task, data: TaskData) -> TaskData:
    """The data with `NUM_ROWS` of the reported rows, and these perturbed as a further split."""
    # the same rows in whatever order they come
    rows = sorted(data.reported, key=lambda row: hashlib.sha256(repr(row.texts).encode()).digest())
    rows = rows[:NUM_ROWS]
    language = _language_of(rows)
    perturbed = [
        replace(row, id=_SEPARATOR.join((kind.name, f"{strength:g}", row.id)), texts=texts)
        for kind in KINDS.values()
        if language in kind.languages
        for strength in kind.strengths
        for row in rows
        if (texts := kind.perturb(row.texts, strength, row.id)) != row.texts
    ]
    changes: dict[str, Any] = {"further": {SPLIT: tuple(perturbed)}, "reported": tuple(rows)}
    changes |= {"sha256": data.sha256 | {SPLIT: rows_digest(perturbed)}}
    if len(rows) < len(data.reported):
        parts = {**data.parts, data.split: (len(rows), len(data.reported))}
        changes |= {"split": f"{data.split}-sample", "parts": parts}
    return replace(data, **changes)


def _language_of(rows: Sequence[Example]) -> str:
    """ "ko" where Hangul is a fifth of the letters of most rows or more, else "en"."""
    letters = [list(filter(str.isalpha, "".join(row.texts))) for row in rows]
    fractions = [sum("가" <= c <= "힣" for c in of_row) / max(1, len(of_row)) for of_row in letters]
    return "ko" if np.median(fractions) >= _HANGUL_FRACTION else "en"


def write_table(
    folder: Path,
    tasks: Sequence[Task],
    data: Mapping[str, TaskData],
    results: Sequence[Result],
    source: ModelSource,
    data_dirs: Sequence[Path] = (),
) -> None:
    """robustness.csv, from the predictions in the folder; p is corrected over each encoder."""
    conditions: list[Condition] = []
    for encoder in dict.fromkeys(result.role for result in results):
        family: list[Condition] = []
        for task in tasks:
            if own := [r for r in results if (r.role, r.task) == (encoder, task.name)]:
                family += _conditions(folder, task, len(data[task.name].reported), own)
        conditions += corrected_lines(family)
    write_csv(folder / TABLE, conditions)


def _conditions(
    folder: Path, task: Task, num_rows: int, results: Sequence[Result]
) -> Iterator[Condition]:
    """Those of one task and encoder, before the correction."""
    clean = {r.seed: lines_of_result(folder, r) or [] for r in results}
    # by seed, kind and strength: by the id of the clean row
    perturbed: dict[int, dict[tuple[str, float], dict[str, Line]]] = {}
    for result in results:
        of_seed = perturbed.setdefault(result.seed, {})
        for line in lines_of_result(folder, result, SPLIT) or ():
            name, chance, row = str(line["id"]).split(_SEPARATOR, 2)
            of_seed.setdefault((name, float(chance)), {})[row] = {**line, "id": row}
    values, draws = scored(task, clean)
    for kind, strength in next(iter(perturbed.values())):
        changed = {seed: of_seed[kind, strength] for seed, of_seed in perturbed.items()}
        mixed = {
            seed: [changed[seed].get(str(line["id"]), line) for line in lines]
            for seed, lines in clean.items()
        }
        now, draws_now = scored(task, mixed)
        # paired by seed (one fine-tuning has predicted both) and by row
        scores = {seed: draws.scores[seed] - draws_now.scores[seed] for seed in clean}
        lost = {seed: values[seed] - now[seed] for seed in clean}
        drop = estimate(lost, replace(draws, scores=scores))
        flips = _flips(task, clean, changed)
        yield Condition(
            p_corrected=drop.p,
            task=task.name,
            metric=results[0].metric,
            encoder=results[0].role,
            kind=kind,
            strength=strength,
            num_rows=num_rows,
            changed_fraction=len(changed[results[0].seed]) / num_rows,
            seeds=len(results),
            clean=float(np.mean(list(values.values()))),
            perturbed=float(np.mean(list(now.values()))),
            drop=drop.value,
            drop_low=drop.low,
            drop_high=drop.high,
            flips=flips.value,
            flips_low=flips.low,
            flips_high=flips.high,
        )


def _flips(
    task: Task, clean: Mapping[int, Sequence[Line]], changed: Mapping[int, Mapping[str, Line]]
) -> Interval:
    """Fraction of the changed rows whose predicted label is another one, over rows and seeds."""
    if not isinstance(task, Classification):
        return Interval(float("nan"))
    flipped = np.array(
        [
            [
                float(line["prediction"] != changed[seed][str(line["id"])]["prediction"])
                for line in lines
                if str(line["id"]) in changed[seed]
            ]
            for seed, lines in clean.items()
        ]
    )
    variances = [variance_of_mean(flipped.mean(axis=axis)) for axis in (0, 1)]
    return of_variances(float(flipped.mean()), variances, "rows and seeds")
