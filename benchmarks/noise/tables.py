"""Tables of tested figures as CSV, a record a line, and p-values corrected over a table."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from benchmarks.results.table import Table
from benchmarks.statistics.comparison import ALPHA, holm
from electrify.stage.folder import write_text


class Tested(BaseModel):
    """A line of a table, with a p that is corrected over it (Holm)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p_corrected: float = 1.0

    @property
    def is_found(self) -> bool:
        return self.p_corrected <= ALPHA


_Line = TypeVar("_Line", bound=Tested)


def corrected(lines: Sequence[tuple[_Line, float]]) -> list[_Line]:
    """The lines, given with their own p, as one family; a p that is not known counts as 1."""
    adjusted = holm([p for _, p in lines])
    return [
        line.model_copy(update={"p_corrected": p})
        for (line, _), p in zip(lines, adjusted, strict=True)
    ]


def write_csv(path: Path, lines: Sequence[Tested]) -> None:
    """One line a record, under the names of its fields, figures with six decimals."""
    if lines:
        rows = [
            [round(v, 6) if isinstance(v, float) else v for v in line.model_dump().values()]
            for line in lines
        ]
        write_text(path, Table(list(type(lines[0]).model_fields), rows).csv())


def read_csv(path: Path, kind: type[_Line]) -> list[_Line]:
    """The records of a file, none where there is none; `ValueError` for a damaged one."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [kind.model_validate(row) for row in csv.DictReader(file)]
