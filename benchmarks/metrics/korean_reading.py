"""Metrics of KorQuAD 1.0 and KLUE-MRC, as their official code computes them (0..1, not percent).

KorQuAD: evaluate-v1.0.py, as monologg/KoELECTRA finetune/src/evaluate_v1_0.py has it, which calls
the values `official_exact_match` and `official_f1`. KLUE-MRC: KLUE-baseline klue_baseline/metrics
functional.py (`klue_mrc_em`, `klue_mrc_rouge_w`) and utils.py; KLUE-baseline takes the checkpoint
of the best ROUGE-W.
"""

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from functools import partial

from benchmarks.metrics.squad import (
    DELETE_PUNCTUATION,
    Answers,
    Predictions,
    best_over_answers,
    mean,
    overlap_f1,
)

_QUOTES_AND_BRACKETS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def normalize_korquad(text: str) -> str:
    """Korean and ASCII quotes and brackets as blanks, lower case, no other ASCII punctuation. White
    space is squeezed. There are no articles to drop, and particles stay."""
    text = text.translate(_QUOTES_AND_BRACKETS).lower().translate(DELETE_PUNCTUATION)
    return " ".join(text.split())


def korquad(gold: Answers, predictions: Predictions) -> dict[str, float]:
    """`exact_match` and the `f1` of characters, means over all questions, nan over none.

    F1 compares bags of characters without blanks. Two answers of which nothing is left when
    normalised match exactly but have F1 0. More as `best_over_answers`.
    """
    return best_over_answers(
        gold, predictions, {"exact_match": korquad_exact_match, "f1": _character_f1}
    )


def korquad_exact_match(prediction: str, answer: str) -> float:
    """1 where both are equal when normalised, else 0."""
    return float(normalize_korquad(prediction) == normalize_korquad(answer))


def _character_f1(prediction: str, answer: str) -> float:
    predicted, gold = normalize_korquad(prediction), normalize_korquad(answer)
    return overlap_f1(predicted.replace(" ", ""), gold.replace(" ", ""))


QUESTION_TYPES = (1, 2, 3)  # paraphrase, several sentences needed, unanswerable

# utils.py:8: the brackets close too early, so that it asks for one mark followed by these four
_PATTERN = re.compile("['\"《》<>〈〉]" + re.escape("()‘’"))

_Score = Callable[[str, str], float]


def normalize_klue(text: str) -> str:
    """Lower case, no ASCII punctuation, single blanks. The pattern meant to blank Korean brackets
    and quotes matches no text that people write, so they stay."""
    text = _PATTERN.sub(" ", text.lower())
    return " ".join(text.translate(DELETE_PUNCTUATION).split())


def klue_exact_match(prediction: str, answer: str) -> float:
    """1 if both are the same text when normalised."""
    return float(normalize_klue(prediction) == normalize_klue(answer))


def rouge_w(
    prediction: str,
    answer: str,
    normalize: Callable[[str], str] = normalize_klue,
    autojunk: bool = True,
) -> float:
    """F1 of the longest common substring of characters, which KLUE calls ROUGE-W.

    Found by `difflib` with its rule for junk: of a gold answer of 200 characters or more, those
    that make up over 1 % of it are not looked for, so that the longest substring may be missed.
    Beside an empty gold answer only an empty prediction is right.
    """
    prediction, answer = normalize(prediction), normalize(answer)
    if not prediction or not answer:
        return float(prediction == answer)
    matcher = SequenceMatcher(None, prediction, answer, autojunk=autojunk)
    size = matcher.find_longest_match(0, len(prediction), 0, len(answer)).size
    return 2 * size / (len(prediction) + len(answer))


_OFFICIAL: dict[str, _Score] = {"rouge_w": rouge_w, "exact_match": klue_exact_match}
_CORRECTED: dict[str, _Score] = {
    # the longest common substring that there is, however long the answer
    "rouge_w_without_autojunk": partial(rouge_w, autojunk=False),
    "rouge_w_without_brackets": partial(rouge_w, normalize=normalize_korquad, autojunk=False),
    # brackets and quotes as blanks: KLUE's pattern is KorQuAD's, and was meant for that
    "exact_match_without_brackets": korquad_exact_match,
}


def klue_mrc(
    gold: Answers, predictions: Predictions, question_types: Mapping[str, int] | None = None
) -> dict[str, float]:
    """`rouge_w`, `exact_match`, both by question type, and the corrected ones; nan over nothing.

    A question without gold answer has the gold answer "". With `question_types`, by question id,
    there are `rouge_w_type1` and so on, nan for a type that no question has. Other predicted ids
    are ignored.
    """
    scores = {
        name: _best(gold, predictions, score) for name, score in (_OFFICIAL | _CORRECTED).items()
    }
    result = {name: mean(list(scores[name].values())) for name in _OFFICIAL}
    if question_types is not None:
        for kind in QUESTION_TYPES:
            for name in _OFFICIAL:
                of_type = [s for q, s in scores[name].items() if question_types[q] == kind]
                result[f"{name}_type{kind}"] = mean(of_type)
    return result | {name: mean(list(scores[name].values())) for name in _CORRECTED}


def _best(gold: Answers, predictions: Predictions, score: _Score) -> dict[str, float]:
    """By question the best score over its gold answers."""
    return {
        question: max(score(predictions[question], answer) for answer in answers or ("",))
        for question, answers in gold.items()
    }
