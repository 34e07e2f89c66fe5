"""A language's stream of tokens as sequences of one length, each computable from its number.

There are two ways to cut the stream. Each answers for any sequences at once, from tables that hold
a few numbers a sequence, so a sequence length is chosen when the shards are read, not when they are
written. Random numbers are pure functions of a key and a place: any one is computed without those
before it.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import Packing
from electrify.system.outcome import UserError
from pipeline.dedup.minhash import splitmix64
from vocab.shards.files import Int64s, Shard, Tokens, TokenStream

SINGLE_SEGMENT = 0.1  # as build_pretraining_dataset.py of google-research/electra has it
_ROUNDS = 8  # of the Feistel network


def make_key(*parts: object) -> int:
    """A 63-bit key from a seed and names of what is drawn."""
    digest = hashlib.sha256(" ".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def hash_pair(seed: int, indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A 64-bit hash of (seed, i) for each i: the finaliser of SplitMix64, twice.

    A pure function of its arguments, so no order of calls can change it.
    """
    state = splitmix64(np.array([seed], np.uint64))
    return splitmix64(state + indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def uniform(key: int, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each index, of 53 random bits."""
    return (hash_pair(key, indices) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permute(key: int, indices: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where a random permutation of 0 ... size - 1, fixed by the key, takes each index.

    A Feistel network on the next power of two, walked on until it is back below `size` (Black and
    Rogaway 2002): no table, so a corpus of any size is shuffled globally at once, and any stretch
    of the order is had from its number.
    """
    assert size > 0
    low_bits = max(1, (size - 1).bit_length() // 2)
    high_bits = max(1, (size - 1).bit_length() - low_bits)
    result = indices.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        result[outside] = _feistel(key, result[outside], high_bits, low_bits)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _feistel(
    key: int, values: NDArray[np.uint64], high_bits: int, low_bits: int
) -> NDArray[np.uint64]:
    """A bijection of the numbers of high_bits + low_bits bits."""
    shift = np.uint64(low_bits)
    high_mask, low_mask = np.uint64((1 << high_bits) - 1), np.uint64((1 << low_bits) - 1)
    high, low = values >> shift, values & low_mask
    for number in range(_ROUNDS):
        step = np.uint64((key + number * 0x9E3779B97F4A7C15) % 2**64)
        if number % 2:
            high ^= (splitmix64(low + step) >> np.uint64(16)) & high_mask
        else:
            low ^= (splitmix64(high + step) >> np.uint64(16)) & low_mask
    return (high << shift) | low


@dataclass(frozen=True)
class Spans:
    """Where the text of sequences lies in the stream: each has one run of tokens, of which the
    first `first` are its first segment and the next `second` its second segment."""

    starts: Int64s
    first: Int64s
    second: Int64s


class FullMode:
    """Contiguous text in full sequences, from one document on into the next.

    Sequence i begins at token i (L - 3): the first segment is the first (L - 3) // 2 of its L - 3
    tokens, the second the rest. One in ten is a single segment of L - 2 tokens: its last token is
    also the first of sequence i + 1. The last sequence begins earlier, so that it is full too:
    every token is in a sequence, nothing is padded, and some tokens of the end come twice.
    """

    is_full = True  # no sequence has padding

    def __init__(self, stream: TokenStream, length: int, key: object) -> None:
        self._content, self._num_tokens = length - 3, stream.num_tokens
        fits = stream.num_tokens >= length - 2  # any sequence may be a single segment
        self.num_sequences = -(-stream.num_tokens // self._content) if fits else 0
        self._single = make_key(key, "single")

    def spans(self, indices: Int64s) -> Spans:
        single = uniform(self._single, indices) < SINGLE_SEGMENT
        lengths = self._content + single
        starts = np.minimum(indices * self._content, self._num_tokens - lengths)
        first = np.where(single, lengths, self._content // 2)
        return Spans(starts, first, lengths - first)


class SentenceMode:
    """As many consecutive sentences of one document as fit into L - 2 tokens, in one segment.

    A sentence that is longer is cut into pieces of L - 2; its last piece is joined by the next
    sentences. The document's last [SEP] is left out: the sequence has its own.
    """

    is_full = False

    def __init__(self, stream: TokenStream, length: int, key: object) -> None:
        del key  # nothing is drawn
        tables = [_sentence_table(shard, length - 2) for shard in stream.shards]
        starts = [of[0] + base for of, base in zip(tables, stream.starts, strict=False)]
        self._starts = np.concatenate([np.zeros(0, np.int64), *starts])
        self._lengths = np.concatenate([np.zeros(0, np.int32), *(of[1] for of in tables)])
        self.num_sequences = len(self._starts)

    def spans(self, indices: Int64s) -> Spans:
        lengths = self._lengths[indices].astype(np.int64)
        return Spans(self._starts[indices], lengths, np.zeros_like(lengths))


def _sentence_table(shard: Shard, content: int) -> tuple[Int64s, NDArray[np.int32]]:
    """First token and number of tokens of each sequence of a shard, for `SentenceMode`."""
    sentences = np.asarray(shard.sentences[:-1])
    num_pieces = np.maximum(1, -(-np.diff(_text_before(shard, sentences)[0]) // content))
    nth = np.arange(num_pieces.sum()) - np.repeat(np.cumsum(num_pieces) - num_pieces, num_pieces)
    starts = np.repeat(sentences, num_pieces) + nth * content
    text, document_end = _text_before(shard, starts)
    following = np.searchsorted(text, text[:-1] + content, side="right") - 1
    jumps, firsts, piece = np.minimum(following, document_end).tolist(), list[int](), 0
    while piece < len(jumps):  # 0.1 us a sequence
        firsts.append(piece)
        piece = jumps[piece]
    first = np.array([*firsts, len(jumps)], np.int64)
    lengths = np.diff(text[first])
    kept = lengths > 0
    return starts[first[:-1][kept]], lengths[kept].astype(np.int32)


def _text_before(shard: Shard, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Of pieces that start at these tokens: how many tokens of text are before each and before the
    end, each document's last [SEP] left out; the number after the last piece of its document."""
    first = np.searchsorted(starts, np.asarray(shard.documents))
    counts = np.diff(first)
    separators = np.repeat(np.arange(len(counts)), counts)
    text = np.append(starts - separators, shard.documents[-1] - len(counts))
    return text, np.repeat(first[1:], counts)


Mode = FullMode | SentenceMode
MODES: dict[Packing, type[Mode]] = {"full": FullMode, "sentence": SentenceMode}


class PackedSequences:
    """`[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` where the second segment is empty, then padding.

    Token type is 1 in the second segment and its [SEP], else 0. What A and B are is the mode's.
    """

    def __init__(
        self,
        stream: TokenStream,
        packing: Packing,
        sequence_length: int,
        key: object,
        special_token_ids: dict[str, int],
    ) -> None:
        if sequence_length < 8:
            raise UserError(f"sequence_length = {sequence_length} is less than 8")
        self._stream, self._length = stream, sequence_length
        self._cls, self._sep, self._pad = (
            special_token_ids[token] for token in ("[CLS]", "[SEP]", "[PAD]")
        )
        self.mode: Mode = MODES[packing](stream, sequence_length, key)
        self.num_sequences = self.mode.num_sequences

    def batch(self, indices: Int64s) -> tuple[Tokens, NDArray[np.uint8]]:
        """Sequences by number: `input_ids` [n, L] as narrow as the shards, `token_type_ids` [n, L]
        uint8."""
        indices = np.asarray(indices, np.int64)
        assert ((indices >= 0) & (indices < self.num_sequences)).all()
        shape = len(indices), self._length
        ids = np.full(shape, self._pad, self._stream.dtype)
        spans = self.mode.spans(indices)
        first, second = spans.first, spans.second
        rows, pairs = np.arange(len(indices)), np.flatnonzero(second)
        end = first + second + 2 * (second > 0)  # of the second segment's [SEP]
        column, last = np.arange(self._length), first[:, None]  # token of the first segment
        types = (column > last + 1) & (column <= end[:, None])
        is_text = types | (column <= last)
        is_text[:, 0] = False
        is_text[pairs, end[pairs]] = False
        ids[is_text] = self._stream.take(spans.starts, first + second)
        ids[:, 0] = self._cls
        ids[rows, first + 1] = self._sep
        ids[pairs, end[pairs]] = self._sep
        return ids, types.view(np.uint8)
