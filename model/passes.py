"""The steps that objectives are put together from: sample, corrupt, run a network, report."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from model.batch import Counts, Masked, Outputs, Term
from model.corrupt import replace_tokens, sample_from_table
from model.head_loss import HeadLoss, Sampling, head_loss
from model.layers import GeneratorHead

if TYPE_CHECKING:
    from model.electra import ElectraPretrainer


@dataclass(frozen=True)
class Generated:
    """What the generator leaves for the main network. B sequences, L positions, N slots."""

    sampled: Tensor  # (B, N) int64, without gradient
    term: Term | None = None  # of its loss; None where it is not trained
    losses: Tensor | None = None  # (B, N) -log p(original), detached
    hits: Tensor | None = None  # (B, N) bool, no token is more likely than the original
    states: Tensor | None = None  # (B, N, H), detached; electra-adversarial
    log_probs: Tensor | None = None  # (B, N) log p(sample), with gradient; electra-adversarial
    noise_log_probs: Tensor | None = None  # (B, L) log q of what stands in the input; electric


@dataclass(frozen=True)
class Detected:
    """Replaced token detection on a corrupted batch: all (B, L)."""

    corrupted_ids: Tensor
    labels: Tensor  # fp32, 1 where replaced
    logits: Tensor  # fp32, high means replaced
    losses: Tensor  # binary cross-entropies, with gradient


def at_positions(states: Tensor, positions: Tensor) -> Tensor:
    """(B, L, H), (B, N) to (B, N, H)."""
    return states.gather(1, positions[:, :, None].expand(-1, -1, states.shape[-1]))


def generator_states(model: "ElectraPretrainer", masked: Masked, input_ids: Tensor) -> Tensor:
    """(B, L) to the generator's last states (B, L, H)."""
    return model.generator_states(
        input_ids, masked.batch.token_type_ids, masked.attention_mask, masked.position_ids
    )


def main_states(model: "ElectraPretrainer", masked: Masked, input_ids: Tensor) -> Tensor:
    """(B, L) to the main network's last states (B, L, H)."""
    return model.main_states(
        input_ids, masked.batch.token_type_ids, masked.attention_mask, masked.position_ids
    )


def generator_output(model: "ElectraPretrainer") -> tuple[GeneratorHead, Tensor]:
    """The generator's head and its word table (V, E)."""
    assert model.generator_head is not None
    return model.generator_head, (model.generator_embeddings or model.embeddings).word.weight


def language_output(model: "ElectraPretrainer") -> tuple[GeneratorHead, Tensor]:
    """The main network's head over the vocabulary and its word table (V, E)."""
    assert model.language_head is not None
    table: Tensor = model.embeddings.word.weight
    if model.config.weight_sharing == "gdes":
        assert model.generator_embeddings is not None
        table = table + model.generator_embeddings.word.weight.detach()
    return model.language_head, table


def predict_chosen_tokens(
    output: tuple[GeneratorHead, Tensor],
    masked: Masked,
    states: Tensor,
    sampling: Sampling | None = None,
) -> HeadLoss:
    """Predict the original tokens from last states (B, L, H), at the chosen positions alone: a head
    over the vocabulary costs more than layers do."""
    head, table = output
    transformed = head.transform(at_positions(states, masked.positions))
    return head_loss(transformed, table, head.bias, masked.originals, masked.weights, sampling)


def sample_noise(model: "ElectraPretrainer", masked: Masked) -> Tensor:
    """Samples (B, N) of a generator without weights, uniform or unigram.

    With `disallow_correct` the original's share of the unit interval is cut out.
    """
    assert model.noise_cumulative is not None
    assert model.noise_probabilities is not None
    draws, cumulative = masked.batch.noise.samples[..., 0], model.noise_cumulative
    if model.config.disallow_correct:
        total = cumulative[-1]
        own = model.noise_probabilities.double()[masked.originals]
        below = cumulative[masked.originals] - own
        draws = draws * (total - own)
        draws = (draws + own * (draws >= below)) / total
    return sample_from_table(cumulative, draws)


def corrupt(model: "ElectraPretrainer", masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """The main network's input and labels, both (B, L)."""
    legacy = model.config.masking == "with-replacement"
    return replace_tokens(
        masked.batch.input_ids, masked.positions, masked.weights, sampled, average_duplicates=legacy
    )


def detect(model: "ElectraPretrainer", masked: Masked, sampled: Tensor) -> Detected:
    """Run the discriminator on the sequence with the samples in it."""
    corrupted, labels = corrupt(model, masked, sampled)
    logits = model.detection_logits(main_states(model, masked, corrupted)).float()
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return Detected(corrupted, labels, logits, losses)


def outputs_of(masked: Masked, terms: dict[str, Term | None]) -> Outputs:
    """The outputs of a pass, with the terms that there are."""
    return Outputs(
        terms={name: term for name, term in terms.items() if term is not None},
        counts=Counts.of(masked),
        languages=masked.batch.languages,
        tokens=masked.tokens,
        weights=masked.weights,
        hidden=masked.hidden,
    )


def with_generated(outputs: Outputs, masked: Masked, generated: Generated) -> Outputs:
    """With the generator's figures."""
    return replace(
        outputs,
        sampled=generated.sampled,
        sample_hits=generated.sampled == masked.originals,
        noise_log_probs=generated.noise_log_probs,
        generator_losses=generated.losses,
        generator_hits=generated.hits,
    )


def with_detected(outputs: Outputs, detected: Detected) -> Outputs:
    """With the discriminator's figures."""
    return replace(
        outputs,
        corrupted_ids=detected.corrupted_ids,
        labels=detected.labels,
        discriminator_logits=detected.logits.detach(),
        discriminator_losses=detected.losses.detach(),
    )
