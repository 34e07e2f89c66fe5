"""The objectives: what the generator and the main network are trained to do with a masked batch.

All share one shape. The generator predicts the tokens at the chosen positions and puts samples
there; the main network, from the corrupted sequence, tells replaced tokens, or predicts tokens, or
both. Losses are sums; the trainer divides them by the counts of the whole step.

Source: ELECTRA (Clark et al. 2020), sections 2, 3.2, 3.4 and appendix F. Electric: electric.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from model.batch import Masked, Outputs, Term
from model.corrupt import forbid_tokens, sample_tokens
from model.electric import contrast_noise, generate_from_towers
from model.head_loss import Sampling
from model.log_probs import gathered_log_probs, is_most_likely, token_losses
from model.passes import (
    Detected,
    Generated,
    at_positions,
    corrupt,
    detect,
    generator_output,
    generator_states,
    language_output,
    main_states,
    outputs_of,
    predict_chosen_tokens,
    sample_noise,
    with_detected,
    with_generated,
)
from model.schedule import Stage

if TYPE_CHECKING:
    from model.electra import ElectraPretrainer


def run_objective(
    model: "ElectraPretrainer", masked: Masked, stage: Stage, earlier: Outputs | None
) -> Outputs:
    """The terms of the objective's loss for one batch.

    Stage "generator" trains the generator alone, "discriminator" the main network alone, on the
    samples of an earlier pass or on those of a frozen generator.
    """
    objective = model.config.objective
    if objective == "mlm":
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


def generate_tokens(model: "ElectraPretrainer", masked: Masked) -> Generated:
    """Predict the tokens at the chosen positions and sample in their place (section 2)."""
    config = model.config
    if config.generator != "learned":
        return Generated(sample_noise(model, masked))
    states = generator_states(model, masked, masked.masked_ids)
    if config.objective == "electra-adversarial":
        return _generate_for_reward(model, masked, at_positions(states, masked.positions))
    sampling = Sampling(
        masked.batch.noise.samples, config.sampling_temperature, config.disallow_correct
    )
    found = predict_chosen_tokens(generator_output(model), masked, states, sampling)
    assert found.sampled is not None
    term = Term(found.total, "chosen", config.generator_weight)
    return Generated(found.sampled, term, found.losses, found.hits)


def _generate_for_reward(model: "ElectraPretrainer", masked: Masked, states: Tensor) -> Generated:
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


def detect_all(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
    """ELECTRA: tell for every token whether it was replaced, [CLS] and [SEP] included."""
    detected = detect(model, masked, generated.sampled)
    main = Term((detected.losses * masked.tokens).sum(), "tokens", model.config.main_weight)
    terms = {"generator": generated.term, "discriminator": main}
    return with_detected(outputs_of(masked, terms), detected)


def detect_chosen(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
    """ELECTRA 15 % (section 3.4): the same, but the loss is over the chosen positions only."""
    detected = detect(model, masked, generated.sampled)
    losses = detected.losses.gather(1, masked.positions) * masked.weights
    main = Term(losses.sum(), "chosen", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    # figures of the others, which it is not trained on, would mean nothing
    chosen = torch.zeros_like(detected.labels).scatter_add(1, masked.positions, masked.weights) > 0
    return with_detected(replace(outputs, tokens=chosen), detected)


def detect_adversary(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
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


def predict_chosen(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
    """Replace MLM (section 3.4): predict the tokens at the chosen positions, where samples of the
    generator stand in place of [MASK]."""
    corrupted, labels = corrupt(model, masked, generated.sampled)
    outputs = _predict_at_positions(model, masked, corrupted, generated.term)
    return replace(outputs, corrupted_ids=corrupted, labels=labels)


def masked_language_model(model: "ElectraPretrainer", masked: Masked) -> Outputs:
    """BERT's objective on the main network: [MASK] is in its input, and there is no generator."""
    return _predict_at_positions(model, masked, masked.masked_ids, None)


def _predict_at_positions(
    model: "ElectraPretrainer", masked: Masked, input_ids: Tensor, generator: Term | None
) -> Outputs:
    states = main_states(model, masked, input_ids)
    found = predict_chosen_tokens(language_output(model), masked, states)
    main = Term(found.total, "chosen", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generator, "discriminator": main})
    return replace(outputs, language_losses=found.losses, language_hits=found.hits)


def predict_all(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
    """All-tokens MLM (section 3.4): predict every token, with a copy gate.

    p(x) = D [x = input] + (1 - D) softmax(x), with D = sigmoid(-r) the probability of copying and r
    the detection head's logit, so that "replaced" is "not copied". Hits are those of the softmax
    alone, which is what an export of the language head predicts.
    """
    originals, at = masked.batch.input_ids, masked.positions
    corrupted, labels = corrupt(model, masked, generated.sampled)
    states = main_states(model, masked, corrupted)
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


_MAIN: dict[str, Callable[["ElectraPretrainer", Masked, Generated], Outputs]] = {
    "electra": detect_all,
    "electra-15": detect_chosen,
    "electra-adversarial": detect_adversary,
    "electra-two-stage": detect_all,
    "replace-mlm": predict_chosen,
    "all-tokens-mlm": predict_all,
    "electric": contrast_noise,
}
