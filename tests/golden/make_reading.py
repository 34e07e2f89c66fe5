"""The golden vectors of reading, relations, parsing and dialogues; see `make`.

Everything but AUPRC (scikit-learn) and the longest common substrings of long texts (difflib) is
worked out by hand.
"""

from difflib import SequenceMatcher
from typing import Any

import numpy as np
from sklearn import metrics

ERROR = {"error": "ValueError"}
Golden = dict[str, Any]


def squad_file(rows: dict[str, list[str]], key: str = "id", **more: Any) -> dict[str, Any]:
    """Questions with their gold answers in one paragraph."""
    questions = [
        {key: name, "question": "?", "answers": [{"text": a, "answer_start": 0} for a in answers]}
        | {field: values[name] for field, values in more.items()}
        for name, answers in rows.items()
    ]
    paragraph = {"context": "", "qas": questions}
    return {"version": "ours", "data": [{"title": "", "paragraphs": [paragraph]}]}


def squad_v1() -> Golden:
    gold = {
        "house": ["The red house"],
        "year": ["in May 1999", "May 1999"],
        "article": ["the"],
        "missing": ["somewhere"],
    }
    return {
        "task": "squad_v1.1",
        "references": squad_file(gold),
        "predictions": {
            # year: "on may 1999" has 2 of its 3 and 2 of 2 words: .8; article: both sides are
            # empty once normalised, EM 1 but F1 0
            "mixed": {"house": "red house!", "year": "on May 1999", "article": "an", "extra": "x"},
            "nothing": {},
        },
        "expected": {
            "mixed": {"exact_match": 50.0, "f1": 100 * (1 + 0.8 + 0) / 4},
            "nothing": {"exact_match": 0.0, "f1": 0.0},
        },
    }


def squad_v2() -> Golden:
    gold: dict[str, list[str]] = {"sky": ["blue sky"], "count": ["twelve"], "no_1": [], "no_2": []}
    predicted = {"sky": "blue sky", "count": "ten", "no_1": "", "no_2": "wrong"}
    odds = {"sky": 0.1, "count": 0.9, "no_1": 0.8, "no_2": 0.3}

    def case(answers: dict[str, str], na_probs: Any, threshold: float) -> dict[str, Any]:
        return {"pred": answers, "na_probs": na_probs, "na_prob_thresh": threshold}

    counts = {"total": 4, "HasAns_total": 2, "NoAns_total": 2}
    best: dict[str, Any] = {
        # from "answer nothing" with 2 right: + sky, - no_2: 3 of 4 at the odds of sky
        "best_exact": 75.0,
        "best_exact_thresh": 0.1,
        "best_f1": 75.0,
        "best_f1_thresh": 0.1,
        # precision 1 at recall 1/2, nothing right behind; the oracle has 2 of 4 at recall 1
        "pr_exact_ap": 50.0,
        "pr_f1_ap": 50.0,
        "pr_oracle_ap": 75.0,
    }
    without_one = {name: text for name, text in predicted.items() if name != "sky"}
    return {
        "task": "squad_v2.0",
        "references": squad_file(gold),
        "predictions": {
            "threshold": case(predicted, odds, 0.5),
            "on_the_threshold": case(predicted, odds, 0.3),  # strictly greater: no_2 stays wrong
            "below_the_threshold": case(predicted, odds, 0.2),
            "without_odds": case(predicted, None, 1.0),
            "missing_id": case(without_one, odds, 1.0),
            "missing_odds": case(predicted, {"sky": 0.1}, 1.0),
        },
        "expected": {
            "threshold": {"exact": 50.0, "f1": 50.0, "HasAns_exact": 50.0, "NoAns_exact": 50.0}
            | counts
            | best,
            "on_the_threshold": {"exact": 50.0, "NoAns_f1": 50.0} | counts | best,
            "below_the_threshold": {"exact": 75.0, "NoAns_f1": 100.0} | counts | best,
            "without_odds": {"exact": 50.0, "f1": 50.0, "HasAns_f1": 50.0} | counts,
            "missing_id": ERROR,
            "missing_odds": ERROR,
        },
    }


def korquad() -> Golden:
    gold = {"brackets": ["《봄날》 서울"], "shorter": ["서울시"], "missing": ["부산"]}
    return {
        "task": "korquad_v1.0",
        "references": squad_file(gold),
        "predictions": {"mixed": {"brackets": "봄날 서울", "shorter": "서울"}},
        # shorter: 2 of 2 and 2 of 3 characters: .8
        "expected": {
            "mixed": {"official_exact_match": 100 / 3, "official_f1": 100 * (1 + 0.8) / 3}
        },
    }


