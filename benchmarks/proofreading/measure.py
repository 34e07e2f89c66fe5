"""How well planted mistakes are found: by kind and by rule, by several detectors.

A mistake is as suspicious as the most suspicious word that it touches. The others are the words
of the same sentence that it does not touch. All detectors have the same threshold in this sense:
the share of words of right sentences above it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.korean.morphemes import Span, word_spans
from benchmarks.metrics.detection import (
    Owners,
    auc,
    paired_wins,
    precision_above,
    recall_above,
    threshold_at,
)
from benchmarks.metrics.weighted import Floats, Weighted
from benchmarks.proofreading.detectors import Detector, by_word, cut
from benchmarks.proofreading.plant import Planted
from benchmarks.statistics.uncertainty import Draws, difference, estimate, resample_scores

FALSE_ALARMS = (0.01, 0.05)
MIN_OF_RULE = 20  # sentences of a rule that has rows of its own
ALL = "all"  # rules of a kind together


@dataclass(frozen=True)
class Row:
    """One figure with its 95 % interval over sentences; nan where there is none.

    `p` is that of a difference, two-sided, for itself alone.
    """

    kind: str
    rule: str
    num_sentences: int
    detector: str
    metric: str
    value: float
    low: float
    high: float
    p: float = math.nan


@dataclass(frozen=True)
class Scores:
    """What a detector says of planted mistakes, in the order of the sentences."""

    mistakes: Floats  # (n,)
    twins: Floats  # (n,) of the same words in the right sentence
    others: Floats  # (m,)
    owners: Owners  # (m,) the sentence of each of the others

    def of(self, chosen: Owners) -> "Scores":
        """Those of some sentences, by position."""
        place = np.full(len(self.mistakes), -1)
        place[chosen] = np.arange(len(chosen))
        owners = place[self.owners]
        is_in = owners >= 0
        return Scores(self.mistakes[chosen], self.twins[chosen], self.others[is_in], owners[is_in])


def judge(tokenizer: object, detector: Detector, texts: Sequence[str]) -> dict[str, Floats]:
    """The suspicion of each word by text."""
    texts = list(dict.fromkeys(texts))
    pieces = cut(tokenizer, texts)
    return {
        text: by_word(cuts, scores, len(word_spans(text)))
        for text, cuts, scores in zip(texts, pieces, detector(pieces), strict=True)
    }


def collect(planted: Sequence[Planted], words: Mapping[str, Floats]) -> Scores:
    """Put the suspicions of words together."""
    mistakes, twins, others, owners = [], [], [], []
    for number, mistake in enumerate(planted):
        touched = _touched(mistake.text, mistake.after)
        scores = words[mistake.text]
        mistakes.append(scores[touched].max())
        twins.append(words[mistake.clean][_touched(mistake.clean, mistake.before)].max())
        others.append(np.delete(scores, touched))
        owners.append(np.full(len(others[-1]), number))
    return Scores(
        np.array(mistakes), np.array(twins), np.concatenate(others), np.concatenate(owners)
    )


def _touched(text: str, span: Span) -> list[int]:
    """Positions of the words in a span."""
    return [
        number
        for number, (start, end) in enumerate(word_spans(text))
        if start < span[1] and end > span[0]
    ]


def rows_of(
    planted: Mapping[str, Sequence[Planted]], words: Mapping[str, Mapping[str, Floats]]
) -> list[Row]:
    """Every figure; `planted` is by kind, `words` by detector and text.

    Beside each detector stand the differences in AUC between the first one and the others.
    """
    rows: list[Row] = []
    right = list(dict.fromkeys(p.clean for of_kind in planted.values() for p in of_kind))
    thresholds = {
        detector: {
            share: threshold_at(np.concatenate([of[text] for text in right]), share)
            for share in FALSE_ALARMS
        }
        for detector, of in words.items()
    }
    for kind, of_kind in planted.items():
        scores = {detector: collect(of_kind, of) for detector, of in words.items()}
        for rule, chosen in _rules(of_kind):
            some = {detector: of.of(chosen) for detector, of in scores.items()}
            ids = "\n".join(of_kind[i].text for i in chosen)
            rows += _figures(kind, rule, ids, some, thresholds)
    return rows


def _rules(planted: Sequence[Planted]) -> Iterator[tuple[str, Owners]]:
    yield ALL, np.arange(len(planted))
    rules = np.array([mistake.rule for mistake in planted])
    for rule in dict.fromkeys(rules.tolist()):
        places = np.flatnonzero(rules == rule)
        if MIN_OF_RULE <= len(places) < len(planted):
            yield rule, places


def _figures(
    kind: str,
    rule: str,
    ids: str,
    scores: Mapping[str, Scores],
    thresholds: Mapping[str, Mapping[float, float]],
) -> Iterator[Row]:
    first = next(iter(scores))
    num_sentences = len(scores[first].mistakes)
    drawn: dict[str, tuple[float, Draws]] = {}
    for detector, of in scores.items():
        for metric, score in _metrics(of, thresholds[detector]).items():
            value = float(score(np.ones((1, num_sentences)))[0])
            draws = resample_scores(ids, num_sentences, {0: score})
            if metric == "auc":
                drawn[detector] = value, draws
            interval = estimate({0: value}, draws, (0.0, 1.0))
            yield Row(
                kind, rule, num_sentences, detector, metric, value, interval.low, interval.high
            )
    for detector, (value, draws) in drawn.items():
        if detector != first:
            of_first, first_draws = drawn[first]
            gap = difference({0: of_first}, first_draws, {0: value}, draws)
            name = f"{first} - {detector}"
            yield Row(kind, rule, num_sentences, name, "auc", gap.value, gap.low, gap.high, gap.p)


def _metrics(scores: Scores, thresholds: Mapping[float, float]) -> dict[str, Weighted]:
    found = {
        "auc": auc(scores.mistakes, scores.others, scores.owners),
        "paired": paired_wins(scores.mistakes, scores.twins),
    }
    for share, threshold in thresholds.items():
        found[f"recall at {share:.0%}"] = recall_above(scores.mistakes, threshold)
        found[f"precision at {share:.0%}"] = precision_above(
            scores.mistakes, scores.others, scores.owners, threshold
        )
    return found
