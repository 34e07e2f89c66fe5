"""Questions whose answer is a piece of a context: SQuAD, KorQuAD, XQuAD, MLQA and KLUE-MRC.

The answer is the text of the context from the first character of its first piece to the last of its
last; the official code goes back to words by comparing texts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.metrics import reading, weighted
from benchmarks.tasks.files import questions_of
from benchmarks.tasks.kinds.answers import (
    Best,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)
from benchmarks.tasks.kinds.windows import (
    QuestionExample,
    Window,
    fitted_lengths,
    window_rows,
)
from benchmarks.tasks.rows import GoldAnswer, Row, placed_answers, spelt_answers
from benchmarks.tasks.task import Arrays, Example, Features, Line, Outputs, Positions, Task
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn

Scorer = Literal["squad-1.1", "squad-2.0", "mlqa", "klue-mrc", "korquad-1.0"]
NORMALIZE: Mapping[Scorer, Callable[[str], str]] = {
    "squad-1.1": reading.normalize_answer,
    "squad-2.0": reading.normalize_answer,
    "mlqa": partial(reading.normalize_mlqa, language="en"),  # of the headline
    "klue-mrc": reading.normalize_klue,
    "korquad-1.0": reading.normalize_korquad,
}
NUM_CANDIDATES_KEPT = 5  # of the n best texts, in a line


@dataclass(frozen=True)
class MlqaExample(QuestionExample):
    language: str = ""


@dataclass(frozen=True, kw_only=True)
class Spans(Task):
    """A reading task; its settings are by default those of google-research/electra.

    With head "joint" (`JointHead`, the paper's) "no answer" is what the classifier says, with
    "span" (`SpanHead`) it is the first position. A question is left without answer where the odds
    of that are greater than `null_threshold`.
    """

    row_name = "question"

    text_fields: tuple[str, ...] = ("context", "question")
    scorer: Scorer
    head: Literal["joint", "span"]
    null_threshold: float = 0.0
    max_question_length: int = 64  # pieces
    stride: int = 128  # pieces from window to window
    max_answer_length: int = 30  # pieces
    n_best_size: int = 20
    beam_size: int = 20
    answerable_weight: float = 0.5  # of the classifier's loss

    @property
    def headline(self) -> str:
        return "rouge_w" if self.scorer == "klue-mrc" else "f1"

    @property
    def has_unanswerable(self) -> bool:
        return self.scorer in ("squad-2.0", "klue-mrc")

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Questions of SQuAD's JSON, in which KorQuAD, XQuAD and KLUE-MRC come too."""
        yield from questions_of(read_json(path), path)

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[QuestionExample]:
        answers = self.gold_answers(row, place) if is_labelled else None
        if answers == () and not self.has_unanswerable:
            raise UserError(
                f"{place}: question {identity!r} has no answer; in {self.name} every question has "
                "one"
            )
        question_type = row.get("question_type") if self.scorer == "klue-mrc" else None
        if question_type not in (None, *reading.QUESTION_TYPES):
            raise UserError(
                f"{place}: question_type is {question_type!r:.80}, KLUE-MRC has "
                f"{', '.join(map(str, reading.QUESTION_TYPES))}; correct it or leave it out"
            )
        yield QuestionExample(identity, self.texts(row, place), answers, question_type)

    def from_rows(
        self, split: str, rows: Iterable[tuple[int, Row]], where: str, row_name: str = "row"
    ) -> Iterator[Example]:
        """Of MLQA with the language, whose code a split is called by."""
        for example in super().from_rows(split, rows, where, row_name):
            if self.scorer == "mlqa" and split in reading.MLQA_ARTICLES:
                example = MlqaExample(**vars(example), language=split)
            yield example

    def gold_answers(self, row: Row, place: str) -> tuple[GoldAnswer, ...]:
        answers = []
        for text, start in spelt_answers(row, place):
            if start is None:
                raise UserError(f"{place}: answer_start of {text!r:.80} is missing or negative")
            answers.append(GoldAnswer(text, start))
        return tuple(answers)

    def featurize(
        self, examples: Sequence[QuestionExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """A row a window; what is cut off is the end of long questions.

        In training every window is a row, at position 0 where the answer is not in it, and a
        question whose answer stands nowhere in its context is left out with a warning.
        """
        lengths = fitted_lengths(max_length, self.max_question_length, self.stride)
        features, num_lost = window_rows(examples, tokenizer, lengths, train)
        if num_lost:
            warn(
                f"{self.name}: the answers of {num_lost:,} of {len(examples):,} training questions "
                "do not stand in their contexts; these questions are left out"
            )
        return features

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`start`, `end` and `impossible` (B,), and `answer_mask` (B, T), where they may be: in the
        context and at the first position."""
        mask = np.zeros((len(rows), length), dtype=np.bool_)
        mask[:, 0] = True
        for position, row in enumerate(rows):
            first, _, offsets = features.details["windows"][row]
            mask[position, first : first + len(offsets)] = True
        labels = {
            name: np.array([values[row] for row in rows], dtype=np.int64)
            for name, values in features.labels.items()
        }
        return {**labels, "answer_mask": mask}

    def lines(
        self, examples: Sequence[QuestionExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        """The answer of each question and its best candidates.

        Where questions may have no answer, "answer" is the best text, "null_odds" what speaks
        against any, and "prediction" what the task's threshold makes of the two.
        """
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, number in enumerate(features.example_of.tolist()):
            rows_of[number].append(row)
        lines = []
        for number, example in enumerate(examples):
            best = self._best(example, features, outputs, rows_of[number])
            gold = None if example.answers is None else [answer.text for answer in example.answers]
            line: Line = {"id": example.id, "gold": gold, "prediction": best.text}
            if best.null_odds is not None:
                if best.null_odds > self.null_threshold:
                    line["prediction"] = ""
                line |= {"answer": best.text, "null_odds": best.null_odds}
            if example.question_type is not None:
                line["question_type"] = example.question_type
            if isinstance(example, MlqaExample):
                line["language"] = example.language
            pairs = zip(best.candidates, best.probabilities, strict=True)
            n_best = [[c.text, round(probability, 6)] for c, probability in pairs]
            lines.append({**line, "n_best": n_best[:NUM_CANDIDATES_KEPT]})
        return lines

    def _best(
        self,
        example: QuestionExample,
        features: Features,
        outputs: Sequence[Outputs],
        rows: Sequence[int],
    ) -> Best:
        windows: list[Window] = [features.details["windows"][row] for row in rows]

        def text_of(window: int, start: int, end: int) -> str:
            first, _, offsets = windows[window]
            return example.context[offsets[start - first][0] : offsets[end - first][1]].strip()

        if self.head == "joint":
            tables = [
                spans_of_beam(
                    window,
                    number,
                    outputs[row]["start_index"],
                    outputs[row]["end_index"],
                    outputs[row]["start_log_probs"],
                    outputs[row]["end_log_probs"],
                    self.max_answer_length,
                )
                for number, (window, row) in enumerate(zip(windows, rows, strict=True))
            ]
            odds = None
            if self.has_unanswerable:
                odds = [float(outputs[row]["impossible_logit"]) for row in rows]
            return electra_answer(tables, text_of, self.n_best_size, odds)
        tables, nulls = [], []
        for number, (window, row) in enumerate(zip(windows, rows, strict=True)):
            length = len(features.input_ids[row])  # behind it there is the padding of its batch
            start, end = (outputs[row][f"{side}_logits"][:length] for side in ("start", "end"))
            nulls.append((float(start[0]), float(end[0])))
            sizes = self.n_best_size, self.max_answer_length
            tables.append(spans_of_logits(window, number, start, end, *sizes))
        return klue_answer(
            tables, text_of, self.n_best_size, nulls if self.has_unanswerable else None
        )

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        keys = ("gold", "prediction", "answer", "null_odds", "question_type")
        gold, predictions, answers, odds, types = (
            {line["id"]: line[key] for line in lines if key in line} for key in keys
        )
        match self.scorer:
            case "squad-1.1":
                values = reading.squad_v1(gold, predictions)
            case "korquad-1.0":
                values = reading.korquad(gold, predictions)
            case "mlqa":
                values = reading.mlqa(gold, predictions, lines[0]["language"] if lines else "en")
            case "squad-2.0":
                values = reading.squad_v2(gold, answers, odds, self.null_threshold)
            case "klue-mrc":
                of_all = types if len(types) == len(lines) else None
                values = reading.klue_mrc(gold, predictions, of_all)
        return {self.headline: values[self.headline], **values}

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.mean_of(np.array([self.score([line])[self.headline] for line in lines]))


class OwnReading(Spans):
    """Rows with a context, a question and answers as the hub has SQuAD's, or a file in SQuAD's
    JSON."""

    row_name = "row"
    rows = Task.rows

    def gold_answers(self, row: Row, place: str) -> tuple[GoldAnswer, ...]:
        return placed_answers(row, place)
