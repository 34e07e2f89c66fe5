"""A network with mimetic weights looks at neighbours before it has learnt anything."""

import pytest
import torch

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from model.batch import SpecialTokens
from model.electra import ElectraPretrainer
from model.layers import sinusoids

SMALL = SIZE_PRESETS["small"] | {"num_hidden_layers": 2, "embedding_size": 64}


def model_of(initialization: str, **options: object) -> ElectraPretrainer:
    config = PretrainConfig.model_validate(
        SMALL | {"initialization": initialization, "objective": "mlm"} | options
    )
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
    near = attention_by_distance(model_of("mimetic"))
    assert near[1] > 2 * near[16:].mean()
    assert near[1] > near[4] > near[16:].mean()
    flat = attention_by_distance(model_of("paper"))
    assert flat[1] < 1.2 * flat[16:].mean()


@pytest.mark.parametrize("shape", [(128, 96), (10, 7)])
def test_sinusoids_are_alike_by_their_distance_alone(shape):
    waves = sinusoids(*shape)
    assert waves.shape == shape
    if shape[1] % 2 == 0:
        assert waves.square().mean(1) == pytest.approx(1.0, rel=1e-5)
        products = waves @ waves.T
        for distance in (1, 5):
            assert torch.diagonal(products, distance).std() < 1e-3
        assert torch.diagonal(products, 1).mean() > torch.diagonal(products, 5).mean()


def test_every_objective_can_begin_so():
    for options in (
        {"objective": "electra"},
        {"objective": "electric"},
        {"objective": "electra", "weight_sharing": "gdes"},
    ):
        model = model_of("mimetic", **options)
        for layer in (m for m in model.modules() if hasattr(m, "attention_output")):
            torch.testing.assert_close(layer.key.weight, layer.query.weight)
    tables = model.embeddings.tables()  # differences from the generator's
    assert all(not table.weight.any() for table in tables)
