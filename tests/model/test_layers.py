"""Layers compute what `transformers`' do, and packed documents what they would alone."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.batch import Batch, Noise
from model.electra import ElectraPretrainer
from model.layers import (
    DiscriminatorHead,
    Embeddings,
    Encoder,
    EncoderShape,
    TwoTowers,
    attend,
    initialise,
)
from model.masking import num_slots
from tests.model.conftest import random_batch, random_model

CLS, SEP = 2, 3


def shape_of(**sizes: int) -> EncoderShape:
    defaults = {
        "vocab_size": 40,
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 24,
    }
    return EncoderShape(
        **(defaults | sizes),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-12,
    )


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Every parameter at random, so that a lost one shows."""
    rng = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3, generator=rng)


def names_of(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters()]


# --- against transformers -------------------------------------------------------------------------


def test_layers_in_bf16_are_those_in_fp32_but_for_rounding():
    """All weights of a layer are cast as one tensor: each must come out in its own place."""
    encoder = Encoder(shape_of(num_hidden_layers=2))
    randomise(encoder)
    rng = torch.Generator().manual_seed(1)
    embedded = torch.randn(3, 20, 16, generator=rng)
    factors = torch.randn(3, 20, 32, generator=rng)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            states = encoder(embedded)
        gradients = torch.autograd.grad((states * factors).sum(), list(encoder.parameters()))
        assert {gradient.dtype for gradient in gradients} == {torch.float32}
        found.append({"states": states, **dict(zip(names_of(encoder), gradients, strict=True))})
    for name, exact in found[0].items():
        # keys shift all scores of a row alike, so their bias has no gradient but rounding
        limit = 0.03 * (exact.norm() if "key.bias" not in name else 10)
        assert (found[1][name] - exact).norm() < limit, name


@pytest.mark.parametrize("kind", [Encoder, TwoTowers])
@pytest.mark.parametrize("embedding_size", [16, 32])
def test_in_bf16_the_residual_stream_is_fp32_whatever_the_embedding_size(
    embedding_size: int, kind: type[nn.Module]
):
    """What each LayerNorm reads is the stream with a sublayer's output added."""
    encoder = kind(shape_of(embedding_size=embedding_size))
    read: list[torch.dtype] = []
    for norm in encoder.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder(torch.randn(2, 12, embedding_size))
    assert len(read) >= 6
    assert {*read, states.dtype} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_of_attention_is_on_average_no_dropout(dtype: torch.dtype):
    """And drops something: in both ways that attention is computed."""
    generator = torch.Generator().manual_seed(2)
    query, key, value = torch.randn(3, 1, 2, 6, 4, generator=generator).to(dtype)
    torch.manual_seed(0)
    many = [tensor.expand(4000, -1, -1, -1) for tensor in (query, key, value)]
    dropped = attend(*many, None, 0.5).float()
    expected = attend(query, key, value, None, 0.0).float()
    assert (dropped[0] != dropped[1]).any()
    torch.testing.assert_close(dropped.mean(0), expected[0], rtol=0, atol=0.06)


# --- tables that are differences from others ------------------------------------------------------


def test_tables_with_a_base_are_their_sums_and_leave_the_base_alone():
    shape = shape_of()
    base, differences, sums = Embeddings(shape), Embeddings(shape), Embeddings(shape)
    randomise(base, 1)
    randomise(differences, 2)
    sums.load_state_dict(differences.state_dict())  # its own LayerNorm
    with torch.no_grad():
        for table, added in zip(sums.tables(), base.tables(), strict=True):
            table.weight.add_(added.weight)
    ids = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(3))
    types = ids % 2
    found = differences(ids, types, base=base)
    torch.testing.assert_close(found, sums(ids, types))
    factors = torch.randn(found.shape, generator=torch.Generator().manual_seed(4))
    (found * factors).sum().backward()
    (sums(ids, types) * factors).sum().backward()
    assert all(parameter.grad is None for parameter in base.parameters())
    for mine, whole in zip(differences.parameters(), sums.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, whole.grad)


# --- initial weights ------------------------------------------------------------------------------


