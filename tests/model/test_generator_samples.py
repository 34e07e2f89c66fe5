"""What generators put at the chosen positions follows their distribution."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from model.batch import Batch
from model.objectives import run_objective
from tests.model.conftest import VOCAB_SIZE, random_batch, random_model
from tests.model.formulas import (
    generator_logits,
    softmax,
)


def noise_of(kind: str) -> Tensor:
    """Probabilities of pieces; some that are no special ones never occur."""
    table = torch.ones(VOCAB_SIZE, dtype=torch.float64)
    if kind == "unigram":
        table = torch.arange(VOCAB_SIZE, dtype=torch.float64) % 7
    table[:5] = 0
    return table / table.sum()


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_noise_follows_its_table(kind: str):
    table = noise_of(kind)
    model = random_model(noise=table, generator=kind)
    out = run_objective(model, model.mask(random_batch(model, rows=1200, length=40)))
    assert list(out.terms) == ["discriminator"]
    assert model.generator is None
    counts = out.sampled[out.weights > 0].bincount(minlength=VOCAB_SIZE)
    possible = table > 0
    assert counts[~possible].sum() == 0
    assert counts.sum() > 5000
    expected = table[possible] * counts.sum()
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_noise_without_the_original_keeps_the_odds_of_the_others(kind: str):
    table = noise_of(kind)
    model = random_model(noise=table, generator=kind, disallow_correct=True)
    batch = random_batch(model, rows=1200, length=40)
    frequent = batch.input_ids > 20
    batch.input_ids[frequent] = 12  # so that one original has many samples
    masked = model.mask(batch)
    sampled = run_objective(model, masked).sampled[masked.weights > 0]
    originals = masked.originals[masked.weights > 0]
    assert (sampled != originals).all()
    assert (sampled >= 5).all()
    counts = sampled[originals == 12].bincount(minlength=VOCAB_SIZE)
    possible = (table > 0) & (torch.arange(VOCAB_SIZE) != 12)
    assert counts.sum() > 2500
    expected = table[possible] / table[possible].sum() * counts.sum()
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("disallow_correct", [False, True])
@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_possible_noise(draw: float, disallow_correct: bool):
    table = noise_of("unigram")
    model = random_model(noise=table, generator="unigram", disallow_correct=disallow_correct)
    batch = random_batch(model, rows=200)
    batch.noise.samples.fill_(draw)
    sampled = run_objective(model, model.mask(batch)).sampled
    assert (table[sampled] > 0).all()


@pytest.mark.parametrize("generator", ["learned", "uniform", "unigram"])
@pytest.mark.parametrize("objective", ["electra", "electra-15", "all-tokens-mlm"])
def test_what_may_not_be_correct_is_always_labelled_replaced(objective: str, generator: str):
    noise = None if generator == "learned" else noise_of(generator)
    model = random_model(
        noise=noise, objective=objective, generator=generator, disallow_correct=True
    )
    if generator == "learned":
        with torch.no_grad():  # the generator is as good as sure of one frequent token
            model.generator_head.bias[9] = 30.0
    batch = random_batch(model, rows=200)
    batch.input_ids[batch.input_ids > 20] = 9
    masked = model.mask(batch)
    out = run_objective(model, masked)
    chosen = masked.weights > 0
    assert (out.sampled != masked.originals)[chosen].all()
    assert (out.labels.gather(1, masked.positions)[chosen] == 1).all()
    assert out.labels.sum() == chosen.sum()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_learned_generator_is_sampled_from_its_softmax(temperature: float):
    """All sequences are equal but for their draws, so their samples are of one distribution."""
    model = random_model(sampling_temperature=temperature, mask_token_fraction=1.0)
    batch = random_batch(model, rows=1, seed=2)
    rows = batch.input_ids.expand(6_000, -1)
    types = batch.token_type_ids.expand(6_000, -1)
    one = model.mask(batch)
    draws = torch.rand(
        6_000,
        one.positions.shape[1],
        2,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(8),
    )
    noise = replace(
        batch.noise,
        positions=batch.noise.positions.expand(6_000, -1),
        mask=batch.noise.mask.expand(6_000, -1),
        samples=draws,
    )
    many = Batch(rows, types, noise, torch.zeros(6_000, dtype=torch.int64))
    with torch.no_grad():
        sampled = run_objective(model.eval(), model.mask(many), "generator").sampled
    for n in range(sampled.shape[1]):
        p = softmax(generator_logits(model, one)[0, n] / temperature)
        counts = sampled[:, n].bincount(minlength=VOCAB_SIZE).numpy()
        common = p * 6_000 >= 5
        observed, expected = counts[common], p[common] / p[common].sum()
        assert observed.sum() > 5_700
        assert chisquare(observed, expected * observed.sum()).pvalue > 1e-3
