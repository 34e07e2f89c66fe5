"""Corruption follows its laws: what stands at the chosen positions and what the labels say."""

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from model.masking import (
    forbid_tokens,
    mask_tokens,
    replace_tokens,
    sample_tokens,
)
from model.objectives import run_objective
from tests.model.conftest import VOCAB_SIZE, random_batch, random_model

MASK = 4


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=rng(seed), dtype=torch.float64)


def random_slots(rows: int, length: int, slots: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, distinct positions, and weights of which some are 0."""
    ids = torch.randint(5, 50, (rows, length), generator=rng(seed))
    positions = draws(rows, length, seed=seed + 1).argsort(dim=1)[:, :slots]
    weights = (draws(rows, slots, seed=seed + 2) < 0.8).float()
    return ids, positions, weights


# --- [MASK] ---------------------------------------------------------------------------------------


def test_a_position_is_masked_if_its_draw_says_so():
    ids, positions, weights = random_slots(200, 12, 9, seed=4)
    uniforms = draws(200, 9, seed=7)
    masked = mask_tokens(ids, positions, weights, uniforms, MASK, 0.5)
    for row in range(200):
        expected = ids[row].tolist()
        for slot, at in enumerate(positions[row].tolist()):
            if weights[row, slot] and uniforms[row, slot] < 0.5:
                expected[at] = MASK
        assert masked[row].tolist() == expected


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [5, 128, 300])  # less than a block, one, two and a piece
@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_samples_follow_the_softmax_at_each_temperature(vocab_size: int, temperature: float):
    logits = torch.randn(vocab_size, generator=rng(6))
    num_draws = 50_000
    drawn = sample_tokens(logits.expand(num_draws, -1), draws(num_draws, 2), temperature)
    expected = (logits.double() / temperature).softmax(0) * num_draws
    counts = drawn.bincount(minlength=vocab_size)
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("edge", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_tokens_that_are_possible(edge: float):
    logits = torch.randn(64, 300, generator=rng(8))
    logits[:, :3] = logits[:, 200:] = float("-inf")
    drawn = sample_tokens(logits, torch.full((64, 2), edge, dtype=torch.float64))
    assert ((drawn >= 3) & (drawn < 200)).all()


def test_a_forbidden_token_is_never_sampled_and_the_others_keep_their_odds():
    logits = torch.randn(40, generator=rng(9))
    logits[7] = 20.0  # nearly sure, were it allowed
    num_draws = 50_000
    ids = torch.full((num_draws,), 7)
    allowed = forbid_tokens(logits.expand(num_draws, -1), ids)
    counts = sample_tokens(allowed, draws(num_draws, 2, seed=1)).bincount(minlength=40)
    assert counts[7] == 0
    others = torch.arange(40) != 7
    expected = logits[others].double().softmax(0) * num_draws
    assert chisquare(counts[others].numpy(), expected.numpy()).pvalue > 1e-3


# --- what the discriminator sees ------------------------------------------------------------------


def test_chosen_positions_take_their_samples():
    ids, positions, weights = random_slots(200, 12, 9, seed=12)
    sampled = torch.randint(5, 50, positions.shape, generator=rng(13))
    corrupted, labels = replace_tokens(ids, positions, weights, sampled)
    for row in range(200):
        expected = ids[row].tolist()
        for slot in range(9):
            if weights[row, slot]:
                expected[positions[row, slot]] = sampled[row, slot].item()
        assert corrupted[row].tolist() == expected
    assert torch.equal(labels, (corrupted != ids).float())


# --- generators without weights -------------------------------------------------------------------


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
