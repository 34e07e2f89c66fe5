"""The leakage stage: which examples of the benchmarks in use stand in the run's own documents.

The documents are looked through once, row group by row group, by Beam; what is in memory are the
benchmarks' texts and one batch of documents. Sentences of the corpus itself are looked for in its
other documents in the same way. No benchmark holds them, so what is found of them is commonplaces,
quotations and boilerplate: a benchmark's texts are found as often without any leak.
"""

import heapq
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import xxhash

from electrify.config.run import RunConfig
from electrify.stage.folder import write_json, write_text
from electrify.stage.leakage_report import (
    Chance,
    HoldingDocument,
    LeakageReport,
    SplitLeakage,
    Strength,
    TaskLeakage,
    TouchedLine,
    touched_path,
)
from electrify.stage.plan import leakage_stage
from electrify.stage.report_file import REPORT
from electrify.stage.run import run_stage
from electrify.system.memory import keep_little_memory, return_freed_memory
from electrify.system.progress import log
from pipeline.decontaminate.index import ALONE_LETTERS, read_letters
from pipeline.decontaminate.leakage_search import (
    MIN_LETTERS,
    ControlText,
    Found,
    Hits,
    LengthClass,
    TaskItems,
    TextTable,
    Use,
    chances,
    length_class,
    read_missing,
    read_tasks,
    search_group,
)
from pipeline.decontaminate.match import LONG_LETTERS, SHARE, SURE_LETTERS, unit_ends
from pipeline.documents import RowGroup, document_paths, list_row_groups, read_group
from pipeline.runner import make_pipeline, run_pipeline, watch

NUM_A_CLASS = 200  # sentences of each script and length
MAX_GROUPS = 32  # row groups that are read for them, evenly spread
_DOCUMENTS_A_GROUP = 200
_SENTENCES_A_DOCUMENT = 12


class _Drawn(NamedTuple):
    """Ordered by a hash of where it stands, so that the draw is the same in any order."""

    rank: int
    text: str
    document: str
    source: str


class _Smallest:
    """The sentences of smallest rank, of equal ones (letter by letter) one."""

    def __init__(self, num: int) -> None:
        self._num = num
        self._heap: list[tuple[int, bytes, _Drawn]] = []
        self._letters: set[bytes] = set()

    def add(self, letters: bytes, drawn: _Drawn) -> None:
        if letters in self._letters:
            return
        self._letters.add(letters)
        heapq.heappush(self._heap, (-drawn.rank, letters, drawn))
        if len(self._heap) > self._num:
            self._letters.remove(heapq.heappop(self._heap)[1])

    def in_order(self) -> list[_Drawn]:
        return sorted(drawn for *_, drawn in self._heap)


