"""How much of a text has no piece, and whether that is too much for a tokenizer of this text.

Of real Korean and English text, the shipped encoder's tokenizer has no piece for at most 1.0 % of
the tokens (24 corpora and tasks). Of text in another script it is 12 to 87 %. With its
vocab.txt alone it is 9 to 95 % of Korean text.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from electrify.system.progress import warn

LIMIT = 0.05  # of the tokens
_ADVICE = (
    "Files of the tokenizer may be missing: vocab.txt alone is read as lower-casing BERT, which "
    "takes Hangul apart; put the model's own tokenizer.json and tokenizer_config.json beside its "
    "weights. Or the model is for another language: take one for this text"
)


class Coverage(NamedTuple):
    """Tokens of a text, special tokens left out, and how many of them are [UNK]."""

    num_tokens: int
    num_unknown: int

    @property
    def is_unfit(self) -> bool:
        """Whether more than `LIMIT` is [UNK]. One alone says nothing: it may be an emoji."""
        is_all = 0 < self.num_tokens == self.num_unknown
        return is_all or self.num_unknown - 1 > LIMIT * self.num_tokens

    def __str__(self) -> str:
        percent = 100 * self.num_unknown / max(1, self.num_tokens)
        return f"{percent:.0f} % of {self.num_tokens:,} tokens are [UNK]"


def coverage_of(rows: Iterable[Iterable[int]], tokenizer: Any) -> Coverage:
    """Of rows of ids that a tokenizer of `transformers` gave: lists, or arrays."""
    unknown = tokenizer.unk_token_id
    special = set(tokenizer.all_special_ids) - {unknown}
    num_tokens = num_unknown = 0
    for row in rows:
        ids: list[int] = row.tolist() if hasattr(row, "tolist") else list(row)
        num_tokens += len(ids) - sum(map(ids.count, special))
        num_unknown += ids.count(unknown)
    return Coverage(num_tokens, num_unknown)


def warn_of_unknown(coverage: Coverage, what: str, advice: str = _ADVICE) -> bool:
    """Warn, if the coverage is unfit, of `what` (a text), with the next step; whether it was."""
    if coverage.is_unfit:
        warn(f"{what}: {coverage}. {advice}")
    return coverage.is_unfit
