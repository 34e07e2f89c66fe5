"""Reports that a stage wrote, read again: whole and of the form that they have today."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

REPORT = "report.json"


class ReportPart(BaseModel):
    """A table of a report."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Part = TypeVar("Part", bound=ReportPart)


def read_report_file(folder: Path, form: type[Part], verb: str) -> Part:
    """`REPORT` of a finished stage folder; `ValueError` as of `naming_damage`."""
    path = folder / REPORT
    with naming_damage(path, verb):
        return form.model_validate_json(path.read_text(encoding="utf-8"))


@contextmanager
def naming_damage(path: Path, verb: str) -> Iterator[None]:
    """`ValueError` that names a file which cannot be read or is of another format, what is wrong,
    and the verb that writes it anew."""
    try:
        yield
    except (OSError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{first['loc']}: {first['msg']}" if first else str(error)
        raise ValueError(
            f"{path} is damaged ({what}); remove {path.parent}, run again: electrify {verb} CONFIG"
        ) from None
