"""Which of several choices fits a text, such as COPA's alternatives and HellaSwag's endings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.metrics import weighted
from benchmarks.tasks.kinds import IGNORED_LABEL, encode_texts, num_truncated
from benchmarks.tasks.rows import Row, class_name, is_missing, label_ids, nested
from benchmarks.tasks.task import (
    SEGMENTS,
    Arrays,
    Example,
    Features,
    Line,
    Outputs,
    Positions,
    Task,
)
from electrify.system.outcome import UserError


@dataclass(frozen=True)
class ChoiceExample(Example):
    """The text, then every choice, and which choice is right, counted from 0."""

    answer: int | None = None


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(Task):
    """[CLS] text [SEP] choice [SEP] for each choice, one score a choice, a softmax over them.

    That is the form of `transformers`' heads for multiple choice. Several text fields are joined by
    blanks. `labels` name the choices in their order: "0", "1". A row may have fewer choices.
    """

    # fields of a choice each, or one field of a list
    choice_fields: tuple[str, ...] = ()

    @property
    def has_parts(self) -> bool:
        return True

    def texts(self, row: Row, place: str) -> tuple[str, ...]:
        return (" ".join(super().texts(row, place)), *self._choices(row, place))

    def _choices(self, row: Row, place: str) -> list[str]:
        first, *others = self.choice_fields
        given = [nested(row, name) for name in self.choice_fields] if others else nested(row, first)
        if isinstance(given, list):
            while given and is_missing(given[-1]):  # a table has as many columns in every row
                given = given[:-1]
        is_whole = isinstance(given, list) and 2 <= len(given) <= len(self.labels)
        if not is_whole or not all(isinstance(choice, str) for choice in given):
            raise UserError(
                f"{place}: {given!r:.80} in {' and '.join(map(repr, self.choice_fields))} are not "
                f"2 to {len(self.labels)} choices of text"
            )
        return list(given)

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[ChoiceExample]:
        texts, answer = self.texts(row, place), None
        if is_labelled:
            value = nested(row, self.label_field)
            names = [value if value in self.labels else class_name(value)]
            (answer,) = label_ids(names, self.labels[: len(texts) - 1], place)
        yield ChoiceExample(identity, texts, answer)

    def featurize(
        self, examples: Sequence[ChoiceExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """A row holds the pieces of all choices one after the other."""
        pairs = [(e.texts[0], choice) for e in examples for choice in e.texts[1:]]
        encoded = encode_texts(pairs, tokenizer, max_length)
        ends = np.cumsum([len(example.texts) - 1 for example in examples]).tolist()
        groups = [slice(start, end) for start, end in pairwise([0, *ends])]
        rows = [encoded.input_ids[group] for group in groups]
        columns = [[*zip(*pairs[group], strict=True)] for group in groups]
        cut = [
            num_truncated(of_example, row, tokenizer, max_length)
            for of_example, row in zip(columns, rows, strict=True)
        ]
        return Features(
            [np.concatenate(row) for row in rows],
            [np.concatenate(encoded.token_type_ids[group]) for group in groups],
            np.arange(len(examples)),
            {"labels": [example.answer for example in examples]},
            int(np.count_nonzero(cut)),
            {SEGMENTS: [[len(choice) for choice in row] for row in rows]},
        )

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`labels` (B,), `IGNORED_LABEL` where there is none, and `num_choices` (B,)."""
        answers = [features.labels["labels"][row] for row in rows]
        return {
            "labels": np.array([IGNORED_LABEL if a is None else a for a in answers], np.int64),
            "num_choices": np.array([len(features.details[SEGMENTS][row]) for row in rows]),
        }

    def lines(
        self, examples: Sequence[ChoiceExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        from scipy.special import softmax

        lines = []
        for example, output in zip(examples, outputs, strict=True):
            logits = output["logits"][: len(example.texts) - 1]
            probabilities = softmax(logits.astype(np.float64))
            lines.append(
                {
                    "id": example.id,
                    "gold": None if example.answer is None else self.labels[example.answer],
                    "prediction": self.labels[int(np.argmax(probabilities))],
                    "probabilities": [round(p, 6) for p in probabilities.tolist()],
                }
            )
        return lines

    def sides(self, lines: Sequence[Line]) -> tuple[Positions, Positions]:
        gold, predicted = super().sides(lines)
        return self.ids_of(gold), self.ids_of(predicted)

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.OF_LABELS[self.headline](*self.sides(lines), len(self.labels))
