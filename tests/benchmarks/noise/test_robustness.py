"""A planted model that cannot read without spaces is found; one that can, and one that errs at
random, are not."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest

from benchmarks.noise.effects import Effect, Evaluated, write_effects
from benchmarks.noise.robustness import SPLIT, add_rows, effects
from benchmarks.results.table import read_csv
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.task import GoldExample
from tests.benchmarks.conftest import FILLERS, TOPICS, make_result, put_predictions
from tests.benchmarks.records import YNAT

NUM = 140
WORDS = (*FILLERS, "사람들", "이야기", "소식", "전망", "발표", "계획")


def rows(count: int) -> tuple[GoldExample, ...]:
    """Titles of random words, one of which decides the label."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        label = number % len(TOPICS)
        words = [*rng.choice(WORDS, 5), TOPICS[label]]
        found.append(GoldExample(f"row-{number}", (" ".join(rng.permutation(words)),), label))
    return tuple(found)


Reader = Callable[[str, int], int]  # text, gold label -> predicted label


def reads_words(text: str, gold: int) -> int:
    """The topic that stands between spaces; without one a wrong label."""
    topics = [TOPICS.index(word) for word in text.split() if word in TOPICS]
    return topics[0] if topics else (gold + 1) % len(TOPICS)


def reads_letters(text: str, gold: int) -> int:
    """The topic that stands anywhere, spaces aside."""
    letters = text.replace(" ", "")
    topics = [number for number, topic in enumerate(TOPICS) if topic in letters]
    return gold if gold in topics else (gold + 1) % len(TOPICS)


def errs_at_random(text: str, gold: int) -> int:
    """Wrong on a fifth of all texts, whatever they say."""
    is_wrong = hashlib.sha256(text.encode()).digest()[0] < 51
    return (gold + 1) % len(TOPICS) if is_wrong else gold


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr("benchmarks.statistics.uncertainty.NUM_RESAMPLES", 300)


def conditions_of(place: Path, *readers: Reader) -> list[Effect]:
    """The table of a model that reads so, a reader a seed; of one reader two seeds."""
    data = add_rows(YNAT, TaskData((), rows(NUM), "dev", {}))
    readers = readers * 2 if len(readers) == 1 else readers
    results = [make_result(seed=n, data_sha256=data.sha256) for n in range(len(readers))]
    for read, result in zip(readers, results, strict=True):
        for split, examples in data.predicted.items():
            predictions = [
                {
                    "id": row.id,
                    "gold": YNAT.labels[row.gold],
                    "prediction": YNAT.labels[read(row.texts[0], row.gold)],
                }
                for row in examples
            ]
            put_predictions(place, result, predictions, split if split == SPLIT else "")
    found = effects(Evaluated(place, [YNAT], {YNAT.name: data}, results, ANY))
    write_effects(place / "effects.csv", found)
    return read_csv(place / "effects.csv", Effect)


def found(conditions: list[Effect]) -> set[str]:
    return {c.axis for c in conditions if c.is_shown and c.difference > 0}


def test_a_model_that_needs_spaces_is_found(tmp_path):
    conditions = conditions_of(tmp_path, reads_words)
    assert {"spacing-removed", "spacing-added"} <= found(conditions)
    drops = [c.difference for c in conditions if c.axis == "spacing-removed"]
    assert drops == sorted(drops)
    assert drops[-1] == pytest.approx(1.0, abs=0.02)  # without any space no word is read
    for condition in conditions:
        if condition.axis == "spacing-removed":
            assert condition.low <= condition.difference <= condition.high
            assert condition.flips * condition.items / NUM == pytest.approx(
                1 - condition.other, abs=0.05
            )


def test_a_model_that_does_not_need_them_is_not(tmp_path):
    conditions = conditions_of(tmp_path, reads_letters)
    assert not found(conditions) & {"spacing-removed", "spacing-added", "laughter", "emoji"}
    spacing = [c for c in conditions if c.axis.startswith("spacing")]
    assert {(c.difference, c.low, c.high, c.p_corrected) for c in spacing} == {(0, 0, 0, 1)}
    assert {c.flips for c in spacing} == {0}
    assert "coda-dropped" in found(conditions)  # it cannot read those, and that is seen


def test_errors_that_do_not_come_from_the_perturbation_are_not_found(tmp_path):
    conditions = conditions_of(tmp_path, errs_at_random)
    assert len(conditions) > 25
    assert not found(conditions)
    assert np.mean([c.flips for c in conditions]) > 0.1  # predictions do change
