"""Questions whose answer is a span of a context: SQuAD, KorQuAD, XQuAD and KLUE-MRC.

The answer is the text of the context from the first character of its first piece to the last of its
last; the official code goes back to words by comparing texts. The post-processing is ELECTRA's
(qa_metrics.py `write_predictions`) or that of `transformers` 3.5.1 (squad_metrics.py
`compute_predictions_logits`), which KLUE-baseline calls. Both rank the spans of all windows of a
question by start score + end score and keep each text once; they differ in where "no answer"
stands.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import reading
from benchmarks.tasks.features import QuestionExample, Window, fitted_lengths, window_rows
from benchmarks.tasks.files import questions_of
from benchmarks.tasks.rows import GoldAnswer, Row, placed_answers, spelt_answers
from benchmarks.tasks.task import (
    Arrays,
    Features,
    Outputs,
    Positions,
    Prediction,
    Predictions,
    Sampler,
    Task,
)
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn

NO_SPAN = "empty"  # the official answer where a question has no valid span at all
Scores = NDArray[np.floating[Any]]
TextOf = Callable[[int, int, int], str]  # window, positions of first and last piece -> answer text


class SpanTable(NamedTuple):
    """Spans of a question, one an element; position 0 for both ends says "no answer"."""

    window: NDArray[Any]  # its number
    start: NDArray[Any]  # position in the row
    end: NDArray[Any]  # position of the last piece
    start_score: NDArray[Any]
    end_score: NDArray[Any]


class Candidate(NamedTuple):
    text: str
    start_score: float
    end_score: float

    @property
    def score(self) -> float:
        return self.start_score + self.end_score


NO_CANDIDATE = Candidate(NO_SPAN, 0.0, 0.0)


@dataclass(frozen=True)
class Best:
    """What a question is answered with, if it is. `null_odds` is the higher, the less there is an
    answer; None where every question has one."""

    text: str
    null_odds: float | None
    candidates: list[Candidate]  # the n best, the best first

    @property
    def probabilities(self) -> list[float]:
        from scipy.special import softmax

        return [*map(float, softmax([candidate.score for candidate in self.candidates]))]


def spans_of_logits(
    window: Window,
    number: int,
    start_logits: Scores,
    end_logits: Scores,
    n_best_size: int,
    max_answer_length: int,
) -> SpanTable:
    """Each of the best starts with each of the best ends of window `number`, if the span is valid.

    Valid is a span within the context, of at most `max_answer_length` pieces, whose start (and only
    that) has its largest context in this window. `logits` are (T,).
    """
    starts, ends = (best_positions(logits, n_best_size) for logits in (start_logits, end_logits))
    every = (len(starts), 1)
    scores = start_logits[starts], np.tile(end_logits[ends], every)
    return spans_of_beam(window, number, starts, np.tile(ends, every), *scores, max_answer_length)


def spans_of_beam(
    window: Window,
    number: int,
    starts: NDArray[np.integer[Any]],
    ends: NDArray[np.integer[Any]],
    start_scores: Scores,
    end_scores: Scores,
    max_answer_length: int,
) -> SpanTable:
    """The valid spans (see `spans_of_logits`) of a beam of starts (K,) with ends of each (K, L)."""
    first, behind = window.first, window.first + len(window.is_max_context)
    may_start = (starts >= first) & (starts < behind)
    may_start[may_start] = window.is_max_context[starts[may_start] - first]
    lengths = ends - starts[:, None] + 1
    valid = may_start[:, None] & (ends < behind) & (lengths >= 1) & (lengths <= max_answer_length)
    row, column = np.nonzero(valid)  # in the order of starts, then of ends
    of_ends = ends[row, column].astype(np.int64), start_scores[row], end_scores[row, column]
    return SpanTable(np.full(len(row), number), starts[row].astype(np.int64), *of_ends)


def best_positions(scores: Scores, count: int) -> Positions:
    """Positions of the highest scores, the highest first; of equal ones the first comes first."""
    return np.argsort(-np.asarray(scores), kind="stable")[:count]


def electra_answer(
    tables: Sequence[SpanTable],
    text_of: TextOf,
    n_best_size: int,
    null_odds: Sequence[float] | None,
) -> Best:
    """The best span of a question by ELECTRA's rules.

    `null_odds` are those of "no answer" in each window, of which the lowest stand for the question;
    None where every question has an answer. The text is never "": the threshold decides.
    """
    candidates = _distinct(tables, text_of, n_best_size) or [NO_CANDIDATE]
    if null_odds is None:
        return Best(candidates[0].text, None, candidates)
    return Best(best_text(candidates).text, min(null_odds), candidates)


def klue_answer(
    tables: Sequence[SpanTable],
    text_of: TextOf,
    n_best_size: int,
    null_logits: Sequence[tuple[float, float]] | None,
) -> Best:
    """The best span of a question by the rules of `transformers` 3.5.1, as KLUE-MRC has them.

    "No answer" is one of the candidates, with the logits that the first position has as start and
    as end in the window where their sum is lowest; `null_logits` holds them by window, None where
    every question has an answer. KLUE answers "" where `null_odds` > 0.
    """
    if null_logits is None:
        return electra_answer(tables, text_of, n_best_size, None)
    null = Candidate("", *min(null_logits, key=sum))
    columns = (0, 0, 0, null.start_score, null.end_score)
    no_answer = SpanTable(*(np.array([value]) for value in columns))
    candidates = _distinct([*tables, no_answer], text_of, n_best_size)
    if all(candidate.text for candidate in candidates):
        candidates.append(null)
    if len(candidates) == 1:
        candidates.insert(0, NO_CANDIDATE)
    best = best_text(candidates)
    return Best(best.text, null.score - best.start_score - best.end_score, candidates)


def _distinct(tables: Sequence[SpanTable], text_of: TextOf, count: int) -> list[Candidate]:
    """The first `count` candidates of different text, the best first, of equal ones that of the
    first window, start and end; "no answer" is one even beside another ""."""
    spans = SpanTable(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    order = best_positions(spans.start_score + spans.end_score, len(spans.start))
    ranked = (column[order] for column in spans)
    seen: set[str] = set()
    candidates: list[Candidate] = []
    for window, start, end, start_score, end_score in zip(*ranked, strict=True):
        if len(candidates) >= count:
            break
        text = text_of(int(window), int(start), int(end)) if start else ""
        if start and text in seen:
            continue
        seen.add(text)
        candidates.append(Candidate(text, float(start_score), float(end_score)))
    return candidates


def best_text(candidates: Sequence[Candidate]) -> Candidate:
    return next((candidate for candidate in candidates if candidate.text), NO_CANDIDATE)


Scorer = Literal["squad-1.1", "squad-2.0", "klue-mrc", "korquad-1.0"]
NORMALIZE: Mapping[Scorer, Callable[[str], str]] = {
    "squad-1.1": reading.normalize_answer,
    "squad-2.0": reading.normalize_answer,
    "klue-mrc": reading.normalize_klue,
    "korquad-1.0": reading.normalize_korquad,
}
NUM_CANDIDATES_KEPT = 5  # of the n best texts, in a prediction
_BEAM = ("start_index", "end_index", "start_log_probs", "end_log_probs")  # of `JointHead`


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

    has_auto_head = True

    def with_auto_head(self) -> Self:
        return replace(super().with_auto_head(), head="span")

    @property
    def has_unanswerable(self) -> bool:
        return self.scorer in ("squad-2.0", "klue-mrc")

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        yield from questions_of(read_json(path), path)

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterator[QuestionExample]:
        answers = self.gold_answers(row, location) if is_labelled else None
        if answers == () and not self.has_unanswerable:
            raise UserError(
                f"{location}: question {identity!r} has no answer; in {self.name} every question "
                "has one"
            )
        question_type = row.get("question_type") if self.scorer == "klue-mrc" else None
        if question_type not in (None, *reading.QUESTION_TYPES):
            raise UserError(
                f"{location}: question_type is {question_type!r:.80}, KLUE-MRC has "
                f"{', '.join(map(str, reading.QUESTION_TYPES))}; correct it or leave it out"
            )
        yield QuestionExample(identity, self.texts(row, location), answers, question_type)

    def gold_answers(self, row: Row, location: str) -> tuple[GoldAnswer, ...]:
        answers = []
        for text, start in spelt_answers(row, location):
            if start is None:
                raise UserError(f"{location}: answer_start of {text!r:.80} is missing or negative")
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
                "are not in their contexts; these questions are left out"
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

    def predictions(
        self, examples: Sequence[QuestionExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Prediction]:
        """The answer of each question and its best candidates.

        Where questions may have no answer, "answer" is the best text, "null_odds" what speaks
        against any, and "prediction" what the task's threshold makes of the two.
        """
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, number in enumerate(features.example_of.tolist()):
            rows_of[number].append(row)
        predictions = []
        for number, example in enumerate(examples):
            best = self._best(example, features, outputs, rows_of[number])
            gold = None if example.answers is None else [answer.text for answer in example.answers]
            prediction: Prediction = {"id": example.id, "gold": gold, "prediction": best.text}
            if best.null_odds is not None:
                if best.null_odds > self.null_threshold:
                    prediction["prediction"] = ""
                prediction |= {"answer": best.text, "null_odds": best.null_odds}
            if example.question_type is not None:
                prediction["question_type"] = example.question_type
            pairs = zip(best.candidates, best.probabilities, strict=True)
            n_best = [[c.text, round(probability, 6)] for c, probability in pairs]
            predictions.append({**prediction, "n_best": n_best[:NUM_CANDIDATES_KEPT]})
        return predictions

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

        tables, odds, nulls = [], [], []
        for number, (window, row) in enumerate(zip(windows, rows, strict=True)):
            if self.head == "joint":
                starts, ends, first, last = (outputs[row][name] for name in _BEAM)
                longest = self.max_answer_length
                tables.append(spans_of_beam(window, number, starts, ends, first, last, longest))
                odds.append(float(outputs[row].get("impossible_logit", 0.0)))
                continue
            length = len(features.input_ids[row])  # behind it there is the padding of its batch
            start, end = (outputs[row][f"{side}_logits"][:length] for side in ("start", "end"))
            nulls.append((float(start[0]), float(end[0])))
            sizes = self.n_best_size, self.max_answer_length
            tables.append(spans_of_logits(window, number, start, end, *sizes))
        if self.head == "joint":
            odds_or_none = odds if self.has_unanswerable else None
            return electra_answer(tables, text_of, self.n_best_size, odds_or_none)
        nulls_or_none = nulls if self.has_unanswerable else None
        return klue_answer(tables, text_of, self.n_best_size, nulls_or_none)

    def score(self, predictions: Predictions) -> dict[str, float]:
        keys = ("gold", "prediction", "answer", "null_odds", "question_type")
        gold, answered, answers, odds, types = (
            {p["id"]: p[key] for p in predictions if key in p} for key in keys
        )
        match self.scorer:
            case "squad-1.1":
                values = reading.squad_v1(gold, answered)
            case "korquad-1.0":
                values = reading.korquad(gold, answered)
            case "squad-2.0":
                values = reading.squad_v2(gold, answers, odds, self.null_threshold)
            case "klue-mrc":
                of_all = types if len(types) == len(predictions) else None
                values = reading.klue_mrc(gold, answered, of_all)
        return {self.headline: values[self.headline], **values}

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        scores = np.array([self.score([p])[self.headline] for p in predictions])
        return lambda positions: float(scores[positions].mean())

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        if not self.has_unanswerable:
            return []
        sides = (prediction["gold"], prediction["prediction"])
        gold, predicted = ("answer" if side else "no answer" for side in sides)
        return [(gold, predicted)]

    def error(self, prediction: Prediction) -> float:
        """0 for an exact match."""
        normalize = NORMALIZE[self.scorer]
        answers = {normalize(answer) for answer in prediction["gold"] or [""]}
        return float(normalize(prediction["prediction"]) not in answers)


class OwnReading(Spans):
    """Rows with a context, a question and answers as the hub has SQuAD's, or a file in SQuAD's
    JSON."""

    row_name = "row"
    rows = Task.rows

    def gold_answers(self, row: Row, location: str) -> tuple[GoldAnswer, ...]:
        return placed_answers(row, location)
