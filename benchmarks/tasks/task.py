"""What a benchmark task is: one record that says how to read, learn, predict and score it.

The harness knows a task only through this class; `kinds` has one class for each sort of task. Data
go through five forms: rows (what a file or the hub says), examples (checked), features (rows of
token ids; a long context has several), outputs (what the head says of a row) and predictions (one
prediction an example, plain JSON: all that scores are made of).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.files import official_rows, own_rows
from benchmarks.tasks.rows import Row, class_name, nested, text_field
from electrify.config.evaluate import Pooling
from electrify.system.outcome import UserError
from electrify.system.progress import warn

HEAD_DROPOUT = 0.1
MetricFunction = Callable[..., float]  # of what the kind's `sides` returns
# "id", "gold", "prediction" and what the kind adds; undefined values are None
Prediction = dict[str, Any]
Predictions = Sequence[Prediction]
Outputs = Mapping[str, NDArray[Any]]  # of one row; padded to the longest row of its batch
Positions = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]  # by name, each (rows, ...)
Details = Mapping[str, Any]  # of one row, `Features.details` by name
Sampler = Callable[[Positions], float]  # from positions of predictions (n,) to a score

OWN = "own"  # the suite of the user's own tasks


def titled(name: str, note: str) -> str:
    """A task's name with its note: `sample-headlines (made up)`."""
    return f"{name} ({note})" if note else name


@dataclass(frozen=True)
class Example:
    """One item of a task. The first text decides on which side of a split it is
    (`data.split_by_group`)."""

    id: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class GoldExample(Example):
    """With its gold value, which the kind's `gold` explains; None where it is not known."""

    gold: Any = None


