"""The options of the vocabulary and of the token shards."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from electrify.config.names import check_language
from electrify.config.section import Count, Fraction, Section

Pretokenizer = Literal["kiwi", "whitespace"]


class VocabConfig(Section):
    """Documents to a WordPiece vocabulary (vocab/)."""

    size: Annotated[int, Field(ge=64, lt=2**24)] = 32_000
    # kiwi: morphemes of Korean words say where no piece may cross, in training only
    pretokenizer: Pretokenizer = "kiwi"
    pretokenizers: dict[str, Pretokenizer] = Field(
        default_factory=dict
    )  # of single languages: { ko = "kiwi" }
    # which borders: before particles; wherever a nominal ends; between all morphemes
    morpheme_cuts: Literal["particles", "nominal", "all"] = "nominal"
    temperature: Fraction = 0.3  # languages are weighed by p ~ n^temperature
    min_frequency: Count = 2
    surplus: Annotated[float, Field(ge=0, le=4)] = 0.3  # pieces learnt above `size`, then pruned
    max_crossing: Fraction = 0.1  # of a piece's uses across a border; above it is pruned
    max_words: Count = 500_000  # distinct words that merges are learnt from, the most frequent
    # characters that get pieces, the most frequent: unless given a fifth of `size`, but 1,000 to
    # 6,000. Each takes about two pieces, and words need the others
    limit_alphabet: Annotated[int, Field(gt=0)] = Field(
        default_factory=lambda fields: min(6000, max(1000, fields["size"] // 5))
    )
    # syllables with pieces though the text has none of them: those of KS X 1001 (worth it below
    # some 10 MB of Korean), or all 11,172, which take up to 22,344 pieces
    hangul: Literal["seen", "common", "all"] = "seen"
    lowercase: bool = False
    split_digits: bool = False  # every digit a piece of its own
    num_unused: Annotated[int, Field(ge=0, lt=2**24)] = 0  # [unused0], ...: for later users
    additional_special_tokens: tuple[str, ...] = ()
    # tokenizer folder or vocab.txt whose pieces keep their ids; with `size` at their number it is
    # kept as it is
    extend: str | None = None
    # for the report
    references: tuple[str, ...] = ()  # tokenizer folders or vocab.txt to compare with
    span_data_dir: str | None = None  # folder with KLUE-MRC, KLUE-NER, SQuAD or KorQuAD files

    @field_validator("pretokenizers")
    @classmethod
    def _check_languages(cls, value: dict[str, Pretokenizer]) -> dict[str, Pretokenizer]:
        for language, pretokenizer in value.items():
            check_language(language)
            if pretokenizer == "kiwi" and language != "ko":
                raise ValueError(f"kiwi analyses Korean only, not {language!r}")
        return value

    @field_validator("additional_special_tokens")
    @classmethod
    def _check_tokens(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for token in value:
            if not token or token != token.strip() or token in value[: value.index(token)]:
                raise ValueError(f"{token!r} is empty, spaced, or stands twice")
        return value


class MixtureConfig(Section):
    """How often each language is read."""

    # a language with n sequences is drawn in proportion to n ** temperature: 1 as the corpus has
    # it, 0 every language alike; 0.3 is what multilingual encoders are trained with
    temperature: Fraction = 1.0


class EncodeConfig(Section):
    """Documents to token shards (vocab/). The first three say how shards are read: to change them
    needs no new encoding."""

    sequence_length: Annotated[int, Field(ge=16)]  # filled from pretrain.size
    # full: contiguous text, nothing padded or lost; electra: the original's two segments;
    # sentence: whole sentences of one document
    packing: Literal["full", "electra", "sentence"] = "full"
    mixture: MixtureConfig = MixtureConfig()
    # kiwi: Korean sentences without full stops are found too, at 0.2 MB/s a core for such text
    sentences: Literal["punctuation", "kiwi"] = "punctuation"
    valid_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    # by the documents' column `source`: how many times its documents stand in the train split
    repeats: dict[str, Count] = Field(default_factory=dict)
    shard_tokens: Annotated[int, Field(ge=1024)] = 33_554_432
