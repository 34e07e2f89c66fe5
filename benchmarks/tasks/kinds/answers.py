"""Scores of starts and ends to answers.

The post-processing is ELECTRA's (qa_metrics.py `write_predictions`) or that of `transformers` 3.5.1
(squad_metrics.py `compute_predictions_logits`), which KLUE-baseline calls. Both rank the spans of
all windows of a question by start score + end score and keep each text once; they differ in where
"no answer" stands.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.kinds.windows import Window
from benchmarks.tasks.task import Positions

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
    """A text that may be the answer."""

    text: str
    start_score: float
    end_score: float

    @property
    def score(self) -> float:
        """What candidates are ranked by."""
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
        """Softmax over the scores of the candidates."""
        scores = [candidate.score for candidate in self.candidates]
        weights = [math.exp(score - max(scores)) for score in scores]
        return [weight / sum(weights) for weight in weights]


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
