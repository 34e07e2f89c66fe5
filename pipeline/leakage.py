"""The leakage stage: which examples of the benchmarks in use stand in the run's own documents.

The documents are looked through once, row group by row group, by Beam; what is in memory are the
benchmarks' texts and one batch of documents. Sentences of the corpus itself are looked for in the
same way, which tells how many texts are found where nothing leaked.
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from electrify.artifacts import write_json, write_text
from electrify.config import RunConfig
from electrify.leakage_report import LeakageReport
from electrify.progress import log
from electrify.report_file import REPORT
from electrify.run_stage import run_stage
from electrify.stages import leakage_stage
from pipeline.benchmark_index import SURE_LETTERS
from pipeline.decontaminate import ALONE_LETTERS
from pipeline.documents import RowGroup, document_paths, list_row_groups
from pipeline.leakage_control import NUM_A_CLASS, draw_control
from pipeline.leakage_figures import SplitCounts, write_touched
from pipeline.leakage_search import read_group, search_group
from pipeline.leakage_tally import Found, chances
from pipeline.leakage_texts import (
    MIN_LETTERS,
    TaskItems,
    TextTable,
    Use,
    read_missing,
    read_tasks,
)
from pipeline.memory import keep_little_memory, return_memory
from pipeline.near_copies import LONG_LETTERS, SHARE
from pipeline.runner import make_pipeline, run_pipeline
from pipeline.watch import watch

SECONDS_PER_MEGABYTE = 0.2  # of documents, one core
_WORK = "work"  # of the stage's folder, until it is whole
RULES = {
    "min_letters": dict(MIN_LETTERS),
    "alone_letters": dict(ALONE_LETTERS),
    "sure_letters": {"wide": SURE_LETTERS[8], "narrow": SURE_LETTERS[12]},
    "run_letters": LONG_LETTERS,
    "near_share": SHARE,
    "control_sentences": NUM_A_CLASS,
}


def find_leaks(
    config: RunConfig, beam_options: Sequence[str], overwrite: bool, benchmark_items: Path
) -> None:
    """Make the `leakage` folder of a run from its `clean` folder.

    `benchmark_items` is what `benchmarks.leakage.write_items` made. Raises `ValueError` if either
    is not there.
    """
    tasks = read_tasks(benchmark_items)
    stage = leakage_stage(config, benchmark_items, RULES)
    documents = document_paths(Path(config.output_dir) / "clean")

    def work(folder: Path) -> Mapping[str, Any]:
        keep_little_memory()
        scratch = folder / _WORK
        groups = list_row_groups(documents)
        table, counts = _read_texts(tasks)
        for control in draw_control(groups):
            table.add_control(control)
        table.write(scratch)
        return_memory()
        _search(config.clean.runner, beam_options, groups, scratch)
        found, sources = _read_found(scratch, len(groups))
        chance = chances(table.controls, found, len(sources))
        report = LeakageReport(
            rules=RULES,
            documents=sources.total(),
            sources=len(sources),
            tasks=write_touched(folder, tasks, counts, table, found, chance),
            missing=read_missing(benchmark_items),
            chance=chance,
        )
        write_json(folder / REPORT, report.model_dump(mode="json"))
        shutil.rmtree(scratch)
        return _summary(report)

    run_stage(stage, work, overwrite)


def _read_texts(
    tasks: Sequence[TaskItems],
) -> tuple[TextTable, dict[tuple[str, str], SplitCounts]]:
    """All texts of the tasks, and what there is of each task and split."""
    table = TextTable()
    counts: dict[tuple[str, str], SplitCounts] = {}
    for task in tasks:
        for split, identity, texts in task.examples():
            lengths = [
                table.add(text, Use(task.task, split, identity, number))
                for number, text in enumerate(texts)
            ]
            counts.setdefault((task.task, split), SplitCounts()).add(lengths)
    return table, counts


def _search(
    runner: str, beam_options: Sequence[str], groups: Sequence[RowGroup], scratch: Path
) -> None:
    """Look through the row groups that have not been looked through yet."""
    missing = [n for n in range(len(groups)) if not (scratch / _found_name(n)).exists()]
    if not missing:
        return
    total = sum(groups[number].num_bytes for number in missing)
    pipeline = make_pipeline(runner, beam_options, total, SECONDS_PER_MEGABYTE)
    (
        pipeline
        | "row groups" >> beam.Create([(number, groups[number]) for number in missing])
        | "spread" >> beam.Reshuffle()
        | "look" >> beam.Map(_search_one, str(scratch))
    )
    sizes = {_found_name(number): groups[number].num_bytes / 1e6 for number in missing}
    with watch([("leakage: comparing", sizes)], "MB", lambda: {p.name for p in scratch.iterdir()}):
        run_pipeline(pipeline)


def _search_one(element: tuple[int, RowGroup], scratch: str) -> None:
    """Write what was found in one row group; the file is there once all of it is done."""
    number, group = element
    found = Found()
    found.add_matches(search_group(group, Path(scratch)))
    sources = Counter(row["source"] for row in read_group(group, ["source"]))
    value = {"found": found.to_json(), "sources": sources}
    write_text(Path(scratch) / _found_name(number), json.dumps(value, ensure_ascii=False))
    return_memory()


def _read_found(scratch: Path, num_groups: int) -> tuple[Found, Counter[str]]:
    """What was found in all documents, and the documents by source."""
    found, sources = Found(), Counter[str]()
    for number in range(num_groups):
        value = json.loads((scratch / _found_name(number)).read_text(encoding="utf-8"))
        found.add(Found.from_json(value["found"]))
        sources.update(value["sources"])
    return found, sources


def _found_name(number: int) -> str:
    return f"found-{number:06d}.json"


def _summary(report: LeakageReport) -> dict[str, int]:
    splits = [split for task in report.tasks for split in task.splits]
    counts = {
        "tasks": len(report.tasks),
        "examples": sum(split.examples for split in splits),
        "touched": sum(split.touched for split in splits),
    }
    log(
        f"leakage: {counts['touched']:,} of {counts['examples']:,} examples of "
        f"{counts['tasks']} task(s) stand in the documents"
    )
    return counts
