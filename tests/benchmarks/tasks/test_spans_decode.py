"""Post-processing beside loops over all pairs of a start and an end, and its special cases."""

import math
import random

import numpy as np
import pytest

from benchmarks.tasks.kinds.spans import (
    NO_SPAN,
    Window,
    best_positions,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)


def text_of(window: int, start: int, end: int) -> str:
    return f"{window}:{start}-{end}"


def table(starts, ends, window=None, number=0, n_best_size=20, max_answer_length=30):
    window = window or Window(1, np.ones(len(starts) - 1, dtype=bool))
    return spans_of_logits(
        window, number, np.array(starts), np.array(ends), n_best_size, max_answer_length
    )


def pairs(spans) -> list[tuple[int, int]]:
    return list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_those_of_a_loop(seed):
    """The loop goes by rank of the start, then by rank of the end; equal logits by position."""
    rng = random.Random(seed)
    length, first = rng.randint(6, 15), rng.randint(1, 4)
    is_max = np.array([rng.random() < 0.7 for _ in range(rng.randint(1, length - first))])
    start, end = (
        [rng.choice([0.0, 1.0, round(rng.gauss(0, 1), 2)]) for _ in range(length)] for _ in range(2)
    )
    n_best_size, longest = rng.randint(1, 8), rng.randint(1, 5)
    ranked = [
        sorted(range(length), key=lambda n, logits=logits: (-logits[n], n))[:n_best_size]
        for logits in (start, end)
    ]
    expected = [
        (s, e)
        for s in ranked[0]
        for e in ranked[1]
        if first <= s <= e < first + len(is_max) and e - s < longest and is_max[s - first]
    ]
    found = table(start, end, Window(first, is_max), 3, n_best_size, longest)
    assert pairs(found) == expected
    assert found.start_score.tolist() == [start[s] for s, _ in expected]
    assert found.end_score.tolist() == [end[e] for _, e in expected]
    assert set(found.window.tolist()) <= {3}


def test_only_the_start_needs_the_larger_context():
    window = Window(1, np.array([True, False]))
    assert (1, 2) in pairs(table([0, 5, 5], [0, 5, 5], window))
    assert (2, 2) not in pairs(table([0, 5, 5], [0, 5, 5], window))


def test_of_a_beam_each_start_has_its_own_ends():
    spans = spans_of_beam(
        Window(1, np.ones(4, dtype=bool)),
        0,
        np.array([2, 1]),
        np.array([[3, 1], [4, 1]]),
        np.array([-0.1, -2.0]),
        np.array([[-0.2, -3.0], [-0.4, -0.5]]),
        30,
    )
    assert pairs(spans) == [(2, 3), (1, 4), (1, 1)]
    assert spans.start_score + spans.end_score == pytest.approx([-0.3, -2.4, -2.5])


def test_best_positions_keep_the_order_of_equals():
    assert best_positions(np.array([1.0, 2.0, 2.0, 3.0, 2.0]), 4).tolist() == [3, 1, 2, 4]


def test_the_best_of_all_windows_and_each_text_once():
    first = table([0, 3, 1], [0, 0, 2])
    second = table([0, 4, 1], [0, 0, 1], number=1)
    answer = electra_answer([first, second], text_of, 20, None, False)
    assert (answer.text, answer.null_odds) == ("0:1-2", None)
    scores = [candidate.score for candidate in answer.n_best]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 6
    weights = np.exp(scores)
    assert answer.probabilities == pytest.approx(weights / weights.sum())
    once = electra_answer([first, second], lambda *_: "same", 20, None, False)
    assert [candidate.score for candidate in once.n_best] == [5.0]
    assert len(electra_answer([first, second], text_of, 3, None, False).n_best) == 3


def test_electra_takes_the_least_sure_window_for_no_answer():
    spans = [table([0, 3, 1], [0, 0, 2]), table([0, 1, 1], [0, 0, 1], number=1)]
    by_logits = electra_answer(spans, text_of, 20, [7.0, 6.5], null_scores_are_odds=False)
    assert by_logits.null_odds == pytest.approx(6.5 - 5.0)
    by_classifier = electra_answer(spans, text_of, 20, [7.0, 6.5], null_scores_are_odds=True)
    assert by_classifier.null_odds == 6.5
    assert by_classifier.text == by_logits.text == "0:1-2"  # the threshold is not applied here


def test_without_any_valid_span_the_answer_is_the_official_one():
    nothing = table([9, 0, 0], [9, 0, 0], Window(1, np.zeros(2, dtype=bool)))
    answer = electra_answer([nothing], text_of, 20, [1.5], null_scores_are_odds=False)
    assert (answer.text, answer.null_odds, answer.probabilities) == (NO_SPAN, 1.5, [1.0])
    answer = klue_answer([nothing], text_of, 20, [(9.0, 9.0)])
    assert [candidate.text for candidate in answer.n_best] == [NO_SPAN, ""]
    assert answer.null_odds == 18.0


def test_klue_counts_no_answer_among_the_candidates():
    spans = [table([2, 3, 1], [2, 0, 2]), table([1, 1, 1], [1, 0, 1], number=1)]
    answer = klue_answer(spans, text_of, 3, [(2.0, 2.0), (1.0, 1.0)])
    # the null of the second window: 2, among spans of 5, 3, 3, 2 ...
    assert [candidate.text for candidate in answer.n_best[:3]] == ["0:1-2", "0:1-1", "0:2-2"]
    assert [candidate.text for candidate in answer.n_best[3:]] == [""]  # put behind the n best
    assert answer.null_odds == pytest.approx(2.0 - 5.0)
    strong = klue_answer(spans, text_of, 3, [(4.0, 2.0), (9.0, 9.0)])
    assert [candidate.text for candidate in strong.n_best] == ["", "0:1-2", "0:1-1"]
    assert (strong.text, strong.null_odds) == ("0:1-2", pytest.approx(1.0))


def test_klue_of_a_set_where_every_question_has_an_answer():
    answer = klue_answer([table([9, 3, 1], [9, 0, 2])], text_of, 20, None)
    assert (answer.text, answer.null_odds) == ("0:1-2", None)
    assert "" not in [candidate.text for candidate in answer.n_best]


def test_an_empty_text_is_no_answer():
    def blank_first(window: int, start: int, end: int) -> str:
        return "" if start == 1 else "word"

    answer = electra_answer([table([0, 3, 1], [0, 3, 1])], blank_first, 20, [0.0], False)
    assert answer.text == "word"
    assert math.isclose(sum(answer.probabilities), 1.0)
