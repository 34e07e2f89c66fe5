"""Exact duplicates against a brute-force set, repeated lines against a plain count."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.exact import (
    find_duplicates,
    find_repeated_lines,
    line_hashes,
    pack_hashes,
    pack_lines,
    remove_repeated_lines,
    text_hash,
    unpack_quotas,
    without_case,
)
from pipeline.dedup.records import shard_of, unpack_removed


def _rank(group, row):
    """A large one, as of the last source."""
    return (511 << 22 | group) << 32 | row


def _duplicates(groups, order, num_shards=3):
    """What the pipeline does, with shards' arrays arriving in `order`: the kept rank by the rank of
    its duplicate."""
    shards = defaultdict(list)
    for group, texts in enumerate(groups):
        if texts:
            hashes = b"".join(text_hash(without_case(text)) for text in texts)
            ranks = [_rank(group, row) for row in range(len(texts))]
            for shard, part in pack_hashes(hashes, ranks, num_shards).items():
                shards[shard].append((group, part))
    removed = {}
    for parts in shards.values():
        for group, part in find_duplicates(order(parts)):
            of_group = unpack_removed([part])
            assert all(rank >> 32 == _rank(group, 0) >> 32 for rank in of_group)
            removed |= of_group
    assert {similarity for _, similarity in removed.values()} <= {1.0}
    return {rank: kept for rank, (kept, _) in removed.items()}


@given(st.lists(st.lists(st.sampled_from(["가", "다 라", "다\n라", "다라", "A b", "a\n\nB"]))))
@settings(max_examples=50)
def test_equals_a_set_whatever_the_order_of_arrival(groups):
    first, expected = {}, {}
    for group, texts in enumerate(groups):
        for row, text in enumerate(texts):
            kept = first.setdefault("".join(text.lower().split()), _rank(group, row))
            if kept != _rank(group, row):
                expected[_rank(group, row)] = kept
    assert _duplicates(groups, list) == expected
    assert _duplicates(groups, lambda parts: parts[::-1]) == expected
    assert _duplicates(groups, list, num_shards=1) == expected


MIN, MOST = 4, 2


def _run_lines(groups, order, most=MOST, num_shards=5):
    """What the pipeline does: the texts of each group without repeated lines, and lines removed."""
    shards = defaultdict(list)
    seen = set()
    for index, texts in enumerate(groups):
        standing = [
            (line, hash(text) & 0xFFFFFFFF)
            for text in texts
            for line in line_hashes(text, without_case(text), MIN)
        ]
        lines, of = np.array(standing, np.uint64).reshape(-1, 2).T
        for shard, packed in pack_lines(lines, of.astype(np.uint32), most, num_shards).items():
            shards[shard].append((index, packed))
    found = [pair for parts in shards.values() for pair in find_repeated_lines(order(parts), most)]
    cleaned = []
    for index, texts in enumerate(groups):
        quotas = unpack_quotas([packed for group, packed in found if group == index])
        for text in texts:
            if text not in seen:  # exact duplicates are removed before
                seen.add(text)
                hashes = line_hashes(text, without_case(text), MIN)
                cleaned.append(remove_repeated_lines(text, hashes, MIN, quotas))
    return cleaned


def _folded(line):
    return line.casefold().replace(" ", "")


def _expected(groups, most=MOST):
    texts = list(dict.fromkeys(text for group in groups for text in group))
    documents = Counter()
    lines_of = []
    for text in texts:
        lines = text.split("\n")
        held = {_folded(line) for line in lines if len(line) >= MIN}
        held = held if sum(map(bool, lines)) > 1 else set()
        documents.update(held)
        lines_of.append((lines, held))
    met = Counter()
    cleaned = []
    for lines, held in lines_of:
        met.update(held)
        gone = {line for line in held if documents[line] > most and met[line] > most}
        left = [line for line in lines if len(line) < MIN or _folded(line) not in gone]
        text = "\n".join(left)
        while gone and "\n\n\n" in text:
            text = text.replace("\n\n\n", "\n\n")
        cleaned.append((text.strip("\n") if gone else text, len(lines) - len(left)))
    return cleaned


_line = st.sampled_from(
    ["메뉴 열기", "메뉴열기", "MENU", "menu", "짧다", "", "저작권 안내", "본문 하나", "본문 둘째"]
)
_document = st.lists(_line, min_size=1, max_size=5).map(lambda lines: "\n".join(lines).strip("\n"))


@given(st.lists(st.lists(_document, max_size=6), max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_equals_a_plain_count_whatever_the_order_of_arrival(groups, rng):
    expected = _expected(groups)
    assert _run_lines(groups, lambda parts: rng.sample(parts, len(parts))) == expected
    assert _run_lines(groups, list, num_shards=1) == expected


def test_a_line_of_every_document_sends_few_records():
    lines = np.full(5000, 7, np.uint64)
    packed = pack_lines(lines, np.arange(5000, dtype=np.uint32), 20, 64)
    assert sum(map(len, packed.values())) == 21 * 12


@pytest.mark.parametrize("num", [1, 2, 7, 4096])
def test_hashes_are_spread_evenly(num):
    hashes = np.random.default_rng(0).integers(1 << 64, size=200_000, dtype=np.uint64)
    hashes[:2] = 0, (1 << 64) - 1
    counts = np.bincount(shard_of(hashes, num).astype(int), minlength=num)
    assert len(counts) == num
    mean = len(hashes) / num
    assert abs(counts - mean).max() <= 6 * mean**0.5
