"""The TF-IDF baseline of a task on texts: logistic regression on n-grams.

The task's headline metric on held-out training rows chooses the n-grams (of words, of characters,
or both), the weights of the classes and C. A pair has the features of each text and the features
that both texts share.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

Texts = tuple[str, ...]
Probabilities = NDArray[np.float64]
# headline metric, higher is better, of the rows at these positions (N,) and their probabilities
Score = Callable[[NDArray[np.int64], Probabilities], float]

_WORDS: Mapping[str, Any] = {
    "analyzer": "word",
    "ngram_range": (1, 2),
    "token_pattern": r"\S+",
    "min_df": 1,
}
_CHARACTERS: Mapping[str, Any] = {"analyzer": "char_wb", "ngram_range": (1, 4), "min_df": 2}
ANALYZERS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "words": (_WORDS,),
    "characters": (_CHARACTERS,),
    "words and characters": (_WORDS, _CHARACTERS),
}


class Choice(NamedTuple):
    """What the held-out rows choose; `class_weight` and `C` are scikit-learn's."""

    analyzer: str
    class_weight: Literal["balanced"] | None
    C: float  # inverse strength of the L2 penalty; rows have norm 1, and 1 is mostly too small


WEIGHTS: tuple[Literal["balanced"] | None, ...] = (None, "balanced")
STRENGTHS = (16.0, 4.0, 64.0)  # C; n-grams and weights are chosen with the first one
CHOICES = tuple(Choice(*options) for options in product(ANALYZERS, WEIGHTS, STRENGTHS))
_HELD_OUT_FRACTION = 0.2
_FEW_TEXTS = 200  # with fewer texts, rare features are kept
_MOST_CHOOSING = 5000  # rows that the choice is made on
_ENOUGH_HELD_OUT = 1500  # held-out rows, if there are so many
_MANY_LABELS = 10  # from which on dense coordinates are faster than sparse features
# of the gradient. With scikit-learn's 1e-4 equal models differ in probabilities by up to .06
_CHOOSING_TOLERANCE, _TOLERANCE = 1e-4, 1e-6
_RIDGE = 1e-8  # on squared lengths of about 1: rows may be equal, and Cholesky divides


def bag_of_words(
    learnt: Sequence[Texts],
    labels: NDArray[np.int64],
    predicted: Mapping[str, Sequence[Texts]],
    num_labels: int,
    seed: int,
    score: Score,
) -> tuple[dict[str, Probabilities], Choice]:
    """Learn labels (N,) in 0 .. num_labels - 1 from texts, or pairs of texts; the probabilities of
    each split's rows (N, labels), and the choice that gave them.

    A label that no training row has gets the probability 0. `score` gets positions in `learnt`.
    """
    # the solver makes thousands of tiny products, in which threads mostly wait for each other. The
    # limit acts on libraries that are loaded, so scikit-learn comes first
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        order = np.random.default_rng([seed, 5]).permutation(len(learnt))[:_MOST_CHOOSING]
        choice = _chosen(learnt, labels, order, num_labels, score)
        vectorizer = _Vectorizer(choice.analyzer, learnt)
        model = Learner(vectorizer(learnt), labels).model(choice, _TOLERANCE)
        probabilities = {name: np.zeros((0, num_labels)) for name in predicted}
        for name, texts in predicted.items():
            if texts:
                probabilities[name] = _probabilities(model, vectorizer(texts), num_labels)
        return probabilities, choice


