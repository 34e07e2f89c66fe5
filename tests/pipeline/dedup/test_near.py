"""Near duplicates against brute force, whatever the order of arrival and however many there are."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from pipeline.dedup import near as near_dedup
from pipeline.dedup.minhash import band_keys, shingle
from pipeline.dedup.near import (
    Candidate,
    Join,
    choose,
    estimate,
    find_near_duplicates,
    is_small,
    join_edges,
    pack_bands,
    pack_candidates,
    pack_members,
    part_of,
    sketch_size,
    star_edges,
    unpack_members,
)
from pipeline.dedup.records import unpack_removed

BANDS, ROWS, SIMILARITY = 25, 5, 0.7


def _rank(group, row):
    return group << 40 | row


def _deduplicate(groups, order, similarity=SIMILARITY, bands=BANDS, num_shards=5):
    """What the graph does with groups of texts, arrays arriving in `order`: by removed rank."""
    shards = defaultdict(list)
    hashed = [shingle(texts) for texts in groups]
    keys = [band_keys(shingles, bands, ROWS) for shingles in hashed]
    for group, of_group in enumerate(keys):
        sizes = np.diff(hashed[group].offsets)
        num = np.where(is_small(sizes, similarity), 1, bands)
        flat, rows = of_group[np.arange(bands) < num[:, None]], np.arange(len(of_group))
        for shard, packed in pack_bands(flat, num, rows, num_shards).items():
            shards[shard].append((group, packed))
    parts = []
    for packed in order(list(shards.values())):
        for edges in star_edges(order(packed)):
            parts = Join().add_input(parts, edges)
    to_compare = defaultdict(list)
    for group, packed in order(pack_members(join_edges(parts))):
        candidates = []
        for row, member in order(list(unpack_members([packed]).items())):
            component, size = part_of(*member, _rank(group, row))
            hashes = hashed[group].distinct(row)
            candidates.append(
                Candidate(
                    component,
                    _rank(group, row),
                    len(groups[group][row]),
                    len(hashes),
                    keys[group][row].astype("u4"),
                    hashes[: sketch_size(size)],
                )
            )
        for shard, sketches in pack_candidates(candidates, num_shards).items():
            to_compare[shard].append((group, sketches))
    found = []
    for pairs in order(list(to_compare.values())):
        found += find_near_duplicates(order(pairs), similarity)
    for group, packed in found:
        assert all(rank >> 40 == group for rank in unpack_removed([packed]))
    return unpack_removed([packed for _, packed in found])


def _word(number):
    """A word for each number."""
    return chr(0xAC00 + number // 150) + chr(0xAC00 + number % 150)


def _text(seed, words=30):
    rng = random.Random(seed)
    return [_word(rng.randrange(3000)) for _ in range(words)]


def _corpus(seed):
    """Groups of texts with copies that differ in one word, at the end or in the middle, or more."""
    rng = random.Random(seed)
    texts = []
    for number in range(12):
        words = _text(f"{seed} {number}")
        for _ in range(rng.randrange(1, 5)):
            copy = words.copy()
            for _ in range(rng.choice([0, 1, 1, 2, 8])):
                copy[rng.randrange(len(copy))] = _word(3000 + rng.randrange(100))
            texts.append(" ".join(copy + ["끝"] * rng.randrange(2)))
    rng.shuffle(texts)
    return [texts[: len(texts) // 3], texts[len(texts) // 3 :]]


def _jaccard(one, other):
    sets = [set(shingle([text]).hashes.tolist()) for text in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def _brute_force(groups, similarity):
    """The rule of the docstring over all pairs; the kept one is any that is similar enough."""
    texts = {_rank(g, r): t for g, group in enumerate(groups) for r, t in enumerate(group)}
    kept, removed = [], {}
    for rank in sorted(texts, key=lambda rank: (-len(texts[rank]), rank)):
        similar = [k for k in kept if _jaccard(texts[rank], texts[k]) >= similarity]
        if similar:
            removed[rank] = similar
        else:
            kept.append(rank)
    return removed


def _short(seed):
    """Groups of texts of a few words each; most send one band only."""
    rng = random.Random(seed)
    return [
        [" ".join(_word(rng.randrange(2)) for _ in range(rng.randrange(1, 9))) for _ in range(20)]
        for _ in range(3)
    ]


@pytest.mark.parametrize(
    ("groups", "similarity", "bands"),
    [
        *((_corpus(seed), SIMILARITY, BANDS) for seed in range(3)),
        *((_short(1), similarity, 64) for similarity in (SIMILARITY, 0.95)),
    ],
)
def test_equals_brute_force_whatever_the_order_of_arrival(monkeypatch, groups, similarity, bands):
    kept_of = _deduplicate(groups, list, similarity, bands)
    expected = _brute_force(groups, similarity)
    assert kept_of.keys() == expected.keys()
    for rank, (kept, estimated) in kept_of.items():
        texts = [groups[r >> 40][r & (1 << 40) - 1] for r in (rank, kept)]
        assert kept in expected[rank]
        assert estimated == pytest.approx(_jaccard(*texts))
    rng = random.Random(0)
    monkeypatch.setattr(near_dedup, "MAX_WAITING_EDGES", 3)
    for order, num_shards in ((list, 1), (lambda items: rng.sample(items, len(items)), 5)):
        assert _deduplicate(groups, order, similarity, bands, num_shards) == kept_of


def test_of_texts_with_one_copy_each_every_copy_is_found_and_of_several_what_is_like_the_longest():
    """25 bands of 5 miss (1 - s^5)^25: two in a million at .83. A copy that is like a removed text
    alone stays, so at any size of corpus pairs with further copies are found less often."""
    originals = [_text(f"pair {number}", 60) for number in range(300)]
    copies = [[*words[:30], _word(4000), *words[31:]] for words in originals]
    texts = [" ".join(words) for pair in zip(originals, copies, strict=True) for words in pair]
    kept_of = _deduplicate([texts], list)
    assert {tuple(sorted((rank, kept))) for rank, (kept, _) in kept_of.items()} == {
        (2 * number, 2 * number + 1) for number in range(300)
    }
    words = _text("several", 60)
    others = [[*words[:at], *map(_word, range(4000, 4002)), *words[at + 2 :]] for at in (10, 40)]
    others[0].append("더")  # the longest
    texts = [" ".join(one) for one in (words, *others)]
    assert [_jaccard(texts[0], other) >= SIMILARITY for other in texts[1:]] == [True, True]
    assert _jaccard(*texts[1:]) < SIMILARITY
    assert [*_deduplicate([texts], list)] == [0]


def test_a_band_that_all_documents_share_costs_no_more_than_another():
    """1,000 texts with the same words but one; then as many that share a band and nothing else."""
    num = 1_000
    words = _text("hot", 60)
    texts = [" ".join([*words, _word(i)]) for i in range(num)]
    kept_of = _deduplicate([texts], list)
    assert [*kept_of] == [*range(1, num)]
    assert {kept for kept, _ in kept_of.values()} == {0}
    keys = np.arange(1, num + 1, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
    keys = np.hstack([keys, np.full((num, 1), 77, dtype=np.uint64)])
    shards = pack_bands(keys.ravel(), np.full(num, 2), np.arange(num), 16).values()
    edges = [part for packed in shards for part in star_edges([(0, packed)])]
    assert sum(map(len, edges)) == 16 * (num - 1)


def test_a_pair_is_found_among_many_unlike_texts_of_one_component():
    """More kept texts than one is compared with: shared bands lead to the right one."""
    num = 3 * near_dedup.MAX_COMPARED
    rng = np.random.default_rng(0)
    bands = rng.integers(0, 1 << 32, (num, 8), dtype=np.uint32)
    bands[:, 0] = 5  # what holds the component together
    hashes = rng.integers(0, 1 << 32, (num, 50), dtype=np.uint32)
    hashes.sort()
    candidates = [Candidate(1, i, 90, 50, bands[i], hashes[i]) for i in range(num)]
    copies = [Candidate(1, num + i, 80, 50, bands[i], hashes[i]) for i in range(num)]
    found = list(choose([*candidates, *copies], SIMILARITY))
    assert found == [(num + i, i, 1.0) for i in range(num)]


def test_a_huge_component_is_cut_into_parts_that_keep_their_own(monkeypatch):
    """No part is above the limit, and what goes is still like something that stays."""
    num = 400
    words = _text("template", 60)
    texts = [" ".join([*words, _word(i)]) for i in range(num)]
    monkeypatch.setattr(near_dedup, "MAX_COMPONENT", num)
    assert len({kept for kept, _ in _deduplicate([texts], list).values()}) == 1
    monkeypatch.setattr(near_dedup, "MAX_COMPONENT", 50)
    kept_of = _deduplicate([texts[:100], texts[100:]], list)
    removed = Counter(kept for kept, _ in kept_of.values())
    assert 400 / 50 <= len(removed) <= 2 * 400 / 50
    assert max(removed.values()) < 50
    assert len(kept_of) == num - len(removed)
    assert all(similarity >= SIMILARITY for _, similarity in kept_of.values())


def test_sketches_estimate_without_bias():
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(30):
        values = np.unique(rng.integers(0, 1 << 32, 12_000, dtype=np.uint32))
        rng.shuffle(values)
        one, other = np.sort(values[:9000]), np.sort(values[2000:])
        true = len(np.intersect1d(one, other)) / len(values)
        bands = np.zeros(1, "u4")
        sketched = [Candidate(0, 0, 1, len(h), bands, h[:1024]) for h in (one, other)]
        assert estimate(*reversed(sketched)) == estimate(*sketched)
        errors.append(estimate(*sketched) - true)
    assert abs(np.mean(errors)) < 0.009
    assert np.std(errors) < 0.022  # sqrt(J (1 - J) / 1024) = 0.0154
