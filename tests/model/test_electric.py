"""Electric equals its paper's formulas, and its noise never sees the token that it stands for.

Source: Clark et al. 2020b, "Pre-Training Transformers as Energy-Based Cloze Models", sections 2.1
to 2.3.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from model import vocabulary_head as log_probs_module
from model.batch import Batch
from model.electra import ElectraPretrainer
from model.vocabulary_head import gathered_log_probs
from tests.model.conftest import discriminate, noise_of, random_batch, random_model
from tests.model.formulas import (
    UNK,
    Doubles,
    chosen_of,
    corrupted_by_hand,
    doubles,
    mask_of,
    softmax,
)

ELECTRIC = {"objective": "electric"}


def noise_loss(energy: float, log_q: float, is_noise: bool, k: float, n: float) -> float:
    """A token's part of the loss, as section 2.2 has it, k of n tokens being noise."""
    data, noise = (n - k) * math.exp(-energy), k * math.exp(log_q)
    return -math.log((noise if is_noise else data) / (data + noise))


def cloze_log_probs(model: ElectraPretrainer, batch: Batch) -> Doubles:
    """log q of every piece at every position, (B, L, V)."""
    states = model.generator_states(batch.input_ids, batch.token_type_ids, mask_of(batch))
    logits = doubles(model.generator_output().logits(states))
    return np.log(np.apply_along_axis(softmax, -1, logits))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_loss_is_the_papers(sharing: str, padded: bool):
    """Written with unnormalised probabilities, where the code has log odds."""
    model = random_model(**ELECTRIC, weight_sharing=sharing, discriminator_weight=3.0)
    batch = random_batch(model, padded=padded)
    masked = model.mask(batch)
    out = model(masked)
    cloze = cloze_log_probs(model, batch)
    corrupted, _ = corrupted_by_hand(masked, out.samples.ids)
    noise = {(row, position) for row, _, position in chosen_of(masked)}
    assert torch.equal(out.corrupted.ids, corrupted)
    energies = (
        discriminate(model, corrupted, batch.token_type_ids, mask_of(batch)).detach().double()
    )
    contrast = likelihood = 0.0
    ids = batch.input_ids
    candidates = ((ids == UNK) | (ids > 4)).nonzero().tolist()
    n = 100  # any number: only k / n matters
    k = model.config.mask_fraction * n
    for row, position in candidates:
        is_noise = (row, position) in noise
        log_q = cloze[row, position]
        energy = energies[row, position].item()
        contrast += noise_loss(energy, log_q[corrupted[row, position]], is_noise, k, n)
        likelihood -= log_q[batch.input_ids[row, position]]
    terms = {name: term.mean(out.counts).item() for name, term in out.terms.items()}
    assert terms["discriminator"] == pytest.approx(contrast / len(candidates), rel=1e-5)
    assert terms["generator"] == pytest.approx(likelihood / len(candidates), rel=1e-5)
    expected = terms["generator"] + 3 * terms["discriminator"]
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


def test_noise_is_noise_even_if_it_equals_the_original():
    model = random_model(**ELECTRIC)
    with torch.no_grad():
        model.generator_head.bias[9] = 30.0  # nearly always sampled
    batch = random_batch(model)
    batch.input_ids[batch.input_ids > 20] = 9  # and nearly always the original
    masked = model.mask(batch)
    out = model(masked)
    chosen = masked.weights > 0
    assert (out.samples.ids == masked.originals)[chosen].any()
    assert (out.corrupted.labels.gather(1, masked.positions)[chosen] == 1).all()
    assert out.corrupted.labels.sum() == chosen.sum()
    assert torch.equal(out.detected.counted, masked.maskable)  # whose detection is counted


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_noise_without_weights_has_one_distribution_everywhere(kind: str):
    log_q = noise_of(kind).log()
    model = random_model(**ELECTRIC, generator=kind, noise=noise_of(kind))
    batch = random_batch(model, rows=20)
    assert (batch.input_ids == UNK).any()  # which the noise never is, as others of a unigram
    masked = model.mask(batch)
    out = model(masked)
    corrupted = out.corrupted.ids
    energies = discriminate(model, corrupted, batch.token_type_ids).detach().double()
    noise = {(row, position) for row, _, position in chosen_of(masked)}
    candidates = [tuple(place) for place in masked.maskable.nonzero().tolist()]
    total = sum(
        noise_loss(
            energies[at].item(),
            log_q[corrupted[at]].item(),
            at in noise,
            model.config.mask_fraction,
            1,
        )
        for at in candidates
    )
    mean = out.terms["discriminator"].mean(out.counts)
    assert mean.item() == pytest.approx(total / len(candidates), rel=1e-5)
    mean.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    for figure in (out.detected.logits, out.detected.losses):
        assert figure.isfinite().all()


# --- two towers -----------------------------------------------------------------------------------


def states_of(model: ElectraPretrainer, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model.generator_states(batch.input_ids, batch.token_type_ids, mask_of(batch))


def with_token(batch: Batch, position: int, token: int) -> Batch:
    ids = batch.input_ids.clone()
    ids[:, position] = token
    return replace(batch, input_ids=ids)


def test_the_sides_of_a_state_see_their_sides_alone():
    model = random_model(**ELECTRIC)
    batch = random_batch(model, rows=3, length=14)
    left, right = states_of(model, batch).chunk(2, dim=-1)
    assert (left[:, 0] == 0).all()
    assert (right[:, -1] == 0).all()
    for changed in range(14):
        new_left, new_right = states_of(model, with_token(batch, changed, 57)).chunk(2, dim=-1)
        where = torch.arange(14)
        assert (((new_left - left).abs() > 1e-6).any(-1) == (where > changed)).all()
        assert (((new_right - right).abs() > 1e-6).any(-1) == (where < changed)).all()


# --- log probabilities -----------------------------------------------------------


def test_chunks_give_the_same_log_probabilities_and_gradients(monkeypatch: pytest.MonkeyPatch):
    head = torch.nn.Linear(8, 50)
    states = torch.randn(3, 11, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    targets = torch.randint(0, 50, (3, 11), generator=torch.Generator().manual_seed(2))

    def run() -> list[Tensor]:
        found, hits = gathered_log_probs(head, states, targets, 50)
        inputs = [states, head.weight, head.bias]
        weighed = (found * torch.arange(33.0).view(3, 11)).sum()
        return [found, hits, *torch.autograd.grad(weighed, inputs)]

    whole = run()
    expected = head(states).log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1)
    torch.testing.assert_close(whole[0], expected)
    assert torch.equal(whole[1], head(states).argmax(-1) == targets)
    seen = []
    original = log_probs_module.token_losses

    def spy(logits: Tensor, wanted: Tensor) -> Tensor:
        seen.append(len(logits))
        return original(logits, wanted)

    monkeypatch.setattr(log_probs_module, "token_losses", spy)
    monkeypatch.setattr(log_probs_module, "_LOG_PROBS_ELEMENTS", 7 * 50 + 3)
    for found, same in zip(run(), whole, strict=True):
        torch.testing.assert_close(found, same, rtol=1e-5, atol=1e-6)
    assert max(seen) == 7
    assert len(seen) == 10  # five chunks, each once more for the backward pass
