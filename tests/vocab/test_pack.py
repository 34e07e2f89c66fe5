import numpy as np
import pytest

from vocab.pack import PackedSequences, hash_pair

CLS, SEP = 2, 3


class ArrayStream:
    def __init__(self, tokens):
        self.tokens, self.num_tokens = tokens, len(tokens)

    def read(self, start, stop):
        assert 0 <= start <= stop <= self.num_tokens
        return self.tokens[start:stop]


def packed(num_tokens=5000, length=16, seed=0):
    # every token differs, so that a lost or moved one shows
    return PackedSequences(
        ArrayStream(np.arange(100, 100 + num_tokens, dtype=np.uint32)), length, seed, CLS, SEP
    )


@pytest.mark.parametrize("length", [8, 9, 64, 128])
@pytest.mark.parametrize("num_tokens", [200, 1001, 4093])
def test_every_token_of_the_stream_is_there_in_order(num_tokens, length):
    sequences = packed(num_tokens, length)
    ids, types = sequences.batch(np.arange(sequences.num_sequences))
    content, rebuilt = length - 3, []
    for row, (sequence, kind) in enumerate(zip(ids.tolist(), types.tolist(), strict=True)):
        assert len(sequence) == length
        assert sequence[0] == CLS
        assert sequence[-1] == SEP
        if 1 not in kind:
            text = sequence[1:-1]
            rebuilt += text[:content] if row + 1 < len(ids) else text
            continue
        middle = 1 + content // 2
        assert sequence[middle] == SEP
        assert kind == [0] * (middle + 1) + [1] * (length - middle - 1)
        rebuilt += sequence[1:middle] + sequence[middle + 1 : -1]
    assert rebuilt == list(range(100, 100 + num_tokens - sequences.num_dropped_tokens))
    assert 0 <= sequences.num_dropped_tokens <= content


def test_one_in_ten_is_a_single_segment():
    _, types = packed(400_000, 16).batch(np.arange(20_000))
    assert (types.max(axis=1) == 0).mean() == pytest.approx(0.1, abs=0.01)


def test_a_batch_does_not_depend_on_order_or_neighbours():
    sequences = packed()
    all_ids, all_types = sequences.batch(np.arange(sequences.num_sequences))
    shuffled = np.random.default_rng(0).permutation(sequences.num_sequences)
    ids, types = sequences.batch(shuffled)
    assert (ids == all_ids[shuffled]).all()
    assert (types == all_types[shuffled]).all()
    assert ids.dtype == types.dtype == np.int64


def test_order_is_a_permutation_keyed_by_seed_and_epoch():
    sequences = packed()
    first, second = sequences.order(0), sequences.order(1)
    assert sorted(first) == sorted(second) == list(range(sequences.num_sequences))
    assert (first != second).any()
    assert (first == packed().order(0)).all()
    assert (first != packed(seed=1).order(0)).any()


def test_any_stretch_of_the_endless_order_is_found_from_its_number():
    sequences = packed(500)
    num = sequences.num_sequences
    endless = np.concatenate([sequences.order(epoch) for epoch in range(4)])
    for first, count in [(0, 1), (num - 3, 8), (num, 2), (5, 2 * num + 7), (3, 0)]:
        epoch, indices = packed(500).epoch_and_indices(first, count)
        assert epoch == first // num
        assert (indices == endless[first : first + count]).all()


def test_too_little_text_names_numbers_and_what_to_change():
    with pytest.raises(ValueError, match=r"61 tokens do not fill .* = 64 \(62 tokens.*fraction"):
        packed(61, 64)
    assert packed(62, 64).num_sequences == 1


def test_a_sequence_outside_the_epoch_is_an_error():
    with pytest.raises(IndexError, match="sequence 5000 of"):
        packed().batch(np.array([5000]))


def test_hash_is_splitmix64():
    # the finaliser of Steele et al. (2014) on 1, in exact integers
    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    expected = [mix((mix(7) + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(5)]
    assert hash_pair(7, np.arange(5)).tolist() == expected
