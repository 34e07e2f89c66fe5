"""The best discriminator, made from known distributions, gives the data's distribution back."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.masked.hidden_tokens import check_invertible, credit, invert, spread_over_candidates
from tests.model.conftest import make_config

SIZE = 7


def distributions() -> tuple[Tensor, Tensor]:
    """What stands at a hidden position and what is drawn there, a few contexts (3, SIZE) each."""
    rng = torch.Generator().manual_seed(0)
    made = torch.randn(2, 3, SIZE, generator=rng, dtype=torch.float64).mul(1.5).softmax(dim=-1)
    return made[0], made[1]


def best_logits(p: Tensor, q: Tensor, mask_fraction: float, **options: object) -> Tensor:
    """By enumeration of all originals and samples: the log odds that minimise a discriminator's
    cross-entropy, high where replaced."""
    original, replaced = torch.zeros_like(p), torch.zeros_like(p)
    for row in range(len(p)):
        for x in range(SIZE):  # the original
            if options.get("objective") != "electra-15":
                original[row, x] += (1 - mask_fraction) * p[row, x]
            samples = q[row].clone()
            if options.get("disallow_correct"):
                samples[x] = 0
                samples /= samples.sum()
            for sample in range(SIZE):
                mass = mask_fraction * p[row, x] * samples[sample]
                if sample == x and options.get("objective") != "electric":
                    original[row, sample] += mass
                else:
                    replaced[row, sample] += mass
    return (replaced / original).log()


@pytest.mark.parametrize("mask_fraction", [0.15, 0.4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "electra-15"},
        {"objective": "electra-adversarial"},
        {"disallow_correct": True},
    ],
    ids=str,
)
def test_inversion_finds_the_datas_distribution(options, mask_fraction):
    p, q = distributions()
    config = make_config(Path("unused"), mask_fraction=mask_fraction, **options).pretrain
    found = invert(best_logits(p, q, mask_fraction, **options), q.log(), config)
    assert torch.allclose(found.softmax(dim=-1), p, atol=1e-10)


def test_without_disallow_correct_nothing_is_left_to_normalise():
    p, q = distributions()
    config = make_config(Path("unused"), mask_fraction=0.15).pretrain
    found = invert(best_logits(p, q, 0.15), q.log(), config)
    assert torch.allclose(found.exp(), p, atol=1e-12)


def test_the_energies_of_electric_are_the_distribution():
    p, q = distributions()
    config = make_config(Path("unused"), objective="electric", mask_fraction=0.2).pretrain
    # its network's logit and log q and log(m / (1 - m)) together are the log odds of noise
    odds = best_logits(p, q, 0.2, objective="electric")
    energies = odds - q.log() - math.log(0.2 / 0.8) + 3.0
    assert torch.allclose(invert(energies, q.log(), config).softmax(dim=-1), p, atol=1e-10)


@pytest.mark.parametrize("disallow_correct", [False, True])
def test_a_discriminator_without_an_opinion_changes_no_order(disallow_correct):
    _, q = distributions()
    config = make_config(Path("unused"), disallow_correct=disallow_correct).pretrain
    found = invert(torch.full_like(q, -1.7), q.log(), config)
    assert torch.equal(found.argsort(dim=1), q.argsort(dim=1))


def test_ties_are_worth_a_guess():
    scores = torch.tensor([[3.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    own = torch.tensor([1.0, 2.0, 3.0])
    assert credit(scores, own, 1).tolist() == [0.0, 0.25, 0.0]
    assert credit(scores, own, 2).tolist() == [pytest.approx(1 / 3), 0.5, 1.0]
    assert credit(scores, own, 4).tolist() == [1.0, 1.0, 1.0]


def test_candidates_share_what_the_generator_gives_them():
    _, q = distributions()
    known, weights = q[:, :4].log(), torch.randn(3, 4, dtype=torch.float64)
    found = spread_over_candidates(weights, known)
    assert torch.allclose(found.exp().sum(dim=1) + q[:, 4:].sum(dim=1), torch.ones(3).double())
    assert torch.allclose(found.diff(dim=1), weights.diff(dim=1))
    # the generator's own weights give its own probabilities back
    assert torch.allclose(spread_over_candidates(known, known), known)


@pytest.mark.parametrize("generator", ["uniform", "unigram"])
def test_a_generator_that_does_not_read_is_refused(generator):
    config = make_config(Path("unused"), generator=generator).pretrain
    with pytest.raises(ValueError, match=f"{generator}.*the same tokens whatever"):
        check_invertible(config)
    # an objective that predicts tokens needs no candidates
    check_invertible(make_config(Path("unused"), objective="mlm").pretrain)


def test_a_discriminator_that_always_says_replaced_is_refused():
    config = make_config(Path("unused"), objective="electra-15", disallow_correct=True).pretrain
    with pytest.raises(ValueError, match="label 'replaced' everywhere"):
        check_invertible(config)
