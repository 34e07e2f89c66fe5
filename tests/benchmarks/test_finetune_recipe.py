import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, ElectraConfig

from benchmarks import optim
from benchmarks.glue import COLA, RTE
from benchmarks.recipe import resolve_hyper_parameters
from electrify.config_evaluate import EvaluateConfig


def test_schedule_is_warmup_times_decay():
    values = [optim.schedule("product", step, 100, 10) for step in (0, 5, 10, 55, 99)]
    assert values == pytest.approx([0.0, 0.5 * 0.95, 0.90, 0.45, 0.01])
    assert optim.schedule("product", 0, 100, 0) == 1.0


def electra_names():
    config = ElectraConfig(vocab_size=20, embedding_size=8, hidden_size=16, num_hidden_layers=3,
                           num_attention_heads=2, intermediate_size=16)  # fmt: skip
    return AutoModel.from_config(config)


def test_layer_decay_of_three_layers_is_the_papers():
    model = electra_names()
    scales = optim.learning_rate_scales([name for name, _ in model.named_parameters()], 0.8)
    assert scales["encoder.layer.2.output.dense.weight"] == pytest.approx(0.8)
    assert scales["encoder.layer.1.output.dense.weight"] == pytest.approx(0.64)
    assert scales["encoder.layer.0.attention.self.query.bias"] == pytest.approx(0.512)
    assert scales["embeddings.word_embeddings.weight"] == pytest.approx(0.4096)
    assert scales["embeddings_project.weight"] == pytest.approx(0.4096)
    assert len(set(scales.values())) == 4


def test_what_stands_on_top_of_the_layers_has_the_top_layers_rate():
    scales = optim.learning_rate_scales(
        [
            "tok_embeddings.weight",
            "layers.0.mlp.weight",
            "layers.1.mlp.weight",
            "final_norm.weight",
        ],
        0.5,
    )
    assert list(scales.values()) == [0.125, 0.25, 0.5, 0.5]


def test_optimizer_groups_cover_every_parameter_once_and_spare_biases_from_decay():
    model, head = electra_names(), nn.Linear(16, 3)
    options = EvaluateConfig(weight_decay=0.01, learning_rate=1e-3, layer_lr_decay=0.5)
    settings = resolve_hyper_parameters(COLA, options, 16, 100, 0.1, "fp32")
    groups = optim.build_optimizer(model, head, settings).param_groups
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert len(rates) == sum(len(g["params"]) for g in groups)
    assert set(rates) == {id(p) for p in [*model.parameters(), *head.parameters()]}
    assert rates[id(head.weight)] == (1e-3, 0.01)
    assert rates[id(head.bias)] == (1e-3, 0.0)
    assert rates[id(model.encoder.layer[2].output.LayerNorm.weight)] == (5e-4, 0.0)
    assert rates[id(model.embeddings.word_embeddings.weight)] == (6.25e-5, 0.01)


@pytest.mark.parametrize(
    ("hidden_size", "learning_rate", "decay"),
    [(128, 3e-4, 0.8), (256, 3e-4, 0.8), (768, 1e-4, 0.8), (1024, 5e-5, 0.9)],
)
def test_defaults_follow_the_size(hidden_size, learning_rate, decay):
    settings = resolve_hyper_parameters(RTE, EvaluateConfig(), hidden_size, 2490, 0.1, "fp32")
    assert (settings.learning_rate, settings.layer_lr_decay) == (learning_rate, decay)
    assert (settings.num_steps, settings.warmup_steps) == (778, 77)  # int(10 x 2490 / 32)


def test_given_options_win_over_defaults():
    options = EvaluateConfig(learning_rate=1e-5, num_epochs=0.5, layer_lr_decay=1.0, batch_size=10)
    settings = resolve_hyper_parameters(COLA, options, 256, 100, 0.1, "fp32")
    assert (settings.learning_rate, settings.layer_lr_decay, settings.num_steps) == (1e-5, 1.0, 5)
    assert resolve_hyper_parameters(COLA, options, 256, 1, 0.1, "fp32").num_steps == 1


def test_a_pooler_is_no_embedding():
    config = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=16)  # fmt: skip
    with torch.device("meta"):
        names = [name for name, _ in AutoModel.from_config(config).named_parameters()]
    assert optim.learning_rate_scales(names, 0.5)["pooler.dense.weight"] == 0.5
