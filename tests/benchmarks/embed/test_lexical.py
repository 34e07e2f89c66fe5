"""BM25 beside its formula, term by term."""

import math
from collections import Counter

import numpy as np

from benchmarks.embed.lexical import bm25, terms, tfidf

DOCUMENTS = [
    "서울은 대한민국의 수도이다",
    "부산은 항구 도시이다. 부산, 부산",
    "A cat",
    "수도 서울 서울",
]
QUERIES = ["대한민국의 수도는?", "부산 부산", "cat 서울", "없음"]


def brute_force(query: str, document: str) -> float:
    counts = [Counter(terms(text)) for text in DOCUMENTS]
    mean = sum(map(Counter.total, counts)) / len(counts)
    of_document = Counter(terms(document))
    score = 0.0
    for term in terms(query):
        num_with = sum(term in of for of in counts)
        idf = math.log(1 + (len(counts) - num_with + 0.5) / (num_with + 0.5))
        norm = 1.2 * (1 - 0.75 + 0.75 * of_document.total() / mean)
        score += idf * of_document[term] * 2.2 / (of_document[term] + norm)
    return score


def test_bm25_is_its_formula():
    expected = [[brute_force(query, document) for document in DOCUMENTS] for query in QUERIES]
    np.testing.assert_allclose(bm25(QUERIES, DOCUMENTS), expected, rtol=1e-12)


def test_tfidf_rows_are_of_length_one_or_empty():
    queries, documents = tfidf(QUERIES, DOCUMENTS)
    norms = [np.sqrt(side.multiply(side).sum(axis=1)).A1 for side in (queries, documents)]
    np.testing.assert_allclose(norms[1], 1.0)
    np.testing.assert_allclose(norms[0], [1.0, 1.0, 1.0, 0.0])


def test_terms_are_pairs_of_characters():
    assert terms("서울은 A 1988년") == ["서울", "울은", "a", "19", "98", "88", "8년"]
