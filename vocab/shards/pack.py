"""A language's stream of tokens as sequences of one length, each computable from its number.

There are three ways to cut the stream. Each answers for any sequences at once, from tables that
hold a few numbers a sequence, so a sequence length is chosen when the shards are read, not when
they are written.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import Packing
from electrify.system.outcome import UserError
from vocab.shards.draws import make_key, uniform
from vocab.shards.files import Int64s, Shard, Tokens, TokenStream

# build_pretraining_dataset.py of google-research/electra
SINGLE_SEGMENT = 0.1
RANDOM_LENGTH = 0.05
SHORTEST = 5  # a random target length is drawn from SHORTEST ... sequence_length


@dataclass(frozen=True)
class Runs:
    """Runs of tokens of the stream, in the order in which they fill sequences.

    Run j puts `lengths[j]` tokens from `starts[j]` on into row `rows[j]`, in the first or the
    second segment; rows rise, and in a row the first segment comes first.
    """

    rows: Int64s
    starts: Int64s
    lengths: Int64s
    second: NDArray[np.bool_]


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

    def runs(self, indices: Int64s) -> Runs:
        single = uniform(self._single, indices) < SINGLE_SEGMENT
        lengths = self._content + single
        starts = np.minimum(indices * self._content, self._num_tokens - lengths)
        first = np.where(single, lengths, self._content // 2)
        both = np.stack([first, lengths - first], axis=1).ravel()
        return Runs(
            rows=np.repeat(np.arange(len(indices)), 2),
            starts=np.stack([starts, starts + first], axis=1).ravel(),
            lengths=both,
            second=np.tile([False, True], len(indices)),
        )


class SentenceMode:
    """As many consecutive sentences of one document as fit into L - 2 tokens, in one segment.

    A sentence that is longer is cut into pieces of L - 2; its last piece goes on with the next
    sentences. The document's last [SEP] is left out: the sequence has its own.
    """

    is_full = False

    def __init__(self, stream: TokenStream, length: int, key: object) -> None:
        del key  # nothing is drawn
        tables = [_sentence_table(shard, length - 2) for shard in stream.shards]
        bases = stream.token_starts
        self.first_starts = _join([t[0] + base for t, base in zip(tables, bases, strict=False)])
        self._lengths = _join([t[1] for t in tables]).astype(np.int32)
        self.num_sequences = len(self.first_starts)

    def runs(self, indices: Int64s) -> Runs:
        return Runs(
            rows=np.arange(len(indices)),
            starts=self.first_starts[indices],
            lengths=self._lengths[indices].astype(np.int64),
            second=np.zeros(len(indices), np.bool_),
        )


class ElectraMode:
    """The original's packing (build_pretraining_dataset.py: `ExampleBuilder`), draw for draw.

    Sentences of one document are collected until they have the target length, L or one time in
    twenty a random length. Then each goes into the first segment if that is empty, or stays below
    half the target with it, or, one time in two, if it is the first to go over; else into the
    second; one time in ten, all into the first. What is over L is trimmed, and lost. Every draw is
    keyed by the token at which the sequence begins.
    """

    is_full = False

    def __init__(self, stream: TokenStream, length: int, key: object) -> None:
        self._stream, self._length = stream, length
        self._keys = {name: make_key(key, name) for name in ("single", "over", "random", "target")}
        tokens, sentences, lengths, counts = [], [], [], []
        for shard, base, first_sentence in zip(
            stream.shards, stream.token_starts, stream.sentence_starts, strict=False
        ):
            first, length_of, count = self._collect(shard, int(base))
            tokens.append(shard.sentences[first] + base)
            sentences.append(first + first_sentence)
            lengths.append(length_of)
            counts.append(count)
        self.first_starts, self._first_sentence = _join(tokens), _join(sentences)
        self._num_text = _join(lengths).astype(np.int32)  # before trimming
        self._num_sentences = _join(counts).astype(np.int32)
        self.num_sequences = len(self.first_starts)

    def target_length(self, starts: Int64s) -> Int64s:
        """At how many tokens a sequence that begins at this token is complete."""
        span = self._length - SHORTEST + 1
        drawn = SHORTEST + (uniform(self._keys["target"], starts) * span).astype(np.int64)
        is_random = uniform(self._keys["random"], starts) < RANDOM_LENGTH
        is_random &= starts > 0  # the original draws for the *next* sequence
        return np.where(is_random, drawn, self._length)

    def runs(self, indices: Int64s) -> Runs:
        starts, counts = self.first_starts[indices], self._num_sentences[indices].astype(np.int64)
        rows = np.repeat(np.arange(len(indices)), counts)
        begins = self._stream.sentence_positions(self._first_sentence[indices], counts)
        ends = np.append(begins[1:], 0)
        last = np.cumsum(counts) - 1
        ends[last] = starts + self._num_text[indices]  # without a [SEP] after the document
        lengths = ends - begins
        second = ~self._in_first(starts, rows, lengths, counts)
        order = np.argsort(2 * rows + second, kind="stable")
        begins, lengths, second = begins[order], lengths[order], second[order]
        return Runs(rows, begins, self._trim(rows, lengths, second, len(indices)), second)

    def _in_first(
        self, starts: Int64s, rows: Int64s, lengths: Int64s, counts: Int64s
    ) -> NDArray[np.bool_]:
        """Whether each sentence goes into its row's first segment."""
        target = (self.target_length(starts) - 3) // 2
        target[uniform(self._keys["single"], starts) < SINGLE_SEGMENT] = 100_000
        goes_over = uniform(self._keys["over"], starts) < 0.5
        num_first, num_second = np.zeros_like(target), np.zeros_like(target)
        chosen = np.zeros(len(rows), np.bool_)
        offset = np.cumsum(counts) - counts
        going = np.arange(len(counts))  # rows that still have a sentence number k
        for k in range(int(counts.max(initial=0))):
            going = going[counts[going] > k]
            place = offset[going] + k
            length, first, goal = lengths[place], num_first[going], target[going]
            fits = (first == 0) | (first + length < goal)
            fits |= (num_second[going] == 0) & (first < goal) & goes_over[going]
            num_first[going] += length * fits
            num_second[going] += length * ~fits
            chosen[place] = fits
        return chosen

    def _trim(self, rows: Int64s, lengths: Int64s, second: NDArray[np.bool_], num: int) -> Int64s:
        """Lengths cut to L - 2 tokens in the first segment, L - first - 3 in the second."""
        first = np.minimum(_sums(rows[~second], lengths[~second], num), self._length - 2)
        room = np.where(second, np.maximum(0, self._length - 3 - first)[rows], first[rows])
        before = within(2 * rows + second, lengths)
        return np.clip(room - before, 0, lengths)

    def _collect(self, shard: Shard, base: int) -> tuple[Int64s, Int64s, Int64s]:
        """First sentence, number of tokens and of sentences of each sequence of a shard."""
        starts, text, document_end = _sentence_positions(shard, np.asarray(shard.sentences[:-1]))
        reached = text[:-1] + self.target_length(starts + base)
        following = np.minimum(np.searchsorted(text, reached), document_end)
        return _followed(following, text)


