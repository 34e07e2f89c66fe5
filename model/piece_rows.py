"""The rows of one vocabulary's tables from another's, piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vocab.merges import PREFIX
from vocab.segment import is_continuing, surface
from vocab.tokenizer import is_special


@dataclass(frozen=True)
class PieceRows:
    """Which old rows each new piece is the mean of: itself, its sub-pieces, or (none) all rows."""

    sources: list[list[int]]
    num_kept: int
    num_dropped: int  # old pieces that are no longer there

    @classmethod
    def between(cls, old: Sequence[str], new: Sequence[str]) -> "PieceRows":
        """For a table of the pieces `new` from one of the pieces `old`, each in order of ids.

        A piece that is new takes those that the old vocabulary would cut it into by WordPiece's
        longest match; a special token has none.
        """
        ids = {piece: index for index, piece in enumerate(old)}
        sources = [
            [ids[piece]] if piece in ids else [] if is_special(piece) else cut(piece, ids)
            for piece in new
        ]
        kept = sum(piece in ids for piece in new)
        return cls(sources, kept, len(ids) - kept)

    @classmethod
    def same(cls, num_pieces: int) -> "PieceRows":
        """Between a vocabulary and itself."""
        return cls([[index] for index in range(num_pieces)], num_pieces, 0)

    @property
    def num_old(self) -> int:
        """Pieces of the old vocabulary."""
        return self.num_kept + self.num_dropped

    @property
    def num_unknown(self) -> int:
        """New pieces that the old vocabulary cannot spell."""
        return sum(not rows for rows in self.sources)

    @property
    def num_composed(self) -> int:
        """New pieces made of old ones."""
        return len(self.sources) - self.num_kept - self.num_unknown

    def take(self, table: Tensor) -> Tensor:
        """(V_old, E) or (V_old,) to (V_new, E) or (V_new,); a kept row is the same to the bit."""
        wide = table if table.dim() == 2 else table[:, None]
        flat = torch.tensor([row for rows in self.sources for row in rows], dtype=torch.int64)
        lengths = torch.tensor([0, *(len(rows) for rows in self.sources)])
        taken = F.embedding_bag(flat, wide, lengths.cumsum(0)[:-1], mode="mean")
        unknown = torch.tensor([not rows for rows in self.sources])
        taken[unknown] = wide.mean(0)
        return taken if table.dim() == 2 else taken[:, 0]


def cut(piece: str, ids: dict[str, int]) -> list[int]:
    """Ids of the longest known pieces, left to right; empty if some character has none.

    `##` says that the piece continues a word, so then the first of them does too.
    """
    continues, text = is_continuing(piece), surface(piece)
    found: list[int] = []
    start = 0
    while start < len(text):
        prefix = PREFIX if start or continues else ""
        stop = next(
            (end for end in range(len(text), start, -1) if prefix + text[start:end] in ids), None
        )
        if stop is None:
            return []
        found.append(ids[prefix + text[start:stop]])
        start = stop
    return found
