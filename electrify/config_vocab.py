"""The options of the vocabulary and of the token shards."""

from typing import Annotated, Literal

from pydantic import Field

from electrify.config_section import Count, Section


class VocabConfig(Section):
    """Documents to a WordPiece vocabulary (vocab/)."""

    size: Annotated[int, Field(ge=64)] = 32_000
    pretokenizer: Literal["kiwi", "whitespace"] = "kiwi"
    min_frequency: Count = 2
    limit_alphabet: Count = 6000
    lowercase: bool = False


class EncodeConfig(Section):
    """Documents to token shards (vocab/)."""

    sequence_length: Annotated[int, Field(ge=16)]  # filled from pretrain.size
    valid_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    shard_tokens: Annotated[int, Field(ge=1024)] = 33_554_432
