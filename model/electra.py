"""The pretraining model: a generator and a discriminator that share their embeddings."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electrify.config import PretrainConfig
from model.corrupt import (
    choose_positions,
    mask_tokens,
    masked_limits,
    replace_tokens,
    sample_tokens,
)
from model.layers import (
    DiscriminatorHead,
    Embeddings,
    Encoder,
    EncoderShape,
    GeneratorHead,
    initialise,
)


@dataclass(frozen=True)
class SpecialTokens:
    """Ids the objective must know."""

    pad: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True)
class Outputs:
    """One forward pass: losses (scalars with gradient) and what the metrics are made of."""

    loss: Tensor
    generator_loss: Tensor
    discriminator_loss: Tensor
    generator_hits: Tensor  # (B, N) bool, no token is more likely than the original
    weights: Tensor  # (B, N) 1 where a position was really chosen
    corrupted_ids: Tensor  # (B, L)
    discriminator_logits: Tensor  # (B, L), detached
    labels: Tensor  # (B, L) 1 where replaced
    tokens: Tensor  # (B, L) bool, False at padding


def discriminator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    """Sizes of the discriminator."""
    return EncoderShape(
        vocab_size=vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        max_position_embeddings=config.max_position_embeddings,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
        layer_norm_eps=config.layer_norm_eps,
    )


def generator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    """Sizes of the generator: a fraction of the discriminator's, the same embeddings."""
    return replace(
        discriminator_shape(config, vocab_size),
        hidden_size=config.generator_hidden_size,
        num_hidden_layers=config.generator_num_hidden_layers,
        num_attention_heads=config.generator_num_attention_heads,
        intermediate_size=config.generator_intermediate_size,
    )


class ElectraPretrainer(nn.Module):
    """ELECTRA (Clark et al. 2020, section 2): masked LM generator, replaced token detection."""

    def __init__(self, config: PretrainConfig, vocab_size: int, special: SpecialTokens) -> None:
        super().__init__()
        self.config, self.special = config, special
        self.shape = discriminator_shape(config, vocab_size)
        self.generator_shape = generator_shape(config, vocab_size)
        self.embeddings = Embeddings(self.shape)
        self.generator = Encoder(self.generator_shape)
        self.generator_head = GeneratorHead(self.generator_shape)
        self.discriminator = Encoder(self.shape)
        self.discriminator_head = DiscriminatorHead(self.shape)
        initialise(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        rng: torch.Generator | None = None,
        packed: bool = True,
    ) -> Outputs:
        """Mask, generate, sample, discriminate, weigh. Inputs are (B, L) int64.

        `rng` draws masks and samples; dropout uses torch's default generator of the device.
        `packed` promises that no sequence has padding.
        """
        config, special = self.config, self.special
        tokens = input_ids != special.pad
        # packed sequences are full, and without a mask attention takes its fastest kernel
        attention_mask = None if packed else tokens
        maskable = tokens & (input_ids != special.cls) & (input_ids != special.sep)
        maskable &= input_ids != special.mask
        # mask
        num_masked = config.num_masked(input_ids.shape[1])
        limits = None if packed else masked_limits(tokens, config.mask_fraction)
        positions, weights = choose_positions(maskable, num_masked, rng, limits)
        masked = mask_tokens(
            input_ids, positions, weights, special.mask, config.mask_token_fraction, rng
        )
        # generate, at the chosen positions only: the head is the costly part
        logits = self.generate(masked, token_type_ids, positions, attention_mask)
        masked_ids = input_ids.gather(1, positions)
        generator_loss = masked_lm_loss(logits, masked_ids, weights)
        # sample
        sampled = sample_tokens(logits, config.sampling_temperature, rng)
        corrupted, labels = replace_tokens(input_ids, positions, weights, sampled)
        # discriminate, every token
        rtd_logits = self.discriminate(corrupted, token_type_ids, attention_mask)
        discriminator_loss = replaced_token_loss(rtd_logits, labels, tokens)
        # weigh
        loss = (
            config.generator_weight * generator_loss
            + config.discriminator_weight * discriminator_loss
        )
        return Outputs(
            loss=loss,
            generator_loss=generator_loss,
            discriminator_loss=discriminator_loss,
            generator_hits=is_most_likely(logits.detach(), masked_ids),
            weights=weights,
            corrupted_ids=corrupted,
            discriminator_logits=rtd_logits.detach(),
            labels=labels,
            tokens=tokens,
        )

    def generate(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        positions: Tensor,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Generator logits (B, N, V) at `positions` (B, N)."""
        embedded = self.embeddings(input_ids, token_type_ids)
        hidden = self.generator(embedded, attention_mask)
        index = positions[:, :, None].expand(-1, -1, hidden.shape[-1])
        logits: Tensor = self.generator_head(hidden.gather(1, index), self.embeddings.word.weight)
        return logits

    def discriminate(
        self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Discriminator logits (B, L); high means replaced."""
        embedded = self.embeddings(input_ids, token_type_ids)
        logits: Tensor = self.discriminator_head(self.discriminator(embedded, attention_mask))
        return logits


def is_most_likely(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether no token is more likely than the target: (B, N, V), (B, N) to (B, N) bool.

    The maximum alone, since on the CPU its place (argmax) takes ten times as long.
    """
    own = logits.gather(-1, targets[..., None]).squeeze(-1)
    return own == logits.amax(dim=-1)


def masked_lm_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of -log p(original) over all chosen positions of the batch, in fp32.

    (B, N, V), (B, N), (B, N) to a scalar; run_pretraining.py:271-279.
    """
    losses = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    weights = weights.flatten()
    return (losses * weights).sum() / (weights.sum() + 1e-6)


def replaced_token_loss(logits: Tensor, labels: Tensor, tokens: Tensor) -> Tensor:
    """Mean binary cross-entropy over all real tokens, [CLS] and [SEP] included, in fp32.

    All arguments are (B, L); run_pretraining.py:203-209.
    """
    losses = F.binary_cross_entropy_with_logits(logits.float(), labels, reduction="none")
    return (losses * tokens).sum() / (tokens.sum() + 1e-6)