def _chosen(
    texts: Sequence[Texts],
    labels: NDArray[np.int64],
    order: NDArray[np.int64],
    num_labels: int,
    score: Score,
) -> Choice:
    """The n-grams and weights with the highest score on held-out fifths, then C for them. The first
    choice where no score is a number."""
    size = max(1, round(len(order) * _HELD_OUT_FRACTION))
    num_folds = min(-(-_ENOUGH_HELD_OUT // size), len(order) // size)
    scored = order[: num_folds * size].reshape(num_folds, size)
    learnt = [np.setdiff1d(order, fold) for fold in scored]
    if any(len(np.unique(labels[fold])) < 2 for fold in learnt):
        return CHOICES[0]

    def scores(choices: Sequence[Choice]) -> dict[Choice, float]:
        """Of choices with one analyzer; nan counts as the worst."""
        probabilities: dict[Choice, list[Probabilities]] = {choice: [] for choice in choices}
        for rows, others in zip(learnt, scored, strict=True):
            learnt_texts = [texts[i] for i in rows.tolist()]
            vectorizer = _Vectorizer(choices[0].analyzer, learnt_texts)
            learner = Learner(vectorizer(learnt_texts), labels[rows])
            features = vectorizer([texts[i] for i in others.tolist()])
            for choice in choices:
                model = learner.model(choice, _CHOOSING_TOLERANCE)
                probabilities[choice].append(_probabilities(model, features, num_labels))
        values = {c: score(scored.ravel(), np.concatenate(probabilities[c])) for c in choices}
        return {choice: -np.inf if np.isnan(value) else value for choice, value in values.items()}

    tried: dict[Choice, float] = {}
    for analyzer in ANALYZERS:
        tried |= scores([Choice(analyzer, weight, STRENGTHS[0]) for weight in WEIGHTS])
    best = max(tried, key=tried.__getitem__)
    tried |= scores([best._replace(C=strength) for strength in STRENGTHS[1:]])
    return max(tried, key=tried.__getitem__)


class _Vectorizer:
    """TF-IDF rows of texts; vocabulary and document frequencies are those of the training rows."""

    def __init__(self, analyzer: str, learnt: Sequence[Texts]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._parts = []
        for options in ANALYZERS[analyzer]:
            min_df = options["min_df"] if len(learnt) >= _FEW_TEXTS else 1
            part = TfidfVectorizer(sublinear_tf=True, **{**options, "min_df": min_df})
            self._parts.append(part.fit(text for texts in learnt for text in texts))

    def __call__(self, rows: Sequence[Texts]) -> csr_array:
        columns = []
        for part in self._parts:
            of_part = [part.transform(column) for column in zip(*rows, strict=True)]
            if len(of_part) == 2:
                of_part.append(of_part[0].multiply(of_part[1]))
            columns += of_part
        return hstack(columns, format="csr")


class Learner:
    """Logistic regressions on features (n, d) with labels (n,).

    With an L2 penalty the optimum is a combination of the n rows. So where n < d the regression can
    be learnt on their coordinates (n, n) in an orthonormal basis of their span: L of features =
    L Q, where L L^T = features features^T. The model is the same. With many labels this is several
    times as fast; with few labels the sparse features are faster.
    """

    def __init__(self, features: csr_array, labels: NDArray[np.int64]) -> None:
        self._features, self._labels = features, labels
        num_rows, num_features = features.shape
        self._num_labels = len(np.unique(labels))
        # the factorisation of more rows takes longer than the sparse fit
        fits = num_rows < num_features and num_rows <= _MOST_CHOOSING
        self.is_rotated = fits and self._num_labels >= _MANY_LABELS

    @cached_property
    def _coordinates(self) -> NDArray[np.float64]:
        """L, lower triangular."""
        from scipy.linalg import cholesky

        squares = (self._features @ self._features.T).toarray()
        squares[np.diag_indices_from(squares)] += _RIDGE
        return np.asarray(cholesky(squares, lower=True))

    def model(self, choice: Choice, tolerance: float) -> Any:
        """A scikit-learn classifier of rows with the given features."""
        from scipy.linalg import solve_triangular
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression

        if self._num_labels < 2:
            return DummyClassifier().fit(self._features, self._labels)
        settings = {"C": choice.C, "class_weight": choice.class_weight}
        model = LogisticRegression(**settings, tol=tolerance, max_iter=1000)
        if not self.is_rotated:
            return model.fit(self._features, self._labels)
        model.fit(self._coordinates, self._labels)
        of_rows = solve_triangular(self._coordinates, model.coef_.T, lower=True, trans="T")
        model.coef_ = (self._features.T @ of_rows).T
        model.n_features_in_ = self._features.shape[1]
        return model


def _probabilities(model: Any, features: csr_array, num_labels: int) -> Probabilities:
    probabilities = np.zeros((features.shape[0], num_labels))
    probabilities[:, model.classes_] = model.predict_proba(features)
    return probabilities
