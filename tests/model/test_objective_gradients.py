"""Each loss trains the networks it is meant to train, REINFORCE as its expectation says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from model.batch import Masked
from model.electra import ElectraPretrainer
from tests.model.conftest import OBJECTIVES, VOCAB_SIZE, discriminate, generate, random_batch
from tests.model.formulas import (
    Doubles,
    cross_entropy,
    doubles,
    generator_logits,
    mlm_by_hand,
    model_of,
    outputs_of,
    softmax,
)

# --- REINFORCE ------------------------------------------------------------------------------------


def one_slot(model: ElectraPretrainer) -> Masked:
    """A sequence with one chosen position."""
    masked = model.mask(random_batch(model, rows=1, length=12, seed=4))
    assert masked.weights.sum() == 1
    assert masked.positions.shape == (1, 1)
    return masked


def with_sample(masked: Masked, probabilities: Doubles, token: int) -> Masked:
    """The same with draws that make the generator sample `token` at the one chosen position."""
    cumulative = np.concatenate([[0.0], probabilities.cumsum()])
    draw = (cumulative[token] + cumulative[token + 1]) / 2
    samples = torch.tensor([[[0.5, draw]]], dtype=torch.float64)  # 60 pieces are one block
    noise = replace(masked.batch.noise, samples=samples)
    return replace(masked, batch=replace(masked.batch, noise=noise))


def gradient_of(loss: Tensor, model: ElectraPretrainer) -> dict[str, Tensor]:
    """Gradients of the generator's own parameters."""
    named = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(("generator.", "generator_head.", "generator_embeddings."))
    }
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(named.items(), found, strict=True)
    }


@pytest.mark.parametrize("has_baseline", [False, True])
def test_reinforce_is_on_average_the_gradient_of_the_expected_reward(has_baseline: bool):
    """Over all samples that there are, each weighed by its probability."""
    model = model_of(
        "electra-adversarial",
        weight_sharing="none",
        mask_fraction=0.1,
    )
    if not has_baseline:
        with torch.no_grad():  # -log sigmoid(100) = 0
            model.baseline.bias.fill_(100.0)
            model.baseline.weight.zero_()
    masked = one_slot(model)
    at, original = int(masked.positions), int(masked.originals)
    types = masked.batch.token_type_ids
    logits = generate(model, masked.masked_ids, types, masked.positions)[0, 0]
    probabilities = logits.softmax(-1)

    # the gradient of sum_v p(v) R(v), R constant
    rows = masked.batch.input_ids.repeat(VOCAB_SIZE, 1)
    rows[:, at] = torch.arange(VOCAB_SIZE)
    judged = doubles(discriminate(model, rows, types.expand_as(rows)))[:, at]
    rewards = [cross_entropy(x, int(v != original)) for v, x in enumerate(judged)]
    expected_reward = (probabilities * torch.tensor(rewards, dtype=torch.float32)).sum()
    ascent = gradient_of(expected_reward, model)

    p = softmax(doubles(logits))
    average = {name: torch.zeros_like(g) for name, g in ascent.items()}
    for token in range(VOCAB_SIZE):
        out = model(with_sample(masked, p, token))
        assert int(out.samples.ids) == token
        for name, gradient in gradient_of(out.terms["generator"].total, model).items():
            average[name] -= float(p[token]) * gradient  # the loss is to be descended
    scale = max(float(g.abs().max()) for g in ascent.values())
    assert scale > 1e-3
    for name, gradient in ascent.items():
        torch.testing.assert_close(average[name], gradient, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_adversary_trains_the_generator_and_nothing_else(sharing: str):
    model, _, out = outputs_of("electra-adversarial", weight_sharing=sharing)
    out.terms["generator"].total.backward()
    moved = moved_by_gradients(model)
    assert {"generator", "generator_head"} <= moved
    allowed = {"embeddings"} if sharing == "embeddings" else {"generator_embeddings"}
    assert moved - {"generator", "generator_head"} == allowed


def test_the_baseline_trains_nothing_but_itself():
    model, _, out = outputs_of("electra-adversarial")
    out.terms["baseline"].total.backward()
    assert moved_by_gradients(model) == {"baseline"}


# --- who gets whose gradient ----------------------------------------------------------------------


def moved_by_gradients(model: ElectraPretrainer) -> set[str]:
    """The modules in which some gradient is not 0."""
    return {
        name.split(".")[0]
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    }


@pytest.mark.parametrize(
    ("objective", "sharing"),
    [
        (objective, sharing)
        for objective in OBJECTIVES
        for sharing in ("none", "embeddings", "gdes")
        if objective != "mlm" and (objective != "electra-two-stage" or sharing == "none")
    ],
)
def test_the_main_loss_gives_the_generator_no_gradient(objective: str, sharing: str):
    model, _, out = outputs_of(objective, weight_sharing=sharing)
    out.terms["discriminator"].total.backward()
    heads = {"discriminator_head"} if model.config.has_detection_head else set()
    heads |= {"language_head"} if model.config.has_language_head else set()
    # its tables are the main network's own, shared, or differences: they always learn
    assert moved_by_gradients(model) == {"embeddings", "discriminator"} | heads


@pytest.mark.parametrize("objective", ["electra", "replace-mlm"])
@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_generators_loss_reaches_only_it_and_what_is_shared(objective: str, sharing: str):
    model, _, out = outputs_of(objective, weight_sharing=sharing)
    out.terms["generator"].total.backward()
    tables = "embeddings" if sharing == "embeddings" else "generator_embeddings"
    assert moved_by_gradients(model) == {"generator", "generator_head", tables}


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


@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
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
