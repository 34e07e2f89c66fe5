"""What a sort of task has to say for the harness to read, learn, predict and score it.

The harness (`load`, `finetune`, `evaluate`) knows a task only through this interface. Data go
through four forms: examples (what the official file says), features (rows of token ids; a long
context has several), outputs (what the head says of a row) and lines (one prediction an example,
plain JSON: all that scores are made of, so that a file of lines can be scored again).
"""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.weighted import Weighted

NOTHING = ""  # the label on the side that has none in a place
_MAX_LISTED = 8
_TOP = 4  # probabilities shown

Run = TypeVar("Run")
Entity = tuple[str, int, int]  # type, first position, position behind the last


class Pair(NamedTuple):
    """A gold label and the predicted one in its place; `NOTHING` where one side has none."""

    gold: str
    predicted: str
    is_right: bool


class Failure(NamedTuple):
    """An example that most runs have wrong: what was asked for, what they said, how sure.

    The higher the `severity`, the worse; its unit is the kind's, so only failures of one task
    compare.
    """

    severity: float
    gold: str
    prediction: str
    certainty: str  # probabilities, or how many parts are wrong


def entity_pairs(gold: Collection[Entity], predicted: Collection[Entity]) -> list[Pair]:
    """A pair for each span that holds an entity on either side; right where types agree too."""
    found = {entity[1:]: entity[0] for entity in predicted}
    asked = {entity[1:]: entity[0] for entity in gold}
    pairs = []
    for span in sorted({*found, *asked}):
        right, said = asked.get(span, NOTHING), found.get(span, NOTHING)
        pairs.append(Pair(right, said, right == said))
    return pairs


def entity_failure(
    runs: Sequence[tuple[set[Entity], set[Entity]]], text_of: Callable[[int, int], str]
) -> Failure | None:
    """The entities that the middle run misses and those it makes up; `runs` are (gold, predicted).

    `text_of` gives the text between two positions.
    """
    middle = mostly_wrong(runs, lambda sides: len(sides[0] ^ sides[1]))
    if middle is None:
        return None
    gold, predicted = middle
    missed, made_up = (
        [f"{kind} {text_of(start, end)}" for kind, start, end in sorted(side, key=lambda e: e[1:])]
        for side in (gold - predicted, predicted - gold)
    )
    count = f"{len(missed)} of {len(gold)} entities missed, {len(made_up)} made up"
    return Failure(len(missed) + len(made_up), listed(missed), listed(made_up), count)


def pairs_by_key(gold: Mapping[str, str], predicted: Mapping[str, str]) -> list[Pair]:
    """A pair for each key that either side has a value for; the keys are the labels."""
    return [
        Pair(
            key if key in gold else NOTHING,
            key if key in predicted else NOTHING,
            gold.get(key) == predicted.get(key),
        )
        for key in dict.fromkeys([*gold, *predicted])
    ]


