"""The options of the vocabulary and of the token shards."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator

from electrify.config.fields import Count, Fraction, LocalPath, Section
from electrify.system.outcome import UserError

_MOST_PIECES = 32_000  # as Korean encoders of gigabytes have


class VocabConfig(Section):
    """Documents to a WordPiece vocabulary."""

    size: Literal["auto"] | Annotated[int, Field(ge=64, lt=2**24)] = "auto"
    """Number of pieces. `auto`: by the number of words, from 4,000 to 32,000, and less where the
    text yields less. With `extend` it is that of the old vocabulary, and a third more where over
    5 % of the text is [UNK] in it."""
    pretokenizer: Literal["kiwi", "whitespace"] = "kiwi"
    """`kiwi` cuts Korean words where a nominal ends; verbs stay whole with their endings.
    `whitespace` cuts at spaces and punctuation."""
    temperature: Fraction = 0.3
    """A language with n words weighs n^temperature. 1: as they are, 0: all alike."""
    min_frequency: Count = 2
    """Rarer pairs are not merged. They count as `temperature` weighs their language."""
    surplus: Annotated[float, Field(ge=0, le=4)] = 0.3
    """Fraction of pieces that are learnt above `size` and then pruned."""
    max_crossing: Fraction = 0.1
    """A piece is pruned if more than this fraction of its uses lies across a cut."""
    max_words: Count = 500_000
    """Number of most frequent words to learn from."""
    limit_alphabet: Annotated[int, Field(gt=0)] | None = None
    """Number of most frequent characters that get pieces. If omitted, a fifth of `size`, from 1,000
    to 6,000, and more where merges do not fill the size, as of Chinese."""
    lowercase: bool = False
    """Letters become lower case. Accents stay."""
    additional_special_tokens: tuple[str, ...] = ()
    """Special tokens, such as `["[USER]"]`. In documents they are plain text, so none may be a word
    of letters and digits alone."""
    extend: LocalPath | None = None
    """Tokenizer folder or `vocab.txt` whose pieces keep their ids. New pieces follow up to
    `size`."""

    def sized(self, num_words: float, num_first: int) -> Self:
        """The options with a size in numbers, for a text of so many running words and so many
        first pieces: special ones, or those of a vocabulary that is extended, which is kept."""
        if self.size != "auto":
            return self
        # in thousands: 12,000 for 9 M words, which suited the shipped encoder, 32,000 from 64 M on
        size = min(_MOST_PIECES, max(4_000, 1000 * round(4 * math.sqrt(num_words) / 1000)))
        return self.model_copy(update={"size": num_first if self.extend else size})

    @property
    def num_pieces(self) -> int:
        """`size` as a number; of `auto`, before `sized`, the most that there may be."""
        return _MOST_PIECES if self.size == "auto" else self.size

    @property
    def num_characters(self) -> int:
        """How many characters get pieces, at most."""
        return self.limit_alphabet or min(6000, max(1000, self.num_pieces // 5))

    @field_validator("additional_special_tokens")
    @classmethod
    def _check_tokens(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for token in value:
            if not token or token != token.strip() or token in value[: value.index(token)]:
                raise UserError(f"{token!r} is empty, has a space at an end, or is listed twice")
            if token.isalnum():
                raise UserError(f"{token!r} would be every such word of the text; write [{token}]")
        return value


class EncodeConfig(Section):
    """Documents to token shards."""

    valid_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    """Fraction of the documents for validation, chosen by a hash of the text."""
    repeats: dict[str, Count] = Field(default_factory=dict)
    """How often documents of a `source` are in the train split, such as `{ "e9t/nsmc" = 3 }`."""
    shard_tokens: Annotated[int, Field(ge=1024)] = 33_554_432
    """Tokens of a shard file."""
