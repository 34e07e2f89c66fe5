"""What the leakage stage writes: the touched examples of each task, and figures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from electrify.artifacts import write_text
from electrify.leakage_report import (
    Chance,
    HoldingDocument,
    SplitLeakage,
    Strength,
    TaskLeakage,
    TouchedLine,
    touched_path,
)
from pipeline.leakage_tally import Found, Hits
from pipeline.leakage_texts import LengthClass, TaskItems, TextTable
from pipeline.letters import read_letters

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
