"""How a fine-tuned task's score changes when its rows are perturbed.

A perturbation is a function of text, strength and random numbers. `perturb.toml` explains the
kinds, `korean.toml` has their tables. The perturbed rows are a further split of the task: one
fine-tuning predicts them next to the clean ones.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html.entities import codepoint2name
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.analysis.korean import LEADS, TAILS, VOWELS, letters_of, neighbours, syllable_of
from benchmarks.noise.effects import Effect
from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import Result, task_of
from benchmarks.statistics.uncertainty import estimate, scored
from benchmarks.tasks.labels import Classification, Regression, RelationExtraction
from benchmarks.tasks.load import TaskData, rows_digest
from benchmarks.tasks.task import Prediction, Task
from electrify.storage.files import read_toml

DEFAULT_TASKS = ("klue-ynat", "korean-hate-speech")
NUM_ROWS = 400  # reported rows of a task that are perturbed by every kind and strength
SPLIT = "perturbed"
_SEPARATOR = "|"  # in ids of this split: kind|strength|id
_FOLDER = Path(__file__).parent
_KOREAN = read_toml(_FOLDER / "korean.toml")
# by kind its strengths, in the order of tables
KINDS: Mapping[str, Sequence[float]] = read_toml(_FOLDER / "perturb.toml")

Perturb = Callable[[str, float, Generator], str]  # text, strength, random numbers
Change = Callable[[re.Match[str], Generator], str]


def _substitution(pattern: str, change: Change) -> Perturb:
    """`re.sub` of each match with the chance `strength`.

    One number is drawn for each match before any change is: equal generators change at a higher
    strength all that they change at a lower one.
    """
    compiled = re.compile(pattern)

    def perturb(text: str, strength: float, rng: Generator) -> str:
        chances = iter(rng.random(len(compiled.findall(text))))
        return compiled.sub(lambda m: change(m, rng) if next(chances) < strength else m[0], text)

    return perturb


def _of_words(change: Callable[[str, Generator], str]) -> Perturb:
    """The same for what stands between spaces."""
    return _substitution(r"\S+", lambda match, rng: change(match[0], rng))


# Korean.

_SYLLABLE = "[가-힣]"


def _mistyped_syllable(match: re.Match[str], rng: Generator) -> str:
    """A syllable with one of its jamo taken for that of a key beside it, vowel for vowel."""
    letters = list(letters_of(match[0]))
    indices = [index for index, letter in enumerate(letters) if neighbours(letter)]
    if not indices:  # ㅢ: pressed as two keys
        return match[0]
    index = int(rng.choice(indices))
    jamo = [key for key in neighbours(letters[index]) if key in (LEADS, VOWELS, TAILS)[index]]
    letters[index] = str(rng.choice(jamo)) if jamo else letters[index]
    return syllable_of(*letters)


# Noise that text from a crawl has, in any language.

_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


def _entity(sign: str) -> str:
    name = codepoint2name.get(ord("\xa0" if sign == " " else sign), "#x27")
    return f"&{name};"


def _misread(word: str, rng: Generator) -> str:
    """Its UTF-8 as Windows-1252; bytes that have no letter there as Latin-1 has them."""
    letters = (bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in word.encode())
    return "".join(letters)


_FUNCTIONS: Mapping[str, Perturb] = {
    "spacing-removed": _substitution(" ", lambda match, rng: ""),
    "spacing-added": _substitution(f"(?<={_SYLLABLE})(?={_SYLLABLE})", lambda match, rng: " "),
    "coda-dropped": _substitution(_SYLLABLE, lambda m, rng: syllable_of(*letters_of(m[0])[:2])),
    "jamo-nfd": _substitution(_SYLLABLE, lambda m, rng: unicodedata.normalize("NFD", m[0])),
    "jamo-compatibility": _substitution(_SYLLABLE, lambda m, rng: "".join(letters_of(m[0]))),
    "keyboard-typo": _substitution(_SYLLABLE, _mistyped_syllable),
    "laughter": _of_words(lambda word, rng: word + str(rng.choice(_KOREAN["laughter"]))),
    "emoji": _of_words(lambda word, rng: word + str(rng.choice(_KOREAN["emoji"]))),
    "html-entities": _substitution(r"[ &<>\"'…·“”‘’]", lambda match, rng: _entity(match[0])),
    "zero-width": _substitution(
        r"(?<=\S)(?=\S)", lambda match, rng: str(rng.choice(list(_INVISIBLE)))
    ),
    "mojibake": _of_words(_misread),
}


def perturbed(kind: str, texts: Sequence[str], strength: float, row_id: str) -> tuple[str, ...]:
    """The texts of a row; the same for the same id, whatever the other rows are."""
    changed = []
    for number, text in enumerate(texts):
        seed = hashlib.sha256(f"{kind}\n{row_id}\n{number}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
        changed.append(_FUNCTIONS[kind](text, strength, rng))
    return tuple(changed)


# The suite.


def accepts(task: Task) -> bool:
    """Whether no place in the text carries the label or number of a row."""
    is_of_rows = isinstance(task, Classification | Regression)
    return is_of_rows and not isinstance(task, RelationExtraction)


def add_rows(task: Task, data: TaskData) -> TaskData:
    """The data with `NUM_ROWS` of the reported rows, and these perturbed as a further split."""
    # the same rows in whatever order they come
    rows = sorted(data.reported, key=lambda row: hashlib.sha256(repr(row.texts).encode()).digest())
    rows = rows[:NUM_ROWS]
    further = tuple(
        replace(row, id=_SEPARATOR.join((kind, f"{strength:g}", row.id)), texts=texts)
        for kind, strengths in KINDS.items()
        for strength, row in product(strengths, rows)
        if (texts := perturbed(kind, row.texts, strength, row.id)) != row.texts
    )
    changes: dict[str, Any] = {"further": {SPLIT: further}, "reported": tuple(rows)}
    changes |= {"sha256": data.sha256 | {SPLIT: rows_digest(further)}}
    if len(rows) < len(data.reported):
        parts = {**data.parts, data.split: (len(rows), len(data.reported))}
        changes |= {"split": f"{data.split}-sample", "parts": parts}
    return replace(data, **changes)


def effects(folder: Path, results: Sequence[Result]) -> Iterator[Effect]:
    by_encoder: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_encoder.setdefault((result.role, result.task), []).append(result)
    for own in by_encoder.values():
        if task := task_of(own[0]):
            yield from _drops(folder, task, own)


def _drops(folder: Path, task: Task, results: Sequence[Result]) -> Iterator[Effect]:
    """Those of one task and encoder, a kind and strength each."""
    clean = {r.seed: predictions_of_result(folder, r) or [] for r in results}
    # by kind and strength: by seed, then by the id of the clean row
    perturbed_rows: dict[tuple[str, str], dict[int, dict[str, Prediction]]] = {}
    for result in results:
        for p in predictions_of_result(folder, result, SPLIT) or ():
            kind, strength, row = str(p["id"]).split(_SEPARATOR, 2)
            by_seed = perturbed_rows.setdefault((kind, strength), {})
            by_seed.setdefault(result.seed, {})[row] = {**p, "id": row}
    values, draws = scored(task, clean)
    for (kind, strength), by_seed in perturbed_rows.items():
        mixed = {
            seed: [
                {**p, **changed} if (changed := by_seed[seed].get(str(p["id"]))) else p
                for p in predictions
            ]
            for seed, predictions in clean.items()
        }
        now, draws_now = scored(task, mixed)
        # paired by seed (one fine-tuning has predicted both) and by row
        scores = {seed: draws.scores[seed] - draws_now.scores[seed] for seed in clean}
        lost = {seed: values[seed] - now[seed] for seed in clean}
        flips = [
            before["prediction"] != after["prediction"]
            for seed in clean
            for before, after in zip(clean[seed], mixed[seed], strict=True)
            if before is not after
        ]
        yield Effect.from_interval(
            estimate(lost, replace(draws, scores=scores)),
            float(np.mean(list(values.values()))),
            float(np.mean(list(now.values()))),
            measure=results[0].metric,
            task=task.name,
            encoder=results[0].role,
            axis=kind,
            group=strength,
            against="perturbed rows",
            items=len(by_seed[results[0].seed]),
            seeds=len(results),
            flips=float(np.mean(flips)) if isinstance(task, Classification) else math.nan,
        )
