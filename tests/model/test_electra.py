"""The model: what is tied stays tied, masking is fair."""

import copy

import pytest
import torch
from torch import Tensor

from model.electra import ElectraPretrainer
from tests.model.conftest import VARIANTS, discriminate, generate, random_batch, random_model

PAD, UNK, CLS, SEP, MASK = range(5)


# --- what is tied stays tied ----------------------------------------------------------------------


def round_trip(model: ElectraPretrainer) -> ElectraPretrainer:
    fresh = ElectraPretrainer(model.config, 60, model.special)
    fresh.load_state_dict(model.state_dict(), strict=True)
    return fresh


MOVES = {
    "bf16 and back": lambda model: model.to(torch.bfloat16).to(torch.float32),
    "deep copy": copy.deepcopy,
    "state dict": round_trip,
}


def answers(model: ElectraPretrainer) -> dict[str, Tensor]:
    """What each use of a word table gives; all see token 17."""
    ids = torch.tensor([[CLS, 17, 18, SEP]])
    types, position = torch.zeros_like(ids), torch.tensor([[1]])
    with torch.no_grad():
        found = {
            "discriminator": discriminate(model, ids, types),
            "generator": model.generator_states(ids, types),
            # of another token: the states know nothing of 17
            "softmax": generate(model, ids + 20, types, position)[..., 17],
        }
    return {name: value.clone() for name, value in found.items()}


# whose tables the tables of the main network, and of the generator, stand in for
MOVED = {
    "none": ({"discriminator"}, {"generator", "softmax"}),
    "electra": ({"discriminator", "generator", "softmax"}, None),
    "gdes": ({"discriminator"}, {"discriminator", "generator", "softmax"}),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("sharing", MOVED)
def test_what_is_tied_stays_tied(sharing: str, move: str):
    """A change of a table shows wherever it is shared, and nowhere else, whatever was done."""
    model = random_model(**VARIANTS[sharing])
    original = answers(model)
    moved = MOVES[move](model)
    for name, value in answers(moved).items():
        tolerance = 0.3 if move == "bf16 and back" else 1e-4
        assert (value.double() - original[name].double()).abs().max() < tolerance, name
    tables = (moved.embeddings, moved.generator_embeddings)
    for embeddings, expected in zip(tables, MOVED[sharing], strict=True):
        if expected is None:
            assert embeddings is None
            continue
        before = answers(moved)
        with torch.no_grad():
            embeddings.word.weight[17].mul_(2.0).add_(0.5)
        after = answers(moved)
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert changed == expected


# --- masking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["sequence", "document"])
def test_only_real_text_is_chosen_and_only_the_chosen_masked(attention: str):
    model = random_model(attention=attention, mask_fraction=0.3)
    batch = random_batch(model, rows=200)
    masked = model.mask(batch)
    ids = batch.input_ids
    chosen = masked.weights > 0
    assert ((ids == UNK) | (ids > MASK)).gather(1, masked.positions)[chosen].all()
    assert torch.equal(masked.originals, ids.gather(1, masked.positions))
    may_change = torch.zeros_like(ids).scatter_add(1, masked.positions, chosen.long()) > 0
    changed = masked.masked_ids != ids
    assert (masked.masked_ids[changed] == MASK).all()
    assert not (changed & ~may_change).any()
    share = changed.sum() / may_change.sum()
    assert 0.8 < share < 0.95


@pytest.mark.parametrize(("length", "number"), [(20, 3), (40, 6), (512, 77)])
def test_masking_takes_its_fraction_of_each_sequence(length: int, number: int):
    model = random_model(mask_fraction=0.15)
    batch = random_batch(model, rows=3, length=length).filled_up(4, PAD)
    masked = model.mask(batch)
    assert masked.weights.sum(dim=1).tolist() == [number] * 3 + [0]
    assert masked.tokens.sum(dim=1).tolist() == [length] * 3 + [0]
