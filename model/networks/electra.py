"""ELECTRA: its networks and one forward pass, as the paper has it (Clark et al. 2020, section 2).

Mask, generate, sample, discriminate, weigh; `model.pretrain` then goes backward and updates.
What other objectives do otherwise is in `model.networks.objectives`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from model.networks.batch import (
    Batch,
    Corrupted,
    Detected,
    Masked,
    Outputs,
    Predictions,
    Samples,
    SpecialTokens,
    Term,
    Terms,
)
from model.networks.layers import (
    DiscriminatorHead,
    Embeddings,
    Encoder,
    GeneratorHead,
    initialise,
    initialise_mimetic,
    takes_documents,
)
from model.networks.masking import (
    choose_positions,
    document_blocks,
    document_mask,
    document_positions,
    mask_tokens,
    replace_tokens,
)
from model.networks.vocabulary import HeadLoss, head_loss
from model.plan import Stage, discriminator_shape, generator_shape


class ElectraPretrainer(nn.Module):
    """All networks of one objective; a part that the objective does not have is None.

    The main network is the discriminator or, in the objectives that predict tokens, what stands in
    its place.
    """

    def __init__(self, config: PretrainConfig, vocab_size: int, special: SpecialTokens) -> None:
        super().__init__()
        self.config, self.special = config, special
        self.shape = discriminator_shape(config, vocab_size)
        self.generator_shape = generator_shape(config, vocab_size)
        self.embeddings = Embeddings(self.shape)
        self.generator_embeddings: Embeddings | None = None
        self.generator: Encoder | None = None
        self.generator_head: GeneratorHead | None = None
        self.baseline: nn.Linear | None = None
        if config.has_generator:
            self._make_generator()
        self.discriminator = Encoder(self.shape)
        detects, predicts = config.has_detection_head, config.has_language_head
        self.discriminator_head = DiscriminatorHead(self.shape) if detects else None
        self.language_head = GeneratorHead(self.shape) if predicts or config.mlm_steps else None
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
        self.generator = Encoder(shape)
        self.generator_head = GeneratorHead(shape)
        if config.objective == "electra-adversarial":
            self.baseline = nn.Linear(shape.hidden_size, 1)

    @torch.no_grad()
    def mask(self, batch: Batch) -> Masked:
        """Choose positions and mask them: all of a step that does not depend on weights."""
        config, special, ids = self.config, self.special, batch.input_ids
        tokens = ids != special.pad
        maskable = tokens & (ids != special.cls) & (ids != special.sep) & (ids != special.mask)
        # of a sequence of 512 tokens 77 of the 79 slots, as the original (pretrain_helpers.py:173)
        fraction, num_slots = batch.mask_fraction or config.mask_fraction, batch.noise.mask.shape[1]
        number = max(1, round(fraction * ids.shape[1]))
        positions, weights = choose_positions(maskable, batch.noise.positions, num_slots, number)
        attention_mask = None  # without one attention takes its fastest kernel
        position_ids = None
        if config.attention == "document":
            blocks = document_blocks(ids, batch.token_type_ids, special.sep)
            by_kernel = all(
                takes_documents(shape, ids.shape[1], ids.device)
                for shape in (self.shape, self.generator_shape)
            )
            attention_mask = blocks if by_kernel else document_mask(blocks)
            position_ids = document_positions(blocks)
        masked_ids = mask_tokens(
            ids, positions, weights, batch.noise.mask, special.mask, config.mask_token_fraction
        )
        return Masked(
            batch=batch,
            tokens=tokens,
            attention_mask=attention_mask,
            position_ids=position_ids,
            positions=positions,
            weights=weights,
            originals=ids.gather(1, positions),
            masked_ids=masked_ids,
            hidden=weights * (masked_ids.gather(1, positions) == special.mask),
        )

    def forward(
        self, masked: Masked, stage: Stage = "joint", samples: Samples | None = None
    ) -> Outputs:
        """The terms of the loss for one masked batch, as sums: the step divides them by its counts.

        Stage "language" trains the main network as a masked language model, "generator" the
        generator alone, "discriminator" the main network alone, on given samples or on those of
        the frozen generator.
        """
        if stage == "language":
            return self.predict_masked(masked)
        terms: Terms = {}
        if stage != "discriminator":
            samples, terms = self.sample_replacements(masked)
        elif samples is None:
            with torch.no_grad():
                samples, _ = self.sample_replacements(masked)
        assert samples is not None
        if stage == "generator":
            return Outputs(masked, terms, samples)
        return self.main_loss(masked, samples, terms)

    def sample_replacements(self, masked: Masked) -> tuple[Samples, Terms]:
        """The generator predicts the tokens at the chosen positions and draws others for them."""
        hidden = self.generator_states(masked.masked_ids, *masked.context)
        draws = masked.batch.noise.samples
        predicted = predict_chosen(self.generator_output(), masked, hidden, draws)
        assert predicted.sampled is not None
        term = Term(predicted.total, "chosen", self.config.generator_weight)
        predictions = Predictions(predicted.losses, predicted.hits)
        return Samples(predicted.sampled, predictions), {"generator": term}

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        """The discriminator tells of every token, [CLS] and [SEP] included, if it was replaced."""
        corrupted = corrupt(masked, samples)
        hidden = self.main_states(corrupted.ids, *masked.context)
        logits = self.detection_logits(hidden).float()
        losses = F.binary_cross_entropy_with_logits(logits, corrupted.labels, reduction="none")
        term, counted = self.detection_term(masked, losses)
        detected = Detected(logits.detach(), losses.detach(), counted)
        return Outputs(masked, terms | {"discriminator": term}, samples, corrupted, detected)

    def detection_term(self, masked: Masked, losses: Tensor) -> tuple[Term, Tensor]:
        """The loss of the discriminator, and the positions (B, L) that it is of."""
        total = (losses * masked.tokens).sum()
        return Term(total, "tokens", self.config.main_weight), masked.tokens

    def predict_masked(self, masked: Masked) -> Outputs:
        """BERT's objective on the main network: [MASK] is in its input, and there is no generator.

        It is the MLM warm-up of other objectives, where the weight of their loss is not its.
        """
        weight = self.config.main_weight if self.config.has_language_head else 1.0
        term, predicted = self.predict_from(masked, masked.masked_ids, weight)
        return Outputs(masked, {"discriminator": term}, predicted=predicted)

    def predict_from(
        self, masked: Masked, input_ids: Tensor, weight: float
    ) -> tuple[Term, Predictions]:
        """The main network predicts the originals at the chosen positions from an input (B, L)."""
        hidden = self.main_states(input_ids, *masked.context)
        predicted = predict_chosen(self.language_output(), masked, hidden)
        term = Term(predicted.total, "chosen", weight)
        return term, Predictions(predicted.losses, predicted.hits)

    def generator_states(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The generator's last hidden states: (B, L) to (B, L, H)."""
        assert self.generator is not None
        embeddings = self.generator_embeddings or self.embeddings
        embedded = embeddings(input_ids, token_type_ids, position_ids)
        hidden: Tensor = self.generator(embedded, attention_mask)
        return hidden

    def main_states(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The main network's last hidden states: (B, L) to (B, L, H)."""
        base = self.generator_embeddings if self.config.weight_sharing == "gdes" else None
        embedded = self.embeddings(input_ids, token_type_ids, position_ids, base)
        hidden: Tensor = self.discriminator(embedded, attention_mask)
        return hidden

    def generator_output(self) -> "VocabularyOutput":
        """The generator's head over the vocabulary."""
        assert self.generator is not None
        assert self.generator_head is not None
        matrix = (self.generator_embeddings or self.embeddings).word.weight
        return VocabularyOutput(self.generator_head, matrix, _projection(self.generator))

    def language_output(self) -> "VocabularyOutput":
        """The main network's head over the vocabulary."""
        assert self.language_head is not None
        matrix: Tensor = self.embeddings.word.weight
        if self.config.weight_sharing == "gdes":
            assert self.generator_embeddings is not None
            matrix = matrix + self.generator_embeddings.word.weight.detach()
        return VocabularyOutput(self.language_head, matrix, _projection(self.discriminator))

    def detection_logits(self, hidden: Tensor) -> Tensor:
        """(..., H) to (...); high means replaced."""
        assert self.discriminator_head is not None
        logits: Tensor = self.discriminator_head(hidden)
        return logits

    @torch.no_grad()
    def start_discriminator_from_generator(self) -> None:
        """Copy embeddings and body; the detection head stays as it is (section 3.2, two-stage)."""
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


def at_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """(B, L, H), (B, N) to (B, N, H)."""
    return hidden.gather(1, positions[:, :, None].expand(-1, -1, hidden.shape[-1]))


def corrupt(masked: Masked, samples: Samples) -> Corrupted:
    """The main network's input: the samples stand at the chosen positions."""
    ids = masked.batch.input_ids
    return Corrupted(*replace_tokens(ids, masked.positions, masked.weights, samples.ids))


class VocabularyOutput(NamedTuple):
    """A head over the vocabulary with what it is multiplied by."""

    head: GeneratorHead
    matrix: Tensor  # (V, E)
    project: Tensor | None  # (H, E), of a modern network whose embeddings are projected

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., H) to (..., V)."""
        logits: Tensor = self.head(hidden, self.matrix, self.project)
        return logits


def _projection(body: Encoder) -> Tensor | None:
    if body.project is None or not body.shape.is_modern:
        return None
    return body.project.weight


def predict_chosen(
    output: VocabularyOutput, masked: Masked, hidden: Tensor, draws: Tensor | None = None
) -> HeadLoss:
    """Predict the original tokens from hidden states (B, L, H), at the chosen positions alone: a
    head over the vocabulary costs more than layers do."""
    head, matrix, project = output
    transformed = head.transform(at_positions(hidden, masked.positions), project)
    return head_loss(transformed, matrix, head.bias, masked.originals, masked.weights, draws)
