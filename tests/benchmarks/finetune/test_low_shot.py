"""Parts of the training split: nested, seeded, with every class."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.finetune.finetune import low_shot_rows
from benchmarks.tasks.kinds.classification import LabelExample
from benchmarks.tasks.kinds.spans import GoldAnswer, QuestionExample
from benchmarks.tasks.task import Example

FRACTIONS = (0.01, 0.1, 0.3, 0.9, 1.0)


def labelled(labels) -> list[Example]:
    return [LabelExample(str(n), (f"text {n}",), label) for n, label in enumerate(labels)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 9))
def test_smaller_parts_stand_inside_larger_ones(labels, seed):
    examples, everything = labelled(labels), np.arange(len(labels))
    parts = [
        set(low_shot_rows(examples, everything, everything, fraction, seed).tolist())
        for fraction in FRACTIONS
    ]
    for smaller, larger in itertools.pairwise(parts):
        assert smaller <= larger
    assert parts[-1] == set(everything.tolist())
    counts = Counter(labels)
    for fraction, part in zip(FRACTIONS, parts, strict=True):
        of_class = Counter(labels[number] for number in part)
        assert of_class.keys() == counts.keys()
        for label, number in of_class.items():
            assert abs(number - max(1, fraction * counts[label])) <= 0.5


def test_rows_of_one_example_stay_together():
    """Both orders of a pair, all windows of a context."""
    example_of = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])
    examples = labelled([0, 1, 0, 1, 0, 1])
    rows = low_shot_rows(examples, example_of, np.arange(10), 0.4, seed=1)
    chosen = set(example_of[rows].tolist())
    assert len(chosen) == 2
    assert rows.tolist() == [row for row in range(10) if example_of[row] in chosen]


def test_questions_without_answers_have_their_share():
    answer = (GoldAnswer("a", 0),)
    examples = [
        QuestionExample(str(n), ("a context", "why"), answers=() if n % 4 == 0 else answer)
        for n in range(80)
    ]
    rows = low_shot_rows(examples, np.arange(80), np.arange(80), 0.1, seed=0)
    assert Counter(bool(examples[row].answers) for row in rows) == {True: 6, False: 2}
