"""The options of the vocabulary and of the token shards."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from electrify.config.names import check_language
from electrify.config.section import Count, Fraction, LocalPath, Section
from electrify.system.outcome import UserError

Pretokenizer = Literal["kiwi", "whitespace"]
Hangul = Literal["seen", "common", "all"]


class VocabConfig(Section):
    """Documents to a WordPiece vocabulary (vocab/)."""

    size: Annotated[int, Field(ge=64, lt=2**24)] = 32_000
    """Number of pieces. Training stops with an error if the text does not yield so many."""
    pretokenizer: Pretokenizer = "kiwi"
    """`kiwi` cuts Korean words at morphemes, and no piece may cross a cut in training. `whitespace`
    cuts at spaces and punctuation alone."""
    pretokenizers: dict[str, Pretokenizer] = Field(default_factory=dict)
    """The pretokenizer of single languages, such as `{ ko = "kiwi" }`."""
    morpheme_cuts: Literal["particles", "nominal", "all"] = "nominal"
    """Where Korean words are cut. `particles`: before particles and the copula. `nominal`: wherever
    a nominal ends, so a verb stays whole with its endings. `all`: between all morphemes."""
    temperature: Fraction = 0.3
    """A language with n words weighs n^temperature: 1 as they are, 0 all languages alike."""
    min_frequency: Count = 2
    """Pairs that are rarer than this are not merged."""
    surplus: Annotated[float, Field(ge=0, le=4)] = 0.3
    """Share of pieces that are learnt above `size` and then pruned."""
    max_crossing: Fraction = 0.1
    """A piece is pruned if more than this share of its uses, over distinct words, lies across a
    cut. 1: no piece is pruned for it."""
    max_words: Count = 500_000
    """Number of distinct words that pieces are learnt from, the most frequent ones."""
    limit_alphabet: Annotated[int, Field(gt=0)] = Field(
        default_factory=lambda fields: min(6000, max(1000, fields["size"] // 5))
    )
    """Number of characters that get pieces, the most frequent ones. Left out: a fifth of `size`, at
    least 1,000 and at most 6,000. Each character takes about two pieces."""
    hangul: Hangul = "seen"
    """Syllables that get pieces though the text lacks them. `seen`: none. `common`: the 2,350 of KS
    X 1001, useful below some 10 MB of Korean. `all`: all 11,172, which take up to 22,344 pieces."""
    lowercase: bool = False
    """Letters become lower case. Accents stay."""
    split_digits: bool = False
    """Every digit is a piece of its own."""
    num_unused: Annotated[int, Field(ge=0, lt=2**24)] = 0
    """Number of pieces `[unused0]`, `[unused1]` and so on, for later users."""
    additional_special_tokens: tuple[str, ...] = ()
    """Special tokens that `transformers` never splits, such as `["[USER]"]`. In documents they are
    text, which `encode` splits, as it does `[MASK]`."""
    extend: LocalPath | None = None
    """Tokenizer folder or `vocab.txt` whose pieces keep their ids. With `size` at its number of
    pieces it is kept as it is. With a larger `size` new pieces follow the old ones."""
    references: tuple[LocalPath, ...] = ()
    """Tokenizer folders or `vocab.txt` files that the report compares with."""

    @field_validator("pretokenizers")
    @classmethod
    def _check_languages(cls, value: dict[str, Pretokenizer]) -> dict[str, Pretokenizer]:
        for language, pretokenizer in value.items():
            check_language(language)
            if pretokenizer == "kiwi" and language != "ko":
                raise UserError(f"kiwi analyses Korean only, not {language!r}")
        return value

    @field_validator("additional_special_tokens")
    @classmethod
    def _check_tokens(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for token in value:
            if not token or token != token.strip() or token in value[: value.index(token)]:
                raise UserError(f"{token!r} is empty, has a space at an end, or is listed twice")
        return value


class EncodeConfig(Section):
    """Documents to token shards (vocab/)."""

    valid_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    """Share of the documents that is held out for validation. A hash of the text decides, so equal
    texts are on one side."""
    repeats: dict[str, Count] = Field(default_factory=dict)
    """How many times documents stand in the train split, by their `source`, such as `{ "e9t/nsmc" =
    3 }`."""
    shard_tokens: Annotated[int, Field(ge=1024)] = 33_554_432
    """Tokens of a shard file."""
