"""The model: its networks are those of transformers, what is tied stays tied, masking is fair."""

import copy

import pytest
import torch
from torch import Tensor
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from model.electra import ElectraPretrainer
from model.layers import Embeddings
from model.objectives import run_objective
from tests.model.conftest import electra_model, random_batch, random_model

PAD, UNK, CLS, SEP, MASK = range(5)
EQUAL = {"generator_hidden_fraction": 1.0}
SHARING: dict[str, dict[str, object]] = {
    "none": {"weight_sharing": "none"},
    "embeddings": {},
    "all": {"weight_sharing": "all"} | EQUAL,
    "gdes": {"weight_sharing": "gdes"},
}


def effective_embeddings(model: ElectraPretrainer) -> Embeddings:
    """Those that the main network works with."""
    if model.config.weight_sharing != "gdes":
        return model.embeddings
    summed = copy.deepcopy(model.embeddings)
    with torch.no_grad():
        for table, base in zip(summed.tables(), model.generator_embeddings.tables(), strict=True):
            table.weight.add_(base.weight)
    return summed


# --- against transformers -------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("sharing", SHARING)
def test_both_networks_are_those_of_transformers(sharing: str, fraction: float):
    options = {"generator_hidden_fraction": fraction} | SHARING[sharing]
    model = random_model(**options).double()
    batch = random_batch(model, padded=True)
    ids, types = batch.input_ids, batch.token_type_ids
    mask = (ids != PAD).long()
    real = mask.bool()

    body = electra_model(model.shape, effective_embeddings(model), model.discriminator)
    detector = ElectraForPreTraining(body.config).double().eval()
    detector.electra = body
    head = detector.discriminator_predictions
    head.dense.load_state_dict(model.discriminator_head.dense.state_dict())
    head.dense_prediction.load_state_dict(model.discriminator_head.prediction.state_dict())
    expected = detector(ids, mask, types).logits
    found = model.discriminate(ids, types, mask)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-9, atol=1e-9)

    own = model.generator_embeddings or model.embeddings
    body = electra_model(model.generator_shape, own, model.generator or model.discriminator)
    cloze = ElectraForMaskedLM(body.config).double().eval()
    cloze.electra = body
    head = cloze.generator_predictions
    head.dense.load_state_dict(model.generator_head.dense.state_dict())
    head.LayerNorm.load_state_dict(model.generator_head.norm.state_dict())
    cloze.generator_lm_head.weight = body.embeddings.word_embeddings.weight
    cloze.generator_lm_head.bias = model.generator_head.bias
    expected = cloze(ids, mask, types).logits
    positions = torch.stack([torch.randperm(ids.shape[1])[:7] for _ in ids])
    found = model.generate(ids, types, positions, mask)
    at = expected.gather(1, positions[..., None].expand(-1, -1, expected.shape[-1]))
    real = real.gather(1, positions)
    torch.testing.assert_close(found[real], at[real], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("objective", ["mlm", "replace-mlm", "all-tokens-mlm"])
def test_a_main_network_that_predicts_tokens_is_a_masked_language_model(objective: str):
    sharing = "embeddings" if objective == "mlm" else "gdes"
    model = random_model(objective=objective, weight_sharing=sharing).double()
    batch = random_batch(model)
    ids, types = batch.input_ids, batch.token_type_ids
    body = electra_model(model.shape, effective_embeddings(model), model.discriminator)
    cloze = ElectraForMaskedLM(body.config).double().eval()
    cloze.electra = body
    head = cloze.generator_predictions
    head.dense.load_state_dict(model.language_head.dense.state_dict())
    head.LayerNorm.load_state_dict(model.language_head.norm.state_dict())
    cloze.generator_lm_head.weight = body.embeddings.word_embeddings.weight
    cloze.generator_lm_head.bias = model.language_head.bias
    everywhere = torch.arange(ids.shape[1]).expand_as(ids)
    found = model.predict(ids, types, everywhere)
    expected = cloze(ids, torch.ones_like(ids), types).logits
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


# --- what there is --------------------------------------------------------------------------------


def test_differences_start_at_0():
    made = random_model(weight_sharing="gdes")
    fresh = ElectraPretrainer(made.config, 60, made.special)
    assert all((table.weight == 0).all() for table in fresh.embeddings.tables())
    assert all(table.weight.any() for table in fresh.generator_embeddings.tables())


# --- what is tied stays tied ----------------------------------------------------------------------


def round_trip(model: ElectraPretrainer) -> ElectraPretrainer:
    fresh = ElectraPretrainer(model.config, 60, model.special)
    fresh.load_state_dict(model.state_dict(), strict=True)
    return fresh


MOVES = {
    "double": lambda model: model.to(torch.float64),
    "bf16 and back": lambda model: model.to(torch.bfloat16).to(torch.float32),
    "device": lambda model: model.to(device="cpu"),
    "deep copy": copy.deepcopy,
    "state dict": round_trip,
    "assigned state dict": lambda model: (
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True),
        model,
    )[1],
}


