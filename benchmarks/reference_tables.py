"""Published scores and costs, to stand beside ours: `benchmarks/references/*.json`.

Each figure has its model, split, protocol and source as far as they are stated; what is not stated
says so. Figures are percent, as printed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.registry import TASKS

FOLDER = Path(__file__).parent / "references"
GLUE_AVERAGE = "glue-average"  # of the eight tasks of the ELECTRA paper
# what is published and is no task of ours
_NO_TASKS = (GLUE_AVERAGE, "conll2000-chunking", "masked-prediction", "xnli-average")
_Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Source(_Strict):
    """Where a figure is printed."""

    name: _Text
    url: Annotated[str, Field(pattern=r"^https://")]


class Column(_Strict):
    """What a column of scores is of; `split` is "not stated" where it is not."""

    task: _Text
    metric: _Text
    split: Literal["dev", "test", "not stated"]

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.task in _NO_TASKS:
            return self
        if self.task not in TASKS:
            raise ValueError(f"unknown task {self.task!r}")
        task = TASKS[self.task]
        names = task.kind.score(task, [])
        known = {*names, *(f"{split}_{n}" for split in task.also_reported for n in names)}
        if self.metric not in known:
            raise ValueError(f"{self.task} has no metric {self.metric!r}")
        return self


class Row(_Strict):
    """One model's scores, in the order of the columns."""

    model: _Text
    values: tuple[float | None, ...]
    source: Source
    protocol: _Text
    caution: _Text | None = None


class Table(_Strict):
    """Scores of several models by task; `is_spread`: not scores but how far they scatter."""

    caption: _Text
    is_spread: bool = False
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(
                    f"{row.model} has {len(row.values)} values for {len(self.columns)} columns"
                )
        return self


class PublishedCost(_Strict):
    """What a pretraining took, and what came of it."""

    model: _Text
    train_flops: Annotated[float, Field(gt=0)] | None = None
    inference_flops: Annotated[float, Field(gt=0)] | None = None  # of one sequence
    parameters: Annotated[int, Field(gt=0)] | None = None
    time: _Text | None = None  # with its hardware, in words
    glue_dev: float | None = None  # mean of the eight tasks, percent
    series: _Text | None = None  # rows of one are joined by a line
    convention: Literal["paper"]  # how the FLOPs are counted (model/flops.py)
    source: Source
    caution: _Text | None = None


class _File(_Strict):
    title: _Text
    about: _Text
    tables: tuple[Table, ...]
    costs: tuple[PublishedCost, ...] = ()


@dataclass(frozen=True)
class PublishedScore:
    """One figure, 0..1."""

    model: str
    column: Column
    value: float
    source: Source
    protocol: str
    caution: str | None


@cache
def published(folder: Path = FOLDER) -> dict[str, _File]:
    """Every file by name; `ValueError` names the file and what is wrong in it."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = _File.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{path}: {where}: {first['msg']}") from None
    return found


def published_scores(task: str, folder: Path = FOLDER) -> list[PublishedScore]:
    """Every published score of a task, in the order of the files."""
    return [score for score in _scores(folder) if score.column.task == task]


def published_costs(folder: Path = FOLDER) -> list[PublishedCost]:
    """Every published cost."""
    return [cost for file in published(folder).values() for cost in file.costs]


def _scores(folder: Path) -> Iterator[PublishedScore]:
    for file in published(folder).values():
        for table in file.tables:
            for row in () if table.is_spread else table.rows:
                for column, value in zip(table.columns, row.values, strict=True):
                    if value is not None:
                        yield PublishedScore(
                            row.model, column, value / 100, row.source, row.protocol, row.caution
                        )
