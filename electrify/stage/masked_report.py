"""The figures of `electrify predict-masked`, as its report.json holds them."""

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from electrify.stage.report_file import ReportPart, naming_damage, read_report_file

SEQUENCES = "sequences.jsonl"
Figure = Literal["accuracy", "top5_accuracy", "log_likelihood"]
FIGURES: tuple[Figure, ...] = ("accuracy", "top5_accuracy", "log_likelihood")
Predictor = Literal["generator", "discriminator", "inversion", "main"]
Context = Literal["as in training", "one at a time"]


class Estimate(ReportPart):
    """A mean over hidden tokens; the 95 % interval is None with fewer than two sequences, or where
    all are alike."""

    value: float
    low: float | None
    high: float | None


class Gain(Estimate):
    """A difference on the same hidden tokens: positive is better."""

    outcome: str


class Group(ReportPart):
    """The figures of some of the sequences."""

    num_sequences: int
    num_positions: int
    coverage: Estimate | None  # how often the hidden token is a candidate; None without candidates
    predictors: dict[Predictor, dict[Figure, Estimate]]
    gains: dict[Predictor, dict[Figure, Gain]]  # over the generator


class ContextFigures(ReportPart):
    """All of the text, and each language where there are several."""

    all: Group
    languages: dict[str, Group]


class Guess(ReportPart):
    """A token and its probability."""

    token: str
    probability: float


class Example(ReportPart):
    """One hidden token with its neighbours, and the likeliest tokens by each predictor."""

    language: str
    before: str
    hidden: str
    after: str
    guesses: dict[Predictor, list[Guess]]


class MaskedReport(ReportPart):
    """What one checkpoint makes of hidden tokens."""

    format_version: Literal[1] = 1
    objective: str
    step: int
    seed: int
    split: str
    sequence_length: int
    mask_fraction: float
    num_candidates: int | None
    main: Predictor  # what the run's main network comes to
    positions_sha256: str  # of the texts and the hidden positions: equal ones may be compared
    contexts: dict[Context, ContextFigures]
    examples: list[Example] = Field(default_factory=list)


class SequenceSums(ReportPart):
    """Sums over the hidden tokens of one sequence."""

    language: str
    num_positions: int
    sums: dict[Context, dict[Predictor, dict[Figure, float]]]
    found: dict[Context, float] | None = None  # hidden tokens that are candidates


def read_report(folder: Path) -> MaskedReport:
    """Of a finished stage folder; `ValueError` if the file is damaged or of another format."""
    return read_report_file(folder, MaskedReport, "predict-masked")


def read_sequences(folder: Path) -> list[SequenceSums]:
    """The sums of each sequence, in order; `ValueError` as for `read_report`."""
    path = folder / SEQUENCES
    with naming_damage(path, "predict-masked"):
        lines = path.read_bytes().splitlines()  # text would also be cut at U+2028
        return [SequenceSums.model_validate_json(line) for line in lines]


def sequence_line(sequence: SequenceSums) -> str:
    """One line of `SEQUENCES`."""
    return json.dumps(sequence.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)
