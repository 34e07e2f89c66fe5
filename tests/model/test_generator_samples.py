"""What generators put at the chosen positions follows their distribution."""

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from model.objectives import run_objective
from tests.model.conftest import VOCAB_SIZE, random_batch, random_model


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
