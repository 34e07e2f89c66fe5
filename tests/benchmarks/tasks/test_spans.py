"""Reading tasks: rows of the hub, answers from windows, scores of lines, files for scripts."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.metrics.klue_mrc import klue_mrc
from benchmarks.tasks.kinds.spans import GoldAnswer, QuestionExample, write_squad_files
from benchmarks.tasks.klue import MRC as KLUE_MRC
from benchmarks.tasks.korean import KORQUAD_1
from benchmarks.tasks.squad import SQUAD_1, SQUAD_2, SQUAD_2_SPAN
from benchmarks.tasks.task import Outputs
from tests.benchmarks.conftest import build_tokenizer

FILLERS = [f"{first}{last}" for first in "가나다라마바사" for last in "은는이가"]
TOKENIZER = build_tokenizer([*FILLERS, "김민", "최수", "누구", "?"])


def test_rows_of_the_hub_are_the_questions_of_the_file():
    answers = {"text": ["가는", "나는"], "answer_start": [3, 0]}
    rows = [
        {"id": "q1", "context": "나는 가는", "question": "누구 ?", "answers": answers},
        {
            "id": "q2",
            "context": "나는 가는",
            "question": "?",
            "answers": answers,
            "is_impossible": True,
        },
    ]
    found = list(SQUAD_2.from_rows("dev", enumerate(rows, start=1), "hub"))
    assert [example.answers for example in found] == [
        (GoldAnswer("가는", 3), GoldAnswer("나는", 0)),
        (),
    ]


def line(identity: str, gold: list[str], text: str, odds: float, **fields: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "gold": gold,
        "prediction": text if odds <= 0 else "",
        "answer": text,
        "null_odds": odds,
        "n_best": [[text, 0.6], ["", 0.4]],
        **fields,
    }


def test_scores_are_made_of_lines_alone():
    lines = [
        line("q1", ["red"], "red", -3.0),
        line("q2", [], "blue", -2.9),
        line("q3", [], "x", -1.0),
    ]
    joint = SQUAD_2.score(lines)  # at the threshold -2.75
    assert next(iter(joint)) == "f1"
    assert (joint["exact"], joint["best_exact"]) == (pytest.approx(2 / 3), 1.0)
    assert SQUAD_2_SPAN.score(lines)["exact"] == pytest.approx(1 / 3)  # at 0
    typed = [{**found, "question_type": 1} for found in lines]
    assert KLUE_MRC.score(typed)["exact_match_type1"] == pytest.approx(1 / 3)
    assert "exact_match_type1" not in KLUE_MRC.score(lines)
    short = [{"id": "q", "gold": ["서울"], "prediction": "서울시"}]
    assert KORQUAD_1.score(short)["f1"] == pytest.approx(2 * 2 / 5)


@pytest.mark.parametrize("task", [SQUAD_1, SQUAD_2, KLUE_MRC, KORQUAD_1], ids=lambda t: t.name)
def test_without_lines_every_metric_is_named_and_nan(task):
    scores = task.score([])
    assert next(iter(scores)) == task.headline
    assert all(np.isnan(value) for value in scores.values())


def test_files_for_the_official_scripts(tmp_path):
    lines = [line("q1", ["red"], "red", -3.0), line("q2", [], "blue", 2.0)]
    paths = write_squad_files(lines, tmp_path / "squad", with_odds=True)
    assert [path.name for path in paths] == ["predictions.json", "null_odds.json"]
    predictions, odds = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    assert predictions == {"q1": "red", "q2": "blue"}
    assert odds == {"q1": -3.0, "q2": 2.0}
    korquad = [{"id": "q", "prediction": "서울"}]
    (path,) = write_squad_files(korquad, tmp_path / "korquad", with_odds=False)
    assert json.loads(path.read_text(encoding="utf-8")) == {"q": "서울"}


def test_the_file_for_klues_script_has_the_threshold_in_it(tmp_path):
    lines = [line("q1", ["red"], "red", -3.0), line("q2", [], "blue", 2.0)]
    (path,) = write_squad_files(lines, tmp_path, with_odds=False)
    answers = json.loads(path.read_text(encoding="utf-8"))
    assert answers == {"q1": "red", "q2": ""}
    gold = {"q1": ["red"], "q2": []}
    assert klue_mrc(gold, answers)["exact_match"] == 1.0


def test_answers_are_put_together_from_windows():
    """The best span stands in the second window; the text is as in the context, blanks and all."""
    context = " ".join(FILLERS[:20]) + "  김민\n최수 " + " ".join(FILLERS[:5])
    example = QuestionExample("q", (context, "누구 ?"), (GoldAnswer("김민", 0),))
    task = replace(KLUE_MRC, stride=120)
    features = task.featurize([example], TOKENIZER, 24, train=False)
    assert len(features.input_ids) > 1
    outputs: list[Outputs] = []
    for ids in features.input_ids:
        tokens = TOKENIZER.convert_ids_to_tokens(ids.tolist())
        start = np.array([5.0 * (token == "김민") for token in tokens] + [9.0] * 3)  # padding
        end = np.array([5.0 * (token == "최수") for token in tokens] + [9.0] * 3)
        outputs.append({"start_logits": start, "end_logits": end})
    (found,) = task.lines([example], features, outputs)
    assert found["prediction"] == found["answer"] == "김민\n최수"
    assert found["null_odds"] == -10.0
    assert found["n_best"][0][0] == "김민\n최수"
