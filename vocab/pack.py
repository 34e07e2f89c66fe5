"""A language's stream of tokens as sequences of one length, each computable from its number."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from vocab.packing_modes import MODES, Mode, Runs, within
from vocab.stream import Int64s, TokenStream, ranges

Packing = Literal["full", "electra", "sentence"]
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
        """As one line for a log."""
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
            raise ValueError(f"sequence_length = {sequence_length} is less than 8")
        self._stream, self._length, self._packing = stream, sequence_length, packing
        self._cls, self._sep, self._pad = (
            special_token_ids[token] for token in ("[CLS]", "[SEP]", "[PAD]")
        )
        self.mode: Mode = MODES[packing](stream, sequence_length, key)
        self.num_sequences = self.mode.num_sequences

    def batch(self, indices: Int64s) -> tuple[Int64s, Int64s]:
        """Sequences by number: `input_ids` [n, L] and `token_type_ids` [n, L], int64."""
        indices = np.asarray(indices, np.int64)
        outside = (indices < 0) | (indices >= self.num_sequences)
        if outside.any():
            raise IndexError(f"sequence {indices[outside][0]} of {self.num_sequences}")
        shape = len(indices), self._length
        ids, types = np.full(shape, self._pad, np.int64), np.zeros(shape, np.int64)
        if not len(indices):
            return ids, types
        runs = self.mode.runs(indices)
        first, second = _segment_lengths(runs, len(indices))
        columns = 1 + within(2 * runs.rows + runs.second, runs.lengths)
        columns += runs.second * (first + 1)[runs.rows]
        places = ranges(runs.rows * self._length + columns, runs.lengths)
        ids.reshape(-1)[places] = self._stream.tokens.take(runs.starts, runs.lengths)
        rows, pairs = np.arange(len(indices)), np.flatnonzero(second)
        ids[:, 0] = self._cls
        ids[rows, first + 1] = self._sep
        ids[pairs, first[pairs] + second[pairs] + 2] = self._sep
        column = np.arange(self._length)
        end = first + second + 2 * (second > 0)  # of the second segment's [SEP]
        types[(column > first[:, None] + 1) & (column <= end[:, None])] = 1
        return ids, types

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
