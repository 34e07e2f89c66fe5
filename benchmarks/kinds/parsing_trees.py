"""Heads of a sentence from the scores of all arcs: the best of each word, or the best tree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]  # (words, words + 1): of every head of a word, 0 is the root


def best_heads(scores: Scores) -> NDArray[np.int64]:
    """The best head of each word on its own, as KLUE-baseline decodes: cycles may come of it."""
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def best_tree(scores: Scores) -> NDArray[np.int64]:
    """The heads of the tree of the highest total score in which one word hangs on the root.

    Chu-Liu/Edmonds; only where the best heads of the words are no such tree. Scores that are not
    numbers (of a failed training) leave the best heads as they are.
    """
    heads = best_heads(scores)
    if not len(heads) or is_tree(heads) or not np.isfinite(scores).all():
        return heads
    return _spanning_tree(scores)


def is_tree(heads: NDArray[np.int64]) -> bool:
    """Whether one word hangs on the root and all others, over others, on that one."""
    if np.count_nonzero(heads == 0) != 1:
        return False
    reached = np.array([0, *heads])
    for _ in range(len(heads)):  # every step a head further up; a cycle never gets to the root
        reached = reached[reached]
    return not reached.any()


def _spanning_tree(scores: Scores) -> NDArray[np.int64]:
    import networkx  # type: ignore[import-untyped]  # sentences are read without it

    num_words = len(scores)
    weights = scores.astype(np.float64)
    # a second arc from the root would cost more than all the others can gain
    weights[:, 0] -= (num_words + 1) * (np.ptp(weights) + 1.0)
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word + 1, weights[word, head])
        for word in range(num_words)
        for head in range(num_words + 1)
        if head != word + 1
    )
    heads = np.zeros(num_words, dtype=np.int64)
    for head, word in networkx.maximum_spanning_arborescence(graph).edges:
        heads[word - 1] = head
    return heads
