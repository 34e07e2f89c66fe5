"""The networks of pretraining: a generator, a main network, and what they share."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from model.batch import (
    Batch,
    Masked,
    Outputs,
    SpecialTokens,
    document_blocks,
    document_mask,
    document_positions,
)
from model.layers import (
    DiscriminatorHead,
    Embeddings,
    Encoder,
    GeneratorHead,
    TwoTowers,
    initialise,
    initialise_mimetic,
)
from model.masking import choose_positions, cumulative_of, mask_tokens, masked_limits
from model.shape import discriminator_shape, generator_shape


class ElectraPretrainer(nn.Module):
    """All networks of one objective; a part that the objective does not have is None.

    The main network is the discriminator or, in the objectives that predict tokens, what stands in
    its place. `noise_probabilities` (V,) are those of a uniform or unigram generator, and
    `unit_starts` (V,) says which pieces begin a unit that is masked as a whole.
    """

    generator_embeddings: Embeddings | None
    generator: Encoder | TwoTowers | None
    generator_head: GeneratorHead | None
    baseline: nn.Linear | None
    unit_starts: Tensor | None
    noise_probabilities: Tensor | None
    noise_cumulative: Tensor | None

    def __init__(
        self,
        config: PretrainConfig,
        vocab_size: int,
        special: SpecialTokens,
        noise_probabilities: Tensor | None = None,
        unit_starts: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.config, self.special = config, special
        self.shape = discriminator_shape(config, vocab_size)
        self.generator_shape = generator_shape(config, vocab_size)
        self.embeddings = Embeddings(self.shape)
        self.generator_embeddings = self.generator = self.generator_head = self.baseline = None
        if config.has_generator:
            self._make_generator()
        self.discriminator = Encoder(self.shape)
        detects, predicts = config.has_detection_head, config.has_language_head
        self.discriminator_head = DiscriminatorHead(self.shape) if detects else None
        self.language_head = GeneratorHead(self.shape) if predicts or config.mlm_steps else None
        self._add_table("unit_starts", unit_starts)
        self._add_table("noise_probabilities", noise_probabilities)
        cumulative = None if noise_probabilities is None else cumulative_of(noise_probabilities)
        self._add_table("noise_cumulative", cumulative)
        if config.initialization == "mimetic":
            initialise_mimetic(self)
        else:
            initialise(self, config.initializer_range)
        if config.weight_sharing == "gdes":
            for table in self.embeddings.tables():  # differences from the generator's
                nn.init.zeros_(table.weight)

    def _make_generator(self) -> None:
        config, shape = self.config, self.generator_shape
        if config.weight_sharing in ("none", "gdes"):
            self.generator_embeddings = Embeddings(shape)
        if shape.num_towers > 1:
            self.generator = TwoTowers(shape)
        elif config.weight_sharing != "all":
            self.generator = Encoder(shape)
        self.generator_head = GeneratorHead(shape)
        if config.objective == "electra-adversarial":
            self.baseline = nn.Linear(shape.hidden_size, 1)

    def _add_table(self, name: str, table: Tensor | None) -> None:
        # made anew from the vocabulary and the shards, so no checkpoint needs it
        self.register_buffer(name, table, persistent=False)

    def forward(self, loss: Callable[..., Outputs], *arguments: Any) -> Outputs:
        """A loss function of the network as its forward pass, where DDP synchronises gradients."""
        return loss(self, *arguments)

    @torch.no_grad()
    def mask(self, batch: Batch) -> Masked:
        """Choose positions and mask them: all of a step that does not depend on weights."""
        config, special, ids = self.config, self.special, batch.input_ids
        tokens = ids != special.pad
        maskable = tokens & (ids != special.cls) & (ids != special.sep) & (ids != special.mask)
        starts = None
        if config.mask_unit != "token":
            assert self.unit_starts is not None
            starts = self.unit_starts[ids]
        # in a full sequence of 512 tokens, too: 77 of the 79 slots, as the original
        limits = masked_limits(tokens, config.mask_fraction)
        positions, weights = choose_positions(
            maskable, batch.noise.positions, config, limits, starts
        )
        # packed sequences are full, and without a mask attention takes its fastest kernel
        attention_mask = None if batch.packed else tokens[:, None, None, :]
        position_ids = None
        if config.attention == "document":
            blocks = document_blocks(ids, batch.token_type_ids, tokens, special.sep)
            attention_mask = document_mask(blocks, tokens)
            position_ids = document_positions(blocks)
        masked_ids = mask_tokens(
            ids, positions, weights, batch.noise.mask, special.mask, config.mask_token_fraction
        )
        hidden = weights  # from the towers of electric, which never read the token they predict
        if config.objective != "electric":
            hidden = weights * (masked_ids.gather(1, positions) == special.mask)
        return Masked(
            batch=batch,
            tokens=tokens,
            maskable=maskable,
            attention_mask=attention_mask,
            position_ids=position_ids,
            positions=positions,
            weights=weights,
            originals=ids.gather(1, positions),
            masked_ids=masked_ids,
            hidden=hidden,
        )

    def generator_states(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The generator's last states: (B, L) to (B, L, H), or (B, L, 2 H) of two towers."""
        embeddings = self.generator_embeddings or self.embeddings
        body = self.generator or self.discriminator  # weight_sharing = "all"
        embedded = embeddings(input_ids, token_type_ids, position_ids)
        states: Tensor = body(embedded, attention_mask)
        return states

    def generator_logits(self, states: Tensor) -> Tensor:
        """Over the vocabulary: (..., H) to (..., V)."""
        head, table = generator_output(self)
        logits: Tensor = head(states, table)
        return logits

    def generate(
        self, input_ids: Tensor, token_type_ids: Tensor, positions: Tensor, *placed: Tensor | None
    ) -> Tensor:
        """Generator logits (B, N, V) at `positions` (B, N)."""
        states = self.generator_states(input_ids, token_type_ids, *placed)
        return self.generator_logits(at_positions(states, positions))

    def main_states(
        self, input_ids: Tensor, token_type_ids: Tensor, *placed: Tensor | None
    ) -> Tensor:
        """The main network's last states: (B, L) to (B, L, H)."""
        return self.all_main_states(input_ids, token_type_ids, *placed)[-1]

    def all_main_states(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """The states (B, L, H) that enter the main network's first layer, and of each layer."""
        base = self.generator_embeddings if self.config.weight_sharing == "gdes" else None
        embedded = self.embeddings(input_ids, token_type_ids, position_ids, base)
        return self.discriminator.all_states(embedded, attention_mask)

    def detection_logits(self, states: Tensor) -> Tensor:
        """(..., H) to (...); high means replaced."""
        assert self.discriminator_head is not None
        logits: Tensor = self.discriminator_head(states)
        return logits

    def language_logits(self, states: Tensor) -> Tensor:
        """The main network's prediction over the vocabulary: (..., H) to (..., V)."""
        head, table = language_output(self)
        logits: Tensor = head(states, table)
        return logits

    def discriminate(
        self, input_ids: Tensor, token_type_ids: Tensor, *placed: Tensor | None
    ) -> Tensor:
        """Discriminator logits (B, L); high means replaced."""
        return self.detection_logits(self.main_states(input_ids, token_type_ids, *placed))

    def predict(
        self, input_ids: Tensor, token_type_ids: Tensor, positions: Tensor, *placed: Tensor | None
    ) -> Tensor:
        """The main network's logits (B, N, V) over the vocabulary at `positions` (B, N)."""
        states = self.main_states(input_ids, token_type_ids, *placed)
        return self.language_logits(at_positions(states, positions))

    @torch.no_grad()
    def start_discriminator_from_generator(self) -> None:
        """Copy tables and body; the detection head stays as it is (section 3.2, two-stage)."""
        assert self.generator is not None
        assert self.generator_embeddings is not None
        self.embeddings.load_state_dict(self.generator_embeddings.state_dict())
        self.discriminator.load_state_dict(self.generator.state_dict())

    @torch.no_grad()
    def start_generator_from_language_model(self) -> None:
        """Copy the bias of the language model's head: it holds how frequent each piece is, and it
        fits a generator of any width."""
        assert self.language_head is not None
        if self.generator_head is not None:
            self.generator_head.bias.copy_(self.language_head.bias)


def at_positions(states: Tensor, positions: Tensor) -> Tensor:
    """(B, L, H), (B, N) to (B, N, H)."""
    return states.gather(1, positions[:, :, None].expand(-1, -1, states.shape[-1]))


def generator_output(model: ElectraPretrainer) -> tuple[GeneratorHead, Tensor]:
    """The generator's head and its word table (V, E)."""
    assert model.generator_head is not None
    return model.generator_head, (model.generator_embeddings or model.embeddings).word.weight


def language_output(model: ElectraPretrainer) -> tuple[GeneratorHead, Tensor]:
    """The main network's head over the vocabulary and its word table (V, E)."""
    assert model.language_head is not None
    table: Tensor = model.embeddings.word.weight
    if model.config.weight_sharing == "gdes":
        assert model.generator_embeddings is not None
        table = table + model.generator_embeddings.word.weight.detach()
    return model.language_head, table
