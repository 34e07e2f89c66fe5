"""The floor of a task on texts: TF-IDF and logistic regression, given its best.

Words and pairs of words, or characters of words (for Korean far the stronger), and how much the
weights are held back, are chosen on a fifth of the rows learnt from, on each fifth in turn where
rows are few. Of a pair of texts each has its own features, and so has what stands in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

Texts = tuple[str, ...]

ANALYZERS: Mapping[str, Mapping[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\S+"},
    "characters": {"analyzer": "char_wb", "ngram_range": (1, 4), "min_df": 2},
}
# of scikit-learn: larger is freer. TF-IDF rows have norm 1, so its default of 1 is far too small
STRENGTHS = (4.0, 16.0, 64.0)
_CHOOSING_FRACTION = 0.2
_FEW_TEXTS = 200  # of fewer no feature is left out for being rare
_MOST_CHOOSING = 5000  # rows that the choice is made on
_ENOUGH_CHOOSING = 500  # rows predicted for the choice, if there are so many


@dataclass(frozen=True)
class BagOfWords:
    """Probabilities of each split's rows (N, labels), and the choice they were made with."""

    probabilities: Mapping[str, NDArray[np.float64]]
    analyzer: str
    strength: float


def bag_of_words(
    learnt: Sequence[Texts],
    labels: NDArray[np.int64],
    predicted: Mapping[str, Sequence[Texts]],
    num_labels: int,
    seed: int,
) -> BagOfWords:
    """Learn labels (N,) in 0 .. num_labels - 1 from texts, or pairs of texts, and predict others.

    A label that no row learnt from has gets the probability 0.
    """
    # the solver makes thousands of tiny products, in which threads mostly wait for each other. The
    # limit acts on libraries that are loaded, so scikit-learn comes first
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        order = np.random.default_rng([seed, 5]).permutation(len(learnt))[:_MOST_CHOOSING]
        analyzer, strength = _chosen(learnt, labels, order)
        features = _Features(analyzer, learnt)
        model = _fitted(features(learnt), labels, strength)
        probabilities = {}
        for name, texts in predicted.items():
            probabilities[name] = np.zeros((len(texts), num_labels))
            if len(texts):
                probabilities[name][:, model.classes_] = model.predict_proba(features(texts))
        return BagOfWords(probabilities, analyzer, strength)


def _chosen(
    texts: Sequence[Texts], labels: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[str, float]:
    """The analyzer that is best at the middle strength, then the best strength for it."""
    middle = STRENGTHS[len(STRENGTHS) // 2]
    size = max(1, round(len(order) * _CHOOSING_FRACTION))
    # of few rows each fifth in turn: one fifth of 300 rows hardly tells the analyzers apart
    num_parts = min(-(-_ENOUGH_CHOOSING // size), len(order) // size)
    parts = [
        (np.delete(order, held_out), order[held_out])
        for held_out in np.arange(num_parts * size).reshape(num_parts, size)
    ]
    if any(len(np.unique(labels[learnt])) < 2 for learnt, _ in parts):
        return "words", middle
    matrices: dict[str, list[tuple[csr_array, csr_array]]] = {}
    for analyzer in ANALYZERS:
        matrices[analyzer] = []
        for learnt, held_out in parts:
            rows = [texts[i] for i in learnt.tolist()]
            others = [texts[i] for i in held_out.tolist()]
            features = _Features(analyzer, rows)
            matrices[analyzer].append((features(rows), features(others)))

    @cache  # the middle strength of the best analyzer is asked for twice
    def num_right(analyzer: str, strength: float) -> int:
        right = 0
        for (learnt, held_out), (of_learnt, of_held_out) in zip(
            parts, matrices[analyzer], strict=True
        ):
            model = _fitted(of_learnt, labels[learnt], strength)
            right += int(np.sum(model.predict(of_held_out) == labels[held_out]))
        return right

    best = max(ANALYZERS, key=lambda analyzer: num_right(analyzer, middle))
    return best, max(STRENGTHS, key=lambda strength: num_right(best, strength))


class _Features:
    """TF-IDF rows of texts, with an analyzer that has seen those learnt from."""

    def __init__(self, analyzer: str, learnt: Sequence[Texts]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        options = dict(ANALYZERS[analyzer])
        if len(learnt) < _FEW_TEXTS:
            options["min_df"] = 1
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, **options)
        self._vectorizer.fit(text for texts in learnt for text in texts)

    def __call__(self, rows: Sequence[Texts]) -> csr_array:
        columns = [self._vectorizer.transform(column) for column in zip(*rows, strict=True)]
        if len(columns) == 2:
            columns.append(columns[0].multiply(columns[1]))
        return hstack(columns, format="csr")


def _fitted(features: csr_array, labels: NDArray[np.int64], strength: float) -> Any:
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(labels)) < 2:
        return DummyClassifier().fit(features, labels)
    return LogisticRegression(C=strength, max_iter=300).fit(features, labels)
