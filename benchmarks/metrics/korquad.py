"""Metrics of KorQuAD 1.0, as its official script evaluate-v1.0.py computes them (0..1).

Read as monologg/KoELECTRA finetune/src/evaluate_v1_0.py has it, which calls them
`official_exact_match` and `official_f1`.
"""

from benchmarks.metrics.squad import (
    DELETE_PUNCTUATION,
    Answers,
    Predictions,
    best_over_answers,
    overlap_f1,
)

_QUOTES_AND_BRACKETS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def normalize_answer(text: str) -> str:
    """Korean and ASCII quotes and brackets as blanks, lower case, no other ASCII punctuation.

    White space is squeezed. There are no articles to drop, and particles stay.
    """
    text = text.translate(_QUOTES_AND_BRACKETS).lower().translate(DELETE_PUNCTUATION)
    return " ".join(text.split())


def korquad(gold: Answers, predictions: Predictions) -> dict[str, float]:
    """`exact_match` and the `f1` of characters, means over all questions, nan over none.

    F1 compares bags of characters without blanks, so their order does not count; the best over the
    gold answers. A question without prediction counts 0. Two answers of which nothing is left when
    normalised match exactly but have F1 0. Raises `ValueError` for a question without gold answer.
    """
    return best_over_answers(gold, predictions, {"exact_match": exact_match, "f1": _character_f1})


def exact_match(prediction: str, answer: str) -> float:
    """1 where both are equal when normalised, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def _character_f1(prediction: str, answer: str) -> float:
    predicted, gold = normalize_answer(prediction), normalize_answer(answer)
    return overlap_f1(predicted.replace(" ", ""), gold.replace(" ", ""))
