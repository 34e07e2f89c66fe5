"""What a benchmark task is: one record that the loader, the fine-tuning and the scores read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.tasks.kind import Kind

Pooling = Literal["cls", "mean"]
MetricFunction = Callable[..., float]  # of all gold values and all predictions


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """Where `datasets` has a task, and how its rows are named there."""

    path: str  # "nyu-mll/glue"
    name: str | None = None  # of the configuration: "cola"
    splits: Mapping[str, str]  # ours -> the hub's
    fields: Mapping[str, str] = field(default_factory=dict)  # ours -> the hub's, where they differ
    labels: Mapping[str, str] = field(default_factory=dict)  # the hub's -> ours, likewise
    # splits of other configurations: ours -> the configuration and its split; in a saved folder
    # they stand under our name
    elsewhere: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task as its authors define it.

    `files` maps each split to the names its official file goes by, the first found wins; a name may
    hold folders ("CoLA/train.tsv"). Of `labels` the position is the label id of the official code.
    Fields from `columns` on are read by the kinds of rows with one text or two (`rows`).
    """

    name: str  # "<suite>-<task>"
    suite: str
    version: str  # of the data set
    kind: Kind
    files: Mapping[str, tuple[str, ...]]  # "train", the reported split, further ones
    # names of files that together make a split, used where none of `files` is there
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # of each split as its authors publish it, malformed rows left out; a split that is not named
    # here has a number that we do not know
    num_rows: Mapping[str, int] = field(default_factory=dict)
    reported: str = "dev"  # the split of the headline
    also_reported: tuple[str, ...] = ()  # scored beside it where there, as "<split>_<metric>"
    unlabelled: tuple[str, ...] = ("test",)  # predicted where there, never scored
    homepage: str = ""  # where the files are to be had
    hub: HubSource | None = None
    headline: str  # name of the metric that stands for the task
    higher_is_better: bool = True  # of the headline
    labels: tuple[str, ...] = ()
    metrics: tuple[MetricFunction, ...] = ()  # a metric's name is the function's
    # every column of tables without a header (unlabelled splits always have one)
    columns: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of columns -> ours
    text_fields: tuple[str, ...] = ()  # one, or two for a pair; rows are split by the first
    label_field: str = "label"  # in json "labels.label" is a field of a field
    id_field: str | None = None  # None: "<split>-<row number>"
    # rows of a labelled split that the authors' code leaves out; they are counted
    skip_malformed: bool = False  # of another number of columns
    skip_empty: bool = False  # of a text without characters
    value_range: tuple[float, float] = (0.0, 1.0)  # of a number to predict; it is learnt as 0..1
    train_both_orders: bool = False  # a pair is learnt as (a, b) and as (b, a)
    pooling: Pooling = "cls"  # which state the head of rows reads: the first, or the mean
    # the task of which this is another reading: same files, same recipe, same rows on each side of
    # a split, so that the two scores are of the same rows
    variant_of: str | None = None

    @property
    def original(self) -> str:
        """Name of the task that this is a variant of, else its own."""
        return self.variant_of or self.name

    @property
    def label_names(self) -> Mapping[str, str]:
        """Labels as a reader knows them, where they differ: "0" of CoLA is "unacceptable"."""
        names = self.hub.labels.items() if self.hub else ()
        return {label: f"{label} ({name})" for name, label in names}

    @property
    def reported_splits(self) -> tuple[str, ...]:
        """Every split that is scored, the headline's first."""
        return (self.reported, *self.also_reported)

    @property
    def all_splits(self) -> tuple[str, ...]:
        """Every split that is learnt from, scored or predicted, the headline's first."""
        return (*self.reported_splits, "train", *self.unlabelled)
