"""Training cost in parameters and FLOPs, three ways. Plain arithmetic, no torch.

* `matmul_flops_per_token`: matrix products really done, backward twice the forward, look-ups 0.
* `paper_flops`: what the paper's Table 1 counts (google-research/electra flops_computation.py):
  backward as much as forward, the input embedding as a dense product.
* `six_nd_flops`: 6 x parameters outside the look-up tables x tokens.
"""

from dataclasses import dataclass

from electrify.config import PretrainConfig, RunConfig

_DROPOUT, _NORM, _ACTIVATION, _SOFTMAX = 4, 5, 8, 5  # FLOPs an element, by the paper's script


@dataclass(frozen=True)
class NetworkSize:
    """The widths of one network."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    embedding: int
    vocab: int
    positions: int

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
        return self.layers * layer + project

    @property
    def generator_head_parameters(self) -> int:
        """Dense, LayerNorm and output bias; the word table is counted in the embeddings."""
        return (self.hidden + 1) * self.embedding + 2 * self.embedding + self.vocab

    @property
    def discriminator_head_parameters(self) -> int:
        """Dense and one logit."""
        return (self.hidden + 1) * self.hidden + self.hidden + 1


def network_sizes(config: PretrainConfig, vocab_size: int) -> tuple[NetworkSize, NetworkSize]:
    """Discriminator and generator of a config."""
    common = {
        "embedding": config.embedding_size,
        "vocab": vocab_size,
        "positions": config.max_position_embeddings,
    }
    return NetworkSize(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        intermediate=config.intermediate_size,
        **common,
    ), NetworkSize(
        layers=config.generator_num_hidden_layers,
        hidden=config.generator_hidden_size,
        heads=config.generator_num_attention_heads,
        intermediate=config.generator_intermediate_size,
        **common,
    )


def parameter_counts(config: PretrainConfig, vocab_size: int) -> dict[str, int]:
    """Parameters trained (embeddings shared, counted once) and in each exported network."""
    disc, gen = network_sizes(config, vocab_size)
    discriminator = disc.encoder_parameters + disc.discriminator_head_parameters
    generator = gen.encoder_parameters + gen.generator_head_parameters
    return {
        "trained": disc.embedding_parameters + discriminator + generator,
        "discriminator": disc.embedding_parameters + discriminator,
        "generator": gen.embedding_parameters + generator,
    }


def matmul_flops_per_token(config: PretrainConfig, vocab_size: int, length: int) -> float:
    """Training FLOPs a token: 3 x the forward pass's matrix products.

    The generator's head counts at the masked positions only. ELECTRA-Small at 30,522 pieces and
    length 128: 70.2 M.
    """
    disc, gen = network_sizes(config, vocab_size)

    def encoder(size: NetworkSize) -> float:
        h = size.hidden
        layer = 2 * (4 * h * h + 2 * h * size.intermediate) + 4 * length * h
        project = 2 * size.embedding * h if size.embedding != h else 0
        return size.layers * layer + project

    head_share = config.num_masked(length) / length
    generator_head = 2 * gen.embedding * (gen.hidden + vocab_size) * head_share
    discriminator_head = 2 * disc.hidden * (disc.hidden + 1)
    return 3 * (encoder(disc) + discriminator_head + encoder(gen) + generator_head)


def six_nd_flops(config: PretrainConfig, vocab_size: int, num_tokens: float) -> float:
    """6ND with N the trained parameters outside the embedding tables."""
    tables = network_sizes(config, vocab_size)[0].embedding_parameters
    return 6 * (parameter_counts(config, vocab_size)["trained"] - tables) * num_tokens


def paper_flops(config: PretrainConfig, vocab_size: int, length: int, num_sequences: int) -> float:
    """Training FLOPs by the convention of the paper's Table 1, its quirks kept.

    Gives 1.29e18 for ELECTRA-Small's schedule (the table prints 1.4e18), 6.4e19 for Base and
    7.1e20 for Large-400K.
    """
    disc, gen = network_sizes(config, vocab_size)
    token = _paper_encoder(disc, length) + _paper_input(disc, length)
    token += disc.hidden * (2 * disc.hidden + 1 + _ACTIVATION + 2)  # the discriminator's head
    token += _paper_encoder(gen, length) + _paper_input(gen, length) + _paper_output(gen)
    return 2.0 * num_sequences * length * token


def _paper_encoder(size: NetworkSize, length: int) -> float:
    h, i, heads = size.hidden, size.intermediate, size.heads
    attention = 3 * (2 * h * h + h) + 4 * h * length + (_SOFTMAX + _DROPOUT + 1) * length * heads
    # the script counts the LayerNorm after attention once, not for each of the h elements
    after = 2 * h * h + h + _DROPOUT * h + h + _NORM
    feed_forward = 4 * h * i + (_ACTIVATION + 1) * i + (1 + _DROPOUT + 1 + _NORM) * h
    return size.layers * (attention + after + feed_forward)


def _paper_input(size: NetworkSize, length: int) -> float:
    e = size.embedding
    project = 2 * size.hidden * e + size.hidden if e != size.hidden else 0
    return 2 * e * size.vocab + 2 * e * (length + 2) + (2 + _NORM + _DROPOUT) * e + project


def _paper_output(size: NetworkSize) -> float:
    e, v = size.embedding, size.vocab
    softmax = 2 * e * v + (_SOFTMAX + 2) * v
    return 0.15625 * (softmax + 2 * size.hidden * e + (1 + _ACTIVATION + _NORM) * e)


def estimate(config: RunConfig) -> list[str]:
    """A run's size and cost in words, before it is started."""
    pretrain, length, vocab = config.pretrain, config.encode.sequence_length, config.vocab.size
    counts = parameter_counts(pretrain, vocab)
    num_sequences = pretrain.num_steps * pretrain.batch_size
    tokens = num_sequences * length
    flops = matmul_flops_per_token(pretrain, vocab, length) * tokens
    hours = {
        "one H200 in bf16 at 250 TFLOP/s": flops / 2.5e14 / 3600,
        "two CPU cores in fp32 at 0.12 TFLOP/s": flops / 1.2e11 / 3600,
    }
    return [
        f"parameters: {counts['trained']:,} trained, {counts['discriminator']:,} in the "
        f"discriminator, {counts['generator']:,} in the generator",
        f"masked positions: {pretrain.num_masked(length)} of {length}",
        f"training tokens: {tokens:,}",
        f"training FLOPs: {flops:.3g} in matrix products, "
        f"{paper_flops(pretrain, vocab, length, num_sequences):.3g} by the paper's convention, "
        f"{six_nd_flops(pretrain, vocab, tokens):.3g} by 6ND",
        *(f"estimated hours: {value:,.2g} ({where}, assumed)" for where, value in hours.items()),
        f"estimated memory: {_memory_gib(config):.1f} GiB for weights, moments and activations",
    ]


def _memory_gib(config: RunConfig) -> float:
    """16 bytes a parameter, and in fp32 what backward keeps: about 16 H + 3 I a layer and token."""
    pretrain, length = config.pretrain, config.encode.sequence_length
    tokens = (pretrain.micro_batch_size or pretrain.batch_size) * length
    kept = 0.0
    for size in network_sizes(pretrain, config.vocab.size):
        kept += size.layers * (16 * size.hidden + 3 * size.intermediate) + 6 * size.embedding
    logits = 3 * config.vocab.size * pretrain.num_masked(length) / length
    weights = 16 * parameter_counts(pretrain, config.vocab.size)["trained"]
    return (weights + 4 * tokens * (kept + logits)) / 2**30
