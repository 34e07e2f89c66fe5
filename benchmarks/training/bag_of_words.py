"""The TF-IDF baseline of a task on texts: logistic regression on n-grams.

The task's headline metric on held-out training rows chooses the n-grams (of words, of characters,
or both) and the weights of the classes, then C. A pair has the features of each text and the
features that both texts share.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

Texts = tuple[str, ...]
Row = tuple[Texts, int]  # a text, or both of a pair, and its position among the training rows
Probabilities = NDArray[np.float64]
# headline metric, higher is better, of the rows at these positions (N,) and their probabilities
Score = Callable[[NDArray[np.int64], Probabilities], float]

_WORDS = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\S+", "min_df": 1}
_CHARACTERS = {"analyzer": "char_wb", "ngram_range": (1, 4), "min_df": 2}
_NGRAMS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "words": (_WORDS,),
    "characters": (_CHARACTERS,),
    "words and characters": (_WORDS, _CHARACTERS),
}
# n-grams and weights are chosen with the first C; rows have norm 1, so that C = 1 is too small
_STRENGTHS: Mapping[str, Sequence[Any]] = {"model__C": [16.0, 4.0, 64.0]}
GRID: Mapping[str, Sequence[Any]] = {
    "ngrams__analyzer": list(_NGRAMS),
    "model__class_weight": [None, "balanced"],
    "model__C": _STRENGTHS["model__C"][:1],
}
_HELD_OUT_FRACTION = 0.2
_FEW_TEXTS = 200  # with fewer texts, rare features are kept
_MOST_CHOOSING = 5000  # rows that the choice is made on
_ENOUGH_HELD_OUT = 1500  # held-out rows, if there are so many
# of the gradient. With scikit-learn's 1e-4 equal models differ in probabilities by up to .06
_CHOOSING_TOLERANCE, _TOLERANCE = 1e-4, 1e-6


class NgramFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """TF-IDF of `Row`s; vocabulary and document frequencies are those of the training rows."""

    def __init__(self, analyzer: str = "words") -> None:
        self.analyzer = analyzer

    def fit(self, rows: Sequence[Row], labels: object = None) -> Self:
        self.parts_ = []
        for options in _NGRAMS[self.analyzer]:
            min_df = options["min_df"] if len(rows) >= _FEW_TEXTS else 1
            part = TfidfVectorizer(sublinear_tf=True, **{**options, "min_df": min_df})
            self.parts_.append(part.fit(text for texts, _ in rows for text in texts))
        return self

    def transform(self, rows: Sequence[Row]) -> csr_array:
        """(rows, features): of each text of a pair, then their products."""
        blocks = []
        for part in self.parts_:
            texts = [
                part.transform(column) for column in zip(*(row[0] for row in rows), strict=True)
            ]
            if len(texts) == 2:
                texts.append(texts[0].multiply(texts[1]))
            blocks += texts
        return hstack(blocks, format="csr")


def bag_of_words(
    learnt: Sequence[Texts],
    labels: NDArray[np.int64],
    predicted: Mapping[str, Sequence[Texts]],
    num_labels: int,
    seed: int,
    score: Score,
) -> tuple[dict[str, Probabilities], dict[str, Any]]:
    """Learn labels (N,) in 0 .. num_labels - 1 from texts, or pairs of texts; the probabilities of
    each split's rows (N, labels), and the parameters of `GRID` that gave them.

    A label that no training row has gets the probability 0. `score` gets positions in `learnt`.
    """
    rows = [(texts, position) for position, texts in enumerate(learnt)]
    with threadpool_limits(1):  # the solver's products are tiny: threads would wait for each other
        chosen = _choose(rows, labels, num_labels, seed, score)
        model = _pipeline(_TOLERANCE).set_params(**chosen)
        if len(np.unique(labels)) < 2:
            model.set_params(model=DummyClassifier())
        model.fit(rows, labels)
        probabilities = {
            name: _probabilities(model, [(texts, -1) for texts in split], num_labels)
            for name, split in predicted.items()
        }
    return probabilities, chosen


def _pipeline(tolerance: float) -> Pipeline:
    model = LogisticRegression(tol=tolerance, max_iter=1000)
    return Pipeline([("ngrams", NgramFeatures()), ("model", model)])


def _choose(
    rows: Sequence[Row], labels: NDArray[np.int64], num_labels: int, seed: int, score: Score
) -> dict[str, Any]:
    """The parameters with the highest score on held-out fifths; the first of each where a fold
    would learn from one label alone."""
    order = np.random.default_rng([seed, 5]).permutation(len(rows))[:_MOST_CHOOSING]
    size = max(1, round(len(order) * _HELD_OUT_FRACTION))
    num_folds = min(-(-_ENOUGH_HELD_OUT // size), len(order) // size)
    held_out = order[: num_folds * size].reshape(num_folds, size)
    folds = [(np.setdiff1d(order, fold), fold) for fold in held_out]
    if any(len(np.unique(labels[others])) < 2 for others, _ in folds):
        return {name: values[0] for name, values in GRID.items()}

    def held_out_score(params: Mapping[str, Any]) -> float:
        found = []
        for others, fold in folds:
            model = _pipeline(_CHOOSING_TOLERANCE).set_params(**params)
            model.fit([rows[n] for n in others], labels[others])
            found.append(_probabilities(model, [rows[n] for n in fold], num_labels))
        value = score(held_out.ravel(), np.concatenate(found))
        return -np.inf if np.isnan(value) else value

    chosen: dict[str, Any] = {}
    for grid in (GRID, _STRENGTHS):
        tried = [
            chosen | dict(zip(grid, values, strict=True)) for values in product(*grid.values())
        ]
        chosen = max(tried, key=held_out_score)
    return chosen


def _probabilities(model: Any, rows: Sequence[Row], num_labels: int) -> Probabilities:
    probabilities = np.zeros((len(rows), num_labels))
    if rows:
        probabilities[:, model.classes_] = model.predict_proba(rows)
    return probabilities
