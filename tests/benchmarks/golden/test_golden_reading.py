"""Golden files of reading tasks: made ones with values by hand, and the official way to words."""

import math
from typing import Any

import pytest

from benchmarks.golden.check import check_file
from benchmarks.golden.inputs import (
    ADAPTERS,
    blank_separated_words,
    joined_pieces,
    project,
)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("steve smith", ["Steve", "Smith's"], "Steve Smith"),
        ("1895", ["(1895-1943)."], "1895"),
        ("cafe lumiere", ["Café", "Lumière;"], "Café Lumière"),
        ("smit", ["Smith"], "Smit"),  # inside a word too
        ("jones", ["Steve", "Smith"], "Steve Smith"),  # not found: all words
        ("", ["Steve"], "Steve"),
        ("b", ["a\u200bb"], "a\u200bb"),  # a character went lost in splitting: all words
        ("東", ["(東京)"], "東"),
    ],
)
def test_pieces_are_projected_onto_words(text, words, expected):
    assert project(text, words, lower_case=True) == expected


def test_case_and_accents_stay_without_lower_case():
    assert project("Café", ["Café's"], lower_case=False) == "Café"
    assert project("cafe", ["Café's"], lower_case=False) == "Café's"


def test_a_mark_at_the_start_is_kept_by_one_and_not_by_the_other():
    assert joined_pieces(["##와", "협", "##약"], keep_first_mark=True) == "##와 협약"
    assert joined_pieces(["##와", "협", "##약"], keep_first_mark=False) == "와 협약"


def test_words_end_at_five_characters_only():
    text = "a\tb\u202fc d\u00a0e\n"
    assert blank_separated_words(text) == [("a", 0), ("b", 2), ("c", 4), ("d\u00a0e", 6)]


CONTEXT = "red car, blue"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "car", ",", "blue", "who", "##r"]


def reading_file(**fields: Any) -> dict[str, Any]:
    """One question with an answer and one without, each of two windows of two pieces."""
    qas = [
        {"id": "q1", "question": "who", "answers": [{"text": "red car", "answer_start": 0}]},
        {"id": "q2", "question": "who", "answers": []},
    ]
    features = {}
    for number, question in enumerate(("q1", "q2")):
        for part, (pieces, words) in enumerate((([4, 5], [0, 1]), ([6, 7], [1, 2]))):
            features[str(1000 * number + part)] = {
                "id": question,
                "tokens": ["[CLS]", "who", "[SEP]", *(VOCABULARY[n] for n in pieces), "[SEP]"],
                "segment_ids": [0, 0, 0, 1, 1, 1, 0],
                "token_to_word": {"3": words[0], "4": words[1]},
                "max_context": [3, 4],
            }
    paragraph = {"context": CONTEXT, "qas": qas}
    return {
        "task": "squad (model outputs to answers and null odds)",
        "references": {"data": [{"title": "t", "paragraphs": [paragraph]}]},
        "featurize_settings": {
            "max_seq_length": 6,
            "max_query_length": 4,
            "doc_stride": 2,
            "do_lower_case": True,
        },
        "vocab": VOCABULARY,
        "features": features,
        **fields,
    }


def electra_file() -> dict[str, Any]:
    zeros = [0.0] * 7
    settings = {
        "n_best_size": 20,
        "max_answer_length": 30,
        "joint_prediction": False,
        "answerable_classifier": False,
        "version_2": True,
    }
    outputs = {
        "0": {"start_logits": [1.0, 0, 0, 5.0, 0, 0, 0], "end_logits": [1.0, 0, 0, 0, 4.0, 0, 0]},
        "1": {"start_logits": [0.5, 0, 0, 0, 0, 0, 0], "end_logits": zeros},
        "1000": {"start_logits": [3.0, *zeros[1:]], "end_logits": [3.0, *zeros[1:]]},
        "1001": {"start_logits": [4.0, *zeros[1:]], "end_logits": [0, 0, 0, 0, 1.0, 0, 0]},
    }
    # in the second window of q1 "," alone, "blue" alone and both together have 0, as "red" and
    # "car" of the first have 5 and 4
    scores = [9.0, 5.0, 4.0, 0.0, 0.0]
    total = sum(map(math.exp, [*scores, 0.0]))
    return reading_file(
        predictions={"case": {"settings": settings, "outputs": outputs}},
        expected={
            "case": {
                "predictions": {"q1": "red car", "q2": ", blue"},
                "null_odds": {"q1": 0.5 - 9.0, "q2": 4.0 - 1.0},
                "nbest_scores_top5": {"q1": scores, "q2": [1.0, 1.0, 0.0, 0.0, 0.0]},
                "nbest_probabilities_top5": {
                    "q1": [math.exp(score) / total for score in scores],
                    "q2": [math.e / (2 * math.e + 4)] * 2 + [1 / (2 * math.e + 4)] * 3,
                },
            }
        },
    )


def test_a_file_of_outputs_agrees_and_a_wrong_value_does_not(tmp_path):
    golden = electra_file()
    check = check_file(tmp_path, golden, ADAPTERS[golden["task"]])
    assert (check.num_agree, dict(check.differ), list(check.not_covered)) == (1, {}, [])
    golden["expected"]["case"]["null_odds"]["q1"] = -8.4
    check = check_file(tmp_path, golden, ADAPTERS[golden["task"]])
    assert list(check.differ) == ["case"]
    golden = electra_file()
    golden["features"]["1"]["max_context"] = [4]
    assert "window 1" in check_file(tmp_path, golden, ADAPTERS[golden["task"]]).differ
