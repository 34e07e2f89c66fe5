"""Answers from scores beside loops over all pairs, their special cases, lines and their scores."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.metrics.klue_mrc import klue_mrc
from benchmarks.tasks.kinds.spans import (
    NO_SPAN,
    GoldAnswer,
    QuestionExample,
    Window,
    best_positions,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
    write_squad_files,
)
from benchmarks.tasks.klue import MRC
from benchmarks.tasks.korean import KORQUAD_1
from benchmarks.tasks.squad import SQUAD_2, SQUAD_2_SPAN
from tests.benchmarks.conftest import build_tokenizer

FILLERS = [f"{first}{last}" for first in "가나다라마바사" for last in "은는이가"]
TOKENIZER = build_tokenizer([*FILLERS, "김민", "최수", "누구", "?"])


def text_of(window: int, start: int, end: int) -> str:
    return f"{window}:{start}-{end}"


def table(starts, ends, window=None, number=0, n_best_size=20, max_answer_length=30):
    window = window or Window(1, np.ones(len(starts) - 1, dtype=bool))
    return spans_of_logits(
        window, number, np.array(starts), np.array(ends), n_best_size, max_answer_length
    )


def pairs(spans) -> list[tuple[int, int]]:
    return list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


def texts(answer) -> list[str]:
    return [candidate.text for candidate in answer.n_best]


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
    assert best_positions(np.array(start), n_best_size).tolist() == ranked[0]


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


def test_the_best_of_all_windows_and_each_text_once():
    spans = [table([0, 3, 1], [0, 0, 2]), table([0, 4, 1], [0, 0, 1], number=1)]
    answer = electra_answer(spans, text_of, 20, None, False)
    assert (answer.text, answer.null_odds) == ("0:1-2", None)
    scores = [candidate.score for candidate in answer.n_best]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 6
    weights = np.exp(scores)
    assert answer.probabilities == pytest.approx(weights / weights.sum())
    once = electra_answer(spans, lambda *_: "same", 20, None, False)
    assert [candidate.score for candidate in once.n_best] == [5.0]
    assert len(electra_answer(spans, text_of, 3, None, False).n_best) == 3
    blank = electra_answer(spans, lambda _, start, end: "" if start == 1 else "word", 20, [0], True)
    assert blank.text == "word"  # an empty text is no answer


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
    assert texts(answer) == [NO_SPAN, ""]
    assert answer.null_odds == 18.0


def test_klue_counts_no_answer_among_the_candidates():
    spans = [table([2, 3, 1], [2, 0, 2]), table([1, 1, 1], [1, 0, 1], number=1)]
    answer = klue_answer(spans, text_of, 3, [(2.0, 2.0), (1.0, 1.0)])
    # the null of the second window: 2, among spans of 5, 3, 3, 2; put behind the n best
    assert texts(answer) == ["0:1-2", "0:1-1", "0:2-2", ""]
    assert answer.null_odds == pytest.approx(2.0 - 5.0)
    strong = klue_answer(spans, text_of, 3, [(4.0, 2.0), (9.0, 9.0)])
    assert texts(strong) == ["", "0:1-2", "0:1-1"]
    assert (strong.text, strong.null_odds) == ("0:1-2", pytest.approx(1.0))
    always = klue_answer(spans, text_of, 20, None)  # every question has an answer
    assert (always.text, always.null_odds) == ("0:1-2", None)
    assert "" not in texts(always)


def test_answers_are_put_together_from_windows():
    """The best span stands in the second window; the text is as in the context, blanks and all."""
    context = " ".join(FILLERS[:20]) + "  김민\n최수 " + " ".join(FILLERS[:5])
    example = QuestionExample("q", (context, "누구 ?"), (GoldAnswer("김민", 0),))
    task = replace(MRC, stride=120)
    features = task.featurize([example], TOKENIZER, 24, train=False)
    assert len(features.input_ids) > 1
    outputs = []
    for ids in features.input_ids:
        tokens = TOKENIZER.convert_ids_to_tokens(ids.tolist())
        start = np.array([5.0 * (token == "김민") for token in tokens] + [9.0] * 3)  # padding
        end = np.array([5.0 * (token == "최수") for token in tokens] + [9.0] * 3)
        outputs.append({"start_logits": start, "end_logits": end})
    (found,) = task.lines([example], features, outputs)
    assert found["prediction"] == found["answer"] == "김민\n최수"
    assert found["null_odds"] == -10.0
    assert found["n_best"][0][0] == "김민\n최수"


def line(identity, gold, text, odds):
    said = text if odds <= 0 else ""
    return {"id": identity, "gold": gold, "prediction": said, "answer": text, "null_odds": odds}


def test_scores_are_made_of_lines_alone():
    lines = [
        line("q1", ["red"], "red", -3.0),
        line("q2", [], "blue", -2.9),
        line("q3", [], "x", -1.0),
    ]
    joint = SQUAD_2.score(lines)  # at the threshold -2.75
    assert (joint["exact"], joint["best_exact"]) == (pytest.approx(2 / 3), 1.0)
    assert SQUAD_2_SPAN.score(lines)["exact"] == pytest.approx(1 / 3)  # at 0
    typed = [{**found, "question_type": 1} for found in lines]
    assert MRC.score(typed)["exact_match_type1"] == pytest.approx(1 / 3)
    assert "exact_match_type1" not in MRC.score(lines)
    assert "exact_match_type1" not in MRC.score([*typed[:2], lines[2]])
    short = [{"id": "q", "gold": ["서울"], "prediction": "서울시"}]
    assert KORQUAD_1.score(short)["f1"] == pytest.approx(2 * 2 / 5)


def test_files_for_the_official_scripts(tmp_path):
    """Of SQuAD 2.0 texts and odds; of KLUE the answers, the threshold being in them."""
    lines = [line("q1", ["red"], "red", -3.0), line("q2", [], "blue", 2.0)]
    paths = write_squad_files(lines, tmp_path / "squad", with_odds=True)
    assert [path.name for path in paths] == ["predictions.json", "null_odds.json"]
    predictions, odds = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    assert predictions == {"q1": "red", "q2": "blue"}
    assert odds == {"q1": -3.0, "q2": 2.0}
    (path,) = write_squad_files(lines, tmp_path / "klue", with_odds=False)
    answers = json.loads(path.read_text(encoding="utf-8"))
    assert answers == {"q1": "red", "q2": ""}
    assert klue_mrc({"q1": ["red"], "q2": []}, answers)["exact_match"] == 1.0