def answers(model: ElectraPretrainer) -> dict[str, Tensor]:
    """What each use of a word table gives; all see token 17."""
    ids = torch.tensor([[CLS, 17, 18, SEP]])
    types, position = torch.zeros_like(ids), torch.tensor([[1]])
    with torch.no_grad():
        found = {
            "discriminator": model.discriminate(ids, types),
            "generator": model.generator_states(ids, types),
            # of another token: the states know nothing of 17
            "softmax": model.generate(ids + 20, types, position)[..., 17],
        }
    return {name: value.clone() for name, value in found.items()}


# whose tables the tables of the main network, and of the generator, stand in for
MOVED = {
    "none": ({"discriminator"}, {"generator", "softmax"}),
    "embeddings": ({"discriminator", "generator", "softmax"}, None),
    "all": ({"discriminator", "generator", "softmax"}, None),
    "gdes": ({"discriminator"}, {"discriminator", "generator", "softmax"}),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("sharing", SHARING)
def test_what_is_tied_stays_tied(sharing: str, move: str):
    """A change of a table shows wherever it is shared, and nowhere else, whatever was done."""
    model = random_model(**SHARING[sharing])
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


@pytest.mark.parametrize("masking", ["fixed", "with-replacement", "bernoulli"])
@pytest.mark.parametrize("attention", ["sequence", "document"])
def test_only_real_text_is_chosen_and_only_the_chosen_masked(masking: str, attention: str):
    model = random_model(masking=masking, attention=attention, mask_fraction=0.3)
    batch = random_batch(model, rows=200, padded=True)
    masked = model.mask(batch)
    ids = batch.input_ids
    assert torch.equal(masked.tokens, ids != PAD)
    assert torch.equal(masked.maskable, (ids == UNK) | (ids > MASK))
    chosen = masked.weights > 0
    assert masked.maskable.gather(1, masked.positions)[chosen].all()
    assert torch.equal(masked.originals, ids.gather(1, masked.positions))
    may_change = torch.zeros_like(ids).scatter_add(1, masked.positions, chosen.long()) > 0
    changed = masked.masked_ids != ids
    assert (masked.masked_ids[changed] == MASK).all()
    assert not (changed & ~may_change).any()
    share = changed.sum() / may_change.sum()
    assert 0.8 < share < 0.95


def test_masking_takes_its_share_of_each_sequence_s_own_tokens():
    model = random_model(mask_fraction=0.15)
    batch = random_batch(model, rows=100, length=40, padded=True)
    masked = model.mask(batch)
    lengths = (batch.input_ids != PAD).sum(dim=1).tolist()
    found = masked.weights.sum(dim=1).int().tolist()
    # python rounds halves to even too
    assert found == [min(max(1, round(0.15 * length)), length - 3) for length in lengths]


@pytest.mark.parametrize("padded", [False, True])
def test_a_sequence_is_masked_and_sampled_the_same_in_any_batch(padded: bool):
    """Its draws are its own: neither its neighbours nor the size of a micro-batch matter."""
    model = random_model()
    batch = random_batch(model, rows=6, padded=padded)
    whole = model.mask(batch)
    sampled = run_objective(model, whole).sampled
    for rows in (slice(0, 1), slice(2, 5), slice(1, None, 2)):
        part = model.mask(batch.rows(rows))
        assert torch.equal(part.positions, whole.positions[rows])
        assert torch.equal(part.masked_ids, whole.masked_ids[rows])
        assert torch.equal(part.weights, whole.weights[rows])
        assert torch.equal(run_objective(model, part).sampled, sampled[rows])
