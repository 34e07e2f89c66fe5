"""A language's stream of tokens as sequences of one length, each computable from its number."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vocab.packing_modes import MODES, Mode, Runs
from vocab.stream import Int64s, Tokens, TokenStream

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
