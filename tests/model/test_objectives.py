"""Every objective equals the paper's formula, written out token by token in double precision."""

import math

import pytest
import torch
from torch import Tensor

from tests.model.conftest import OBJECTIVES, random_batch
from tests.model.formulas import (
    CLS,
    MASK,
    chosen_of,
    corrupted_by_hand,
    cross_entropy,
    detection_logits,
    doubles,
    generator_logits,
    mean_of,
    mlm_by_hand,
    model_of,
    outputs_of,
    prediction_logits,
    sigmoid,
    softmax,
    tokens_of,
)

VARIANTS: dict[str, dict[str, object]] = {
    "embeddings": {},
    "none": {"weight_sharing": "none"},
    "gdes": {"weight_sharing": "gdes"},
    "with weights": {"generator_weight": 0.3, "discriminator_weight": 7.0},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_electra(variant: str):
    """MLM over the chosen positions + 50 x detection over all real tokens (section 2)."""
    model, masked, out = outputs_of("electra", **VARIANTS[variant])
    assert mean_of(out, "generator") == pytest.approx(
        mlm_by_hand(generator_logits(model, masked), masked), rel=1e-5
    )
    corrupted, labels = corrupted_by_hand(masked, out.samples.ids)
    assert torch.equal(out.corrupted.ids, corrupted)
    assert torch.equal(out.corrupted.labels, labels.float())
    logits = detection_logits(model, masked, out.corrupted.ids)
    tokens = tokens_of(masked.batch)
    total = sum(cross_entropy(logits[b, t], int(out.corrupted.labels[b, t])) for b, t in tokens)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)
    assert 0 < out.corrupted.labels.sum() < len(chosen_of(masked)) + 1
    assert out.corrupted.labels[masked.batch.input_ids == CLS].sum() == 0
    factors = (0.3, 7.0) if variant == "with weights" else (1.0, 50.0)
    expected = factors[0] * mean_of(out, "generator") + factors[1] * mean_of(out, "discriminator")
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


def test_electra_15():
    """The detection loss over the chosen positions only."""
    model, masked, out = outputs_of("electra-15")
    corrupted, labels = corrupted_by_hand(masked, out.samples.ids)
    logits = detection_logits(model, masked, corrupted)
    chosen = chosen_of(masked)
    total = sum(cross_entropy(logits[b, t], int(labels[b, t])) for b, _, t in chosen)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(chosen), rel=1e-5)
    assert mean_of(out, "generator") == pytest.approx(
        mlm_by_hand(generator_logits(model, masked), masked), rel=1e-5
    )


def test_replace_mlm():
    """Tokens are predicted at the chosen positions, where samples stand in place of [MASK]."""
    model, masked, out = outputs_of("replace-mlm")
    corrupted, _ = corrupted_by_hand(masked, out.samples.ids)
    assert not (corrupted == MASK).any()
    logits = prediction_logits(model, masked, corrupted, masked.positions)
    assert mean_of(out, "discriminator") == pytest.approx(mlm_by_hand(logits, masked), rel=1e-5)
    expected = mean_of(out, "generator") + mean_of(out, "discriminator")  # no factor of 50
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


def test_mlm():
    """BERT: the main network alone, with [MASK] in its input."""
    model, masked, out = outputs_of("mlm")
    assert (masked.masked_ids == MASK).any()
    logits = prediction_logits(model, masked, masked.masked_ids, masked.positions)
    assert list(out.terms) == ["discriminator"]
    assert out.loss().item() == pytest.approx(mlm_by_hand(logits, masked), rel=1e-5)


@pytest.mark.parametrize("sharing", ["embeddings", "gdes"])
def test_all_tokens_mlm(sharing: str):
    """p(x) = D [x = input] + (1 - D) softmax(x) at every real token (section 3.4)."""
    model, masked, out = outputs_of("all-tokens-mlm", weight_sharing=sharing)
    originals = masked.batch.input_ids
    corrupted, _ = corrupted_by_hand(masked, out.samples.ids)
    everywhere = torch.arange(originals.shape[1]).expand_as(originals)
    vocabulary = prediction_logits(model, masked, corrupted, everywhere)
    gate = detection_logits(model, masked, corrupted)
    total, tokens = 0.0, tokens_of(masked.batch)
    for b, t in tokens:
        copied = sigmoid(-gate[b, t])  # the detection head's logit says "replaced"
        p = (1 - copied) * softmax(vocabulary[b, t])
        p[corrupted[b, t]] += copied
        assert p.sum() == pytest.approx(1)
        total -= math.log(p[originals[b, t]])
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)


def test_the_copy_gate_has_finite_gradients_where_a_token_cannot_be_copied():
    model = model_of("all-tokens-mlm")
    with torch.no_grad():  # sure that everything is copied
        model.discriminator_head.prediction.bias.fill_(-200.0)
    out = model(model.mask(random_batch(model)))
    out.loss().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert out.loss().item() < 1e4


def test_electra_adversarial():
    """Appendix F: reward, baseline and what is ascended, sample by sample."""
    model, masked, out = outputs_of("electra-adversarial")
    corrupted, labels = corrupted_by_hand(masked, out.samples.ids)
    logits = detection_logits(model, masked, corrupted)
    proposals = generator_logits(model, masked)
    states = doubles(model.generator_states(masked.masked_ids, masked.batch.token_type_ids))
    weight, bias = doubles(model.baseline.weight)[0], model.baseline.bias.item()
    gain, misses, chosen = 0.0, 0.0, chosen_of(masked)
    for b, n, t in chosen:
        reward = cross_entropy(logits[b, t], int(labels[b, t]))
        raw = float(weight @ states[b, t]) + bias
        baseline = -math.log(sigmoid(raw))
        gain += (reward - baseline) * math.log(softmax(proposals[b, n])[out.samples.ids[b, n]])
        misses += cross_entropy(raw, math.exp(-reward))
    assert mean_of(out, "generator") == pytest.approx(-gain / len(chosen), rel=1e-4)
    assert mean_of(out, "baseline") == pytest.approx(misses / len(chosen), rel=1e-5)
    tokens = tokens_of(masked.batch)
    total = sum(cross_entropy(logits[b, t], int(labels[b, t])) for b, t in tokens)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_figures_carry_no_gradient_and_losses_are_in_single_precision(objective: str):
    _, _, out = outputs_of(objective)
    records = (out.samples, out.corrupted, out.detected, out.predicted)
    values = [v for record in records if record for v in vars(record).values()]
    assert not any(value.requires_grad for value in values if isinstance(value, Tensor))
    for name, term in out.terms.items():
        assert term.total.dtype == torch.float32, name
        assert term.total.requires_grad, name
        assert term.total.isfinite(), name
