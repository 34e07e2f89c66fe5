"""Components on shards against those of one worker, and that their steps stay small."""

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.components import (
    ends_by_shard,
    join_edges,
    large_star,
    open_edges,
    settle,
    small_star,
    whole_components,
)


def _exchange(parts, num_shards, both=True):
    """The packed ends of all edges, as each shard gets them."""
    shards = defaultdict(list)
    for edges in parts:
        for shard, packed in ends_by_shard(edges, num_shards, both).items():
            shards[shard].append((0, packed))
    return shards.values()


def _contract(parts, num_shards, rounds):
    for _ in range(rounds):
        parts = [large_star(packed) for packed in _exchange(parts, num_shards)]
        parts = [small_star(packed) for packed in _exchange(parts, num_shards, both=False)]
    return parts


def _components(parts, num_shards, rounds):
    """What the graph does; the components, and how many edges one worker joins."""
    parts = _contract(parts, num_shards, rounds)
    split = [open_edges(packed) for packed in _exchange(parts, num_shards)]
    joined = join_edges([others for _, others in split])
    settled = [settle(leaves, joined) for leaves, _ in split]
    whole = [
        whole_components(packed) for packed in _exchange([*settled, joined], num_shards, both=False)
    ]
    every = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *whole])
    return every[np.argsort(every[:, 1])], sum(len(others) for _, others in split)


_edge = st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] != pair[1])


@given(st.lists(_edge, max_size=40), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=150)
def test_equal_those_of_one_worker(pairs, num_shards, rounds):
    edges = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    found, _ = _components([edges[::2], edges[1::2]], num_shards, rounds)
    assert found.tolist() == join_edges([edges]).tolist()


def test_little_is_left_for_one_worker():
    """Stars of 25 bands over clusters of documents, chains among them: what all of them share is
    known after three rounds but for long chains."""
    rng = np.random.default_rng(0)
    stars = []
    for first in range(0, 20_000, 10):  # clusters of ten, each band a star over some of them
        for _ in range(25):
            members = first + np.flatnonzero(rng.random(10) < 0.4)
            stars += [(members[0], other) for other in members[1:]]
    chain = [(20_000 + i, 20_001 + i) for i in range(200)]
    edges = np.array(stars + chain, dtype=np.uint64)
    found, num_left = _components([edges], 4, rounds=3)
    assert found.tolist() == join_edges([edges]).tolist()
    assert num_left <= 200  # of 20,200 documents
    assert _components([edges], 4, rounds=0)[1] > 20_000


def test_the_number_of_edges_does_not_grow():
    rng = np.random.default_rng(0)
    edges = np.unique(rng.integers(5_000, size=(4_000, 2), dtype=np.uint64), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    for rounds in range(1, 5):
        assert sum(map(len, _contract([edges], 3, rounds))) <= len(edges)
