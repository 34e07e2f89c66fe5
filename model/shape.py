"""How large the networks of a run are. Plain arithmetic, no torch."""

from dataclasses import dataclass, fields
from typing import Self

from electrify.config.pretrain import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """Sizes of one network; names as in `ElectraConfig`, but for the towers."""

    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    layer_norm_eps: float
    num_towers: int = 1  # encoders side by side: 2 in the cloze model of electric

    @classmethod
    def of(cls, config: object, **others: int) -> Self:
        """Those that a config gives, with `others` in place of its own; one tower by default."""
        names = {field.name for field in fields(cls)} - {"num_towers", *others}
        return cls(**{name: getattr(config, name) for name in names} | others)

    @property
    def embedding_parameters(self) -> int:
        """Word, position and token-type tables and their LayerNorm."""
        return self.embedding_size * (self.vocab_size + self.max_position_embeddings + 2 + 2)

    @property
    def encoder_parameters(self) -> int:
        """All layers, and the projection from the embeddings where widths differ."""
        e, h, i = self.embedding_size, self.hidden_size, self.intermediate_size
        layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
        project = (e + 1) * h if e != h else 0
        return self.num_towers * (self.num_hidden_layers * layer + project)

    @property
    def language_head_parameters(self) -> int:
        """Dense, LayerNorm and output bias; the word table is counted in the embeddings."""
        e = self.embedding_size
        return (self.num_towers * self.hidden_size + 1) * e + 2 * e + self.vocab_size

    @property
    def detection_head_parameters(self) -> int:
        return (self.hidden_size + 1) * self.hidden_size + self.hidden_size + 1


def discriminator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    return EncoderShape.of(config, vocab_size=vocab_size)


def generator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    """Sizes of the generator, a fraction of the main network's."""
    return EncoderShape.of(
        config,
        vocab_size=vocab_size,
        embedding_size=config.generator_embedding_size,
        hidden_size=config.generator_hidden_size,
        num_hidden_layers=config.generator_num_hidden_layers,
        num_attention_heads=config.generator_num_attention_heads,
        intermediate_size=config.generator_intermediate_size,
        num_towers=2 if config.objective == "electric" else 1,
    )
