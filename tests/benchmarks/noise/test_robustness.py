"""A planted model that cannot read without spaces is found; one that can, and one that errs at
random, are not. The laws of the perturbations, kind by kind."""

import hashlib
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.analysis.korean import letters_of, neighbours
from benchmarks.noise.effects import Effect, write_effects
from benchmarks.noise.robustness import KINDS, SPLIT, add_rows, effects
from benchmarks.noise.robustness import perturbed as perturb
from benchmarks.results.table import read_csv
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.task import GoldExample
from tests.benchmarks.conftest import FILLERS, TOPICS, make_result, put_predictions
from tests.benchmarks.records import YNAT

NUM = 140
WORDS = (*FILLERS, "사람들", "이야기", "소식", "전망", "발표", "계획")


@pytest.fixture(scope="module")
def data() -> TaskData:
    """Titles of random words, one of which decides the label; and what becomes of them."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(NUM):
        label = number % len(TOPICS)
        words = [*rng.choice(WORDS, 5), TOPICS[label]]
        found.append(GoldExample(f"row-{number}", (" ".join(rng.permutation(words)),), label))
    return add_rows(YNAT, TaskData((), tuple(found), "dev", {}))


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
    monkeypatch.setattr("benchmarks.statistics.uncertainty.NUM_RESAMPLES", 100)


def conditions_of(place: Path, data: TaskData, read: Reader) -> list[Effect]:
    """The table of a model of two seeds that reads so."""
    results = [make_result(seed=seed, data_sha256=data.sha256) for seed in (0, 1)]
    for result in results:
        for split, examples in data.predicted.items():
            said = ((row, read(row.texts[0], row.gold)) for row in examples)
            predictions = [
                {"id": row.id, "gold": YNAT.labels[row.gold], "prediction": YNAT.labels[label]}
                for row, label in said
            ]
            put_predictions(place, result, predictions, split if split == SPLIT else "")
    found = effects(place, results)
    write_effects(place / "effects.csv", found)
    return read_csv(place / "effects.csv", Effect)


def found(conditions: list[Effect]) -> set[str]:
    return {c.axis for c in conditions if c.is_shown and c.difference > 0}


def test_a_model_that_needs_spaces_is_found(tmp_path, data):
    conditions = conditions_of(tmp_path, data, reads_words)
    assert {"spacing-removed", "spacing-added"} <= found(conditions)
    drops = [c.difference for c in conditions if c.axis == "spacing-removed"]
    assert drops == sorted(drops)
    assert drops[-1] == pytest.approx(1.0, abs=0.02)  # without any space no word is read
    for condition in conditions:
        if condition.axis == "spacing-removed":
            assert condition.low <= condition.difference <= condition.high
            flipped = condition.flips * condition.items / NUM
            assert flipped == pytest.approx(1 - condition.other, abs=0.05)


def test_a_model_that_does_not_need_them_is_not(tmp_path, data):
    conditions = conditions_of(tmp_path, data, reads_letters)
    assert not found(conditions) & {"spacing-removed", "spacing-added", "laughter", "emoji"}
    spacing = [c for c in conditions if c.axis.startswith("spacing")]
    assert {(c.difference, c.low, c.high, c.p_corrected) for c in spacing} == {(0, 0, 0, 1)}
    assert {c.flips for c in spacing} == {0}
    assert "coda-dropped" in found(conditions)  # it cannot read those, and that is seen


def test_errors_that_do_not_come_from_the_perturbation_are_not_found(tmp_path, data):
    conditions = conditions_of(tmp_path, data, errs_at_random)
    assert len(conditions) == 27
    assert not found(conditions)
    assert np.mean([c.flips for c in conditions]) > 0.1  # predictions do change


TEXT = '강릉에서 열린 "디지털" 콘퍼런스는 많은 사람이 좋아한다. 나는 메시지를 보냈습니다!'
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


def perturbed(name: str, text: str, strength: float = 1.0, identity: str = "row") -> str:
    return perturb(name, (text,), strength, identity)[0]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_changes_nothing_at_zero_and_the_same_for_the_same_row(name):
    assert perturbed(name, TEXT, 0.0) == TEXT
    assert {perturbed(name, TEXT, 1.0, str(number)) for number in range(5)} != {TEXT}
    assert perturbed(name, TEXT) == perturbed(name, TEXT)


@pytest.mark.parametrize(
    ("name", "restored"),
    [
        ("spacing-removed", lambda text: text.replace(" ", "")),
        ("spacing-added", lambda text: text.replace(" ", "")),
        ("jamo-nfd", lambda text: unicodedata.normalize("NFC", text)),
        ("zero-width", lambda text: text.translate(INVISIBLE)),
    ],
)
def test_what_is_the_same_for_a_reader_can_be_restored(name, restored):
    assert restored(perturbed(name, TEXT)) == restored(TEXT)


def test_a_typo_is_one_key_beside_the_right_one():
    for identity in map(str, range(50)):
        typed = perturbed("keyboard-typo", "간", 1.0, identity)
        before, after = letters_of("간"), letters_of(typed)
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(changed) <= 1
        assert all(b in neighbours(a) for a, b in changed)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("mojibake", "한국", "한국".encode().decode("cp1252")),
        ("html-entities", "' <…", "&#x27;&nbsp;&lt;&hellip;"),
    ],
)
def test_a_text_becomes(name, before, after):
    assert perturbed(name, before) == after
