"""What `electrify leakage` finds, as it stands in its report.json and touched-<task>.jsonl."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from electrify.system.outcome import UserError

REPORT = "report.json"
LEAKAGE = "leakage"  # the stage's folder
MISSING = "missing.json"  # in a folder of items: the tasks of which there are no data
# "touched": decontamination would remove it from the corpus; "possible": as likely chance
Strength = Literal["touched", "possible"]
# the whole text as sentences of its own or within one, with small edits, or a long part of it
Kind = Literal["whole", "contained", "near", "ngram"]


class ReportPart(BaseModel):
    """A table of a report."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TouchedLine(ReportPart):
    """A text of a benchmark's example in a document. Shares are of letters."""

    task: str
    split: str
    id: str  # as in the files of predictions
    strength: Strength
    text: str  # which of the example's texts: its name, else its number
    kind: Kind
    share: float  # of this text
    example_share: float  # of all texts of the example, in all documents
    document: str
    source: str
    documents: int  # that hold this text; few of them have a line
    sources: dict[str, int]  # these, by source
    wanted: str  # the text, its beginning
    excerpt: str  # the place in the document


class SplitLeakage(ReportPart):
    """One split of a task; counts are of examples where they are not of texts."""

    split: str
    examples: int
    texts: int
    too_short: int  # texts that were not looked for
    touched: int
    touched_by_half: int  # of which at least half of the letters stand in documents
    possible: int  # not touched, but possibly
    expected_touched: float  # by chance
    expected_found: float  # touched or possible, by chance
    kinds: dict[Kind, int]  # of the touched ones
    found_texts: dict[str, int]  # likewise, by the text that was found
    sources: dict[str, int]  # likewise, by source; one may stand in several


class HoldingDocument(ReportPart):
    """A document with how many examples of a task it holds."""

    document: str
    source: str
    examples: int


class TaskLeakage(ReportPart):
    """One task."""

    task: str
    task_version: str
    data_sha256: dict[str, str]
    text_names: list[str]
    splits: list[SplitLeakage]
    documents: list[HoldingDocument]


class Chance(ReportPart):
    """Sentences of the corpus itself by script and letters, and how many stand elsewhere too.

    `other_*`: in a document of another source; None where there is one source.
    """

    script: Literal["wide", "narrow"]
    min_letters: int
    sentences: int
    touched: int
    found: int  # touched or possible
    other_touched: int | None
    other_found: int | None


class LeakageReport(ReportPart):
    """What was looked for in which documents, and what was found."""

    format_version: Literal[1] = 1
    rules: dict[str, Any]
    documents: int
    sources: int
    tasks: list[TaskLeakage]
    missing: list[str]  # tasks in use without data
    chance: list[Chance]


def touched_path(folder: Path, task: str) -> Path:
    """Where the lines of a task stand; there is no file if nothing was found."""
    return folder / f"touched-{task}.jsonl"


def read_report(folder: Path) -> LeakageReport:
    """Of a finished stage folder; `ValueError` if the file is damaged or of another format."""
    path = folder / REPORT
    with _naming_damage(path):
        return LeakageReport.model_validate_json(path.read_text(encoding="utf-8"))


def read_touched(folder: Path, task: str) -> Iterator[TouchedLine]:
    """The lines of a task, in the order of its examples; `ValueError` as for `read_report`."""
    path = touched_path(folder, task)
    if not path.exists():
        return
    with _naming_damage(path), path.open(encoding="utf-8") as file:
        for line in file:
            yield TouchedLine.model_validate_json(line)


def check_touched(folder: Path, task: TaskLeakage, lines: Sequence[TouchedLine]) -> None:
    """`ValueError` if a file of lines has not the rows that the report counts."""
    for split in task.splits:
        num_found = len({line.id for line in lines if line.split == split.split})
        if num_found != split.touched + split.possible:
            raise UserError(
                f"{touched_path(folder, task.task)} names {num_found} rows of {split.split} as "
                f"found, {REPORT} counts {split.touched + split.possible}; remove {folder}, run "
                "again: electrify leakage CONFIG"
            )


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """`ValueError` names a file that cannot be read or is of another format, and what is wrong."""
    try:
        yield
    except (OSError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{first['loc']}: {first['msg']}" if first else str(error)
        raise UserError(
            f"{path} is damaged ({what}); remove {path.parent}, run again: electrify leakage CONFIG"
        ) from None
