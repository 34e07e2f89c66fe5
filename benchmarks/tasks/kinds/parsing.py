"""A head word and a label for every word of a sentence, as KLUE-DP has it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.metrics.parsing import (
    Arcs,
    las,
    las_macro_f1,
    las_macro_f1_unmerged,
    las_macro_f1_without_wrong_head_class,
    las_micro_f1,
    uas_macro_f1,
    uas_micro_f1,
)
from benchmarks.tasks.data.rows import read_text
from benchmarks.tasks.kind import (
    NOTHING,
    Example,
    Failure,
    Features,
    Kind,
    Line,
    Outputs,
    Pair,
    listed,
    mostly_wrong,
)
from benchmarks.tasks.kinds.features import padded
from benchmarks.tasks.kinds.parsing_words import (
    NO_POS,
    NO_WORD,
    POS_TAGS,
    Word,
    num_within,
    read_sentences,
    sentence_words,
    word_positions,
)
from benchmarks.tasks.task import Task

Scores = NDArray[np.floating[Any]]  # (words, words + 1): of every head of a word, 0 is the root


def best_heads(scores: Scores) -> NDArray[np.int64]:
    """The best head of each word on its own, as KLUE-baseline decodes: cycles may come of it."""
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def best_tree(scores: Scores) -> NDArray[np.int64]:
    """The heads of the tree of the highest total score in which one word hangs on the root.

    Chu-Liu/Edmonds; only where the best heads of the words are no such tree. Scores that are not
    numbers (of a failed training) leave the best heads as they are.
    """
    heads = best_heads(scores)
    if not len(heads) or is_tree(heads) or not np.isfinite(scores).all():
        return heads
    return _spanning_tree(scores)


def is_tree(heads: NDArray[np.int64]) -> bool:
    """Whether one word hangs on the root and all others, over others, on that one."""
    if np.count_nonzero(heads == 0) != 1:
        return False
    reached = np.array([0, *heads])
    for _ in range(len(heads)):  # every step a head further up; a cycle never gets to the root
        reached = reached[reached]
    return not reached.any()


def _spanning_tree(scores: Scores) -> NDArray[np.int64]:
    import networkx  # type: ignore[import-untyped]  # sentences are read without it

    num_words = len(scores)
    weights = scores.astype(np.float64)
    # a second arc from the root would cost more than all the others can gain
    weights[:, 0] -= (num_words + 1) * (np.ptp(weights) + 1.0)
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word + 1, weights[word, head])
        for word in range(num_words)
        for head in range(num_words + 1)
        if head != word + 1
    )
    heads = np.zeros(num_words, dtype=np.int64)
    for head, word in networkx.maximum_spanning_arborescence(graph).edges:
        heads[word - 1] = head
    return heads


if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head

Metric = Callable[[Arcs, Arcs], float]
_OFFICIAL: tuple[Metric, ...] = (las_macro_f1, uas_macro_f1, las_micro_f1, uas_micro_f1)
_CORRECTED: tuple[Metric, ...] = (
    las,
    las_macro_f1_without_wrong_head_class,
    las_macro_f1_unmerged,
)
TREE = "_tree"  # ends the names of metrics of the best tree, which is not how KLUE decodes


@dataclass(frozen=True)
class SentenceExample(Example):
    """A sentence; its text is the words with one blank between."""

    words: tuple[Word, ...] = ()


class DependencyParsing(Kind):
    """Words from pieces, a parser on them, the best head of each word and its best label.

    Without `use_pos` the parser does not see the POS tags, which the files give by hand: scores of
    the two are of different tasks.
    """

    units = "words"

    def __init__(self, use_pos: bool = True) -> None:
        self.use_pos = use_pos

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Sentences of a file; `ValueError` names the line."""
        seen: dict[str, int] = {}
        for number, identity, words in read_sentences(path, read_text(path)):
            if identity in seen:
                raise ValueError(
                    f"{path} line {number}: id {identity!r} is that of line {seen[identity]}"
                )
            seen[identity] = number
            yield _example(task, split, identity, words, f"{path} line {number}")

    def from_hub(
        self, task: Task, split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """Rows with a list a column: `word_form`, `pos`, `head`, `deprel`."""
        for number, row in enumerate(rows, start=1):
            place = f"{task.name} {split} row {number}"
            words = sentence_words(row, place)
            identity = str(row.get("guid", f"{split}-{number}"))
            yield _example(task, split, identity, words, place)

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """One row a sentence; words of which a piece is cut off are not learnt or predicted."""
        encoded = tokenizer(
            [example.texts[0] for example in examples],
            return_offsets_mapping=True,
            return_token_type_ids=True,
            verbose=False,
        )
        labels: dict[str, list[Any]] = {
            name: [] for name in ("first", "last", "pos", "heads", "arc_labels")
        }
        input_ids, num_truncated = [], 0
        columns = zip(encoded["input_ids"], encoded["offset_mapping"], examples, strict=True)
        for ids, spans, example in columns:
            words = _words(example)
            positions = word_positions([word.form for word in words], spans)
            positions = positions[: num_within(positions, max_length)]
            num_truncated += len(ids) > max_length
            input_ids.append(_cut(ids, max_length))
            labels["first"].append([first for first, _ in positions])
            labels["last"].append([last for _, last in positions])
            kept = words[: len(positions)]
            labels["pos"].append([NO_POS, *(POS_TAGS.index(word.pos) for word in kept)])
            heads = [_head_within(word, len(kept)) for word in kept]
            labels["heads"].append(heads)
            labels["arc_labels"].append(
                [
                    NO_WORD
                    if head == NO_WORD or word.label is None
                    else task.labels.index(word.label)
                    for head, word in zip(heads, kept, strict=True)
                ]
            )
        return Features(
            input_ids=input_ids,
            token_type_ids=[_cut(ids, max_length) for ids in encoded["token_type_ids"]],
            example_of=np.arange(len(examples)),
            labels=labels,
            num_truncated=num_truncated,
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`first`, `last`, `heads`, `arc_labels` (B, W), `pos` (B, W + 1) and `num_words` (B,)."""
        found = {name: [values[row] for row in rows] for name, values in features.labels.items()}
        num_words = [len(row) for row in found["heads"]]
        width = max(1, *num_words)
        fillings = {"first": 0, "last": 0, "heads": NO_WORD, "arc_labels": NO_WORD}
        arrays = {
            name: padded(found[name], width, value, np.int64) for name, value in fillings.items()
        }
        arrays["pos"] = padded(found["pos"], width + 1, NO_POS, np.int64)
        return arrays | {"num_words": np.array(num_words, dtype=np.int64)}

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """The parser of KLUE-baseline, of its size whatever the encoder's."""
        from benchmarks.tasks.heads.linear import drawn
        from benchmarks.tasks.heads.parsing import Parser

        config: Any = encoder.config
        return drawn(lambda: Parser(config.hidden_size, len(task.labels), self.use_pos), generator)

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """Heads and labels of all words: gold, the best of each word, and those of the best tree.

        Words that were cut off have head -1 and label None.
        """
        found = []
        for row, (example, output) in enumerate(zip(examples, outputs, strict=True)):
            words, num_kept = _words(example), len(features.labels["heads"][row])
            scores = output["arc_scores"][:num_kept, : num_kept + 1]
            found.append(
                {
                    "id": example.id,
                    "gold": None
                    if words[0].head is None
                    else {
                        "heads": [word.head for word in words],
                        "labels": [word.label for word in words],
                    },
                    "prediction": _arcs(task, best_heads(scores), output, len(words)),
                    "tree": _arcs(task, best_tree(scores), output, len(words)),
                }
            )
        return found

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """KLUE's metrics and corrected ones, then KLUE's of the best tree."""
        gold = _chained(task, [line["gold"] for line in lines])
        found = {}
        for key, metrics, ending in (
            ("prediction", (*_OFFICIAL, *_CORRECTED), ""),
            ("tree", (*_OFFICIAL, las), TREE),
        ):
            predicted = _chained(task, [line[key] for line in lines])
            for metric in metrics:
                value = metric(gold, predicted) if lines else float("nan")
                found[metric.__name__ + ending] = value
        return found

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """From counts of arcs by class."""
        assert task.headline == las_macro_f1.__name__
        gold, found = ([line[side] for line in lines] for side in ("gold", "prediction"))
        sentences = np.repeat(np.arange(len(lines)), [len(row["heads"]) for row in gold])
        return weighted.las_macro_f1(_chained(task, gold), _chained(task, found), sentences)

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """Labels of words, right where the head is right too."""
        return arc_pairs(line)

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """The words whose head or label is wrong in the middle run."""
        forms = [word.form for word in _words(example)] if example else None
        return arc_failure(runs, forms)

    def constant(self, task: Task, lines: Sequence[Line]) -> str | None:
        """The one label, or the one head, that every word got."""
        gold = [line["gold"] for line in lines if line["gold"]]
        for key in ("labels", "heads"):
            predicted = {value for line in lines for value in line["prediction"][key]}
            if len(predicted) == 1 and len({value for row in gold for value in row[key]}) > 1:
                return f"{key}: {predicted.pop()}"
        return None


def _example(
    task: Task, split: str, identity: str, words: Sequence[Word], place: str
) -> SentenceExample:
    if split in task.unlabelled:
        words = [Word(word.form, word.pos, None, None) for word in words]
    for number, word in enumerate(words, start=1):
        if split not in task.unlabelled and word.label not in task.labels:
            raise ValueError(
                f"{place}: label of word {number} of sentence {identity} is {word.label!r} "
                f"(allowed: {', '.join(task.labels)})"
            )
    return SentenceExample(identity, (" ".join(word.form for word in words),), tuple(words))


def _words(example: Example) -> tuple[Word, ...]:
    assert isinstance(example, SentenceExample)
    return example.words


def _cut(values: Sequence[int], max_length: int) -> NDArray[np.int32]:
    """A row without what is too much before its last piece, [SEP]."""
    fitting = values if len(values) <= max_length else [*values[: max_length - 1], values[-1]]
    return np.array(fitting, dtype=np.int32)


def _head_within(word: Word, num_words: int) -> int:
    return NO_WORD if word.head is None or word.head > num_words else word.head


def _arcs(task: Task, heads: NDArray[np.int64], output: Outputs, num_words: int) -> dict[str, Any]:
    ids = output["best_labels"][np.arange(len(heads)), heads]
    num_cut = num_words - len(heads)
    return {
        "heads": heads.tolist() + [NO_WORD] * num_cut,
        "labels": [task.labels[label] for label in ids] + [None] * num_cut,
    }


def _chained(task: Task, rows: Sequence[Mapping[str, Any]]) -> Arcs:
    ids: dict[str | None, int] = {label: number for number, label in enumerate(task.labels)}
    ids[None] = NO_WORD
    return Arcs(
        np.array([head for row in rows for head in row["heads"]], dtype=np.int64),
        np.array([ids[label] for row in rows for label in row["labels"]], dtype=np.int64),
    )


def arc_pairs(line: Line) -> list[Pair]:
    """The labels of each word; right where the head is right too, which is what LAS counts.

    A word that was cut off has no predicted label.
    """
    gold, predicted = line["gold"], line["prediction"]
    columns = zip(
        gold["labels"], predicted["labels"], gold["heads"], predicted["heads"], strict=True
    )
    return [
        Pair(label, said or NOTHING, (label, head) == (said, place))
        for label, said, head, place in columns
    ]


def arc_failure(runs: Sequence[Line], forms: Sequence[str] | None) -> Failure | None:
    """The words whose head or label is wrong in the middle run; as severe as they are many.

    Without `forms` words are named by their numbers.
    """

    def wrong(line: Line) -> list[int]:
        return [number for number, pair in enumerate(arc_pairs(line)) if not pair.is_right]

    line = mostly_wrong(runs, lambda line: len(wrong(line)))
    if line is None:
        return None
    gold, said = (
        listed([_arc(number, line[side], forms) for number in wrong(line)])
        for side in ("gold", "prediction")
    )
    count = f"{len(wrong(line))} of {len(line['gold']['heads'])} words wrong"
    return Failure(len(wrong(line)), gold, said, count)


def _arc(number: int, arcs: Line, forms: Sequence[str] | None) -> str:
    """'간다 → ROOT (VP)'."""
    head, label = arcs["heads"][number], arcs["labels"][number]
    if label is None:
        return f"{_name(number + 1, forms)} cut off"
    return f"{_name(number + 1, forms)} → {_name(head, forms) if head else 'ROOT'} ({label})"


def _name(number: int, forms: Sequence[str] | None) -> str:
    return forms[number - 1] if forms else f"word {number}"
