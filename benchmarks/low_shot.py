"""Parts of a training split, the smaller inside the larger, for scores against its size."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.kind import Example
from benchmarks.kinds.classification import LabelExample
from benchmarks.kinds.spans_files import QuestionExample


def low_shot_rows(
    examples: Sequence[Example],
    example_of: NDArray[np.int64],
    rows: NDArray[np.int64],
    fraction: float,
    seed: int,
) -> NDArray[np.int64]:
    """Those of `rows` whose examples are in the part of that size; `example_of` is by row.

    Of each class (a label, or whether a question has an answer) `fraction` of the examples is
    taken, rounded, and at least one, in an order by the seed: 1 % stands inside 10 %.
    """
    if fraction == 1.0:
        return rows
    order = np.random.default_rng([seed, 3]).permutation(np.unique(example_of[rows]))
    groups: dict[Hashable, list[int]] = {}
    for number in map(int, order):
        groups.setdefault(_class_of(examples[number]), []).append(number)
    taken = [
        number
        for group in groups.values()
        for number in group[: max(1, int(fraction * len(group) + 0.5))]
    ]
    return rows[np.isin(example_of[rows], taken)]


def _class_of(example: Example) -> Hashable:
    if isinstance(example, LabelExample):
        return example.label
    if isinstance(example, QuestionExample):
        return bool(example.answers)
    return None
