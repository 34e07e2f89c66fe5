"""The files of `electrify leakage`: report.json, and touched-<task>.jsonl for each task."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from electrify.system.outcome import UserError

REPORT = "report.json"
LEAKAGE = "leakage"  # the stage's folder
MISSING = "missing.json"  # in a folder of items: the tasks without data


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TouchedLine(_Record):
    """A text of a benchmark example that a document holds."""

    split: str
    id: str  # as in the files of predictions
    text: str  # which of the example's texts: its name, else its number
    kind: Literal["sentence", "near", "ngram"]  # the whole text, with small edits, a part of it
    fraction: float  # of the letters of this text
    document: str
    source: str
    documents: int  # that hold this text; at most three of them have a line
    wanted: str  # the beginning of the text
    excerpt: str  # the place in the document


class SplitLeakage(_Record):
    split: str
    examples: int
    texts: int
    too_short: int  # texts that were not searched for
    touched: int  # examples with a text in a document


class TaskLeakage(_Record):
    task: str
    task_version: str
    data_sha256: dict[str, str]
    splits: list[SplitLeakage]


class LeakageReport(_Record):
    """What was searched for in how many documents, and how much was found."""

    format_version: Literal[2] = 2
    rules: dict[str, Any]
    documents: int
    tasks: list[TaskLeakage]
    missing: list[str]  # tasks in use without data


def touched_path(folder: Path, task: str) -> Path:
    """The file with the lines of a task; it does not exist if nothing was found."""
    return folder / f"touched-{task}.jsonl"


def read_report(folder: Path) -> LeakageReport:
    """The report of a finished stage; `UserError` if it is damaged or of another format."""
    path = folder / REPORT
    with _naming_damage(path):
        return LeakageReport.model_validate_json(path.read_text(encoding="utf-8"))


def read_touched(folder: Path, task: TaskLeakage) -> Iterator[TouchedLine]:
    """The lines of a task, in the order of its examples.

    `UserError` if the file is damaged or does not have the rows that the report counts.
    """
    path = touched_path(folder, task.task)
    ids: dict[str, set[str]] = {split.split: set() for split in task.splits}
    if path.exists():
        with _naming_damage(path), path.open(encoding="utf-8") as file:
            for text in file:
                line = TouchedLine.model_validate_json(text)
                ids.setdefault(line.split, set()).add(line.id)
                yield line
    for split in task.splits:
        if len(ids[split.split]) != split.touched:
            raise UserError(
                f"{path} names {len(ids[split.split])} rows of {split.split}, {REPORT} counts "
                f"{split.touched}; remove {folder}, run again: electrify leakage CONFIG"
            )


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{first['loc']}: {first['msg']}" if first else str(error)
        raise UserError(
            f"{path} is damaged ({what}); remove {path.parent}, run again: electrify leakage CONFIG"
        ) from None