def _sentence_table(shard: Shard, content: int) -> tuple[Int64s, Int64s]:
    """First token and number of tokens of each sequence of a shard, for `SentenceMode`."""
    _, text, _ = _sentence_positions(shard, np.asarray(shard.sentences[:-1]))
    num_pieces = np.maximum(1, -(-np.diff(text) // content))
    nth = np.arange(num_pieces.sum()) - np.repeat(np.cumsum(num_pieces) - num_pieces, num_pieces)
    pieces = np.repeat(shard.sentences[:-1], num_pieces) + nth * content
    starts, text, document_end = _sentence_positions(shard, pieces)
    following = np.searchsorted(text, text[:-1] + content, side="right") - 1
    following = np.minimum(following, document_end)
    first, lengths, _ = _followed(following, text)
    return starts[first], lengths


def _sentence_positions(shard: Shard, starts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Of sentences that start at these tokens: the starts; how many tokens of text are before each
    and before the end, each document's last [SEP] left out; the number after the last sentence of
    each one's document."""
    first = np.searchsorted(starts, np.asarray(shard.documents))
    counts = np.diff(first)
    separators = np.repeat(np.arange(len(counts)), counts)
    text = np.append(starts - separators, shard.documents[-1] - len(counts))
    return starts, text, np.repeat(first[1:], counts)


def _followed(following: Int64s, text: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The sentences at which sequences begin, when one that begins at k ends before following[k];
    with each sequence's numbers of tokens and of sentences. Empty ones are left out."""
    jumps, firsts, sentence = following.tolist(), list[int](), 0
    while sentence < len(jumps):  # 0.1 us a sequence
        firsts.append(sentence)
        sentence = jumps[sentence]
    first = np.array([*firsts, len(jumps)], np.int64)
    lengths, counts = np.diff(text[first]), np.diff(first)
    kept = lengths > 0
    return first[:-1][kept], lengths[kept], counts[kept]


def within(groups: Int64s, lengths: Int64s) -> Int64s:
    """How many tokens of its group come before each run; groups stand together and rise."""
    before = np.cumsum(lengths) - lengths
    opens = np.append(True, np.diff(groups) > 0)[: len(groups)]
    sizes = np.diff(np.append(np.flatnonzero(opens), len(groups)))
    inside: Int64s = before - np.repeat(before[opens], sizes)
    return inside


def _sums(rows: Int64s, lengths: Int64s, num: int) -> Int64s:
    return np.bincount(rows, weights=lengths, minlength=num).astype(np.int64)


def _join(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


Mode = FullMode | ElectraMode | SentenceMode
MODES: dict[str, type[Mode]] = {
    "full": FullMode,
    "electra": ElectraMode,
    "sentence": SentenceMode,
}

_CHUNK = 65_536  # sequences counted at once

# why tokens are in no sequence
SEPARATORS = "document separators"  # the [SEP] after each document, where sequences have their own
TRIMMED = "trimmed"  # over the length, as the original's packing has it
TOO_SHORT = "less than one sequence"


@dataclass(frozen=True)
class Accounting:
    """Where a language's tokens went: tokens = kept + all dropped.

    Places in all sequences = kept + repeated + special + padding.
    """

    sequences: int
    tokens: int  # in the shards, each document's last [SEP] included
    kept: int  # in at least one sequence
    repeated: int  # places that hold a token which another sequence holds too
    special: int  # [CLS] and [SEP] added
    padding: int
    dropped: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        places = self.kept + self.repeated + self.special + self.padding
        parts = [
            f"{self.sequences:,} sequences, {self.tokens:,} tokens in, {self.kept:,} kept",
            *(f"{count:,} dropped ({reason})" for reason, count in self.dropped.items()),
        ]
        if self.padding:
            parts.append(f"{100 * self.padding / places:.1f} % padding")
        return ", ".join(parts)


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
        self._stream, self._length, self._packing = stream, sequence_length, packing
        self._cls, self._sep, self._pad = (
            special_token_ids[token] for token in ("[CLS]", "[SEP]", "[PAD]")
        )
        self.mode: Mode = MODES[packing](stream, sequence_length, key)
        self.num_sequences = self.mode.num_sequences

    def batch(self, indices: Int64s) -> tuple[Tokens, NDArray[np.uint8]]:
        """Sequences by number: `input_ids` [n, L] as narrow as the shards, `token_type_ids` [n, L]
        uint8."""
        indices = np.asarray(indices, np.int64)
        outside = (indices < 0) | (indices >= self.num_sequences)
        if outside.any():
            raise IndexError(f"sequence {indices[outside][0]} of {self.num_sequences}")
        shape = len(indices), self._length
        ids = np.full(shape, self._pad, self._stream.dtype)
        if not len(indices):
            return ids, np.zeros(shape, np.uint8)
        runs = self.mode.runs(indices)
        first, second = _segment_lengths(runs, len(indices))
        rows, pairs = np.arange(len(indices)), np.flatnonzero(second)
        end = first + second + 2 * (second > 0)  # of the second segment's [SEP]
        column, last = np.arange(self._length), first[:, None]  # token of the first segment
        types = (column > last + 1) & (column <= end[:, None])
        is_text = types | (column <= last)
        is_text[:, 0] = False
        is_text[pairs, end[pairs]] = False
        # in the order of the runs: row by row, the first segment first
        ids[is_text] = self._stream.tokens.take(runs.starts, runs.lengths)
        ids[:, 0] = self._cls
        ids[rows, first + 1] = self._sep
        ids[pairs, end[pairs]] = self._sep
        return ids, types.view(np.uint8)

    def accounting(self) -> Accounting:
        """Count the tokens of all sequences: 0.5 s a million of `electra`, else next to nothing."""
        stream, total = self._stream, self.num_sequences
        filled = special = 0
        for start in range(0, total, _CHUNK):
            indices = np.arange(start, min(start + _CHUNK, total))
            first, second = _segment_lengths(self.mode.runs(indices), len(indices))
            filled += int(first.sum() + second.sum())
            special += 2 * len(indices) + int((second > 0).sum())
        if self._packing == "full":
            kept = stream.num_tokens if total else 0
            dropped = {TOO_SHORT: stream.num_tokens - kept}
        else:
            kept = filled
            left = stream.num_tokens - kept - stream.num_documents
            dropped = {SEPARATORS: stream.num_documents, TRIMMED: left}
        return Accounting(
            sequences=total,
            tokens=stream.num_tokens,
            kept=kept,
            repeated=filled - kept,
            special=special,
            padding=total * self._length - filled - special,
            dropped={reason: count for reason, count in dropped.items() if count},
        )


def _segment_lengths(runs: Runs, num_rows: int) -> tuple[Int64s, Int64s]:
    sums = np.bincount(2 * runs.rows + runs.second, weights=runs.lengths, minlength=2 * num_rows)
    both = sums.astype(np.int64).reshape(num_rows, 2)
    return both[:, 0], both[:, 1]