def test_initial_weights_are_the_originals():
    shape = shape_of(hidden_size=64, intermediate_size=256, num_attention_heads=1)
    modules = nn.ModuleList([Embeddings(shape), Encoder(shape), DiscriminatorHead(shape)])
    randomise(modules)
    for module in modules.modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()  # which is how they are made
    torch.manual_seed(0)
    initialise(modules, 0.02)
    for name, parameter in modules.named_parameters():
        if name == "2.prediction.weight":  # Glorot, with the limit of 64 inputs and one output
            assert 0.1 < parameter.abs().max() <= math.sqrt(6 / 65)
        elif name.endswith("norm.weight"):
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.abs().max() <= 0.04, name
            if parameter.numel() > 500:  # cut at two deviations, which leaves 0.88 of one
                assert parameter.std().item() == pytest.approx(0.0176, rel=0.1), name


# --- documents that are attended to by themselves -------------------------------------------------


def packed_rows() -> tuple[Tensor, Tensor, list[list[int]]]:
    """Rows of three documents, the second of which the row's own [SEP] cuts: ids, types, documents.

    Each document's [SEP] is its last token; the row's own [SEP] is of the document before it.
    """
    first = [10, 11, 12, SEP]
    second = [20, 21, 22, 23, 24, 25, SEP]
    third = [30, 31, 32, 33, 34]
    ids = [CLS, *first, *second[:3], SEP, *second[3:], *third, SEP]
    types = [0] * 9 + [1] * (len(ids) - 9)
    documents = [0] * 5 + [1] * 8 + [2] * 6
    whole = [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55]
    other = [CLS, *whole[:7], SEP, *whole[7:], SEP]
    assert len(ids) == len(documents) == len(other) == 19
    return (
        torch.tensor([ids, other]),
        torch.tensor([types, [0] * 9 + [1] * 10]),
        [documents, [0] * 19],
    )


def batch_of(model: ElectraPretrainer, ids: Tensor, types: Tensor, packed: bool = True) -> Batch:
    noise = Noise.draw(1, len(ids), ids.shape[1], num_slots(model.config, ids.shape[1]))
    return Batch(ids, types, noise, torch.zeros(len(ids), dtype=torch.int64), packed)


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("objective", ["electra", "electric"])
def test_packed_documents_are_computed_as_separate_sequences(objective: str, padding: int):
    model = random_model(attention="document", objective=objective)
    ids, types, documents = packed_rows()
    ids, types = F.pad(ids, (0, padding)), F.pad(types, (0, padding))
    masked = model.mask(batch_of(model, ids, types, packed=not padding))
    placed = masked.attention_mask, masked.position_ids
    with torch.no_grad():
        detected = model.discriminate(ids, types, *placed)
        states = model.generator_states(ids, types, *placed)
        for row, numbers in enumerate(documents):
            for number in set(numbers):
                at = [place for place, of in enumerate(numbers) if of == number]
                alone = ids[row, at][None], types[row, at][None]
                expected = model.discriminate(*alone)[0]
                torch.testing.assert_close(detected[row, at], expected, rtol=1e-4, atol=1e-4)
                expected = model.generator_states(*alone)[0]
                torch.testing.assert_close(states[row, at], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attention", ["sequence", "document"])
def test_padding_changes_nothing_for_the_other_tokens(attention: str):
    model = random_model(attention=attention)
    batch = random_batch(model, rows=6, padded=True)
    masked = model.mask(batch)
    with torch.no_grad():
        found = model.discriminate(
            batch.input_ids, batch.token_type_ids, masked.attention_mask, masked.position_ids
        )
        for row, length in enumerate((batch.input_ids != 0).sum(dim=1).tolist()):
            ids = batch.input_ids[row : row + 1, :length]
            types = batch.token_type_ids[row : row + 1, :length]
            alone = model.mask(batch_of(model, ids, types))
            expected = model.discriminate(ids, types, alone.attention_mask, alone.position_ids)
            torch.testing.assert_close(found[row, :length], expected[0], rtol=1e-4, atol=1e-4)
