"""Files that wait between the passes over a group of files, in a folder that all workers share.

`cleaned-*` holds every row as the first pass left it, `changed-*` the rows that the second pass
changed or removed. Every file is written under a name of its own and then renamed, so a runner may
repeat a pass, or run it twice at once: the second copy has the same bytes.
"""

from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.documents import DOCUMENT_SCHEMA, ParquetParts, read_batches, read_rows

# rows kept and removed as they were read; `reason` is null where a row is kept so far
CLEANED_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
# `text` is null where it has not changed
CHANGED_SCHEMA = pa.schema(
    [
        CLEANED_SCHEMA.field("rank"),
        pa.field("text", pa.string()),
        CLEANED_SCHEMA.field("reason"),
        CLEANED_SCHEMA.field("detail"),
    ]
)
_ROW_GROUP_CHARACTERS = 1_000_000  # read once or twice and soon gone: small in memory


def read_tally_path(work: Path, group: int) -> Path:
    """The tally of a group's first pass; it is there once the pass is done."""
    return work / f"read-{group:05d}.json"


def compared_tally_path(work: Path, group: int) -> Path:
    """The tally of a group's second pass; it is there once the pass is done."""
    return work / f"compared-{group:05d}.json"


def written_tally_path(work: Path, group: int) -> Path:
    """The tally of a group's last pass; it is there once the pass is done."""
    return work / f"written-{group:05d}.json"


def error_path(work: Path, group: int) -> Path:
    """The fault that stopped a strict run."""
    return work / f"error-{group:05d}.txt"


def benchmark_index_path(work: Path) -> Path:
    """The index of benchmark texts, where there are any."""
    return work / "benchmark-index"


def cleaned_parts(work: Path, group: int) -> ParquetParts:
    """A writer of the first pass's rows."""
    return _parts(work, f"cleaned-{group:05d}", CLEANED_SCHEMA)


def changed_parts(work: Path, group: int) -> ParquetParts:
    """A writer of the rows that the second pass changes."""
    return _parts(work, f"changed-{group:05d}", CHANGED_SCHEMA)


def cleaned_rows(
    work: Path, group: int, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows as the first pass left them, in order."""
    return read_rows(_paths(work, "cleaned", group), columns)


def current_rows(work: Path, group: int) -> Iterator[dict[str, Any]]:
    """Rows as the second pass left them, in the same order."""
    changes = _Changes(work, group)
    for row in cleaned_rows(work, group):
        yield changes.apply(row)


def chosen_texts(
    work: Path, group: int, numbers: Container[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row with rank, text and reason as the second pass left it) of the rows asked for."""
    changes = _Changes(work, group)
    number = 0
    for path in _paths(work, "cleaned", group):
        for batch in read_batches(path, ["rank", "text", "reason"]):
            places = [i for i in range(len(batch)) if number + i in numbers]
            if places:
                for place, row in zip(places, batch.take(places).to_pylist(), strict=True):
                    yield number + place, changes.apply(row)
            number += len(batch)


class _Changes:
    """The changes of a group, read beside its rows; both are in the order of ranks."""

    def __init__(self, work: Path, group: int) -> None:
        self._changes = read_rows(_paths(work, "changed", group))
        self._next = next(self._changes, None)

    def apply(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its change, if it has one."""
        if row["reason"] is not None:  # removed in the first pass, so never changed
            return row
        while self._next is not None and self._next["rank"] < row["rank"]:
            self._next = next(self._changes, None)
        if self._next is not None and self._next["rank"] == row["rank"]:
            row |= {name: value for name, value in self._next.items() if value is not None}
        return row


def _parts(work: Path, prefix: str, schema: pa.Schema) -> ParquetParts:
    return ParquetParts(
        work, prefix, schema, compression="lz4", row_group_characters=_ROW_GROUP_CHARACTERS
    )


def _paths(work: Path, prefix: str, group: int) -> list[Path]:
    return sorted(work.glob(f"{prefix}-{group:05d}-*.parquet"))
