"""Scores as records: one JSON line each, appended, read back, summed up over seeds."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from benchmarks.tasks.own import OWN_KINDS, task_of_record
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Task, titled
from electrify.config.evaluate import Role
from electrify.system.outcome import UserError
from electrify.system.progress import warn

RESULTS = "results.jsonl"  # in a folder of results
MODELS = "models"  # folder of fine-tuned networks that are kept
# what scores stand beside, in every table, by role
BASELINES = {"random-init": "random initialisation", "bag-of-words": "TF-IDF"}

# nan is written as null (JSON has no nan) and never as 0
Score = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]


class Result(BaseModel):
    """One fine-tuned model's score, with everything that makes two scores comparable."""

    model_config = ConfigDict(extra="ignore", frozen=True)  # a folder may be of another version

    key: str = ""  # digest of task, version, data, hyper-parameters and part; "-" and the seed
    predictions: str = ""  # its file below predictions/, without suffix; never empty once read
    suite: str
    task: str
    task_version: str
    own_task: dict[str, Any] | None = None  # what a task of the user's own is (`task_of_record`)
    role: Role
    model_path: str  # of the encoder; of a baseline, of the encoder that it stands beside
    model_name: str = ""  # what tables call that encoder, where the user says so
    seed: int
    metric: str  # the headline; `value` is its value
    value: Score
    metrics: dict[str, Score]
    split: str  # of the reported rows
    num_examples: int
    num_train_examples: int
    # of each split of another size than the official one: its rows, and how many there are
    # officially; `split` ends in "-part" if the reported one has fewer
    parts: dict[str, tuple[int, int]] = {}
    truncated_fraction: float  # of the reported rows, longer than max_sequence_length
    selection: str = "last"  # the step that is scored; earlier versions could choose one
    degenerate: str | None  # why the training failed, if it did
    hyper_parameters: dict[str, Any]
    recommended: dict[str, Any] = {}  # those of them that the encoder's finetuning.json gave
    versions: dict[str, str]
    data_sha256: dict[str, str]
    data_commits: dict[str, str] = {}  # by data set of the hub the commit that rows are of
    git_commit: str | None
    seconds: float
    search: dict[str, Any] = {}  # which trial of how many gave the options, and its score
    notes: list[str] = []  # what looks wrong although nothing failed
    train_fraction: float = 1.0  # of the examples to learn from (after `max_train_examples`)
    train_seconds: float | None = None  # of the steps alone; `seconds` is of the whole job
    device: str | None = None

    @property
    def examples(self) -> str:
        """How many are reported, in words: "1,000 of 40,430" of a part of a split."""
        for split, (here, officially) in self.parts.items():
            if self.split.startswith(f"{split}-") and here == self.num_examples:
                return f"{here:,} of {officially:,}"
        return f"{self.num_examples:,}"

    @property
    def title(self) -> str:
        return titled(self.task, str((self.own_task or {}).get("note", "")))

    @model_validator(mode="after")
    def _name_predictions(self) -> Self:
        if not self.predictions:
            name = predictions_name(self.task, self.role, self.seed, self.train_fraction)
            object.__setattr__(self, "predictions", name)
        return self

    @property
    def scored(self) -> tuple[str, str, float]:
        """Task, role and fraction of the training split: what seeds are averaged over."""
        return self.task, self.role, self.train_fraction

    @property
    def settings_digest(self) -> str:
        """The key without the seed; empty where the record is of an earlier version."""
        return self.key.rpartition("-")[0]

    @property
    def encoder(self) -> str:
        return encoder_label(self.role, self.model_path, self.model_name)


def predictions_name(task: str, role: str, seed: int, train_fraction: float) -> str:
    part = "" if train_fraction == 1.0 else f"train-{train_fraction:g}/"
    return f"{task}/{part}{role}-{seed}"


def encoder_label(role: str, path: str, name: str = "") -> str:
    """The name of what is scored: of an encoder the one that it was given, that on the hub or that
    of its folder, else that of the baseline."""
    if role in BASELINES:
        return BASELINES[role]
    if name:
        return name
    if path.count("/") < 2:
        return path
    parts = Path(path).parts[-2:]  # called after its network or stage
    return "/".join(parts) if parts[-1] in ("discriminator", "generator") else parts[-1]


def task_of(result: Result) -> Task | None:
    """The task that a record is of; None if it is not known here, such as of an earlier version."""
    if result.own_task is None:
        return TASKS.get(result.task)
    return task_of_record(result.own_task) if result.own_task.get("kind") in OWN_KINDS else None


