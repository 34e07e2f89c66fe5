"""Every objective equals the paper's formula, written out token by token in double precision. Each
loss trains the networks that it is meant to train.

Of the code under test the formulas use the networks' logits alone, which other tests hold against
`transformers`. Source: ELECTRA (Clark et al. 2020), sections 2, 3.4 and appendix F.
"""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from torch import Tensor

from model.data import Batch
from model.networks.batch import Masked, Outputs
from model.networks.electra import ElectraPretrainer
from tests.model.conftest import OBJECTIVES, discriminate, generate, model_of, predict, random_batch

PAD, UNK, CLS, SEP, MASK = range(5)
Doubles = NDArray[np.float64]


def outputs_of(objective: str, **options: object) -> tuple[ElectraPretrainer, Masked, Outputs]:
    """A random model, a masked batch, and what the model makes of it."""
    model = model_of(objective, **options)
    masked = model.mask(random_batch(model))
    return model, masked, model(masked)


def cross_entropy(logit: float, label: float) -> float:
    """Of sigmoid(logit), the probability of 1, with a label that may lie between 0 and 1."""
    p = expit(logit)
    return -label * math.log(p) - (1 - label) * math.log(1 - p)


def doubles(tensor: Tensor) -> Doubles:
    return tensor.detach().double().numpy()


def chosen_of(masked: Masked) -> list[tuple[int, int, int]]:
    """Row, slot and position of all that were chosen."""
    return [(b, n, int(masked.positions[b, n])) for b, n in masked.weights.nonzero().tolist()]


def tokens_of(batch: Batch) -> list[tuple[int, int]]:
    """Row and position of all real tokens."""
    return [(b, t) for b, t in (batch.input_ids != PAD).nonzero().tolist()]


