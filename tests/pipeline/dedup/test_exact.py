"""Exact duplicates against a brute-force set."""

from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.exact import find_duplicates, pack_hashes, text_hash, without_case
from pipeline.dedup.records import unpack_clusters


def _clusters(groups, order, num_shards=3):
    """What the pipeline does, with shards' arrays arriving in `order`: clusters by group."""
    shards = defaultdict(list)
    for index, rows in enumerate(groups):
        if rows:
            hashes = b"".join(text_hash(without_case(text)) for _, text in rows)
            packed = pack_hashes(hashes, [r for r, _ in rows], num_shards)
            for shard, part in packed.items():
                shards[shard].append((index, part))
    found = [pair for parts in shards.values() for pair in find_duplicates(order(parts))]
    return [
        unpack_clusters([part for group, part in found if group == index])
        for index in range(len(groups))
    ]


def _duplicates(groups, order):
    """The kept rank by the rank of its duplicate, by group."""
    clusters = _clusters(groups, order)
    assert {s for of_group in clusters for _, s in of_group.kept_of.values()} <= {1.0}
    return [{rank: kept for rank, (kept, _) in c.kept_of.items()} for c in clusters]


@given(st.lists(st.lists(st.sampled_from(["가", "나", "다 라", "다\n라", "A b", "a\n\nB"]))))
@settings(max_examples=50)
def test_equals_a_set_whatever_the_order_of_arrival(texts):
    rank = 0
    groups = []
    for group in texts:
        groups.append([(rank + i, text) for i, text in enumerate(group)])
        rank += len(group)
    first: dict[str, int] = {}
    expected = []
    for rows in groups:
        expected.append({})
        for row, text in rows:
            key = " ".join(text.lower().split())
            if key in first:
                expected[-1][row] = first[key]
            else:
                first[key] = row
    assert _duplicates(groups, list) == expected
    assert _duplicates(groups, lambda parts: parts[::-1]) == expected
    assert _clusters(groups, list) == _clusters(groups, list, num_shards=1)
    sizes = Counter(kept for of_group in expected for kept in of_group.values())
    assert [of_group.size_of for of_group in _clusters(groups, list)] == [
        {rank: sizes[rank] + 1 for rank, _ in rows if rank in sizes} for rows in groups
    ]


def test_large_ranks_survive_packing():
    rank = (511 << 22 | 4_000_000) << 32 | 4_000_000_000
    assert _duplicates([[(rank - 1, "가"), (rank, "가")]], list) == [{rank: rank - 1}]