def mostly_wrong(runs: Sequence[Run], is_wrong: Callable[[Run], float]) -> Run | None:
    """The middle one of the runs by how wrong each is; None where that one is not.

    Of an even number the lower middle one: half the runs right is not mostly wrong.
    """
    ranked = sorted(runs, key=is_wrong)
    middle = ranked[(len(ranked) - 1) // 2]
    return middle if is_wrong(middle) else None


def listed(parts: Sequence[str]) -> str:
    """Parts in a row, the first few and how many more; a dash of none."""
    more = [f"and {len(parts) - _MAX_LISTED} more"] if len(parts) > _MAX_LISTED else []
    return "; ".join([*parts[:_MAX_LISTED], *more]) or "–"


def likeliest(labels: Sequence[str], probabilities: Sequence[float]) -> str:
    """'neutral: 0.810, entailment: 0.120': the most probable first, the least left out if many."""
    ranked = sorted(zip(probabilities, labels, strict=True), key=lambda pair: -pair[0])
    return ", ".join(f"{label}: {probability:.3f}" for probability, label in ranked[:_TOP])


def medians(rows: Sequence[Sequence[float]]) -> list[float]:
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


if TYPE_CHECKING:  # tasks are listed, checked and read where there is no torch
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head
    from benchmarks.tasks.task import Task

# "id", "gold", "prediction" and what the kind adds; undefined values are None
Line = dict[str, Any]
Outputs = Mapping[str, NDArray[Any]]  # of one row; padded to the longest row of its batch


@dataclass(frozen=True)
class Example:
    """One item of an official file; each kind adds its gold value in a subclass.

    The first text decides which side of a split an example falls on (`load.split_by_group`).
    """

    id: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Features:
    """Tokenised examples: rows of pieces, and by row what the kind learns from."""

    input_ids: list[NDArray[np.int32]]  # each (T,), T <= the maximum length
    token_type_ids: list[NDArray[np.int32]]  # as input_ids; 1 in the second text of a pair
    example_of: NDArray[np.int64]  # (rows,) position of the example that a row is of
    # by row, in the shapes that the kind's `label_arrays` reads
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    num_truncated: int = 0  # examples of which text was cut off
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by row, for `lines`

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Pieces of each row."""
        return np.array([len(ids) for ids in self.input_ids], dtype=np.int64)


class Kind(ABC):
    """A sort of task. Without state: everything particular stands in the `Task`."""

    # special tokens that the tokenizer gets in addition, their embeddings trained from random ones
    added_tokens: tuple[str, ...] = ()
    units: str = ""  # what `pairs` are of, in words: "examples", "entities"; empty if it has none
    labels_are_confused: bool = True  # one label with another, so that `pairs` make a matrix
    failures_quote: bool = False  # `failure` quotes the data even without an example

    @abstractmethod
    def read(self, task: "Task", split: str, path: Path) -> Iterator[Example]:
        """The examples of one official file in file order; `ValueError` names file and row.

        Of a split in `task.unlabelled` gold values are None.
        """

    def from_hub(
        self, task: "Task", split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """As `read`, from the rows of `task.hub` (class labels already as their names)."""
        raise ValueError(f"{task.name} is not read from the hub: give its official files")

    def num_rows(self, examples: Sequence[Example]) -> int:
        """Rows of the official files that the examples are made of: here, as many as they."""
        return len(examples)

    @abstractmethod
    def featurize(
        self,
        task: "Task",
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """Token ids and labels; `train` says whether rows are for learning or for predicting.

        What had to be cut is counted, and the caller warns about it. `tokenizer` has the kind's
        `added_tokens`.
        """

    @abstractmethod
    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """What the head reads and learns from, of rows padded to `length`: each (B, ...).

        Predicting asks for them too, also where gold values are None.
        """

    @abstractmethod
    def make_head(
        self, task: "Task", encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """A fresh head, its weights drawn by `generator`."""

    @abstractmethod
    def lines(
        self,
        task: "Task",
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """One line an example, in order, from the outputs of all rows."""

    @abstractmethod
    def score(self, task: "Task", lines: Sequence[Line]) -> dict[str, float]:
        """Every metric of the task by name, the headline first, from lines alone.

        0..1 where official scripts print percent; what is undefined is nan, never 0. Of no lines
        at all every metric is nan (so its names are known where a training failed).
        """

    @abstractmethod
    def weighted_score(self, task: "Task", lines: Sequence[Line]) -> Weighted:
        """The headline of many samples of the lines at once, which `metrics.weighted` explains.

        Equal to `score` of the lines repeated.
        """

    def doubts(self, task: "Task", train: Sequence[Example], lines: Sequence[Line]) -> list[str]:
        """What looks wrong with labels or data although nothing failed, each in words."""
        return []

    def pairs(self, task: "Task", line: Line) -> list[Pair]:
        """Gold and predicted label of each unit of a line; none for a kind without labels."""
        return []

    def groups(self, task: "Task", line: Line) -> dict[str, str]:
        """What kind of example it is by its gold value: a group for each way of grouping."""
        return {}

    def failure(
        self, task: "Task", runs: Sequence[Line], example: Example | None
    ) -> Failure | None:
        """What went wrong with one example in most of the runs; None if nothing did.

        `runs` hold its line in each; `example` is None where the data are not at hand. Here: the
        units of the middle run that are wrong.
        """

        def wrong(line: Line) -> list[Pair]:
            return [pair for pair in self.pairs(task, line) if not pair.is_right]

        line = mostly_wrong(runs, lambda line: len(wrong(line)))
        if line is None:
            return None
        missed = [pair.gold for pair in wrong(line) if pair.gold]
        said = [pair.predicted for pair in wrong(line) if pair.predicted]
        count = f"{len(wrong(line))} wrong of {len(self.pairs(task, line))} {self.units}"
        return Failure(len(wrong(line)), listed(missed), listed(said), count)

    def shown(self, task: "Task", example: Example, line: Line) -> list[tuple[str, str]]:
        """The texts of an example for a reader, each with its name."""
        names = task.text_fields or ("text",) * len(example.texts)
        return list(zip(names, example.texts, strict=True))

    def constant(self, task: "Task", lines: Sequence[Line]) -> str | None:
        """What was predicted everywhere although gold values differ, in words; None if nothing."""
        predicted = {repr(line["prediction"]) for line in lines}
        if len(predicted) > 1 or len({repr(line["gold"]) for line in lines}) < 2:
            return None
        return predicted.pop()
