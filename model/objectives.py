"""The objectives: what the generator and the main network are trained to do with a masked batch.

All share one shape. The generator predicts the tokens at the chosen positions and puts samples
there; the main network, from the corrupted sequence, tells replaced tokens, or predicts tokens, or
both. Losses are sums; the trainer divides them by the counts of the whole step.

Source: ELECTRA (Clark et al. 2020), sections 2, 3.2, 3.4 and appendix F.
Electric (Clark et al. 2020b), sections 2.1-2.3: an energy for every token, trained against noise
that is known; google-research/electra run_pretraining.py:194-251.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from model.batch import Counts, Masked, Outputs, Term
from model.electra import ElectraPretrainer, at_positions, generator_output, language_output
from model.layers import GeneratorHead
from model.masking import forbid_tokens, replace_tokens, sample_tokens
from model.ordered import insertion_index
from model.schedule import Stage
from model.vocabulary_head import (
    HeadLoss,
    Sampling,
    gathered_log_probs,
    head_loss,
    is_most_likely,
    token_losses,
)


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
    corrupted_ids: Tensor
    labels: Tensor  # fp32, 1 where replaced
    logits: Tensor  # fp32, high means replaced
    losses: Tensor  # binary cross-entropies, with gradient


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


def sample_noise(model: ElectraPretrainer, masked: Masked) -> Tensor:
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
    return insertion_index(cumulative, draws)


def corrupt(model: ElectraPretrainer, masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """The main network's input and labels, both (B, L)."""
    return replace_tokens(masked.batch.input_ids, masked.positions, masked.weights, sampled)


def detect(model: ElectraPretrainer, masked: Masked, sampled: Tensor) -> Detected:
    corrupted, labels = corrupt(model, masked, sampled)
    logits = model.detection_logits(model.main_states(corrupted, *masked.beside)).float()
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return Detected(corrupted, labels, logits, losses)


def outputs_of(masked: Masked, terms: dict[str, Term | None]) -> Outputs:
    return Outputs(
        terms={name: term for name, term in terms.items() if term is not None},
        counts=Counts.of(masked),
        languages=masked.batch.languages,
        tokens=masked.tokens,
        weights=masked.weights,
        hidden=masked.hidden,
    )


def with_generated(outputs: Outputs, masked: Masked, generated: Generated) -> Outputs:
    return replace(
        outputs,
        sampled=generated.sampled,
        sample_hits=generated.sampled == masked.originals,
        noise_log_probs=generated.noise_log_probs,
        generator_losses=generated.losses,
        generator_hits=generated.hits,
    )


def with_detected(outputs: Outputs, detected: Detected) -> Outputs:
    return replace(
        outputs,
        corrupted_ids=detected.corrupted_ids,
        labels=detected.labels,
        discriminator_logits=detected.logits.detach(),
        discriminator_losses=detected.losses.detach(),
    )


_LEAST = torch.finfo(torch.float32).tiny


def generate_from_towers(model: ElectraPretrainer, masked: Masked) -> Generated:
    """Noise q(x | the rest) at the chosen positions, by a cloze model of two towers.

    It reads the unchanged input, and its loss is over all maskable tokens. `noise_log_probs` is
    log q of every token of the corrupted input. A generator without weights has one q everywhere.
    """
    ids, at = masked.batch.input_ids, masked.positions
    if model.config.generator != "learned":
        assert model.noise_probabilities is not None
        sampled = sample_noise(model, masked)
        noised, _ = corrupt(model, masked, sampled)
        # what is never drawn, as [UNK], has q = 0: the least number makes it data, log 0 a nan
        log_probs = model.noise_probabilities.float().clamp(min=_LEAST).log()
        return Generated(sampled, noise_log_probs=log_probs[noised])
    head, table = generator_output(model)
    states = head.transform(model.generator_states(ids, *masked.beside))
    found = head_loss(states, table, head.bias, ids, masked.maskable.float())
    term = Term(found.total, "candidates", model.config.generator_weight)
    with torch.no_grad():
        chosen, sampling = at_positions(states, at), Sampling(masked.batch.noise.samples)
        drawn = head_loss(chosen, table, head.bias, masked.originals, masked.weights, sampling)
    assert drawn.sampled is not None
    assert drawn.sampled_losses is not None
    kept = found.losses.gather(1, at)
    losses = torch.where(masked.weights > 0, drawn.sampled_losses, kept)
    noise = -found.losses.scatter(1, at, losses)
    return Generated(drawn.sampled, term, kept, found.hits.gather(1, at), noise_log_probs=noise)


