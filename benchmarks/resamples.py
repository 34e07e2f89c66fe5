"""Scores of resampled examples: what the headline of each seed would be on others of the kind.

`NUM_RESAMPLES` times as many examples as there are, drawn with replacement. The draws depend on the
ids of the examples alone, so those of every seed and every model are the same, and the same lines
give the same scores.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.kind import Line
from benchmarks.metrics.weighted import Floats, Weighted, mean_of
from benchmarks.task import Task

NUM_RESAMPLES = 2000
NUM_SLOW_RESAMPLES = 200  # where every sample is scored line by line
AT_ONCE = 2**22  # numbers of a table of draws: 32 MB


@dataclass(frozen=True)
class Draws:
    """The headline of each seed on the same resampled examples."""

    ids: str  # a digest of all
    num_examples: int
    scores: Mapping[int, Floats]  # by seed, (resamples,); nan where undefined
    items: Mapping[int, Floats] | None  # by seed, (examples,), where the headline is their mean

    def mean(self, seeds: Sequence[int]) -> Floats:
        """Over seeds, of every resample."""
        return np.asarray(np.mean([self.scores[seed] for seed in seeds], axis=0))


def resample(task: Task, runs: Mapping[int, Sequence[Line]]) -> Draws:
    """Score the lines of each seed on the same resampled examples.

    Raises `ValueError` where seeds hold other examples.
    """
    scorers = {seed: _Scorer(task, lines) for seed, lines in runs.items()}
    digests = {scorer.ids for scorer in scorers.values()}
    if len(digests) != 1:
        raise ValueError(
            f"{task.name}: seeds {', '.join(map(str, runs))} hold predictions of other examples"
        )
    ids, num_examples = digests.pop(), len(next(iter(runs.values())))
    is_slow = any(scorer.is_slow for scorer in scorers.values())
    num_resamples = NUM_SLOW_RESAMPLES if is_slow else NUM_RESAMPLES
    found: dict[int, list[Floats]] = {seed: [] for seed in scorers}
    for counts in _counts(num_examples, ids, num_resamples):
        for seed, scorer in scorers.items():
            found[seed].append(scorer.score(counts))
    items = {seed: s.items for seed, s in scorers.items() if s.items is not None}
    return Draws(
        ids,
        num_examples,
        {seed: np.concatenate(parts) for seed, parts in found.items()},
        items if len(items) == len(scorers) else None,
    )


class _Scorer:
    """The headline of resampled lines of one seed."""

    def __init__(self, task: Task, lines: Sequence[Line]) -> None:
        self._task = task
        # by id: two files may hold the same examples in another order
        self._lines = sorted(lines, key=lambda line: str(line["id"]))
        self.ids = _digest(str(line["id"]) for line in self._lines)
        self.items: Floats | None = None
        self._fast: Weighted | None = lambda counts: np.full(len(counts), math.nan)
        if all(line["prediction"] is not None for line in lines):
            self.items = task.kind.item_scores(task, self._lines)
            self._fast = (
                task.kind.weighted_score(task, self._lines)
                if self.items is None
                else mean_of(self.items)
            )
        self.is_slow = self._fast is None

    def score(self, counts: Floats) -> Floats:
        """(resamples, examples) to (resamples,)."""
        return self._one_by_one(counts) if self._fast is None else self._fast(counts)

    def _one_by_one(self, counts: Floats) -> Floats:
        scores = []
        for row in counts.astype(np.int64):
            drawn = [n for n, times in enumerate(row) for _ in range(times)]
            # ids of their own, since scorers look lines up by them
            lines = [{**self._lines[n], "id": str(i)} for i, n in enumerate(drawn)]
            scores.append(self._task.kind.score(self._task, lines)[self._task.headline])
        return np.array(scores)


def _counts(num_examples: int, ids: str, num_resamples: int) -> Iterator[Floats]:
    """How often each example is in each resample, (resamples, examples), some at a time."""
    generator = generator_of(ids)
    rows = max(1, AT_ONCE // max(num_examples, 1))
    for start in range(0, num_resamples, rows):
        size = min(rows, num_resamples - start)
        drawn = generator.integers(0, max(num_examples, 1), (size, num_examples))
        drawn += np.arange(size)[:, None] * num_examples
        found = np.bincount(drawn.ravel(), minlength=size * num_examples)
        yield found.reshape(size, num_examples).astype(np.float64)


def generator_of(key: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "big"))


def _digest(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()
