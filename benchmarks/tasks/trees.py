"""A head word and a label for every word of a sentence, as KLUE-DP has it.

KLUE-baseline klue_baseline/data/klue_dp.py. A word is what stands between blanks, punctuation
included. The parser reads the first and the last piece of a word and the last of its POS tags.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.metrics.labels import macro_f1
from benchmarks.metrics.structured import Arcs, las_classes
from benchmarks.tasks.features import padded, require_offsets, word_positions
from benchmarks.tasks.files import sentence_blocks
from benchmarks.tasks.rows import Row, label_ids, list_field
from benchmarks.tasks.task import (
    Arrays,
    Details,
    Example,
    Features,
    Outputs,
    Positions,
    Prediction,
    Predictions,
    Sampler,
    Task,
)
from electrify.system.outcome import UserError

NO_WORD = -1  # head and label where there is no word, or none that could be predicted
_MAX_DIGITS = 9  # of the number of a word
_COLUMNS = ("word_form", "pos", "head", "deprel")  # of a row: a list each


@dataclass(frozen=True)
class Word:
    """A word of a sentence; head and label are None in a test file without them."""

    form: str
    pos: str  # the last tag of the word
    head: int | None  # 0: the root; words count from 1
    label: str | None


@dataclass(frozen=True)
class SentenceExample(Example):
    """A sentence; its text is the words with one blank between."""

    words: tuple[Word, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DependencyParsing(Task):
    """Words from pieces, a parser on them, the best head of each word and its best label.

    As KLUE-baseline decodes, every word takes its head on its own, so that cycles may come of it.
    The parser reads POS tags, which the files give by hand.
    """

    row_name = "line"

    pos_tags: tuple[str, ...]  # the id behind them is that of the root and of padding

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Sentences of lines of INDEX WORD_FORM LEMMA POS HEAD DEPREL between tabs, the last two
        absent in a test file."""
        for start, identity, block in sentence_blocks(path):
            words = []
            for index, (number, line) in enumerate(block, start=1):
                cells = line.strip().split("\t")
                if len(cells) not in (4, 6) or cells[0] != str(index) or not cells[1]:
                    raise UserError(
                        f"{path} line {number}: {cells} is not word {index} of a sentence (INDEX "
                        "WORD_FORM LEMMA POS HEAD DEPREL)"
                    )
                _, form, _, *rest = cells
                words.append([form, *rest, "", ""][:4])
            columns = (list(column) for column in zip(*words, strict=True))
            yield start, {self.id_field: identity, **dict(zip(_COLUMNS, columns, strict=True))}

    def texts(self, row: Row, location: str) -> tuple[str, ...]:
        forms = list_field(row, "word_form", location)
        if not forms or not all(isinstance(form, str) for form in forms):
            raise UserError(f"{location}: word_form is {forms!r:.80}, not words")
        return (" ".join(forms),)

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterator[SentenceExample]:
        texts = self.texts(row, location)
        yield SentenceExample(identity, texts, self._words(row, location, is_labelled))

    def _words(self, row: Row, location: str, is_labelled: bool) -> tuple[Word, ...]:
        forms, tags = (list_field(row, name, location) for name in _COLUMNS[:2])
        heads, deprels = [None] * len(forms), [None] * len(forms)
        if is_labelled:
            heads, deprels = (list_field(row, name, location) for name in _COLUMNS[2:])
            label_ids(deprels, self.labels, f"{location}: deprel")
        if len({len(column) for column in (forms, tags, heads, deprels)}) > 1:
            raise UserError(
                f"{location}: {len(forms)} words have {len(tags)} tags, {len(heads)} heads"
            )
        words = []
        for form, tag, head, label in zip(forms, tags, heads, deprels, strict=True):
            pos = str(tag).split("+")[-1]
            if pos not in self.pos_tags:
                known = ", ".join(self.pos_tags)
                raise UserError(f"{location}: unknown POS tag {pos!r} (allowed: {known})")
            number = None if head is None else _head_number(head, len(forms), location)
            words.append(Word(form, pos, number, label))
        return tuple(words)

    def featurize(
        self, examples: Sequence[SentenceExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence; words of which a piece is cut off are not learnt or predicted."""
        require_offsets(tokenizer)
        encoded = tokenizer(
            [example.texts[0] for example in examples],
            return_offsets_mapping=True,
            return_token_type_ids=True,
            verbose=False,
        )
        names = ("first", "last", "pos", "heads", "arc_labels")
        labels: dict[str, list[Any]] = {name: [] for name in names}
        for spans, example in zip(encoded["offset_mapping"], examples, strict=True):
            positions = word_positions([word.form for word in example.words], spans)
            # up to the first word of which the last piece does not stand before [SEP]
            cut = (n for n, (_, last) in enumerate(positions) if last > max_length - 2)
            num_kept = next(cut, len(positions))
            kept = example.words[:num_kept]
            has_head = [word.head is not None and word.head <= num_kept for word in kept]
            arcs = list(zip(kept, has_head, strict=True))
            ids = [self.labels.index(w.label) if has and w.label else NO_WORD for w, has in arcs]
            labels["first"].append([first for first, _ in positions[:num_kept]])
            labels["last"].append([last for _, last in positions[:num_kept]])
            labels["pos"].append([len(self.pos_tags), *(self.pos_tags.index(w.pos) for w in kept)])
            labels["heads"].append([word.head if has else NO_WORD for word, has in arcs])
            labels["arc_labels"].append(ids)
        ids, types = encoded["input_ids"], encoded["token_type_ids"]
        return Features.from_rows(
            [_cut(row, max_length) for row in ids],
            [_cut(row, max_length) for row in types],
            labels=labels,
            num_truncated=sum(len(row) > max_length for row in ids),
            details={"num_kept": list(map(len, labels["heads"]))},
        )

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`first`, `last`, `heads`, `arc_labels` (B, W), `pos` (B, W + 1) and `num_words` (B,)."""
        labels = {name: [values[row] for row in rows] for name, values in features.labels.items()}
        num_words = np.array([len(row) for row in labels["heads"]], dtype=np.int64)
        width = max(1, num_words.max())
        fillings = {"first": 0, "last": 0, "heads": NO_WORD, "arc_labels": NO_WORD}
        arrays = {name: padded(labels[name], width, v, np.int64) for name, v in fillings.items()}
        pos = padded(labels["pos"], width + 1, len(self.pos_tags), np.int64)
        return {**arrays, "pos": pos, "num_words": num_words}

    def prediction(self, example: SentenceExample, output: Outputs, details: Details) -> Prediction:
        """Gold and predicted heads and labels of all words; words that were cut off have head -1
        and label None."""
        words, num_kept = example.words, details["num_kept"]
        heads = output["arc_scores"][:num_kept, : num_kept + 1].argmax(axis=1)
        labels = output["best_labels"][np.arange(num_kept), heads]
        num_cut = len(words) - num_kept
        gold = {"heads": [w.head for w in words], "labels": [w.label for w in words]}
        predicted = {
            "heads": heads.tolist() + [NO_WORD] * num_cut,
            "labels": [self.labels[label] for label in labels] + [None] * num_cut,
        }
        return {"gold": None if words[0].head is None else gold, "prediction": predicted}

    def sides(self, predictions: Predictions) -> tuple[Arcs, Arcs]:
        gold, predicted = super().sides(predictions)
        return self._chained(gold), self._chained(predicted)

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        ends = np.cumsum([len(p["gold"]["heads"]) for p in predictions])[:-1]
        words = np.split(
            np.stack(las_classes(*self.sides(predictions)), axis=1), ends
        )  # by sentence
        return lambda positions: macro_f1(*np.concatenate([words[n] for n in positions]).T)

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        gold, predicted = (prediction[side]["labels"] for side in ("gold", "prediction"))
        return [(label, other or "") for label, other in zip(gold, predicted, strict=True)]

    def error(self, prediction: Prediction) -> float:
        """The fraction of words with a wrong head or label."""
        arcs = ([*zip(*prediction[side].values(), strict=True)] for side in ("gold", "prediction"))
        return fmean(arc != other for arc, other in zip(*arcs, strict=True))

    def _chained(self, rows: Sequence[Mapping[str, Any]]) -> Arcs:
        ids: dict[str | None, int] = {label: number for number, label in enumerate(self.labels)}
        ids[None] = NO_WORD
        return Arcs(
            np.array([head for row in rows for head in row["heads"]], dtype=np.int64),
            np.array([ids[label] for row in rows for label in row["labels"]], dtype=np.int64),
        )

    def constant(self, predictions: Predictions, side: str = "prediction") -> str | None:
        for key in ("labels", "heads"):
            values = {value for p in predictions if p[side] for value in p[side][key]}
            if len(values) == 1:
                return f"{key}: {values.pop()}"
        return None


def _head_number(head: Any, num_words: int, location: str) -> int:
    digits = str(head)
    if not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        raise UserError(f"{location}: HEAD is {head!r:.80}, not the number of a word")
    if int(digits) > num_words:
        raise UserError(f"{location}: head {int(digits)} in a sentence of {num_words} words")
    return int(digits)


def _cut(values: Sequence[int], max_length: int) -> Sequence[int]:
    return values if len(values) <= max_length else [*values[: max_length - 1], values[-1]]
