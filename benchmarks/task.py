"""What a benchmark task is: one record that the loader, the fine-tuning and the scores read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.metrics.classification import MetricFunction


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task as its authors define it.

    `files` maps a split ("train", "dev") to the names its official file goes by, the first found
    wins; a name may hold folders ("CoLA/train.tsv"). `labels` stand in the order of the official
    code: an example's label id is the position there.
    """

    name: str  # "<suite>-<task>"
    suite: str
    version: str  # of the data set
    files: Mapping[str, tuple[str, ...]]
    # json: a list of objects; tsv: no quoting; characters: a character and its label a line
    file_format: Literal["json", "tsv", "characters"]
    columns: tuple[str, ...] = ()  # tsv: every column, by the name in the header
    has_header: bool = True  # tsv
    text_fields: tuple[str, ...]  # one, or two for a pair; rows are split by the first
    label_field: str = "label"
    id_field: str | None = None  # None: "<split>-<row number>"
    labels: tuple[str, ...]
    head: Literal["classification", "tagging"] = "classification"
    metrics: tuple[MetricFunction, ...]  # the headline first; a metric's name is the function's
    higher_is_better: bool = True  # of the headline
    num_epochs: float  # by the official recipe
    train_both_orders: bool = False  # a pair is learnt as (a, b) and as (b, a)

    @property
    def headline(self) -> str:
        """Name of the metric that stands for the task."""
        return self.metrics[0].__name__
