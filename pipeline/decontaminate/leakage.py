"""The leakage stage: which examples of the benchmarks in use stand in the run's own documents.

The documents are looked through once, row group by row group, by Beam; what is in memory are the
benchmarks' texts and one batch of documents. Texts are compared as their letters
(`pipeline.decontaminate.index`), so each is looked for once however many examples hold it. One of
few letters stands in any large corpus by chance and is only counted.

Sentences of the corpus itself are looked for in its other documents in the same way. No benchmark
holds them, so what is found of them is commonplaces, quotations and boilerplate: a benchmark's
texts are found as often without any leak.
"""

import heapq
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import numpy as np
import xxhash

from electrify.config.run import BeamConfig, RunConfig
from electrify.stage.folder import write_json, write_text
from electrify.stage.leakage_report import (
    MISSING,
    REPORT,
    Chance,
    HoldingDocument,
    Kind,
    LeakageReport,
    SplitLeakage,
    Strength,
    TaskLeakage,
    TouchedLine,
    touched_path,
)
from electrify.stage.plan import leakage_stage
from electrify.stage.run import run_stage
from electrify.system.memory import keep_little_memory, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log
from pipeline.decontaminate.index import (
    ALONE_LETTERS,
    WIDTHS,
    Ints,
    Items,
    Letters,
    is_monotonous,
    kind_of,
    read_letters,
    write_items,
)
from pipeline.decontaminate.match import (
    LONG_LETTERS,
    SHARE,
    SURE_LETTERS,
    CopiedText,
    Copy,
    GramIndex,
    find_copies,
    is_alone,
    load_grams,
    unit_cuts,
    unit_ends,
)
from pipeline.documents import (
    RowGroup,
    document_paths,
    in_batches,
    list_row_groups,
    read_group,
)
from pipeline.runner import make_pipeline, run_pipeline, watch
from pipeline.work_folder import WorkFolder, check_written, share_documents, work_folder

