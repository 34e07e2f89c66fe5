"""Pairs of texts to learn from: a table, titles and paragraphs of a corpus, or a task.

Of a task the training split is read and nothing else, so that no text that the suite `retrieval`
scores is learnt.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.tasks.files import parquet_table, read_own
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import dir_of, read_splits
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.rows import Row, text_field
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.task import Example, GoldExample, Task
from benchmarks.tasks.windows import QuestionExample
from electrify.system.outcome import UserError, nearest
from electrify.system.progress import log

_ENTAILMENT, _CONTRADICTION = "entailment", "contradiction"
_TITLE_CHARACTERS = 100  # the longest first line that is taken for a title
_PARAGRAPH_CHARACTERS = (100, 1000)  # the shortest text behind it, and how much of it is read


class Pair(NamedTuple):
    """Two texts that belong together, and one that does not although it looks so."""

    anchor: str
    positive: str
    negative: str | None = None


def read_pairs(name: str, data_dirs: Sequence[Path]) -> list[Pair]:
    """The pairs of a source, each once. Raises `ValueError` for a name that is none, for a task
    without pairs or without its training split, and for a source without a pair."""
    path = Path(name).expanduser()
    if name in TASKS:
        pairs = _task_pairs(TASKS[name], data_dirs)
    elif path.is_dir():
        pairs = list(_corpus_pairs(path))
    elif path.is_file():
        pairs = [_own_pair(row, f"{path} row {number}") for number, row in read_own(path)[0]]
    else:
        raise UserError(
            f"embed.pairs: {name!r} is no file, no folder of a run, no task{nearest(name, TASKS)}"
        )
    kept = [p for p in dict.fromkeys(pairs) if p.anchor.strip() and p.positive.strip()]
    if not kept:
        raise UserError(f"embed.pairs: {name} has no pair of two texts; give another source")
    if num_dropped := len(pairs) - len(kept):
        log(f"{num_dropped:,} pairs of {name} are left out: without a text, or there before")
    return kept


def _own_pair(row: Row, place: str) -> Pair:
    negative = text_field(row, "negative", place) if row.get("negative") else None
    return Pair(text_field(row, "anchor", place), text_field(row, "positive", place), negative)


def _corpus_pairs(run: Path) -> Iterator[Pair]:
    """Of each document whose first line is short, that line and the text behind it."""
    folder = run / "clean" if (run / "clean").is_dir() else run
    files = sorted(folder.glob("documents-*.parquet"))
    if not files:
        raise UserError(
            f"embed.pairs: {run} has no clean/documents-*.parquet; run: electrify clean CONFIG"
        )
    shortest, longest = _PARAGRAPH_CHARACTERS
    for file in files:
        for text in parquet_table(file)["text"].to_pylist():
            title, _, rest = text.partition("\n")
            is_title = len(title) <= _TITLE_CHARACTERS and any(map(str.isalpha, title))
            if is_title and len(rest := rest.strip()) >= shortest:
                yield Pair(title, rest[:longest])


def _task_pairs(task: Task, data_dirs: Sequence[Path]) -> list[Pair]:
    is_nli = isinstance(task, Classification) and {_ENTAILMENT, _CONTRADICTION} <= {*task.labels}
    if not is_nli and not isinstance(task, Spans):
        raise UserError(f"embed.pairs: {task.name} has no pairs; name a task of reading or of NLI")
    if not data_dirs:
        raise UserError(f"embed.pairs: give --data-dir with the files of {task.name}, or hub")
    examples = read_splits(task, dir_of(task, data_dirs), ["train"]).get("train", ())
    if not examples:
        raise UserError(
            f"embed.pairs: no {' or '.join(task.files.get('train', ()))} of {task.name} in "
            f"{' or '.join(map(str, data_dirs))}; its other splits are for scoring"
        )
    return list(_nli_triples(task, examples) if is_nli else _questions(examples))


def _questions(examples: Sequence[Example]) -> Iterator[Pair]:
    """Each question that has an answer, with its paragraph."""
    for example in examples:
        assert isinstance(example, QuestionExample)
        if example.answers:
            yield Pair(example.question, example.context)


def _nli_triples(task: Task, examples: Sequence[Example]) -> Iterator[Pair]:
    """Each premise with what follows from it, and a contradiction of it if there is one (Gao et
    al. 2021, SimCSE)."""
    by_premise: dict[str, dict[str, list[str]]] = {}
    for example in examples:
        assert isinstance(example, GoldExample)
        of_premise = by_premise.setdefault(example.texts[0], {})
        of_premise.setdefault(task.labels[example.gold], []).append(example.texts[1])
    for premise, of_label in by_premise.items():
        negatives = of_label.get(_CONTRADICTION, [None])
        for number, positive in enumerate(of_label.get(_ENTAILMENT, [])):
            yield Pair(premise, positive, negatives[number % len(negatives)])