def klue_mrc() -> Golden:
    long_gold = (
        "가나다라마바사아자차" * 21
    )  # every character is frequent: difflib leaves them all out
    gold: dict[str, list[str]] = {
        "particle": ["서울 시청"],
        "brackets": ["《봄》"],
        "long": [long_gold],
        "none": [],
    }
    types = {"particle": 1, "brackets": 2, "long": 2, "none": 3}
    answers = {"particle": "서울 시청은", "brackets": "봄", "long": long_gold[5:175], "none": ""}
    values = {
        "particle": 2 * 5 / (5 + 6),  # five characters in common
        "brackets": 2 * 1 / (3 + 1),  # the brackets stay
        "long": _substring_f1(answers["long"], long_gold),
        "none": 1.0,
    }
    assert values["long"] == 0.0
    without_one = {name: text for name, text in answers.items() if name != "particle"}
    others = {"exact_match": 1 / 3, "rouge": (values["brackets"] + 0 + 1) / 3}
    return {
        "task": "klue/mrc",
        "references": squad_file(gold, "guid", question_type=types),
        "predictions": {"mixed": answers, "missing_id": without_one},
        "expected": {
            "mixed": {
                "exact_match": 25.0,
                "rouge_w": 100 * sum(values.values()) / 4,
                "exact_match_type1": 0.0,
                "rouge_w_type1": 100 * values["particle"],
                "exact_match_type2": 0.0,
                "rouge_w_type2": 25.0,
                "exact_match_type3": 100.0,
                "rouge_w_type3": 100.0,
            },
            "missing_id": {"exact_match": ERROR, "rouge_w": ERROR},
        },
        "expected_other": {"what is there alone (0..1)": {"missing_id": others}},
    }


def _substring_f1(predicted: str, gold: str) -> float:
    matcher = SequenceMatcher(None, predicted, gold)
    size = matcher.find_longest_match(0, len(predicted), 0, len(gold)).size
    return 2 * size / (len(predicted) + len(gold))


def klue_re() -> Golden:
    gold = [0, 0, 1, 1, 2, 2, 1, 0]
    logits = np.array(
        [[3, 1, 0], [1, 2, 0], [0, 3, 1], [2, 1, 1], [0, 1, 2], [0, 3, 1], [1, 2, 2], [3, 0, 0]]
    )
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    predicted = probabilities.argmax(axis=1)
    areas = []
    for label in range(3):
        precision, recall, _ = metrics.precision_recall_curve(
            np.array(gold) == label, probabilities[:, label]
        )
        areas.append(metrics.auc(recall, precision))
    micro = metrics.f1_score(gold, predicted, labels=[1, 2], average="micro")
    never = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]  # right twice; the third label has no gold row
    return {
        "task": "klue/re",
        "label_list": ["no_relation", "per:friend", "org:place"],
        "references": {"default": gold, "two": [0, 1]},
        "predictions": {
            "mixed": {"ref": "default", "probs": probabilities.tolist()},
            "a_label_without_gold": {"ref": "two", "probs": never},
        },
        "expected": {
            "mixed": {"micro_f1": 100 * micro, "auprc": 100 * float(np.mean(areas))},
            "a_label_without_gold": {"micro_f1": 100.0, "auprc": "nan"},
        },
        "expected_other": {
            "scikit-learn since 1.1": {"a_label_without_gold": {"auprc": 100 * (1 + 1 + 0.5) / 3}}
        },
    }


def klue_dp() -> Golden:
    heads, types = [[2, 3, 5, 5, 0]], [[1, 2, 3, 4, 0]]
    return {
        "task": "klue/dp",
        "references": {
            "five_words": {"heads": heads, "types": types},
            "rare": {"heads": [[2, 0], [0]], "types": [[15, 20], [3]]},
        },
        "predictions": {
            "one_wrong_head": {"ref": "five_words", "heads": [[2, 3, 4, 5, 0]], "types": types},
            "one_wrong_type": {"ref": "five_words", "heads": heads, "types": [[1, 2, 3, 4, 4]]},
            "rare_swapped": {"ref": "rare", "heads": [[2, 0], [0]], "types": [[20, 15], [3]]},
        },
        "expected": {
            # heads 2, 3, 0 each 1, 5 once of twice, 4 only predicted; types 0, 1, 2, 4 each 1, 3
            # and the class of wrong heads 0
            "one_wrong_head": {
                "uas_micro_f1": 80.0,
                "uas_macro_f1": 100 * (3 + 2 / 3 + 0) / 5,
                "las_micro_f1": 80.0,
                "las_macro_f1": 100 * 4 / 6,
            },
            # types 1, 2, 3 each 1, 4 once too often, 0 never
            "one_wrong_type": {
                "uas_micro_f1": 100.0,
                "uas_macro_f1": 100.0,
                "las_micro_f1": 80.0,
                "las_macro_f1": 100 * (3 + 2 / 3 + 0) / 5,
            },
            # from 15 on all are one class
            "rare_swapped": {
                "uas_micro_f1": 100.0,
                "uas_macro_f1": 100.0,
                "las_micro_f1": 100.0,
                "las_macro_f1": 100.0,
            },
        },
    }


def klue_wos() -> Golden:
    cheap, north, south = "식당-가격대-저렴", "식당-지역-북쪽", "식당-지역-남쪽"
    return {
        "task": "klue/wos",
        "references": {
            "four_turns": [[], [cheap, north], [cheap, north], []],
            "no_turns": [],
            "one": [[cheap]],
        },
        "predictions": {
            "mixed": {
                "ref": "four_turns",
                "pred": [[], [north, cheap], [cheap, south], [cheap]],  # F1 1, 1, 1/2, 0
            },
            "no_turns": {"ref": "no_turns", "pred": []},
            "twice": {"ref": "one", "pred": [[cheap, cheap]]},
        },
        "expected": {
            "mixed": {"joint_goal_acc": 50.0, "slot_micro_f1": 62.5},
            "no_turns": {"joint_goal_acc": 0.0, "slot_micro_f1": 0.0},
            "twice": {"joint_goal_acc": 100.0, "slot_micro_f1": 100.0},
        },
    }
