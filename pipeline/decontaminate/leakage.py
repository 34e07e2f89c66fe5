"""The leakage stage: which benchmark examples stand in the run's own documents.

A text is found as `clean.decontaminate_against` finds it, see pipeline/decontaminate/match.py. Beam
goes once through the documents, row group by row group. In memory are the benchmark texts and one
batch of documents.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from electrify.config.run import RunConfig
from electrify.stage.folder import write_json, write_text
from electrify.stage.leakage_report import (
    MISSING,
    REPORT,
    LeakageReport,
    SplitLeakage,
    TaskLeakage,
    TouchedLine,
    touched_path,
)
from electrify.stage.plan import leakage_stage
from electrify.stage.run import run_stage
from electrify.system.machine import keep_little_memory, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log
from pipeline.decontaminate.index import ALONE_LETTERS, ItemKey, ItemTable, Letters
from pipeline.decontaminate.match import (
    LONG_LETTERS,
    SHARE,
    SURE_LETTERS,
    CopiedText,
    Copy,
    GramIndex,
    find_copies,
    load_grams,
)
from pipeline.documents import RowGroup, document_paths, in_chunks, read_group
from pipeline.work_folder import WorkFolder, load_once, work_folder, write_row_groups

SECONDS_PER_MEGABYTE = 0.2  # of documents, one core
CHARACTERS_AT_ONCE = 500_000  # of documents searched at once; 40 bytes each
EXCERPT_CHARACTERS = 200
_CONTEXT_CHARACTERS = 30  # of an excerpt, before and after the match
NUM_SHOWN = 3  # documents with a line for each text, those with the largest fraction of it
_WANTED_CHARACTERS = 200  # of an example's text, in a line
_INDEX = "index"  # in the work folder
_MATCHING = {
    "alone_letters": dict(ALONE_LETTERS),
    "sure_letters": {"wide": SURE_LETTERS[8], "narrow": SURE_LETTERS[12]},
    "run_letters": LONG_LETTERS,
    "near_share": SHARE,
}


def find_leaks(
    config: RunConfig, beam_options: Sequence[str], overwrite: bool, benchmark_items: Path
) -> None:
    """Make the `leakage` folder of a run from its `clean` folder.

    `benchmark_items` is what `benchmarks.leakage.examples.write_items` wrote. Raises `UserError`
    if either is missing.
    """
    tasks = read_tasks(benchmark_items)
    stage = leakage_stage(config, benchmark_items, _MATCHING)
    documents = document_paths(Path(config.output_dir) / "clean")

    def work(folder: Path) -> Mapping[str, Any]:
        keep_little_memory()
        table = ItemTable()
        for task in tasks:
            for _, _, texts in task.examples():
                for text in texts:
                    table.add(text)
        with work_folder("leakage", config.beam.work_dir, folder, stage.plan) as shared:
            with shared.scratch() as scratch:
                table.write(scratch / _INDEX)
                shared.publish(scratch / _INDEX)
            return_freed_memory()
            names = write_row_groups(
                write_matches,
                documents,
                shared,
                config.beam,
                beam_options,
                "leakage: comparing",
                SECONDS_PER_MEGABYTE,
            )
            hits, num_documents = _read_matches(shared, names)
        report = LeakageReport(
            rules=_MATCHING,
            documents=num_documents,
            tasks=[_write_touched(folder, task, table, hits) for task in tasks],
            missing=json.loads((benchmark_items / MISSING).read_text(encoding="utf-8")),
        )
        write_json(folder / REPORT, report.model_dump(mode="json"))
        return _summary(report)

    run_stage(stage, work, overwrite)


@dataclass(frozen=True)
class TaskItems:
    """The examples of one task, as `benchmarks.leakage.examples` wrote them."""

    path: Path
    header: Mapping[str, Any]  # task, task_version, data_sha256, text_names

    def examples(self) -> Iterator[tuple[str, str, list[str]]]:
        """(split, id, texts) in the order of the file."""
        with self.path.open(encoding="utf-8") as file:
            for line in islice(file, 1, None):
                row = json.loads(line)
                yield row["split"], row["id"], row["texts"]


def read_tasks(folder: Path) -> list[TaskItems]:
    """The tasks in a folder of items, by name; `UserError` if there are none."""
    tasks = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            tasks.append(TaskItems(path, json.loads(next(file))["header"]))
    if not tasks:
        raise UserError(f"no *.jsonl of benchmark examples in {folder}")
    return tasks


class Match(NamedTuple):
    """A benchmark text in a document."""

    item: ItemKey
    kind: Literal["sentence", "near", "ngram"]
    fraction: float  # of the text's letters
    document: str
    source: str
    excerpt: str


def write_matches(group: RowGroup, path: Path, work: WorkFolder) -> None:
    """Write the number of documents in a row group, and the matches in them."""
    num_documents, matches = 0, list[Match]()
    documents = read_group(group, ["id", "text", "source"])
    for rows in in_chunks(documents, lambda row: len(row["text"]), CHARACTERS_AT_ONCE):
        num_documents += len(rows)
        matches += _matches(rows, load_once(work, _INDEX, load_grams))
    write_text(path, json.dumps([num_documents, matches], ensure_ascii=False))
    return_freed_memory()


def _matches(rows: Sequence[dict[str, Any]], grams: Sequence[GramIndex]) -> Iterator[Match]:
    """The best match of each text in each document, in the order of the documents."""
    for copied in find_copies(grams, [row["text"] for row in rows]):
        row = rows[copied.number]
        best: dict[ItemKey, Match] = {}
        for index, copy in copied.sure_copies(row["text"]):
            if copy.kind == "near" and _has_other_numbers(copied.letters, index, copy):
                continue
            key = index.width, copy.item
            fraction = round(index.share(copied.letters, copy), 4)
            excerpt = _excerpt(row["text"], copied, copy)
            match = Match(key, copy.kind, fraction, row["id"], row["source"], excerpt)
            best[key] = max(best.get(key, match), match, key=lambda match: match.fraction)
        yield from best.values()


def _has_other_numbers(letters: Letters, index: GramIndex, copy: Copy) -> bool:
    """Whether an edited copy has other digits than the text, as rows of a census have."""
    item = index.letters[index.starts[copy.item] : index.starts[copy.item + 1]]
    wanted, there = (
        np.sort(of[(of >= ord("0")) & (of <= ord("9"))]) for of in (item, letters[copy.place])
    )
    return not np.array_equal(wanted, there)


def _excerpt(text: str, copied: CopiedText, copy: Copy) -> str:
    first, last = int(copied.places[copy.first]), int(copied.places[copy.last - 1]) + 1
    begin = max(0, first - _CONTEXT_CHARACTERS)
    end = min(last + _CONTEXT_CHARACTERS, begin + EXCERPT_CHARACTERS)
    return " ".join(text[begin:end].split())


Hits = Mapping[ItemKey, tuple[int, list[Match]]]


def _read_matches(work: WorkFolder, names: Sequence[str]) -> tuple[Hits, int]:
    """By text: the number of documents that hold it, and its best matches, of equal fractions the
    first ones; and the number of all documents."""
    hits: dict[ItemKey, tuple[int, list[Match]]] = {}
    num_documents = 0
    for name in names:
        num_of_group, rows = json.loads(work.read(name))
        num_documents += num_of_group
        for (width, item), *others in rows:
            match = Match((width, item), *others)
            count, best = hits.get(match.item, (0, []))
            best = sorted([*best, match], key=lambda match: -match.fraction)[:NUM_SHOWN]
            hits[match.item] = count + 1, best
    return hits, num_documents


def _write_touched(folder: Path, task: TaskItems, table: ItemTable, hits: Hits) -> TaskLeakage:
    """Write a line for each text of the task that was found and document shown; its counts."""
    names = task.header["text_names"]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lines: list[TouchedLine] = []
    for split, identity, texts in task.examples():
        keys = [table.add(text) for text in texts]
        is_touched = any(key in hits for key in keys)
        count = {"examples": 1, "texts": len(texts), "too_short": keys.count(None)}
        counts[split].update(count | {"touched": is_touched})
        for number, key in enumerate(keys):
            if key is None or key not in hits:
                continue
            lines += [
                TouchedLine(
                    split=split,
                    id=identity,
                    text=names[number] if names else str(number + 1),
                    kind=match.kind,
                    fraction=match.fraction,
                    document=match.document,
                    source=match.source,
                    documents=hits[key][0],
                    wanted=texts[number][:_WANTED_CHARACTERS],
                    excerpt=match.excerpt,
                )
                for match in hits[key][1]
            ]
    if lines:
        path = touched_path(folder, task.header["task"])
        write_text(path, "".join(f"{line.model_dump_json()}\n" for line in lines))
    header = {name: value for name, value in task.header.items() if name != "text_names"}
    splits = [SplitLeakage(split=split, **count) for split, count in counts.items()]
    return TaskLeakage(**header, splits=splits)


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
