"""Layers in blocks and with padding; their initial weights; what is tied stays tied. That
they compute what `transformers`' do is in test_export.py."""

import math

import pytest
import torch
from torch import nn

from model.networks.batch import SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.networks.layers import (
    DiscriminatorHead,
    Embeddings,
    Encoder,
    attend,
    in_documents,
    initialise,
    initialise_mimetic,
    local_mask,
    rotate,
    rotation_at,
)
from model.networks.masking import document_mask
from model.plan import EncoderShape, discriminator_shape
from tests.model.conftest import (
    MODERN,
    NO_DROPOUT,
    discriminate,
    preset,
    random_batch,
    random_model,
    tiny,
)


def shape_of(**sizes: object) -> EncoderShape:
    return discriminator_shape(tiny(**(NO_DROPOUT | sizes)), vocab_size=40)


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Every parameter at random, so that a lost one shows."""
    rng = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3, generator=rng)


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


def initialised(initialization: str, **options: object) -> ElectraPretrainer:
    sizes = {"num_hidden_layers": 2, "embedding_size": 64, "objective": "mlm"}
    config = preset(initialization=initialization, **(sizes | options))
    torch.manual_seed(0)
    return ElectraPretrainer(config, 500, SpecialTokens(0, 2, 3, 4)).eval()


@torch.no_grad()
def attention_by_distance(model: ElectraPretrainer) -> torch.Tensor:
    """The first layer's mean attention at each distance, over heads, of random words."""
    ids = torch.randint(5, 500, (16, 64), generator=torch.Generator().manual_seed(1))
    embedded = model.embeddings(ids, torch.zeros_like(ids), None)
    hidden = model.discriminator.project(embedded)
    layer = model.discriminator.layers[0]
    split = (*ids.shape, layer.num_heads, -1)
    query, key = (part(hidden).reshape(split).transpose(1, 2) for part in (layer.query, layer.key))
    weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1).mean((0, 1))
    distance = (torch.arange(64)[:, None] - torch.arange(64)).abs()
    return torch.stack([weights[distance == d].mean() for d in range(32)])


def test_neighbours_are_attended_to_more_than_what_is_far():
    near = attention_by_distance(initialised("mimetic"))
    assert near[1] > 2 * near[16:].mean()
    assert near[1] > near[4] > near[16:].mean()
    flat = attention_by_distance(initialised("paper"))
    assert flat[1] < 1.2 * flat[16:].mean()


@pytest.mark.parametrize("options", [{}, MODERN], ids=["electra", "modern"])
def test_sequences_of_padding_alone_are_numbers_in_bf16(options: dict[str, object]):
    model = random_model(**options)
    batch = random_batch(model, rows=2).filled_up(4, 0)
    masked = model.mask(batch)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = discriminate(
            model, batch.input_ids, batch.token_type_ids, masked.attention_mask, masked.position_ids
        )
    assert found.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("has_biases", [True, False])
def test_heads_of_a_modern_network_begin_at_one_neighbour_each(has_biases: bool):
    options = {"num_attention_heads": 4, "attention_bias": has_biases}
    encoder = Encoder(shape_of(**MODERN, hidden_size=256, **options))
    initialise_mimetic(encoder)
    rotation = rotation_at(torch.arange(20), encoder.global_frequencies)
    for layer, offsets in zip(encoder.layers, [(-1, 1, 2, -2), (1, -1, -2, 2)], strict=True):
        query, key = (
            rotate(bias.view(4, 1, 64).expand(-1, 20, -1), rotation)
            # without biases the first hidden state is a constant
            for bias in (p.bias if has_biases else p.weight[:, 0] for p in (layer.query, layer.key))
        )
        nearest = (query @ key.mT)[:, 10].argmax(dim=-1) - 10
        assert nearest.tolist() == list(offsets)
        assert not torch.equal(layer.key.weight, layer.query.weight)  # drawn by themselves


@pytest.mark.slow  # makes code, which needs a C++ compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_attention_in_bf16_has_the_gradient_of_what_is_written():
    """Of a rotation by chunks and cat it is nan (torch 2.13, AVX-512)."""
    layer = Encoder(shape_of(**MODERN, hidden_size=256, num_attention_heads=4)).layers[0]
    rotation = rotation_at(torch.arange(128), torch.logspace(0, -4, 32))
    projected = torch.randn(8, 128, 768).bfloat16().requires_grad_()
    written, made = (
        torch.autograd.grad(attended(projected, None, rotation).float().sum(), projected)[0]
        for attended in (layer._attended, torch.compile(layer._attended, fullgraph=True))
    )
    assert (made - written).norm() <= 0.02 * written.norm()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("window", [None, 100])
def test_attention_by_documents_is_attention_under_their_mask(window: int | None):
    length = 300
    rng = torch.Generator().manual_seed(length)
    inputs = [torch.randn(2, 3, length, 16, generator=rng) for _ in ("query", "key", "value")]
    documents = (torch.rand(2, length, generator=rng) < 0.02).cumsum(1)
    mask = document_mask(documents)
    if window is not None:
        places = torch.arange(length)
        mask = mask & ((places[:, None] - places).abs() <= window // 2)
    blocks = in_documents(documents, window)
    torch.testing.assert_close(attend(*inputs, blocks, 0.0), attend(*inputs, mask, 0.0))
    # what is computed holds every pair of the mask
    computed = blocks.to_dense().repeat_interleave(128, 2).repeat_interleave(128, 3)
    assert (computed[:, :, :length, :length] >= mask).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [24, 25, 43])
@pytest.mark.parametrize("of", ["everything", "documents"])
def test_local_attention_in_blocks_is_attention_under_a_mask(of, length, dtype):
    window, (batch_size, heads, size) = 8, (2, 3, 4)
    rng = torch.Generator().manual_seed(length)
    shape = batch_size, heads, length, size
    inputs = [torch.randn(shape, generator=rng).to(dtype).requires_grad_() for _ in range(3)]
    documents = (torch.rand(batch_size, length, generator=rng) < 0.2).cumsum(1)
    mask = document_mask(documents) if of == "documents" else None
    places = torch.arange(length)
    distance = (places - places[:, None]).abs()
    pairs = (distance <= window // 2) & (torch.tensor(True) if mask is None else mask)
    expected = attend(*inputs, pairs | (distance == 0), 0.0)
    attended = attend(*inputs, local_mask(mask, places, window), 0.0)
    tolerance = 2e-6 if dtype == torch.float32 else 0.03
    torch.testing.assert_close(attended, expected, rtol=0.0, atol=tolerance)
    upstream = torch.randn(shape, generator=rng).to(dtype)
    gradients = [torch.autograd.grad(output, inputs, upstream) for output in (attended, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)
