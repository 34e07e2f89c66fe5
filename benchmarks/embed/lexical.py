"""Search by the characters that texts share: the baselines of embeddings."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.metrics.weighted import Floats

_WORD = re.compile(r"\w+")
# of Robertson's Okapi BM25, as Lucene has them
_SATURATION, _LENGTH = 1.2, 0.75  # k1, b
_TFIDF: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 4), "sublinear_tf": True}


def terms(text: str) -> list[str]:
    """The pairs of neighbouring characters of each word, in small letters; a word of one character
    as it is. Korean words carry endings, so that whole words seldom meet (Lucene's CJK analyzer
    does the same)."""
    words = _WORD.findall(text.lower())
    return [word[i : i + 2] for word in words for i in range(max(1, len(word) - 1))]


def bm25(queries: Sequence[str], documents: Sequence[str]) -> Floats:
    """BM25 of each query and document, (Q, D), over the `terms` of both.

    A term's weight in a document is idf tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length))
    with idf = ln(1 + (D - df + 0.5) / (df + 0.5)); a term counts as often as the query has it.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=terms)
    weights = vectorizer.fit_transform(documents).astype(np.float64).tocsr()  # tf
    lengths = np.asarray(weights.sum(axis=1)).ravel()
    frequencies = np.bincount(weights.indices, minlength=weights.shape[1])
    idf = np.log1p((len(documents) - frequencies + 0.5) / (frequencies + 0.5))
    norms = _SATURATION * (1 - _LENGTH + _LENGTH * lengths / lengths.mean())
    tf, norm = weights.data, np.repeat(norms, np.diff(weights.indptr))
    weights.data = idf[weights.indices] * tf * (_SATURATION + 1) / (tf + norm)
    return np.asarray((vectorizer.transform(queries) @ weights.T).toarray())


def tfidf(texts: Sequence[str], documents: Sequence[str]) -> tuple[Any, Any]:
    """Sparse TF-IDF rows of length 1, of n-grams of characters in words; document frequencies are
    those of `documents`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(**_TFIDF).fit(documents)
    return vectorizer.transform(texts), vectorizer.transform(documents)
