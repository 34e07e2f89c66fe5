"""Every suite and task by name: records of `suites/*.toml`, and the user's own.

`electrify/config/tables.toml` names the tasks and which of them make a suite.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchmarks.metrics import METRICS
from benchmarks.tasks.dialogue import DialogueStateTracking
from benchmarks.tasks.labels import Classification, Regression, RelationExtraction
from benchmarks.tasks.own import own_task
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.tags import FramedTagging, OwnWordTagging, WordTagging
from benchmarks.tasks.task import Task
from benchmarks.tasks.trees import DependencyParsing
from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import SUITE_TASKS, check_suite, check_task
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

KINDS: Mapping[str, type[Task]] = {
    "classification": Classification,
    "dialogue": DialogueStateTracking,
    "parsing": DependencyParsing,
    "regression": Regression,
    "relations": RelationExtraction,
    "spans": Spans,
    "tagging-characters": FramedTagging,
    "tagging-tokens": OwnWordTagging,
    "tagging-words": WordTagging,
}
_RECORDS = {name: TypeAdapter(kind) for name, kind in KINDS.items()}


def read_suite(path: Path) -> dict[str, Task]:
    """The tasks of a file: fields of `Task` and of its kind, metrics by the name of the function.
    What a task does not say is as in `[shared]`, or as in the task that it is `like`."""
    table = read_toml(path)
    records: dict[str, dict[str, Any]] = {}
    for name, record in table["tasks"].items():
        base = records[record.pop("like")] if "like" in record else table["shared"]
        hub = {**base.get("hub", {}), **record.get("hub", {})}
        records[name] = {**base, **record, "hub": hub}
    return {name: _task(name, **record) for name, record in records.items()}


def _task(name: str, kind: str, hub: Mapping[str, Any], **fields: Any) -> Task:
    metrics = [METRICS[metric] for metric in fields.pop("metrics", ())]
    record = {**fields, "name": name, "hub": hub or None, "metrics": metrics}
    for key in record.keys() - {field.name for field in dataclasses.fields(KINDS[kind])}:
        raise UserError(f"task {name}: no field {key!r} in {KINDS[kind].__name__}")
    task = _RECORDS[kind].validate_python(record)
    if both := {*task.reported_splits} & {*task.unlabelled}:
        raise UserError(
            f"task {name}: {', '.join(both)} is reported, and unlabelled; if it has labels, "
            "write unlabelled = []"
        )
    return task


TASKS: Mapping[str, Task] = {
    name: task
    for suite in ("glue", "squad", "klue", "korean", "kobest", "languages")
    for name, task in read_suite(Path(__file__).with_name("suites") / f"{suite}.toml").items()
}
SUITES: dict[str, tuple[Task, ...]] = {
    suite: tuple(TASKS[name] for name in names) for suite, names in SUITE_TASKS.items()
}


def resolve_tasks(suites: Sequence[str], tasks: Sequence[str]) -> list[Task]:
    """The tasks of the named suites, then the single ones, each once. Raises `ValueError` for an
    unknown name (with the nearest) and where nothing is named."""
    if not suites and not tasks:
        raise UserError(
            f"no tasks to evaluate: give `evaluate.suites` ({', '.join(SUITES)}) or "
            "`evaluate.tasks` (`electrify ls` lists them), or a file of your own by "
            "`evaluate.own_tasks`"
        )
    names = [name for suite in suites for name in SUITE_TASKS[check_suite(suite)]]
    return [TASKS[name] for name in dict.fromkeys([*names, *map(check_task, tasks)])]


def official_tasks(options: EvaluateConfig) -> list[Task]:
    """The tasks that a config names; none where there are only the user's own."""
    names, suites = options.tasks, options.task_suites
    is_other_alone = (options.own_tasks or options.noise_suites) and not suites and not names
    return [] if is_other_alone else resolve_tasks(suites, names)


def tasks_of(options: EvaluateConfig) -> list[Task]:
    """The tasks that a config names, then the user's own. Raises `ValueError` as `resolve_tasks`
    and `own_task`."""
    return [*official_tasks(options), *map(own_task, options.own_tasks)]