def draw_control(groups: Sequence[RowGroup], num: int = NUM_A_CLASS) -> list[ControlText]:
    """At most `num` sentences a class of script and length, the same for the same documents.

    Every source gives as many as any other, where it has them: the largest may be statutes that
    repeat each other.
    """
    drawn: dict[LengthClass, dict[str, _Smallest]] = {}
    step = max(1, -(-len(groups) // MAX_GROUPS))
    for group in groups[::step]:
        for sentence in _sentences(group):
            letters, _ = read_letters(sentence.text)
            length = length_class(letters)
            if length is not None:
                of_source = drawn.setdefault(length, {}).setdefault(sentence.source, _Smallest(num))
                of_source.add(letters.tobytes(), sentence)
    return [
        ControlText(one.text, one.document, one.source, length)
        for length, by_source in sorted(drawn.items())
        for one in _in_turn([by_source[source].in_order() for source in sorted(by_source)])[:num]
    ]


def _in_turn(lists: Sequence[Sequence[_Drawn]]) -> list[_Drawn]:
    """The first of each, then the second of each that has one, and so on."""
    return [one for row in zip_longest(*lists) for one in row if one is not None]


def _sentences(group: RowGroup) -> Iterator[_Drawn]:
    """Some sentences of some documents of a row group."""
    ids = (row["id"] for row in read_group(group, ["id"]))
    chosen = set(heapq.nsmallest(_DOCUMENTS_A_GROUP, ids, key=_rank))
    for row in read_group(group, ["id", "text", "source"]):
        if row["id"] not in chosen:
            continue
        ends = [0, *unit_ends(row["text"])]
        places = heapq.nsmallest(
            _SENTENCES_A_DOCUMENT,
            ((_rank(f"{row['id']} {begin}"), begin, end) for begin, end in pairwise(ends)),
        )
        for rank, begin, end in places:
            yield _Drawn(rank, row["text"][begin:end].strip(), row["id"], row["source"])


def _rank(label: str) -> int:
    return xxhash.xxh3_64_intdigest(label.encode("utf-8", "surrogatepass"))


NUM_DOCUMENTS = 5  # of a task, those that hold most of its examples
_WANTED_CHARACTERS = 200  # of an example's text, in a line
Hit = tuple[int, Strength, Hits]  # text of the example, how surely it was found, where
Rates = dict[Strength, dict[LengthClass, float]]  # "possible": of both strengths together


@dataclass
class SplitCounts:
    """What is known of one split of one task before anything is looked for."""

    examples: int = 0
    texts: int = 0
    too_short: int = 0
    # how many examples have texts of just these lengths
    lengths: Counter[tuple[LengthClass, ...]] = field(default_factory=Counter)

    def add(self, lengths: Sequence[LengthClass | None]) -> None:
        """Count an example; None stands for a text that is too short."""
        known = sorted(length for length in lengths if length is not None)
        self.examples += 1
        self.texts += len(lengths)
        self.too_short += len(lengths) - len(known)
        self.lengths[tuple(known)] += 1

    def expected(self, rates: Mapping[LengthClass, float]) -> float:
        """Examples of which some text is found by chance, were texts found one apart from another.

        Of lengths of which the corpus has no sentence the nearest shorter, else longer, counts.
        """
        total = 0.0
        for lengths, count in self.lengths.items():
            missed = 1.0
            for length in lengths:
                missed *= 1 - _nearest(rates, length)
            total += count * (1 - missed)
        return total


def write_touched(
    folder: Path,
    tasks: Sequence[TaskItems],
    counts: Mapping[tuple[str, str], SplitCounts],
    table: TextTable,
    found: Found,
    chance: Sequence[Chance],
) -> list[TaskLeakage]:
    """Write the lines of each task in which something was found; the figures of all."""
    hits = _hits_of_examples(table, found)
    rates = _rates(chance)
    figures = []
    for task in tasks:
        lines = list(_lines(task, hits.get(task.task, {})))
        if lines:
            rows = "".join(f"{line.model_dump_json()}\n" for line in lines)
            write_text(touched_path(folder, task.task), rows)
        splits = [
            _split_figures(split, of_split, [x for x in lines if x.split == split], rates)
            for (name, split), of_split in counts.items()
            if name == task.task
        ]
        figures.append(TaskLeakage(**task.header, splits=splits, documents=_documents(lines)))
    return figures


def _rates(chance: Sequence[Chance]) -> Rates:
    """What share of texts is found by chance: in other sources, where there are any."""
    rates: Rates = {"touched": {}, "possible": {}}
    for one in chance:
        length = LengthClass(one.script, one.min_letters)
        touched = one.touched if one.other_touched is None else one.other_touched
        found = one.found if one.other_found is None else one.other_found
        rates["touched"][length] = touched / one.sentences
        rates["possible"][length] = found / one.sentences
    return rates


def _hits_of_examples(
    table: TextTable, found: Found
) -> dict[str, dict[tuple[str, str], list[Hit]]]:
    """By task, by split and id: what was found of the example's texts."""
    hits: dict[str, dict[tuple[str, str], list[Hit]]] = {}
    for number, by_strength in found.hits.items():
        for use in table.uses[number]:
            of_example = hits.setdefault(use.task, {}).setdefault((use.split, use.id), [])
            of_example += [(use.text, strength, hit) for strength, hit in by_strength.items()]
    return hits


def _lines(task: TaskItems, hits: Mapping[tuple[str, str], Sequence[Hit]]) -> Iterator[TouchedLine]:
    """A line for each document that is shown of each text found, in the order of the examples."""
    if not hits:
        return
    names = task.header["text_names"]
    for split, identity, texts in task.examples():
        if (split, identity) not in hits:
            continue
        of_example = sorted(hits[split, identity], key=lambda hit: (hit[1] != "touched", hit[0]))
        example_share = _example_share(texts, of_example)
        for text, strength, hit in of_example:
            for place in hit.best:
                yield TouchedLine(
                    task=task.task,
                    split=split,
                    id=identity,
                    strength=strength,
                    text=names[text] if names else str(text + 1),
                    example_share=example_share,
                    documents=hit.documents,
                    sources=dict(hit.sources.most_common()),
                    wanted=texts[text][:_WANTED_CHARACTERS],
                    **place,
                )


def _example_share(texts: Sequence[str], hits: Sequence[Hit]) -> float:
    """Of all letters of an example those in texts found, by the best place of each."""
    lengths = [len(read_letters(text)[0]) for text in texts]
    best: dict[int, float] = {}
    for text, _, hit in hits:
        best[text] = max(best.get(text, 0.0), hit.best[0]["share"])
    return round(sum(lengths[text] * share for text, share in best.items()) / sum(lengths), 4)


def _split_figures(
    split: str, counts: SplitCounts, lines: Sequence[TouchedLine], rates: Rates
) -> SplitLeakage:
    """Figures of one split; examples count once, by their first line, which is the surest."""
    first: dict[str, TouchedLine] = {}
    for line in lines:
        first.setdefault(line.id, line)
    touched = [line for line in first.values() if line.strength == "touched"]
    sources = Counter(source for line in touched for source in line.sources)
    return SplitLeakage(
        split=split,
        examples=counts.examples,
        texts=counts.texts,
        too_short=counts.too_short,
        touched=len(touched),
        touched_by_half=sum(line.example_share >= 0.5 for line in touched),
        possible=len(first) - len(touched),
        expected_touched=round(counts.expected(rates["touched"]), 2),
        expected_found=round(counts.expected(rates["possible"]), 2),
        kinds=dict(Counter(line.kind for line in touched).most_common()),
        found_texts=dict(Counter(line.text for line in touched).most_common()),
        sources=dict(sources.most_common()),
    )


def _documents(lines: Sequence[TouchedLine]) -> list[HoldingDocument]:
    """The documents that hold most examples of a task, of those that lines name."""
    held: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for line in lines:
        if line.strength == "touched":
            held.setdefault((line.document, line.source), set()).add((line.split, line.id))
    most = sorted(held.items(), key=lambda item: (-len(item[1]), item[0]))[:NUM_DOCUMENTS]
    return [
        HoldingDocument(document=document, source=source, examples=len(examples))
        for (document, source), examples in most
    ]


def _nearest(rates: Mapping[LengthClass, float], length: LengthClass) -> float:
    known = sorted(one for one in rates if one.script == length.script)
    if not known:
        return 0.0
    shorter = [one for one in known if one <= length]
    return rates[shorter[-1] if shorter else known[0]]


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

    `benchmark_items` is what `benchmarks.leakage.examples.write_items` made. Raises `ValueError`
    if either is not there.
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
        return_freed_memory()
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


def _read_texts(tasks: Sequence[TaskItems]) -> tuple[TextTable, dict[tuple[str, str], SplitCounts]]:
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
    return_freed_memory()


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