@dataclass(frozen=True)
class Features:
    """Tokenised examples: rows of pieces, and by row what the kind learns from."""

    input_ids: list[NDArray[np.int32]]  # each (T,), T <= the maximum length
    token_type_ids: list[NDArray[np.int32]]  # as input_ids; 1 in the second text of a pair
    example_of: Positions  # (rows,) position of the example that a row is of
    # by row, in the shapes that the kind's `label_arrays` reads
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    num_truncated: int = 0  # examples of which text was cut off
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by row, for predictions

    @classmethod
    def from_rows(
        cls, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None, **more: Any
    ) -> Self:
        """Features of one row an example; without token types they are all 0."""
        rows = [np.array(row, dtype=np.int32) for row in ids]
        token_types = [np.array(row, dtype=np.int32) for row in types or map(np.zeros_like, rows)]
        return cls(rows, token_types, np.arange(len(rows)), **more)

    @property
    def lengths(self) -> Positions:
        return np.array([len(ids) for ids in self.input_ids], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """Where `datasets` has a task, and how its rows are named; `hub.toml` has the commits."""

    path: str  # "nyu-mll/glue"
    name: str | None = None  # of the configuration: "cola"
    version: str | None = None  # of the rows, where it is not the task's
    has_ids: bool = True  # False: the ids of the files are lost, so examples go by their position
    splits: Mapping[str, str]  # ours -> the hub's
    fields: Mapping[str, str] = field(default_factory=dict)  # ours -> the hub's, where they differ
    labels: Mapping[str, str] = field(default_factory=dict)  # the hub's -> ours, likewise
    # splits of other configurations or data sets: ours -> path, configuration ("" for none) and
    # split; in a saved folder they stand under our name
    elsewhere: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One task as its authors define it.

    `files` maps each split to the names of its official file, the first that is there wins; a name
    may hold folders ("CoLA/train.tsv"), and of the user's own tasks it is the whole path. Of
    `labels` the position is the label id of the official code.
    """

    # special tokens that the tokenizer gets in addition, their embeddings trained from random ones
    added_tokens: ClassVar[tuple[str, ...]] = ()
    row_name: ClassVar[str] = "row"  # what a row of a file is called where it is wrong
    # whether `transformers` has a class of networks for it: labels, numbers, tags, answers
    has_auto_head: ClassVar[bool] = False

    name: str  # "<suite>-<task>"
    suite: str
    version: str  # of the data set
    files: Mapping[str, tuple[str, ...]]  # "train", the reported split, further ones
    # names of files that together make a split, used where none of `files` is there
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # by split other names of files of evaluation rows, of which a corpus is kept free too
    other_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # of each split as its authors publish it, malformed rows left out; where it is known
    num_rows: Mapping[str, int] = field(default_factory=dict)
    reported: str = "dev"  # the split of the headline
    also_reported: tuple[str, ...] = ()  # scored beside it where there, as "<split>_<metric>"
    unlabelled: tuple[str, ...] = ("test",)  # predicted where there, never scored
    homepage: str = ""  # where the files are to be had
    language: str = ""  # of the texts, ISO 639; empty where it is not one, or not known
    hub: HubSource | None = None
    labels: tuple[str, ...] = ()
    metrics: tuple[MetricFunction, ...] = ()  # a metric's name is the function's; headline first
    # every column of tables without a header (unlabelled splits always have one)
    columns: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of columns -> ours
    # one, two for a pair, or more; rows are split by the first
    text_fields: tuple[str, ...] = ()
    label_field: str = "label"  # "labels.label" is a field of a field
    id_field: str = "guid"  # rows without it are named "<split>-<row number>"
    # rows of a labelled split that the authors' code leaves out; they are counted
    skip_malformed: bool = False  # of another number of columns
    skip_empty: bool = False  # of a text without characters
    value_range: tuple[float, float] = (0.0, 1.0)  # of a number to predict; it is learnt as 0..1
    train_both_orders: bool = False  # a pair is learnt as (a, b) and as (b, a)
    # of the groups of rows, where one file is there for learning and reporting
    train_fraction: float = 0.7
    pooling: Pooling = "cls"  # what the head of rows reads
    note: str = ""  # of the user's own task: what a reader has to know of its rows

    @property
    def title(self) -> str:
        return titled(self.name, self.note)

    @property
    def headline(self) -> str:
        return self.metrics[0].__name__

    @property
    def has_parts(self) -> bool:
        """Whether a row has two parts that a head can tell apart: the texts of a pair."""
        return len(self.text_fields) > 1

    def with_auto_head(self) -> Self:
        """The task as a network of `transformers` learns it."""
        return replace(self, pooling="transformers")

    @property
    def label_names(self) -> Mapping[str, str]:
        """Labels as a reader knows them, where they differ: "0" of CoLA is "unacceptable"."""
        names = self.hub.labels.items() if self.hub else ()
        return {label: f"{label} ({name})" for name, label in names}

    @property
    def reported_splits(self) -> tuple[str, ...]:
        return (self.reported, *self.also_reported)

    @property
    def all_splits(self) -> tuple[str, ...]:
        """Every split that is learnt from, scored or predicted, the headline's first."""
        return (*self.reported_splits, "train", *self.unlabelled)

    # from rows to examples

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """(number, row) of an official file in its order; fields named as the hub's rows.
        `ValueError` names the location of what is of another form."""
        if self.suite == OWN:
            yield from own_rows(path)[0]
            return
        is_labelled = split not in self.unlabelled
        needed = (*self.text_fields, *([self.label_field] if is_labelled else []))
        columns = self.columns if is_labelled else ()
        skips = self.skip_malformed and is_labelled
        yield from official_rows(path, columns, self.aliases, needed, skips)

    def texts(self, row: Row, location: str) -> tuple[str, ...]:
        """What a row says in words, its gold value aside; `ValueError` names `location`."""
        return tuple(text_field(row, name, location) for name in self.text_fields)

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterable[Example]:
        """The examples of a row, one but for dialogues; `ValueError` names `location`."""
        texts = self.texts(row, location)
        yield GoldExample(identity, texts, self.gold(row, texts, location) if is_labelled else None)

    def gold(self, row: Row, texts: tuple[str, ...], location: str) -> Any:
        raise NotImplementedError

    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        """The names of the labels that a row's gold value is made of."""
        return [class_name(nested(row, self.label_field))]

    def read(self, split: str, path: Path) -> Iterator[Example]:
        """The examples of one official file; `ValueError` names file and row."""
        return self.from_rows(split, self.rows(split, path), str(path), self.row_name)

    def from_rows(
        self, split: str, rows: Iterable[tuple[int, Row]], where: str, row_name: str = "row"
    ) -> Iterator[Example]:
        """The examples of rows of a file or of the hub; in `unlabelled` splits without gold values.
        Raises `ValueError` for a row that does not fit and for two of one id."""
        is_labelled = split not in self.unlabelled
        seen: dict[str, int] = {}
        num_empty = 0
        for number, row in rows:
            location = f"{where} {row_name} {number}"
            if self.skip_empty and is_labelled:
                is_null = any(
                    nested(row, name) is None and ("." in name or name in row)
                    for name in self.text_fields
                )
                if is_null or not all(self.texts(row, location)):
                    num_empty += 1
                    continue
            identity = f"{split}-{number}"
            if self.id_field and self.id_field in row:
                identity = text_field(row, self.id_field, location)
            if identity in seen:
                raise UserError(
                    f"{location}: {self.id_field} {identity!r} is that of {row_name} "
                    f"{seen[identity]}"
                )
            seen[identity] = number
            yield from self.examples(row, identity, location, is_labelled)
        if num_empty:
            warn(f"{where}: {num_empty} rows with an empty text are left out")

    def count_rows(self, examples: Sequence[Any]) -> int:
        """Rows of the official files that the examples are made of."""
        return len(examples)

    # from examples to predictions

    @abstractmethod
    def featurize(
        self, examples: Sequence[Any], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """Token ids and labels; `train` says whether rows are for learning or for predicting. What
        had to be cut is counted. `tokenizer` has the kind's `added_tokens`."""

    @abstractmethod
    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """What the head reads and learns from, of rows padded to `length`: each (B, ...).
        Predicting asks for them too, also where gold values are None."""

    def predictions(
        self, examples: Sequence[Any], features: Features, outputs: Sequence[Outputs]
    ) -> list[Prediction]:
        """One prediction an example, in order, from the outputs of all rows."""
        rows = zip(examples, outputs, strict=True)
        details = [
            {name: values[row] for name, values in features.details.items()}
            for row in range(len(examples))
        ]
        return [
            {"id": e.id, **self.prediction(e, output, details[n])}
            for n, (e, output) in enumerate(rows)
        ]

    def prediction(self, example: Any, output: Outputs, details: Details) -> Prediction:
        """The prediction of an example from the output and the details of its row; its id aside."""
        raise NotImplementedError

    # from predictions to scores

    def sides(self, predictions: Predictions) -> tuple[Any, ...]:
        """What the metrics are functions of: all gold values and all predictions."""
        return [p["gold"] for p in predictions], [p["prediction"] for p in predictions]

    def score(self, predictions: Predictions) -> dict[str, float]:
        """Every metric of the task by name, the headline first, from predictions alone.

        0..1 where official scripts print percent; what is undefined is nan, never 0. Without any
        prediction every metric is nan.
        """
        sides = self.sides(predictions)
        return {m.__name__: m(*sides) if predictions else float("nan") for m in self.metrics}

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        """A function from positions of predictions (n,), repeats allowed, to the headline of these;
        nan where it is undefined."""
        sides = [np.asarray(side) for side in self.sides(predictions)]
        return lambda positions: self.metrics[0](*(side[positions] for side in sides))

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        """(gold, predicted) label of each item of an example; "" where a side has none. Empty for
        a task without labels."""
        return []

    def error(self, prediction: Prediction) -> float:
        """How wrong a prediction is: 0 if it is right, the higher the worse."""
        return float(prediction["gold"] != prediction["prediction"])

    def ids_of(self, labels: Iterable[str]) -> Positions:
        """Labels as their positions in the task's."""
        ids = {label: number for number, label in enumerate(self.labels)}
        return np.array([ids[label] for label in labels], dtype=np.int64)

    # what looks wrong

    def doubts(self, train: Sequence[Any], predictions: Predictions) -> list[str]:
        """What looks wrong with labels or data although nothing failed, each in words."""
        if (gold := self.constant(predictions, "gold")) is None:
            return []
        return [
            f"the gold value of all {len(predictions):,} reported {self.row_name}s is {gold}: a "
            "constant answer scores as well, so this score says nothing"
        ]

    def constant(self, predictions: Predictions, side: str = "prediction") -> str | None:
        """The one gold or predicted value of all, in words; None if they differ."""
        values = {str(p[side]) for p in predictions}
        return values.pop() or "''" if len(values) == 1 else None
