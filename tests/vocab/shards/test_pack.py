"""Every packing against a plain account of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.shard_files import SPECIAL, read_all
from vocab.shards.files import Shard, TokenStream
from vocab.shards.pack import PackedSequences, hash_pair, make_key, permute

CLS, SEP = 2, 3
KEY = (5, "ko")


def make_stream(documents, shard_sizes=()):
    """Documents are lists of sentence lengths; every token of text differs from all others."""
    shards, number, token = [], 0, 100
    for size in [*shard_sizes, len(documents)]:
        tokens, starts, sentences = [], [], []
        for lengths in documents[number : number + size]:
            starts.append(len(tokens))
            sentences.append(len(tokens))
            for length in lengths:
                if length and sentences[-1] != len(tokens):
                    sentences.append(len(tokens))
                tokens += range(token, token + length)
                token += length
            tokens.append(SEP)
        number += size
        ends = (np.array([*listed, len(tokens)], np.int64) for listed in (starts, sentences))
        shards.append(Shard(np.array(tokens, np.uint32), *ends))
    return TokenStream(shards, np.dtype(np.uint32))


def texts_of(documents):
    """The documents as lists of sentences of tokens, numbered as `make_stream` does."""
    token, texts = 100, []
    for lengths in documents:
        texts.append([])
        for length in lengths:
            texts[-1].append(list(range(token, token + length)))
            token += length
    return texts


def packed(stream, packing, length=16, key=KEY):
    return PackedSequences(stream, packing, length, key, SPECIAL)


def everything(sequences):
    ids, types = sequences.batch(np.arange(sequences.num_sequences))
    return ids.tolist(), types.tolist()


def framed(first, second, length):
    """A sequence written out."""
    ids = [CLS, *first, SEP]
    types = [0] * len(ids)
    if second:
        ids += [*second, SEP]
        types += [1] * (len(second) + 1)
    return ids + [0] * (length - len(ids)), types + [0] * (length - len(types))


lengths = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=25), min_size=1, max_size=25)


@settings(max_examples=60)
@given(lengths, st.sampled_from([8, 16, 33, 64]), st.integers(0, 10))
def test_sentence_packing_fills_sequences_sentence_by_sentence(documents, length, first_shard):
    room, expected = length - 2, []
    for text in texts_of(documents):
        current = []
        for sentence in text:
            pieces = [sentence[i : i + room] for i in range(0, len(sentence), room)]
            for piece in pieces:
                if len(current) + len(piece) > room:
                    expected.append(current)
                    current = []
                current = current + piece
        expected.append(current)
    ids, types = everything(packed(make_stream(documents, [first_shard]), "sentence", length))
    assert list(zip(ids, types, strict=True)) == [framed(e, [], length) for e in expected]


@pytest.mark.parametrize("length", [8, 9, 128])
@pytest.mark.parametrize("num_tokens", [200, 4093])
@pytest.mark.parametrize("shards", [[], [1, 2, 1]])
def test_full_packing_holds_every_token_in_order(num_tokens, length, shards):
    documents = [[num_tokens // 5 - 1]] * 4 + [[num_tokens - 4 * (num_tokens // 5) - 1]]
    stream = make_stream(documents, shards)
    tokens = read_all(stream)
    ids, types = everything(packed(stream, "full", length))
    content, reached = length - 3, 0
    for number, (sequence, kind) in enumerate(zip(ids, types, strict=True)):
        is_single = 1 not in kind
        size = content + is_single
        start = min(number * content, num_tokens - size)
        text = tokens[start : start + size]
        first = size if is_single else content // 2
        assert (sequence, kind) == framed(text[:first], text[first:], length)
        assert start <= reached
        reached = start + size
    assert reached == num_tokens


def test_one_in_ten_full_sequences_is_a_single_segment():
    sequences = packed(make_stream([[999]] * 400), "full", 16)
    _, types = sequences.batch(np.arange(20_000))
    assert (types.max(axis=1) == 0).mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("packing", ["full", "sentence"])
def test_a_batch_does_not_depend_on_order_or_neighbours(packing):
    sequences = packed(make_stream([[3, 9, 4, 30, 2]] * 40, [7, 20]), packing)
    all_ids, all_types = sequences.batch(np.arange(sequences.num_sequences))
    shuffled = np.random.default_rng(0).permutation(sequences.num_sequences)
    ids, types = sequences.batch(shuffled)
    assert (ids == all_ids[shuffled]).all()
    assert (types == all_types[shuffled]).all()
    assert (ids.dtype, types.dtype) == (np.uint32, np.uint8)
    none, _ = sequences.batch(np.zeros(0, np.int64))
    assert none.shape == (0, 16)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 100, 1000, 4097])
def test_permute_is_a_permutation(size):
    for seed in range(5):
        order = permute(make_key(seed), np.arange(size), size)
        assert sorted(order.tolist()) == list(range(size))
        part = np.arange(size)[::3]
        assert (permute(make_key(seed), part, size) == order[part]).all()


def test_every_place_is_as_likely_and_keys_differ():
    orders = np.array([permute(make_key("x", seed), np.arange(10), 10) for seed in range(2000)])
    for column in orders.T:
        assert np.bincount(column, minlength=10) / 2000 == pytest.approx([0.1] * 10, abs=0.035)
    pairs = np.bincount(orders[:, 0] * 10 + orders[:, 1], minlength=100)
    assert (pairs > 0).sum() == 90
    # in a long order, neighbours have nothing to do with each other
    order = permute(1, np.arange(100_000), 100_000)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.01


def test_hash_is_splitmix64():
    # the finaliser of Steele et al. (2014) on 1, in exact integers
    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    expected = [mix((mix(7) + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(5)]
    assert hash_pair(7, np.arange(5)).tolist() == expected
