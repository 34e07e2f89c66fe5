"""How a fine-tuned task's score changes when its rows are perturbed.

The perturbed rows are a further split of the task: one fine-tuning predicts them next to the clean
ones. `KINDS` says which perturbations there are.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoder import ModelSource
from benchmarks.noise.effects import Effect, write_effects
from benchmarks.noise.perturb import KINDS
from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import Result
from benchmarks.statistics.uncertainty import estimate, scored
from benchmarks.tasks.labels import Classification, Regression, RelationExtraction
from benchmarks.tasks.load import TaskData, rows_digest
from benchmarks.tasks.task import Example, Line, Task

TABLE = "robustness.csv"
DEFAULT_TASKS = ("klue-ynat", "korean-hate-speech")
NUM_ROWS = 400  # reported rows of a task that are perturbed by every kind and strength
SPLIT = "perturbed"
_HANGUL_FRACTION = 0.2  # of the letters of a Korean text, at least
_SEPARATOR = "|"  # in ids of this split: kind|strength|id


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
    """robustness.csv, from the predictions in the folder."""
    effects: list[Effect] = []
    for encoder, task in product(dict.fromkeys(result.role for result in results), tasks):
        if own := [r for r in results if (r.role, r.task) == (encoder, task.name)]:
            effects += _effects(folder, task, own)
    write_effects(folder / TABLE, effects)


def _effects(folder: Path, task: Task, results: Sequence[Result]) -> Iterator[Effect]:
    """Those of one task and encoder, a kind and strength each."""
    clean = {r.seed: lines_of_result(folder, r) or [] for r in results}
    # by kind and strength: by seed, then by the id of the clean row
    perturbed: dict[tuple[str, str], dict[int, dict[str, Line]]] = {}
    for result in results:
        for line in lines_of_result(folder, result, SPLIT) or ():
            kind, strength, row = str(line["id"]).split(_SEPARATOR, 2)
            rows = perturbed.setdefault((kind, strength), {}).setdefault(result.seed, {})
            rows[row] = {**line, "id": row}
    values, draws = scored(task, clean)
    for (kind, strength), changed in perturbed.items():
        mixed = {
            seed: [changed[seed].get(str(line["id"]), line) for line in lines]
            for seed, lines in clean.items()
        }
        now, draws_now = scored(task, mixed)
        # paired by seed (one fine-tuning has predicted both) and by row
        scores = {seed: draws.scores[seed] - draws_now.scores[seed] for seed in clean}
        lost = {seed: values[seed] - now[seed] for seed in clean}
        drop = estimate(lost, replace(draws, scores=scores))
        flipped = [
            line["prediction"] != changed[seed][str(line["id"])]["prediction"]
            for seed, lines in clean.items()
            for line in lines
            if str(line["id"]) in changed[seed]
        ]
        yield Effect(
            measure=results[0].metric,
            task=task.name,
            encoder=results[0].role,
            axis=kind,
            group=strength,
            against="perturbed rows",
            items=len(changed[results[0].seed]),
            seeds=len(results),
            value=float(np.mean(list(values.values()))),
            other=float(np.mean(list(now.values()))),
            difference=drop.value,
            low=drop.low,
            high=drop.high,
            p_corrected=drop.p,
            flips=float(np.mean(flipped)) if isinstance(task, Classification) else math.nan,
        )
