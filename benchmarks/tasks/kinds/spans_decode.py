"""From scores of starts and ends to an answer, as the official post-processing does it.

ELECTRA's (google-research/electra finetune/qa/qa_metrics.py `write_predictions`) and that of
`transformers` 3.5.1 (data/metrics/squad_metrics.py `compute_predictions_logits`), which
KLUE-baseline calls. Both rank the spans of all windows of a question by start score + end score and
keep each text once; they differ in where "no answer" stands.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]
TextOf = Callable[[int, int, int], str]  # window, positions of first and last piece -> answer text

NO_SPAN = "empty"  # the official answer where a question has no valid span at all


@dataclass(frozen=True)
class Window:
    """Where the context stands in a row of pieces."""

    first: int  # position of the first piece of the context; at least 1
    # of each piece of the context: no other window has more context around it
    is_max_context: NDArray[np.bool_]


class Candidate(NamedTuple):
    """A text that may be the answer."""

    text: str
    start_score: float
    end_score: float

    @property
    def score(self) -> float:
        """What candidates are ranked by."""
        return self.start_score + self.end_score


class SpanTable(NamedTuple):
    """Spans of a question, one an element; position 0 for both ends says "no answer"."""

    window: NDArray[Any]  # its number
    start: NDArray[Any]  # position in the row
    end: NDArray[Any]  # position of the last piece
    start_score: NDArray[Any]
    end_score: NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """What a question is answered with, if it is.

    `null_odds` is the higher, the less there is an answer; None where every question has one.
    """

    text: str
    null_odds: float | None
    n_best: list[Candidate]

    @property
    def probabilities(self) -> list[float]:
        """Softmax over the scores of `n_best`."""
        scores = [candidate.score for candidate in self.n_best]
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
    return spans_of_beam(
        window,
        number,
        starts,
        np.tile(ends, (len(starts), 1)),
        start_logits[starts],
        np.tile(end_logits[ends], (len(starts), 1)),
        max_answer_length,
    )


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
    return SpanTable(
        window=np.full(len(row), number),
        start=starts[row].astype(np.int64),
        end=ends[row, column].astype(np.int64),
        start_score=start_scores[row],
        end_score=end_scores[row, column],
    )


def best_positions(scores: Scores, count: int) -> NDArray[np.int64]:
    """Positions of the highest scores, the highest first; of equal ones the first comes first."""
    return np.argsort(-np.asarray(scores), kind="stable")[:count]


def electra_answer(
    tables: Sequence[SpanTable],
    text_of: TextOf,
    n_best_size: int,
    null_scores: Sequence[float] | None,
    null_scores_are_odds: bool,
) -> Answer:
    """The best span of a question by ELECTRA's rules.

    `tables` hold the spans of its windows, `null_scores` the score of "no answer" of each window,
    of which the lowest stands for the question; None where every question has an answer. They are
    the odds themselves (of an answerability classifier), or the logits of "no answer", which the
    score of the best text is taken from. The text is never "": the threshold on the odds decides.
    """
    candidates = _distinct(_ranked(tables), text_of, n_best_size) or [Candidate(NO_SPAN, 0.0, 0.0)]
    if null_scores is None:
        return Answer(candidates[0].text, None, candidates)
    best, null_odds = _best_text(candidates), min(null_scores)
    if not null_scores_are_odds:
        null_odds = null_odds - best.start_score - best.end_score
    return Answer(best.text, null_odds, candidates)


def klue_answer(
    tables: Sequence[SpanTable],
    text_of: TextOf,
    n_best_size: int,
    null_logits: Sequence[tuple[float, float]] | None,
) -> Answer:
    """The best span of a question by the rules of `transformers` 3.5.1, as KLUE-MRC has them.

    "No answer" is one of the candidates, with the logits that the first position has as start and
    as end in the window where their sum is lowest; `null_logits` holds them by window, None where
    every question has an answer. KLUE answers "" where `null_odds` > 0.
    """
    if null_logits is None:
        return electra_answer(tables, text_of, n_best_size, None, null_scores_are_odds=False)
    null = Candidate("", *min(null_logits, key=sum))
    candidates = _distinct(_ranked([*tables, _null_table(null)]), text_of, n_best_size)
    if all(candidate.text for candidate in candidates):
        candidates.append(null)
    if len(candidates) == 1:
        candidates.insert(0, Candidate(NO_SPAN, 0.0, 0.0))
    best = _best_text(candidates)
    return Answer(best.text, null.score - best.start_score - best.end_score, candidates)


def _null_table(null: Candidate) -> SpanTable:
    nowhere = np.zeros(1, dtype=np.int64)
    return SpanTable(
        nowhere, nowhere, nowhere, np.array([null.start_score]), np.array([null.end_score])
    )


def _ranked(tables: Sequence[SpanTable]) -> SpanTable:
    """All spans, the best first; of equal ones that of the first window, start and end."""
    spans = SpanTable(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    order = best_positions(spans.start_score + spans.end_score, len(spans.start))
    return SpanTable(*(column[order] for column in spans))


def _distinct(ranked: SpanTable, text_of: TextOf, count: int) -> list[Candidate]:
    """The first `count` candidates of different text; "no answer" is one even beside another ""."""
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


def _best_text(candidates: Iterable[Candidate]) -> Candidate:
    return next((c for c in candidates if c.text), Candidate(NO_SPAN, 0.0, 0.0))
