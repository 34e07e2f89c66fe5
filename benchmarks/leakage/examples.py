"""The examples whose leakage matters: dev and test rows of the tasks that a run is scored on."""

import json
from pathlib import Path

from benchmarks.results.results import RESULTS, read_results
from benchmarks.tasks.load import data_dirs, dir_of, has_data, load_data, versioned
from benchmarks.tasks.registry import TASKS, tasks_of
from benchmarks.tasks.task import Task
from electrify.config.run import RunConfig
from electrify.stage.folder import write_json
from electrify.stage.leakage_report import MISSING
from electrify.stage.plan import output_dir
from electrify.system.progress import warn


def write_items(config: RunConfig, folder: Path) -> None:
    """Write into `folder` what `pipeline.decontaminate.leakage` looks for: `<task>.jsonl` of each
    task in use.

    The first line is a header, then one line an example of every split that is predicted: split, id
    (as in the files of predictions) and texts. Tasks without data are named in `MISSING`. Raises
    `ValueError` if that are all, if none is in use, and for a malformed row.
    """
    tasks = tasks_in_use(config)
    dirs = data_dirs(config.evaluate, tasks)
    there = [task for task in tasks if has_data(task, dir_of(task, dirs))]
    missing = [task.name for task in tasks if task not in there]
    for task in there or tasks[:1]:  # of no data at all, loading says what is missing
        place = dir_of(task, dirs)
        data = load_data(task, place)
        header = {
            "task": task.name,
            "task_version": versioned(task, place).version,
            "data_sha256": data.sha256,
            "text_names": list(task.text_fields),
        }
        rows = [
            {"split": split, "id": str(example.id), "texts": list(example.texts)}
            for split, examples in data.predicted.items()
            for example in examples
        ]
        with (folder / f"{task.name}.jsonl").open("w", encoding="utf-8") as file:
            for row in ({"header": header}, *rows):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    if missing:
        below = " or ".join(map(str, dirs))
        warn(f"these tasks have no data below {below} and are not searched: {', '.join(missing)}")
    write_json(folder / MISSING, missing)


def tasks_in_use(config: RunConfig) -> list[Task]:
    """The tasks that the config names, then others that the run has results of."""
    options = config.evaluate
    names = dict.fromkeys(
        result.task
        for path in sorted(output_dir(config).glob(f"evaluate*/{RESULTS}"))
        for result in read_results(path)
    )
    known = [name for name in names if name in TASKS]
    own = {task.task_name for task in options.own_tasks}
    if unknown := [name for name in names if name not in TASKS and name not in own]:
        warn(f"tasks of results that this version does not know: {', '.join(unknown)}")
    return tasks_of(options, known)
