"""Corruption follows its laws: which positions, what stands there, what the labels say."""

import pytest
import torch
from scipy.stats import chisquare

from model.corrupt import choose_positions, mask_tokens, replace_tokens, sample_tokens


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_positions_are_distinct_maskable_and_uniform():
    maskable = torch.ones(20_000, 16, dtype=torch.bool)
    maskable[:, [0, 5, 15]] = False
    positions, weights = choose_positions(maskable, 4, rng())
    assert weights.all()
    ordered = positions.sort(dim=1).values
    assert (ordered.diff(dim=1) > 0).all()
    counts = positions.flatten().bincount(minlength=16)
    assert counts[[0, 5, 15]].sum() == 0
    allowed = counts[maskable[0]]
    assert chisquare(allowed.numpy()).pvalue > 1e-3


def test_surplus_positions_have_weight_zero():
    maskable = torch.zeros(1, 8, dtype=torch.bool)
    maskable[0, 3] = maskable[0, 6] = True
    positions, weights = choose_positions(maskable, 4, rng())
    chosen = positions[0][weights[0] > 0].tolist()
    assert sorted(chosen) == [3, 6]
    assert weights.sum() == 2


def test_surplus_positions_are_neither_masked_nor_replaced():
    ids = torch.arange(10, 18)[None]
    maskable = torch.zeros(1, 8, dtype=torch.bool)
    maskable[0, 3] = True
    positions, weights = choose_positions(maskable, 4, rng())
    masked = mask_tokens(ids, positions, weights, 4, 1.0, rng())
    assert (masked != ids).nonzero().tolist() == [[0, 3]]
    sampled = torch.full_like(positions, 99)
    corrupted, labels = replace_tokens(ids, positions, weights, sampled)
    assert (corrupted != ids).nonzero().tolist() == [[0, 3]]
    assert labels.sum() == 1


def test_share_of_mask_tokens_is_as_asked_and_the_rest_stays():
    ids = torch.randint(5, 50, (2000, 32), generator=rng(1))
    positions, weights = choose_positions(torch.ones_like(ids, dtype=torch.bool), 5, rng(2))
    masked = mask_tokens(ids, positions, weights, 4, 0.85, rng(3))
    at = masked.gather(1, positions)
    share = (at == 4).float().mean().item()
    assert abs(share - 0.85) < 0.01
    kept = at != 4
    assert (at[kept] == ids.gather(1, positions)[kept]).all()
    elsewhere = torch.ones_like(ids, dtype=torch.bool).scatter(1, positions, False)
    assert (masked[elsewhere] == ids[elsewhere]).all()


@pytest.mark.parametrize("vocab_size", [5, 128, 300])  # less than a block, one, two and a piece
@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_samples_follow_the_softmax_at_each_temperature(vocab_size: int, temperature: float):
    logits = torch.randn(vocab_size, generator=rng(6))
    num_draws = 50_000
    drawn = sample_tokens(logits.expand(num_draws, -1), temperature, rng(4))
    expected = (logits.double() / temperature).softmax(0) * num_draws
    counts = drawn.bincount(minlength=vocab_size)
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


def test_a_sure_token_is_always_drawn_wherever_it_stands():
    logits = torch.full((300, 300), -100.0).fill_diagonal_(100.0)
    assert sample_tokens(logits, 1.0, rng(7)).tolist() == list(range(300))


def test_sampling_is_done_in_fp32_and_carries_no_gradient():
    logits = torch.full((4, 1000), 60_000.0, dtype=torch.float16, requires_grad=True)
    drawn = sample_tokens(logits, 1.0, rng(5))
    assert not drawn.requires_grad
    assert len(drawn.unique()) > 1  # half precision noise would be lost in the logits


def test_a_sample_equal_to_the_original_is_labelled_original():
    ids = torch.tensor([[2, 10, 11, 12, 3]])
    positions, weights = torch.tensor([[1, 3]]), torch.ones(1, 2)
    corrupted, labels = replace_tokens(ids, positions, weights, torch.tensor([[10, 40]]))
    assert corrupted.tolist() == [[2, 10, 11, 40, 3]]
    assert labels.tolist() == [[0, 0, 0, 1, 0]]
