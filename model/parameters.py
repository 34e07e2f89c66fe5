"""Widths and parameters of the networks of a run. Plain arithmetic, no torch."""

from dataclasses import dataclass

from electrify.config_pretrain import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class NetworkSize:
    """The widths of one network."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    embedding: int
    vocab: int
    positions: int
    towers: int = 1  # encoders side by side: 2 in the cloze model of electric

    @property
    def embedding_parameters(self) -> int:
        """Word, position and token-type tables and their LayerNorm."""
        return self.embedding * (self.vocab + self.positions + 2 + 2)

    @property
    def encoder_parameters(self) -> int:
        """All layers, and the projection from the embeddings where widths differ."""
        h, i = self.hidden, self.intermediate
        layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
        project = (self.embedding + 1) * h if self.embedding != h else 0
        return self.towers * (self.layers * layer + project)

    @property
    def language_head_parameters(self) -> int:
        """Dense, LayerNorm and output bias; the word table is counted in the embeddings."""
        return (self.towers * self.hidden + 1) * self.embedding + 2 * self.embedding + self.vocab

    @property
    def detection_head_parameters(self) -> int:
        """Dense and one logit."""
        return (self.hidden + 1) * self.hidden + self.hidden + 1


def network_sizes(
    config: PretrainConfig, vocab_size: int
) -> tuple[NetworkSize, NetworkSize | None]:
    """The main network (the discriminator) and the generator, None where none is trained."""
    main = NetworkSize(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        intermediate=config.intermediate_size,
        embedding=config.embedding_size,
        vocab=vocab_size,
        positions=config.max_position_embeddings,
    )
    if not config.has_generator:
        return main, None
    return main, NetworkSize(
        layers=config.generator_num_hidden_layers,
        hidden=config.generator_hidden_size,
        heads=config.generator_num_attention_heads,
        intermediate=config.generator_intermediate_size,
        embedding=config.generator_embedding_size,
        vocab=vocab_size,
        positions=config.max_position_embeddings,
        towers=2 if config.objective == "electric" else 1,
    )


def body_parameters(config: PretrainConfig, vocab_size: int) -> tuple[int, int]:
    """Parameters outside the tables that a token of the generator and of the main network passes.

    With weight_sharing "all" the body stands in both. Heads are included, the baseline of
    electra-adversarial is not.
    """
    main, generator = network_sizes(config, vocab_size)
    in_main = main.encoder_parameters
    in_main += main.detection_head_parameters if config.has_detection_head else 0
    in_main += main.language_head_parameters if config.has_language_head else 0
    if generator is None:
        return 0, in_main
    return generator.encoder_parameters + generator.language_head_parameters, in_main


def parameter_counts(config: PretrainConfig, vocab_size: int) -> dict[str, int]:
    """Parameters trained, each once, and in each network with its tables and heads.

    The tables of weight_sharing "gdes" count twice among those trained: the generator's, and the
    discriminator's differences from them. A run without a generator has 0 in it.
    """
    main, generator = network_sizes(config, vocab_size)
    in_generator, in_main = body_parameters(config, vocab_size)
    counts = {
        "trained": main.embedding_parameters + in_main,
        "discriminator": main.embedding_parameters + in_main,
        "generator": 0,
    }
    if generator is None:
        return counts
    counts["generator"] = generator.embedding_parameters + in_generator
    counts["trained"] += in_generator
    if config.weight_sharing in ("none", "gdes"):
        counts["trained"] += generator.embedding_parameters
    if config.weight_sharing == "all":
        counts["trained"] -= generator.encoder_parameters
    if config.objective == "electra-adversarial":
        counts["trained"] += generator.hidden + 1  # the baseline
    return counts