def differing(result: Result, other: Result) -> str:
    """What keeps two records from being of the same task and examples, in words; else empty.

    Official rows that are equal are comparable whatever the version of the data set that they were
    taken from; a task of the user's own has other settings where its version is another.
    """
    same_rows = result.data_sha256 == other.data_sha256 and not result.own_task
    for name in ("task_version", "metric", "split", "num_examples", "data_sha256"):
        is_other = getattr(result, name) != getattr(other, name)
        if is_other and not (same_rows and name == "task_version"):
            return name.replace("_", " ")
    return ""


def append_result(path: Path, result: Result) -> None:
    """Add one line and flush it to disk, after dropping what a kill left of a line before."""
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(result.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_results(path: Path) -> list[Result]:
    """Every whole record; a last line without its end is left out with a warning.

    No file reads as no records. Raises `UserError` for any other line that is no record.
    """
    content = path.read_bytes() if path.exists() else b""
    *lines, torn = content.split(b"\n")
    if torn:
        warn(f"{path}: line {len(lines) + 1} was cut off by a kill; `evaluate` does that job again")
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(Result.model_validate_json(line))
        except ValidationError as error:
            raise UserError(
                f"{path} line {number} is no result record ({error.errors()[0]['msg']}); "
                "give the line as `evaluate` wrote it, or remove it to have its job done again"
            ) from None
    return results


def current_results(folder: Path) -> list[Result]:
    """The records that count: of each task, role and fraction of the training split those with the
    settings of the last record, each seed once; none of other data than the task's last record.

    Of a baseline only records count that stand beside the encoder's: made with its settings
    (`_stands_beside`). Where the encoder has no records, all do.

    Task by task as they first appear, the largest fraction first, then by role and seed.
    """
    results = read_results(folder / RESULTS)
    tasks, roles = list(dict.fromkeys(r.task for r in results)), ["pretrained", *BASELINES]
    data = {r.task: (r.task_version, r.data_sha256) for r in results}
    results = [r for r in results if (r.task_version, r.data_sha256) == data[r.task]]
    encoders: dict[tuple[str, float], list[Result]] = {}
    for encoder in _latest(r for r in results if r.role == "pretrained"):
        encoders.setdefault((encoder.task, encoder.train_fraction), []).append(encoder)
    beside = (
        r
        for r in results
        if (own := encoders.get((r.task, r.train_fraction))) is None or _stands_beside(r, own)
    )
    return sorted(
        _latest(beside),
        key=lambda r: (tasks.index(r.task), -r.train_fraction, roles.index(r.role), r.seed),
    )


def _latest(results: Iterable[Result]) -> list[Result]:
    """Of each task, role and fraction the records with the settings of the last one, each seed
    once."""
    records = list(results)
    latest = {r.scored: r.settings_digest for r in records}
    seeds = {(r.scored, r.seed): r for r in records if r.settings_digest == latest[r.scored]}
    return list(seeds.values())


def _stands_beside(result: Result, encoders: Sequence[Result]) -> bool:
    """Whether the difference from these records of the encoder is one of the weights alone.

    A random initialisation was trained as the encoder; free are what changes no setting (precision,
    rows at once, steps by the number of rows) and what the same search chose for each. A bag of
    words learnt from as many examples, chosen in the same way.
    """
    if result.role == "random-init":
        return any(_settings_beside(result, e) == _settings_beside(e, result) for e in encoders)
    if result.role == "bag-of-words":
        return result.num_train_examples in {e.num_train_examples for e in encoders}
    return True


def _settings_beside(result: Result, other: Result) -> dict[str, Any]:
    """The settings that decide whether two records were trained alike, with the number of trials
    that a search of each chose from."""
    chosen = result.search.get("chosen", {}).keys() & other.search.get("chosen", {}).keys()
    free = {"precision", "micro_batch_size", "num_steps", "warmup_steps", *chosen}
    settings = {name: value for name, value in result.hyper_parameters.items() if name not in free}
    return settings | {"num_trials": result.search.get("num_trials")}


def largest_part(results: Iterable[Result]) -> list[Result]:
    """The headline's records: of each task those that learnt from most of the training split."""
    records = list(results)
    largest = {
        task: max(result.train_fraction for result in records if result.task == task)
        for task in {result.task for result in records}
    }
    return [result for result in records if result.train_fraction == largest[result.task]]


def percent(value: float | None, digits: int = 2) -> str:
    """A score as people quote it: 0.85694 is '85.69'; None is a dash."""
    return "–" if value is None else f"{100 * value:.{digits}f}"
