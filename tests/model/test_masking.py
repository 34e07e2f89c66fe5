"""Positions are chosen by their laws: which, how many, and units whole."""

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from model.masking import choose_positions, num_slots
from tests.model.conftest import preset


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def chosen_of(positions: Tensor, weights: Tensor) -> list[list[int]]:
    """The chosen positions of each row."""
    rows = zip(positions, weights, strict=True)
    return [at[weight > 0].tolist() for at, weight in rows]


def units_of(starts: list[bool], maskable: list[bool]) -> list[list[int]]:
    """The units of one row, literally."""
    units: list[list[int]] = []
    for place, may in enumerate(maskable):
        if may and (starts[place] or place == 0 or not maskable[place - 1]):
            units.append([])
        if may:
            units[-1].append(place)
    return units


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("masking", ["fixed", "bernoulli"])
def test_chosen_positions_are_maskable_and_uniform(masking: str):
    maskable = torch.ones(20_000, 16, dtype=torch.bool)
    maskable[:, [0, 5, 15]] = False
    config = preset(masking=masking, mask_fraction=0.3)
    positions, weights = choose_positions(maskable, draws(20_000, 16), config)
    assert positions.shape == weights.shape == (20_000, num_slots(config, 16))
    counts = positions[weights > 0].bincount(minlength=16)
    assert counts[~maskable[0]].sum() == 0
    assert chisquare(counts[maskable[0]].numpy()).pvalue > 1e-3


@pytest.mark.parametrize("masking", ["fixed", "bernoulli"])
def test_slots_are_distinct(masking: str):
    positions, _ = choose_positions(
        torch.ones(500, 64, dtype=torch.bool), draws(500, 64), preset(masking=masking)
    )
    assert (positions.sort(dim=1).values.diff(dim=1) > 0).all()


def test_equal_draws_choose_the_first_tokens_on_every_device():
    maskable = torch.ones(1, 300, dtype=torch.bool)
    positions, _ = choose_positions(maskable, torch.full((1, 300), 0.5), preset())
    assert positions[0].tolist() == list(range(46))


def test_bernoulli_counts_are_binomial():
    config = preset(masking="bernoulli", mask_fraction=0.15)
    _, weights = choose_positions(
        torch.ones(20_000, 128, dtype=torch.bool), draws(20_000, 128, seed=1), config
    )
    counts = weights.sum(dim=1)
    assert counts.mean().item() == pytest.approx(19.2, abs=0.15)
    assert counts.var().item() == pytest.approx(128 * 0.15 * 0.85, rel=0.05)


def test_what_passes_the_bernoulli_bound_is_left_out_at_random():
    config = preset(masking="bernoulli", mask_fraction=0.15)
    draw = draws(4000, 64, seed=2) * 0.15  # all are to be chosen
    positions, weights = choose_positions(torch.ones(4000, 64, dtype=torch.bool), draw, config)
    assert weights.all()
    assert chisquare(positions.flatten().bincount(minlength=64).numpy()).pvalue > 1e-3


def test_limits_bound_the_number_of_a_row():
    limits = torch.tensor([1.0, 7.0, 100.0])
    _, weights = choose_positions(
        torch.ones(3, 128, dtype=torch.bool), draws(3, 128), preset(), limits
    )
    assert weights.sum(dim=1).tolist() == [1, 7, 19]


@pytest.mark.parametrize("masking", ["fixed", "bernoulli"])
def test_only_what_is_maskable_is_chosen_even_if_that_is_nothing(masking: str):
    maskable = torch.zeros(2, 32, dtype=torch.bool)
    maskable[0, [3, 6]] = True
    config = preset(masking=masking, mask_fraction=0.5)
    positions, weights = choose_positions(maskable, draws(2, 32), config)
    assert set(chosen_of(positions, weights)[0]) <= {3, 6}
    assert weights[1].sum() == 0
    assert (positions < 32).all()
    if masking == "fixed":
        assert sorted(chosen_of(positions, weights)[0]) == [3, 6]


# --- units ----------------------------------------------------------------------------------------


def random_units(rows: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Maskable tokens with gaps, and unit starts at two of five tokens."""
    maskable = draws(rows, length, seed=seed) > 0.1
    return maskable, draws(rows, length, seed=seed + 1) < 0.4


def greedy(units: list[list[int]], draw: list[float], most: int) -> set[int]:
    """The rule as it reads: in order of the draws, what does not fit is passed over."""
    taken: set[int] = set()
    for unit in sorted(units, key=lambda unit: draw[unit[0]]):
        if len(taken) + len(unit) <= most:
            taken |= set(unit)
    return taken


def test_units_fill_the_slots_by_the_greedy_rule():
    maskable, starts = random_units(500, 40, 7)
    draw = draws(500, 40, seed=9)
    config = preset(mask_unit="word", mask_fraction=0.25)
    positions, weights = choose_positions(maskable, draw, config, None, starts)
    slots = num_slots(config, 40)
    for row, found in enumerate(chosen_of(positions, weights)):
        units = units_of(starts[row].tolist(), maskable[row].tolist())
        assert set(found) == greedy(units, draw[row].tolist(), slots)


def test_of_units_that_are_all_too_long_the_beginning_of_one_is_taken():
    starts = (torch.arange(12) % 6 == 0).expand(200, -1)
    maskable = torch.ones(200, 12, dtype=torch.bool)
    config = preset(mask_unit="word", mask_fraction=0.3)
    positions, weights = choose_positions(
        maskable, draws(200, 12), config, torch.full((200,), 3), starts
    )
    found = {tuple(row) for row in chosen_of(positions, weights)}
    assert found == {(0, 1, 2), (6, 7, 8)}


def test_bernoulli_draws_once_a_unit():
    starts = (torch.arange(30) % 3 == 0).expand(20_000, -1)
    maskable = torch.ones(20_000, 30, dtype=torch.bool)
    config = preset(masking="bernoulli", mask_unit="morpheme", mask_fraction=0.2)
    draw = draws(20_000, 30, seed=6)
    positions, weights = choose_positions(maskable, draw, config, None, starts)
    counts = positions[weights > 0].bincount(minlength=30)
    assert (counts[::3] == counts[1::3]).all()
    assert chisquare(counts[::3].numpy()).pvalue > 1e-3
    assert counts.sum().item() / draw.numel() == pytest.approx(0.2, abs=0.003)