def corrupted_by_hand(masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """The original with the samples in it, and where that changed it."""
    corrupted = masked.batch.input_ids.clone()
    for b, n, t in chosen_of(masked):
        corrupted[b, t] = sampled[b, n]
    return corrupted, (corrupted != masked.batch.input_ids).long()


def generator_logits(model: ElectraPretrainer, masked: Masked) -> Doubles:
    types = masked.batch.token_type_ids
    return doubles(generate(model, masked.masked_ids, types, masked.positions))


def detection_logits(model: ElectraPretrainer, masked: Masked, ids: Tensor) -> Doubles:
    return doubles(discriminate(model, ids, masked.batch.token_type_ids))


def prediction_logits(
    model: ElectraPretrainer, masked: Masked, ids: Tensor, positions: Tensor
) -> Doubles:
    return doubles(predict(model, ids, masked.batch.token_type_ids, positions))


def mlm_by_hand(logits: Doubles, masked: Masked) -> float:
    """Mean of -log p(original) over the chosen positions of the whole batch."""
    originals, chosen = masked.batch.input_ids, chosen_of(masked)
    losses = [-math.log(softmax(logits[b, n])[originals[b, t]]) for b, n, t in chosen]
    return sum(losses) / len(losses)


def detection_by_hand(
    logits: Doubles, ids: Tensor, originals: Tensor, places: list[tuple[int, int]]
) -> float:
    """Mean cross-entropy of "this token was replaced" at these places."""
    losses = [cross_entropy(logits[at], float(ids[at] != originals[at])) for at in places]
    return sum(losses) / len(places)


def mean_of(out: Outputs, name: str) -> float:
    return out.terms[name].mean(out.counts).item()


VARIANTS: dict[str, dict[str, object]] = {
    "embeddings": {},
    "none": {"weight_sharing": "none"},
    "gdes": {"weight_sharing": "gdes"},
    "with weights": {"generator_weight": 0.3, "discriminator_weight": 7.0},
    "electra-15": {},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_electra(variant: str):
    """MLM over the chosen positions + 50 x detection over all real tokens (section 2), in
    electra-15 over the chosen ones only."""
    objective = variant if variant in OBJECTIVES else "electra"
    model, masked, out = outputs_of(objective, **VARIANTS[variant])
    assert mean_of(out, "generator") == pytest.approx(
        mlm_by_hand(generator_logits(model, masked), masked), rel=1e-5
    )
    corrupted, labels = corrupted_by_hand(masked, out.samples.ids)
    assert torch.equal(out.corrupted.ids, corrupted)
    assert torch.equal(out.corrupted.labels, labels.float())
    logits, originals = detection_logits(model, masked, corrupted), masked.batch.input_ids
    chosen = [(b, t) for b, _, t in chosen_of(masked)]
    places = chosen if variant == "electra-15" else tokens_of(masked.batch)
    wanted = detection_by_hand(logits, corrupted, originals, places)
    assert mean_of(out, "discriminator") == pytest.approx(wanted, rel=1e-5)
    assert 0 < out.corrupted.labels.sum() < len(chosen) + 1
    assert out.corrupted.labels[originals == CLS].sum() == 0
    factors = (0.3, 7.0) if variant == "with weights" else (1.0, 50.0)
    expected = factors[0] * mean_of(out, "generator") + factors[1] * mean_of(out, "discriminator")
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


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
        copied = expit(-gate[b, t])  # the detection head's logit says "replaced"
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
        baseline = -math.log(expit(raw))
        gain += (reward - baseline) * math.log(softmax(proposals[b, n])[out.samples.ids[b, n]])
        misses += cross_entropy(raw, math.exp(-reward))
    assert mean_of(out, "generator") == pytest.approx(-gain / len(chosen), rel=1e-4)
    assert mean_of(out, "baseline") == pytest.approx(misses / len(chosen), rel=1e-5)
    wanted = detection_by_hand(logits, corrupted, masked.batch.input_ids, tokens_of(masked.batch))
    assert mean_of(out, "discriminator") == pytest.approx(wanted, rel=1e-5)


SHARINGS = ("none", "embeddings", "gdes")


@pytest.mark.parametrize(
    ("objective", "sharing"),
    [
        (objective, sharing)
        for objective in OBJECTIVES
        for sharing in SHARINGS
        if objective != "mlm" and (objective != "electra-two-stage" or sharing == "none")
    ],
)
def test_each_loss_trains_its_network_and_what_is_shared(objective: str, sharing: str):
    """The main network's tables are its own, shared, or added to: they always learn."""
    model, _, out = outputs_of(objective, weight_sharing=sharing)
    heads = {"discriminator_head"} if model.config.has_detection_head else set()
    heads |= {"language_head"} if model.config.has_language_head else set()
    tables = "embeddings" if sharing == "embeddings" else "generator_embeddings"
    trained = {
        "generator": {"generator", "generator_head", tables},
        "discriminator": {"embeddings", "discriminator"} | heads,
        "baseline": {"baseline"},
    }
    assert {"generator", "discriminator"} <= out.terms.keys()
    for name, term in out.terms.items():
        model.zero_grad()
        term.total.backward(retain_graph=True)
        gradients = ((name.split(".")[0], of.grad) for name, of in model.named_parameters())
        moved = {part for part, grad in gradients if grad is not None and grad.any()}
        assert moved == trained[name], name


# --- two stages -----------------------------------------------------------------------------------


def test_two_stages_train_one_network_each():
    model = model_of("electra-two-stage")
    masked = model.mask(random_batch(model))
    first = model(masked, "generator")
    assert list(first.terms) == ["generator"]
    expected = mlm_by_hand(generator_logits(model, masked), masked)
    assert first.loss().item() == pytest.approx(expected, rel=1e-5)
    second = model(masked, "discriminator")
    assert list(second.terms) == ["discriminator"]
    assert torch.equal(second.samples.ids, first.samples.ids)
    assert torch.equal(second.samples.predicted.losses, first.samples.predicted.losses)
    second.loss().backward()
    frozen = ("generator.", "generator_head.", "generator_embeddings.")
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith(frozen), name


@pytest.mark.parametrize("sharing", SHARINGS)
def test_at_first_the_main_network_learns_as_a_masked_language_model_does(sharing: str):
    """Loss and gradients are those of objective mlm, and nothing else is moved."""
    model = model_of("electra", weight_sharing=sharing, mlm_steps_fraction=0.5)
    alone = model_of("mlm")
    own = model.state_dict()
    if sharing == "gdes":  # both tables are one
        for name in own:
            if name.startswith("generator_embeddings."):
                torch.nn.init.zeros_(own[name])
    alone.load_state_dict({name: own[name] for name in alone.state_dict()})
    masked = model.mask(random_batch(model))
    out, expected = model(masked, "language"), alone(masked)
    assert list(out.terms) == ["discriminator"]
    torch.testing.assert_close(out.loss(), expected.loss(), rtol=1e-6, atol=0)
    out.loss().backward()
    expected.loss().backward()
    gradients = {name: of.grad for name, of in alone.named_parameters()}
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5)
        else:
            assert parameter.grad is None, name
    model.start_generator_from_language_model()
    assert model.generator_head is not None
    assert torch.equal(model.generator_head.bias, own["language_head.bias"])


def test_the_discriminator_starts_as_the_generator_and_then_goes_its_own_way():
    model = model_of("electra-two-stage")
    model.start_discriminator_from_generator()
    batch = random_batch(model)
    of_main = model.main_states(batch.input_ids, batch.token_type_ids)
    of_generator = model.generator_states(batch.input_ids, batch.token_type_ids)
    assert torch.equal(of_main, of_generator)
    before = of_generator.detach().clone()
    with torch.no_grad():
        for module in (model.embeddings, model.discriminator):
            for parameter in module.parameters():
                parameter.add_(1.0)
    assert torch.equal(model.generator_states(batch.input_ids, batch.token_type_ids), before)