SECONDS_PER_MEGABYTE = 0.2  # of documents, one core
# By script, the least letters of each class of length; the classes of which chance is measured. The
# first is the shortest text that is looked for, a gram: shorter ones ("노잼", "Sue left.") are in
# every corpus of some size.
LENGTH_CLASSES = {"wide": (8, 12, 16, 24, 40), "narrow": (12, 24, 36, 48, 72)}
NUM_A_CLASS = 200  # control sentences of each script and length
MAX_GROUPS = 32  # row groups that are read for them, evenly spread
_DOCUMENTS_A_GROUP = 200
_SENTENCES_A_DOCUMENT = 12
BATCH_CHARACTERS = 500_000  # of documents looked through at once; 40 bytes each
EXCERPT_CHARACTERS = 200
_CONTEXT_CHARACTERS = 30  # of an excerpt, before and behind what was found
NUM_SHOWN = 3  # documents that are named for a text, those with the largest share of it
NUM_DOCUMENTS = 5  # of a task, those that hold most of its examples
_WANTED_CHARACTERS = 200  # of an example's text, in a line
_INDEX = "index"  # in the work folder, of the texts that are looked for
RULES = {
    "min_letters": dict(WIDTHS),
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
        table, counts = _read_texts(tasks)
        for control in draw_control(list_row_groups(documents)):
            table.add_control(control)
        with work_folder("leakage", config.beam.work_dir, folder, stage.plan) as shared:
            with shared.scratch() as scratch:
                table.write(scratch / _INDEX)
                shared.publish(scratch / _INDEX)
            return_freed_memory()
            found = _search(config.beam, beam_options, documents, shared)
            hits, sources = _read_found(shared, found)
        chance = chances(table.controls, hits, len(sources))
        report = LeakageReport(
            rules=RULES,
            documents=sources.total(),
            sources=len(sources),
            tasks=_write_touched(folder, tasks, counts, table, hits, chance),
            missing=json.loads((benchmark_items / MISSING).read_text(encoding="utf-8")),
            chance=chance,
        )
        write_json(folder / REPORT, report.model_dump(mode="json"))
        return _summary(report)

    run_stage(stage, work, overwrite)


class LengthClass(NamedTuple):
    """Texts of one script and about one length."""

    script: Literal["wide", "narrow"]  # as `pipeline.decontaminate.index.kind_of`
    min_letters: int

    @property
    def is_sure(self) -> bool:
        """Whether such a text that stands alone is removed by decontamination."""
        return self.min_letters >= ALONE_LETTERS[self.script]


def length_class(letters: Letters) -> LengthClass | None:
    """The class of a text by its letters; None if they are too few, or too few different ones."""
    script = kind_of(letters)
    least = LENGTH_CLASSES[script]
    if len(letters) < least[0] or is_monotonous(letters):
        return None
    return LengthClass(script, least[bisect_right(least, len(letters)) - 1])


class Use(NamedTuple):
    """Where a text stands: the text of an example."""

    task: str
    split: str
    id: str
    text: int  # which of the example's texts, from 0


class ControlText(NamedTuple):
    """A sentence of the corpus: how often such a text stands elsewhere is what chance does.

    The order is by a hash of where it stands, so that the draw is the same in any order.
    """

    rank: int
    text: str
    document: str  # in which it stands as a sentence of its own
    source: str
    length: LengthClass


@dataclass
class TextTable:
    """Distinct texts by number, with the examples that hold each, ready for an index."""

    uses: list[list[Use]] = field(default_factory=list)  # by number; of a control text, none
    controls: dict[int, list[ControlText]] = field(default_factory=dict)  # by number, equal ones
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _items: Mapping[str, Items] = field(default_factory=lambda: {kind: Items() for kind in WIDTHS})

    def add(self, text: str, use: Use) -> LengthClass | None:
        """Note a text of an example; None if it has too few letters to be looked for."""
        letters, _ = read_letters(text)
        length = length_class(letters)
        if length is not None:
            self.uses[self._number(letters, length, b"")].append(use)
        return length

    def add_control(self, control: ControlText) -> None:
        """Note a sentence of the corpus, apart from an example's text of the same letters."""
        letters, _ = read_letters(control.text)
        number = self._number(letters, control.length, b"control")
        self.controls.setdefault(number, []).append(control)

    def write(self, folder: Path) -> None:
        """Write what `Search` reads."""
        write_items(self._items, folder)
        owners = {n: [one.document for one in equal] for n, equal in self.controls.items()}
        write_json(folder / "owners.json", owners)

    def _number(self, letters: Letters, length: LengthClass, prefix: bytes) -> int:
        key = prefix + letters.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.uses)
            self._items[length.script].letters.append(letters)
            self._items[length.script].tasks.append([len(self.uses)])
            self.uses.append([])
        return self._numbers[key]


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

        A length without a sentence in the corpus has the rate of the nearest shorter one, else of
        the nearest longer one.
        """
        total = 0.0
        for lengths, count in self.lengths.items():
            missed = 1.0
            for length in lengths:
                missed *= 1 - _nearest(rates, length)
            total += count * (1 - missed)
        return total


def _nearest(rates: Mapping[LengthClass, float], length: LengthClass) -> float:
    known = sorted(one for one in rates if one.script == length.script)
    if not known:
        return 0.0
    shorter = [one for one in known if one <= length]
    return rates[shorter[-1] if shorter else known[0]]


@dataclass(frozen=True)
class TaskItems:
    """The examples of one task, as `benchmarks.leakage.examples` wrote them."""

    path: Path
    header: Mapping[str, Any]  # task, task_version, data_sha256, text_names

    @property
    def task(self) -> str:
        return str(self.header["task"])

    def examples(self) -> Iterator[tuple[str, str, list[str]]]:
        """(split, id, texts) in the order of the files."""
        with self.path.open(encoding="utf-8") as file:
            for line in islice(file, 1, None):
                row = json.loads(line)
                yield row["split"], row["id"], row["texts"]


def read_tasks(folder: Path) -> list[TaskItems]:
    """The tasks in a folder of items, by name; `ValueError` if there are none."""
    tasks = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            tasks.append(TaskItems(path, json.loads(next(file))["header"]))
    if not tasks:
        raise UserError(f"no *.jsonl of benchmark examples in {folder}")
    return tasks


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


def draw_control(groups: Sequence[RowGroup]) -> list[ControlText]:
    """Some sentences of each class of script and length, the same for the same documents.

    Every source gives as many as any other, where it has them: the largest may be statutes that
    repeat each other. Of equal sentences (letter by letter) of a source one is drawn.
    """
    drawn: dict[LengthClass, dict[str, dict[bytes, ControlText]]] = {}
    step = max(1, -(-len(groups) // MAX_GROUPS))
    for sentence, letters in (pair for group in groups[::step] for pair in _sentences(group)):
        of_source = drawn.setdefault(sentence.length, {}).setdefault(sentence.source, {})
        of_source[letters] = min(sentence, of_source.get(letters, sentence))
    controls: list[ControlText] = []
    for _, by_source in sorted(drawn.items()):
        in_turn = zip_longest(*(sorted(of.values()) for _, of in sorted(by_source.items())))
        controls += islice((one for row in in_turn for one in row if one), NUM_A_CLASS)
    return controls


def _sentences(group: RowGroup) -> Iterator[tuple[ControlText, bytes]]:
    """Some sentences of some documents of a row group, with their letters."""
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
            text = row["text"][begin:end].strip()
            letters, _ = read_letters(text)
            if length := length_class(letters):
                yield ControlText(rank, text, row["id"], row["source"], length), letters.tobytes()


def _rank(label: str) -> int:
    return xxhash.xxh3_64_intdigest(label.encode("utf-8", "surrogatepass"))


class Match(NamedTuple):
    """A text of the index in a document."""

    number: int  # of the text
    strength: Strength
    kind: Kind
    share: float  # of the text's letters
    document: str
    source: str
    excerpt: str


def _search(
    config: BeamConfig, beam_options: Sequence[str], documents: Sequence[Path], work: WorkFolder
) -> list[str]:
    """Look through all row groups; the names of the files of what is found, in their order."""
    groups = share_documents(work, config.work_dir, documents)
    num_bytes = sum(group.num_bytes for group in groups)
    pipeline = make_pipeline(config.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "look" >> beam.ParDo(Search(work))
    )
    sizes = {_found_name(number): group.num_bytes / 1e6 for number, group in enumerate(groups)}
    with watch([("leakage: comparing", sizes)], "MB", work.names, work.poll_seconds):
        run_pipeline(pipeline)
    check_written(work, [*sizes], "matches in row groups")
    return [*sizes]


class Search(beam.DoFn):
    """(number, row group) -> a file of its matches, there once all of it is done."""

    def __init__(self, work: WorkFolder) -> None:
        self.work = work

    def setup(self) -> None:
        with self.work.fetch(_INDEX) as folder:  # what is mapped stays readable
            owners = json.loads((folder / "owners.json").read_text(encoding="utf-8"))
            self.grams = load_grams(folder)
        self.owners = {int(number): frozenset(documents) for number, documents in owners.items()}

    def process(self, element: tuple[int, RowGroup]) -> None:
        number, group = element
        if self.work.exists(_found_name(number)):  # by an earlier attempt
            return
        sources: Counter[str] = Counter()
        lines = []
        documents = read_group(group, ["id", "text", "source"])
        for rows in in_batches(documents, lambda row: len(row["text"]), BATCH_CHARACTERS):
            sources.update(row["source"] for row in rows)
            lines += [json.dumps(match, ensure_ascii=False) for match in self.search(rows)]
        lines.insert(0, json.dumps(sources, ensure_ascii=False))
        self.work.write(_found_name(number), "\n".join(lines).encode())
        return_freed_memory()

    def search(self, rows: Sequence[dict[str, Any]]) -> Iterator[Match]:
        """The best match of each text in each document, in the order of the documents.

        A control text is not looked for in the documents that it is from.
        """
        for found in find_copies(self.grams, [row["text"] for row in rows]):
            row = rows[found.number]
            cuts = unit_cuts(row["text"], found.places)
            items = [c for index, c in found.copies if _number(index, c) not in self.owners]
            best: dict[int, Match] = {}
            for index, copy in found.copies:
                number = _number(index, copy)
                if row["id"] in self.owners.get(number, ()):
                    continue
                if judged := _judge(index, copy, found, cuts, items):
                    share = round(index.share(found.letters, copy), 4)
                    excerpt = _excerpt(row["text"], found, copy)
                    match = Match(number, *judged, share, row["id"], row["source"], excerpt)
                    best[number] = min(best.get(number, match), match, key=_badness)
            yield from best.values()


def _number(index: GramIndex, copy: Copy) -> int:
    """Of the text that the item is."""
    return int(index.tasks[index.task_starts[copy.item]])


def _badness(match: Match) -> tuple[bool, float]:
    return match.strength != "touched", -match.share


def _judge(
    index: GramIndex, copy: Copy, found: CopiedText, cuts: Ints, items: Sequence[Copy]
) -> tuple[Strength, Kind] | None:
    """What a copy says; None if nothing.

    What is "touched" would be removed by `clean.decontaminate_against`. Only "possible" are shorter
    copies, and edited ones with other numbers: a template, such as a census has.
    """
    alone = is_alone(found, cuts, index, copy, items)
    num_letters = index.num_letters(copy.item)
    shortest = ALONE_LETTERS["wide" if index.width == WIDTHS["wide"] else "narrow"]
    is_sure = num_letters >= SURE_LETTERS[index.width] or (alone and num_letters >= shortest)
    if copy.kind == "sentence":
        return "touched" if is_sure else "possible", "whole" if alone else "contained"
    if not is_sure:  # a short text but for some letters is another text
        return None
    if copy.kind == "ngram":
        return "touched", "ngram"
    wanted = index.letters[index.starts[copy.item] : index.starts[copy.item + 1]]
    has_its_numbers = _digits(wanted) == _digits(found.letters[copy.first : copy.last])
    return "touched" if has_its_numbers else "possible", "near"


def _digits(letters: Letters) -> list[int]:
    """In order, so that a copy may have its numbers in other places."""
    digits: list[int] = np.sort(letters[(letters >= ord("0")) & (letters <= ord("9"))]).tolist()
    return digits


def _excerpt(text: str, found: CopiedText, copy: Copy) -> str:
    """The place in the document, its beginning if it is long."""
    first, last = int(found.places[copy.first]), int(found.places[copy.last - 1]) + 1
    begin = max(0, first - _CONTEXT_CHARACTERS)
    end = min(last + _CONTEXT_CHARACTERS, begin + EXCERPT_CHARACTERS)
    return " ".join(text[begin:end].split())


@dataclass
class Hits:
    """The documents that hold one text in one strength, and the best places."""

    documents: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    best: list[Match] = field(default_factory=list)

    def add(self, match: Match) -> None:
        """Take in another document; of equal shares the earlier ones stay."""
        self.documents += 1
        self.sources[match.source] += 1
        self.best = sorted([*self.best, match], key=lambda match: -match.share)[:NUM_SHOWN]


HitsOf = Mapping[int, Mapping[Strength, Hits]]  # by number of the text


def _read_found(work: WorkFolder, names: Sequence[str]) -> tuple[HitsOf, Counter[str]]:
    """What was found in all documents, and the documents by source."""
    hits: defaultdict[int, defaultdict[Strength, Hits]] = defaultdict(lambda: defaultdict(Hits))
    sources: Counter[str] = Counter()
    for name in names:
        first, *lines = work.read(name).decode().split("\n")
        sources.update(json.loads(first))
        for match in (Match(*json.loads(line)) for line in lines):
            hits[match.number][match.strength].add(match)
    return hits, sources


def _found_name(number: int) -> str:
    return f"found-{number:06d}.jsonl"


def chances(
    controls: Mapping[int, Sequence[ControlText]], hits: HitsOf, num_sources: int
) -> list[Chance]:
    """What chance does, by script and length: how many sentences stand in other documents.

    Equal sentences were drawn from other documents, where they stand alone.
    """
    counts: defaultdict[LengthClass, Counter[str]] = defaultdict(Counter)
    for number, equal in controls.items():
        of_text = hits.get(number, {})
        touched, possible = (
            set(of_text[strength].sources) if strength in of_text else set()
            for strength in ("touched", "possible")
        )
        for control in equal:
            owners = {other.source for other in equal if other.document != control.document}
            sure = touched | owners if control.length.is_sure else touched
            for name, sources in (("touched", sure), ("found", touched | possible | owners)):
                counts[control.length][name] += bool(sources)
                counts[control.length][f"other_{name}"] += bool(sources - {control.source})
            counts[control.length]["sentences"] += 1
    return [
        Chance(
            script=length.script,
            min_letters=length.min_letters,
            sentences=count["sentences"],
            touched=count["touched"],
            found=count["found"],
            other_touched=count["other_touched"] if num_sources > 1 else None,
            other_found=count["other_found"] if num_sources > 1 else None,
        )
        for length, count in sorted(counts.items())
    ]


Hit = tuple[int, Strength, Hits]  # text of the example, how surely it was found, where
Rates = dict[Strength, dict[LengthClass, float]]  # "possible": of both strengths together


def _write_touched(
    folder: Path,
    tasks: Sequence[TaskItems],
    counts: Mapping[tuple[str, str], SplitCounts],
    table: TextTable,
    hits: HitsOf,
    chance: Sequence[Chance],
) -> list[TaskLeakage]:
    """Write the lines of each task in which something was found; the figures of all."""
    of_examples: defaultdict[tuple[str, str, str], list[Hit]] = defaultdict(list)
    for number, by_strength in sorted(hits.items()):
        for use in table.uses[number]:
            of_examples[use.task, use.split, use.id] += [
                (use.text, strength, hit) for strength, hit in by_strength.items()
            ]
    rates = _rates(chance)
    figures = []
    for task in tasks:
        lines = list(_lines(task, of_examples))
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


def _lines(
    task: TaskItems, hits: Mapping[tuple[str, str, str], Sequence[Hit]]
) -> Iterator[TouchedLine]:
    """A line for each document that is shown of each text found, in the order of the examples."""
    names = task.header["text_names"]
    for split, identity, texts in task.examples():
        if (task.task, split, identity) not in hits:
            continue
        of_example = hits[task.task, split, identity]
        of_example = sorted(of_example, key=lambda hit: (hit[1] != "touched", hit[0]))
        example_share = _example_share(texts, of_example)
        for text, strength, hit in of_example:
            for place in hit.best:
                yield TouchedLine(
                    task=task.task,
                    split=split,
                    id=identity,
                    strength=strength,
                    text=names[text] if names else str(text + 1),
                    kind=place.kind,
                    share=place.share,
                    example_share=example_share,
                    document=place.document,
                    source=place.source,
                    documents=hit.documents,
                    sources=dict(hit.sources.most_common()),
                    wanted=texts[text][:_WANTED_CHARACTERS],
                    excerpt=place.excerpt,
                )


def _example_share(texts: Sequence[str], hits: Sequence[Hit]) -> float:
    """The share of an example's letters that documents hold, by the best place of each text."""
    lengths = [len(read_letters(text)[0]) for text in texts]
    best: dict[int, float] = {}
    for text, _, hit in hits:
        best[text] = max(best.get(text, 0.0), hit.best[0].share)
    return round(sum(lengths[text] * share for text, share in best.items()) / sum(lengths), 4)


def _split_figures(
    split: str, counts: SplitCounts, lines: Sequence[TouchedLine], rates: Rates
) -> SplitLeakage:
    """Figures of one split; examples count once, by their first line, which is the surest."""
    first: dict[str, TouchedLine] = {}
    for line in lines:
        first.setdefault(line.id, line)
    touched = [line for line in first.values() if line.strength == "touched"]
    held = {(x.id, source) for x in lines if x.strength == "touched" for source in x.sources}
    sources = Counter(source for _, source in held)
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
        sources=dict(sorted(sources.items(), key=lambda item: (-item[1], item[0]))),
    )


def _documents(lines: Sequence[TouchedLine]) -> list[HoldingDocument]:
    """The documents that hold most examples of a task, of those that lines name."""
    examples: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for line in lines:
        if line.strength == "touched":
            examples[line.document, line.source].add((line.split, line.id))
    most = sorted(examples.items(), key=lambda item: (-len(item[1]), item[0]))[:NUM_DOCUMENTS]
    return [
        HoldingDocument(document=document, source=source, examples=len(held))
        for (document, source), held in most
    ]


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