def contrast_noise(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """Noise-contrastive estimation: is a token noise or data?

    A token x is noise with log odds E(x) + log q(x) + log(p / (1 - p)), E being the detection
    head's logit and p the share of noise; no gradient reaches q. A sample that equals the original
    is noise all the same. The loss, and the figures, are over maskable tokens: the others are never
    noise.
    """
    assert generated.noise_log_probs is not None
    corrupted, _ = corrupt(model, masked, generated.sampled)
    energies = model.detection_logits(model.main_states(corrupted, *masked.beside)).float()
    share = math.log(model.config.mask_fraction / (1 - model.config.mask_fraction))
    logits = energies + generated.noise_log_probs + share
    labels = torch.zeros_like(energies).scatter_add(1, masked.positions, masked.weights)
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    main = Term((losses * masked.maskable).sum(), "candidates", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    outputs = replace(outputs, tokens=masked.maskable)
    return with_detected(outputs, Detected(corrupted, labels, logits, losses))


def run_objective(
    model: ElectraPretrainer,
    masked: Masked,
    stage: Stage = "joint",
    earlier: Outputs | None = None,
) -> Outputs:
    """The terms of the objective's loss for one batch.

    Stage "language" trains the main network as a masked language model, "generator" the generator
    alone, "discriminator" the main network alone, on the samples of an earlier pass or on
    those of a frozen generator.
    """
    objective = model.config.objective
    if objective == "mlm" or stage == "language":
        return masked_language_model(model, masked)
    generate = generate_from_towers if objective == "electric" else generate_tokens
    if earlier is not None:
        assert earlier.sampled is not None
        generated = Generated(earlier.sampled, noise_log_probs=earlier.noise_log_probs)
    elif stage == "discriminator":
        with torch.no_grad():
            generated = replace(generate(model, masked), term=None)
    else:
        generated = generate(model, masked)
    if stage == "generator":
        return with_generated(outputs_of(masked, {"generator": generated.term}), masked, generated)
    return with_generated(_MAIN[objective](model, masked, generated), masked, generated)


def generate_tokens(model: ElectraPretrainer, masked: Masked) -> Generated:
    """Predict the tokens at the chosen positions and sample in their place (section 2)."""
    config = model.config
    if config.generator != "learned":
        return Generated(sample_noise(model, masked))
    states = model.generator_states(masked.masked_ids, *masked.beside)
    if config.objective == "electra-adversarial":
        return _generate_for_reward(model, masked, at_positions(states, masked.positions))
    sampling = Sampling(
        masked.batch.noise.samples, config.sampling_temperature, config.disallow_correct
    )
    found = predict_chosen_tokens(generator_output(model), masked, states, sampling)
    assert found.sampled is not None
    term = Term(found.total, "chosen", config.generator_weight)
    return Generated(found.sampled, term, found.losses, found.hits)


def _generate_for_reward(model: ElectraPretrainer, masked: Masked, states: Tensor) -> Generated:
    """Samples and their log p with gradient, from states (B, N, H): no likelihood is ascended, and
    the weights of log p come from the discriminator, so here all logits are kept until then."""
    config = model.config
    logits = model.generator_logits(states)
    losses = token_losses(logits.detach(), masked.originals)
    hits = is_most_likely(logits.detach(), masked.originals)
    allowed = forbid_tokens(logits, masked.originals) if config.disallow_correct else logits
    sampled = sample_tokens(allowed, masked.batch.noise.samples, config.sampling_temperature)
    log_probs = -token_losses(allowed.float() / config.sampling_temperature, sampled)
    return Generated(sampled, None, losses, hits, states.detach(), log_probs)


def detect_all(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """ELECTRA: tell for every token whether it was replaced, [CLS] and [SEP] included."""
    detected = detect(model, masked, generated.sampled)
    main = Term((detected.losses * masked.tokens).sum(), "tokens", model.config.main_weight)
    terms = {"generator": generated.term, "discriminator": main}
    return with_detected(outputs_of(masked, terms), detected)


def detect_chosen(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """ELECTRA 15 % (section 3.4): the same, but the loss is over the chosen positions only."""
    detected = detect(model, masked, generated.sampled)
    losses = detected.losses.gather(1, masked.positions) * masked.weights
    main = Term(losses.sum(), "chosen", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    # figures of the others, which it is not trained on, would mean nothing
    chosen = torch.zeros_like(detected.labels).scatter_add(1, masked.positions, masked.weights) > 0
    return with_detected(replace(outputs, tokens=chosen), detected)


def detect_adversary(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """Adversarial ELECTRA (appendix F): REINFORCE with a learned baseline.

    The reward of a sample is the discriminator's loss at its position, R. The baseline is
    b = -log sigmoid(w h), h being the generator's state there, trained by cross-entropy between
    sigmoid(w h) and exp(-R), the probability that the discriminator gave to the right label. The
    generator ascends (R - b) log p(sample). h is detached: only rewards shape the generator's body.
    """
    assert model.baseline is not None
    assert generated.states is not None
    assert generated.log_probs is not None
    outputs = detect_all(model, masked, generated)
    assert outputs.discriminator_losses is not None
    reward = outputs.discriminator_losses.gather(1, masked.positions)
    raw = model.baseline(generated.states).squeeze(-1).float()
    advantage = (reward + F.logsigmoid(raw)).detach()
    gain = (advantage * generated.log_probs * masked.weights).sum()
    misses = F.binary_cross_entropy_with_logits(raw, torch.exp(-reward), reduction="none")
    weight = model.config.generator_weight
    terms = {
        "generator": Term(-gain, "chosen", weight),
        **outputs.terms,
        "baseline": Term((misses * masked.weights).sum(), "chosen", weight),
    }
    return replace(outputs, terms=terms)


def predict_chosen(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """Replace MLM (section 3.4): predict the tokens at the chosen positions, where samples of the
    generator stand in place of [MASK]."""
    corrupted, labels = corrupt(model, masked, generated.sampled)
    weight = model.config.main_weight
    outputs = _predict_at_positions(model, masked, corrupted, generated.term, weight)
    return replace(outputs, corrupted_ids=corrupted, labels=labels)


def masked_language_model(model: ElectraPretrainer, masked: Masked) -> Outputs:
    """BERT's objective on the main network: [MASK] is in its input, and there is no generator."""
    # the weight of a detection loss is not one for this one
    weight = model.config.main_weight if model.config.has_language_head else 1.0
    return _predict_at_positions(model, masked, masked.masked_ids, None, weight)


def _predict_at_positions(
    model: ElectraPretrainer,
    masked: Masked,
    input_ids: Tensor,
    generator: Term | None,
    weight: float,
) -> Outputs:
    states = model.main_states(input_ids, *masked.beside)
    found = predict_chosen_tokens(language_output(model), masked, states)
    main = Term(found.total, "chosen", weight)
    outputs = outputs_of(masked, {"generator": generator, "discriminator": main})
    return replace(outputs, language_losses=found.losses, language_hits=found.hits)


def predict_all(model: ElectraPretrainer, masked: Masked, generated: Generated) -> Outputs:
    """All-tokens MLM (section 3.4): predict every token, with a copy gate.

    p(x) = D [x = input] + (1 - D) softmax(x), with D = sigmoid(-r) the probability of copying and r
    the detection head's logit, so that "replaced" is "not copied". Hits are those of the softmax
    alone, which is what an export of the language head predicts.
    """
    originals, at = masked.batch.input_ids, masked.positions
    corrupted, labels = corrupt(model, masked, generated.sampled)
    states = model.main_states(corrupted, *masked.beside)
    raw = model.detection_logits(states).float()
    predicted, hits = gathered_log_probs(model.language_logits, states, originals)
    copied = F.logsigmoid(-raw).masked_fill(corrupted != originals, float("-inf"))
    log_probs = torch.stack([copied, F.logsigmoid(raw) + predicted]).logsumexp(dim=0)
    main = Term(-(log_probs * masked.tokens).sum(), "tokens", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    losses = F.binary_cross_entropy_with_logits(raw.detach(), labels, reduction="none")
    outputs = with_detected(outputs, Detected(corrupted, labels, raw, losses))
    language = -log_probs.detach().gather(1, at)
    return replace(outputs, language_losses=language, language_hits=hits.gather(1, at))


_MAIN: dict[str, Callable[[ElectraPretrainer, Masked, Generated], Outputs]] = {
    "electra": detect_all,
    "electra-15": detect_chosen,
    "electra-adversarial": detect_adversary,
    "electra-two-stage": detect_all,
    "replace-mlm": predict_chosen,
    "all-tokens-mlm": predict_all,
    "electric": contrast_noise,
}
