"""Metrics of reading as the official scripts compute them, 0..1 in place of percent.

SQuAD 1.1: the official evaluate-v1.1.py as google-research/electra
finetune/qa/squad_official_eval_v1.py has it; 2.0: rajpurkar/SQuAD-explorer evaluate-v2.0.py (the
same code as electra's finetune/qa/squad_official_eval.py up to reading and writing). KorQuAD 1.0:
evaluate-v1.0.py, as monologg/KoELECTRA finetune/src/evaluate_v1_0.py has it. KLUE-MRC:
KLUE-baseline klue_baseline/metrics functional.py (`klue_mrc_em`, `klue_mrc_rouge_w`) and utils.py;
it takes the checkpoint of the best ROUGE-W.

Gold answers, predictions and no-answer values are mappings by question id; the order of the gold
mapping is that of the file. Other predicted ids are ignored, and means are nan over no questions.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial

import numpy as np
from numpy.typing import NDArray

Answers = Mapping[str, Sequence[str]]  # question id -> the texts of its gold answers
Predictions = Mapping[str, str]  # question id -> answer; "" says that there is none
NoAnswerValues = Mapping[str, float]  # question id -> the higher, the less there is an answer
Normalize = Callable[[str], str]
Score = Callable[[str, str], float]  # of a prediction and an answer

DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_QUOTES_AND_BRACKETS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
QUESTION_TYPES = (1, 2, 3)  # of KLUE-MRC: paraphrase, several sentences needed, unanswerable
# utils.py:8: the brackets close too early, so that it asks for one mark followed by these four
_PATTERN = re.compile("['\"《》<>〈〉]" + re.escape("()‘’"))


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation (no blank in its place) and a/an/the, single blanks.
    Curly quotes, full-width marks and accents stay."""
    text = text.lower().translate(DELETE_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def normalize_korquad(text: str) -> str:
    """Korean and ASCII quotes and brackets as blanks, lower case, no other ASCII punctuation. White
    space is squeezed. There are no articles to drop, and particles stay."""
    text = text.translate(_QUOTES_AND_BRACKETS).lower().translate(DELETE_PUNCTUATION)
    return " ".join(text.split())


def normalize_klue(text: str) -> str:
    """Lower case, no ASCII punctuation, single blanks. The pattern meant to blank Korean brackets
    and quotes matches no text that people write, so they stay."""
    text = _PATTERN.sub(" ", text.lower())
    return " ".join(text.translate(DELETE_PUNCTUATION).split())


# a prediction beside one answer


def exact_match(prediction: str, answer: str, normalize: Normalize) -> float:
    """1 where both are equal when normalised, else 0."""
    return float(normalize(prediction) == normalize(answer))


def overlap_f1(prediction: str, answer: str, normalize: Normalize) -> float:
    """F1 of two bags of words, 0 where nothing is shared, also if both are empty."""
    return _bag_f1(normalize(prediction).split(), normalize(answer).split())


def character_f1(prediction: str, answer: str, normalize: Normalize) -> float:
    """The same of characters without blanks."""
    texts = normalize(prediction), normalize(answer)
    return _bag_f1(*(text.replace(" ", "") for text in texts))


def _bag_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    num_shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * num_shared / (len(predicted) + len(gold)) if num_shared else 0.0


def _overlap_or_both_empty(prediction: str, answer: str) -> float:
    predicted, gold = normalize_answer(prediction), normalize_answer(answer)
    if not predicted or not gold:
        return float(predicted == gold)
    return _bag_f1(predicted.split(), gold.split())


def rouge_w(prediction: str, answer: str, autojunk: bool = True) -> float:
    """F1 of the longest common substring of characters, which KLUE calls ROUGE-W.

    Found by `difflib` with its rule for junk: of a gold answer of 200 characters or more, those
    that make up over 1 % of it are not looked for, so that the longest substring may be missed.
    Beside an empty gold answer only an empty prediction is right.
    """
    prediction, answer = normalize_klue(prediction), normalize_klue(answer)
    if not prediction or not answer:
        return float(prediction == answer)
    matcher = SequenceMatcher(None, prediction, answer, autojunk=autojunk)
    size = matcher.find_longest_match(0, len(prediction), 0, len(answer)).size
    return 2 * size / (len(prediction) + len(answer))


# all questions


def mean(values: Sequence[float]) -> float:
    """nan over nothing."""
    return sum(values) / len(values) if values else math.nan


def best_scores(gold: Answers, predictions: Predictions, score: Score) -> dict[str, float]:
    """By question the best score over its gold answers; without one the gold answer is "". Raises
    `KeyError` for a question without prediction."""
    return {
        question: max(score(predictions[question], answer) for answer in answers or ("",))
        for question, answers in gold.items()
    }


def _mean_scores(
    gold: Answers, predictions: Predictions, scores: Mapping[str, Score]
) -> dict[str, float]:
    """Means over all questions, of which those without prediction count 0."""
    answered = {question: answers for question, answers in gold.items() if question in predictions}
    best = {name: best_scores(answered, predictions, score) for name, score in scores.items()}
    return {name: mean([values.get(q, 0.0) for q in gold]) for name, values in best.items()}


def _exact_and_f1(f1: Callable[..., float], normalize: Normalize) -> dict[str, Score]:
    return {
        "exact_match": partial(exact_match, normalize=normalize),
        "f1": partial(f1, normalize=normalize),
    }


def squad_v1(gold: Answers, predictions: Predictions) -> dict[str, float]:
    """`exact_match` and `f1` of SQuAD 1.1. Two answers of which nothing is left when normalised
    match exactly but have F1 0."""
    return _mean_scores(gold, predictions, _exact_and_f1(overlap_f1, normalize_answer))


def korquad(gold: Answers, predictions: Predictions) -> dict[str, float]:
    """`exact_match` and the `f1` of characters, which the script calls `official_...`; what
    `squad_v1` says of answers of which nothing is left holds here, too."""
    return _mean_scores(gold, predictions, _exact_and_f1(character_f1, normalize_korquad))


_OFFICIAL: dict[str, Score] = {
    "rouge_w": rouge_w,
    "exact_match": partial(exact_match, normalize=normalize_klue),
}
# the longest common substring that there is, however long the answer
_CORRECTED: dict[str, Score] = {"rouge_w_without_autojunk": partial(rouge_w, autojunk=False)}


def klue_mrc(
    gold: Answers, predictions: Predictions, question_types: Mapping[str, int] | None = None
) -> dict[str, float]:
    """`rouge_w`, `exact_match`, both by question type, and the corrected one.

    With `question_types`, by question id, there are `rouge_w_type1` and so on, nan for a type that
    no question has.
    """
    result: dict[str, float] = {}
    by_type: dict[str, float] = {}
    for name, score in _OFFICIAL.items():
        scores = best_scores(gold, predictions, score)
        result[name] = mean([*scores.values()])
        if question_types is not None:
            for kind in QUESTION_TYPES:
                typed = [s for q, s in scores.items() if question_types[q] == kind]
                by_type[f"{name}_type{kind}"] = mean(typed)
    return result | by_type | _mean_scores(gold, predictions, _CORRECTED)


def squad_v2(
    gold: Answers,
    predictions: Predictions,
    na_probs: NoAnswerValues | None = None,
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """Every value of the official script of SQuAD 2.0 under its name.

    An answer whose value in `na_probs` is greater than `na_prob_thresh` is taken as "" for `exact`,
    `f1` and the same of questions with (`HasAns_`) and without (`NoAns_`) gold answers; `total`s
    are counts. Gold texts that normalise to nothing are not compared with.

    With `na_probs` there are also `best_exact`, `best_f1` and their thresholds (found on the very
    rows they are of), and average precisions (`pr_exact_ap`, ...).

    Over no questions every value is nan.
    """
    if not gold:
        return dict.fromkeys(("exact", "f1", "total"), math.nan)
    has_answer = {question: bool(answers) for question, answers in gold.items()}
    compared = {q: [text for text in texts if normalize_answer(text)] for q, texts in gold.items()}
    functions: dict[str, Score] = {
        "exact": partial(exact_match, normalize=normalize_answer),
        "f1": _overlap_or_both_empty,
    }
    raw = {name: best_scores(compared, predictions, score) for name, score in functions.items()}
    final = raw
    if na_probs is not None:
        dropped = {question for question in gold if na_probs[question] > na_prob_thresh}
        final = {
            name: {q: float(not has_answer[q]) if q in dropped else s for q, s in scores.items()}
            for name, scores in raw.items()
        }
    result = _means(final, list(gold))
    for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
        questions = [question for question, has in has_answer.items() if has is wanted]
        if questions:
            result |= {prefix + name: v for name, v in _means(final, questions).items()}
    if na_probs is not None:
        result |= _over_thresholds(raw, predictions, na_probs, has_answer)
    return result


def _means(scores: Mapping[str, Mapping[str, float]], questions: Sequence[str]) -> dict[str, float]:
    means = {name: mean([values[q] for q in questions]) for name, values in scores.items()}
    return {**means, "total": float(len(questions))}


def _over_thresholds(
    raw: Mapping[str, Mapping[str, float]],
    predictions: Predictions,
    na_probs: NoAnswerValues,
    has_answer: Mapping[str, bool],
) -> dict[str, float]:
    """The best mean scores by the official sweep with their thresholds, and average precisions.

    From nothing answered, which is given the threshold 0.0 whatever the values are, one question
    after the other is answered, the lowest value first. The sweep may stop between questions of
    one value, where no threshold can; an answer to an unanswerable question costs 1 even if it
    normalises to nothing and so counts as right.
    """
    order = sorted(na_probs, key=na_probs.__getitem__)  # stable: equal values in file order
    values = [na_probs[question] for question in order]
    is_answerable = np.array([has_answer[question] for question in order])
    num_unanswerable = int(np.sum(~is_answerable))
    costs = np.array([-float(bool(predictions[question])) for question in order])
    by_name = {
        name: np.array([scores[question] for question in order]) for name, scores in raw.items()
    }
    result: dict[str, float] = {}
    for name, scores in by_name.items():
        gains = np.where(is_answerable, scores, costs)
        totals = np.cumsum([num_unanswerable, *gains])
        best = int(np.argmax(totals))  # the first of equals
        result[f"best_{name}"] = float(totals[best]) / len(order)
        result[f"best_{name}_thresh"] = values[best - 1] if best else 0.0
    if is_answerable.any():
        for name, scores in {**by_name, "oracle": np.ones(len(order))}.items():
            right = np.where(is_answerable, scores, 0.0)
            result[f"pr_{name}_ap"] = _average_precision(values, right, int(is_answerable.sum()))
    return result


def _average_precision(
    values: Sequence[float], right: NDArray[np.float64], num_answerable: int
) -> float:
    """Area under the precision-recall curve of answering, by steps at each distinct value; the
    values in rising order.

    A right answer is a partly true positive where its score is between 0 and 1; recall is over the
    questions that have an answer.
    """
    ends = np.flatnonzero(np.diff(values, append=math.inf))  # the last question of each value
    num_right = np.cumsum(right)[ends]
    steps = np.diff(num_right / num_answerable, prepend=0.0)
    return float(np.cumsum(num_right / (ends + 1) * steps)[-1])
