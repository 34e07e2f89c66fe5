import json
import math
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModel, ElectraConfig, get_linear_schedule_with_warmup

from benchmarks.tasks.load import load_data
from benchmarks.tasks.registry import SUITES, TASKS
from benchmarks.training import trainer as optim
from benchmarks.training.recipe import (
    best_of,
    departures,
    few_steps_note,
    held_out_data,
    hyper_parameters,
    recipe_for,
)
from electrify.config.evaluate import EvaluateConfig, SearchOptions
from electrify.config.load import load_config
from electrify.config.pretrain import Size
from electrify.config.run import EvaluationRun
from electrify.stage.plan import recommended_settings
from tests.benchmarks.conftest import SIZES
from tests.benchmarks.records import COLA, RTE, YNAT


def electra_names():
    sizes = SIZES | {"num_hidden_layers": 3}
    return AutoModel.from_config(ElectraConfig(vocab_size=20, embedding_size=8, **sizes))


def test_layer_decay_of_three_layers_is_the_papers():
    model = electra_names()
    scales = optim.learning_rate_scales([name for name, _ in model.named_parameters()], 0.8)
    assert scales["encoder.layer.2.output.dense.weight"] == pytest.approx(0.8)
    assert scales["encoder.layer.1.output.dense.weight"] == pytest.approx(0.64)
    assert scales["encoder.layer.0.attention.self.query.bias"] == pytest.approx(0.512)
    assert scales["embeddings.word_embeddings.weight"] == pytest.approx(0.4096)
    assert scales["embeddings_project.weight"] == pytest.approx(0.4096)
    assert len(set(scales.values())) == 4
    # what stands on top of the layers has the top layer's rate, a pooler too
    names = ["tok_embeddings.weight", "layers.0.mlp.weight", "layers.1.mlp.weight"]
    names += ["final_norm.weight", "pooler.dense.weight"]
    found = optim.learning_rate_scales(names, 0.5)
    assert list(found.values()) == [0.125, 0.25, 0.5, 0.5, 0.5]


def test_optimizer_groups_cover_every_parameter_once_and_spare_biases_from_decay():
    model, head = electra_names(), nn.Linear(16, 3)
    options = EvaluateConfig(weight_decay=0.01, learning_rate=1e-3, layer_lr_decay=0.5)
    settings = hyper_parameters(COLA, options, 16)
    groups = optim.build_optimizer(model, head, settings).param_groups
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert len(rates) == sum(len(g["params"]) for g in groups)
    assert set(rates) == {id(p) for p in [*model.parameters(), *head.parameters()]}
    assert rates[id(head.weight)] == (1e-3, 0.01)
    assert rates[id(head.bias)] == (1e-3, 0.0)
    assert rates[id(model.encoder.layer[2].output.LayerNorm.weight)] == (5e-4, 0.0)
    assert rates[id(model.embeddings.word_embeddings.weight)] == (6.25e-5, 0.01)


TABLE = [  # task, width, recipe: rate, layer decay, schedule, warm-up, epochs, batch, length
    ("glue-rte", 128, "auto", (3e-4, 0.8, "product", 0.1, 10, 32, 128)),
    ("squad-2.0", 256, "auto", (3e-4, 0.8, "product", 0.1, 2, 32, 512)),
    ("klue-ynat", 768, "auto", (5e-5, 1.0, "linear", 0.1, 4, 32, 128)),
    ("klue-ner", 1024, "auto", (1e-5, 1.0, "linear", 0.0, 3, 8, 510)),
    ("korean-paws-x", 256, "auto", (3e-5, 1.0, "linear", 0.0, 15, 64, 128)),
    ("korean-korquad", 768, "auto", (5e-5, 1.0, "linear", 0.0, 7, 8, 512)),
    # of other authors: their rates, the task's own epochs and lengths
    ("klue-ner", 256, "electra", (3e-4, 0.8, "product", 0.1, 3, 32, 510)),
    ("korean-paws-x", 768, "klue", (5e-5, 1.0, "linear", 0.1, 15, 32, 128)),
    ("glue-rte", 768, "koelectra", (5e-5, 1.0, "linear", 0.0, 10, 32, 128)),
]


PUBLISHED = attrgetter(
    *("learning_rate", "layer_lr_decay", "schedule", "warmup_fraction"),
    *("num_epochs", "batch_size", "max_sequence_length"),
)


@pytest.mark.parametrize(("name", "width", "recipe", "expected"), TABLE)
def test_recipes_are_the_published_ones(name, width, recipe, expected):
    found = recipe_for(TASKS[name], width, recipe)
    assert PUBLISHED(found) == expected
    assert found.adam_bias_correction == (found.schedule != "product")  # ELECTRA's alone is without


def test_the_linear_schedule_is_that_of_transformers():
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    theirs = get_linear_schedule_with_warmup(optimizer, 10, 100)
    for step in range(100):
        rate = optimizer.param_groups[0]["lr"]
        assert optim.schedule("linear", step, 100, 10) == pytest.approx(rate)
        optimizer.step()
        theirs.step()


def recommend(folder: Path, **settings: object) -> str:
    (folder / "finetuning.json").write_text(json.dumps(settings))
    return str(folder)


def evaluation(**options: object) -> EvaluationRun:
    return EvaluationRun(name="any", output_dir="out/any", evaluate=EvaluateConfig(**options))


def test_what_an_encoder_recommends_stands_between_the_users_options_and_the_recipe(tmp_path):
    assert recommended_settings(evaluation(), str(tmp_path)) == {}
    model = recommend(tmp_path, recipe="klue", learning_rate=1e-3, num_epochs=10, pooling="parts")
    config = evaluation(num_epochs=2.0, tasks_options={"glue-rte": {"pooling": "cls"}})
    found = recommended_settings(config, model)
    assert found == {"recipe": "klue", "learning_rate": 1e-3, "pooling": "parts"}
    cola, rte = (hyper_parameters(task, config.evaluate, 256, found) for task in (COLA, RTE))
    for settings in (cola, rte):
        assert (settings.recipe, settings.learning_rate, settings.num_epochs) == ("klue", 1e-3, 2.0)
        assert settings.schedule == "linear"
    assert (cola.pooling, rte.pooling) == ("mean", "cls")  # of one text the only part is the whole
    # whoever names a recipe has all of it
    for recipe in ("auto", "electra"):
        assert recommended_settings(evaluation(recipe=recipe), model) == {}


@pytest.mark.parametrize(
    "text", ['{"learning_rat": 1}', '{"learning_rate": "fast"}', "[1]", "{", '{"num_epochs": NaN}']
)
def test_a_damaged_recommendation_is_named_and_can_be_left_out(tmp_path, text):
    (tmp_path / "finetuning.json").write_text(text)
    with pytest.raises(ValueError, match=r"(?s)finetuning\.json.*`evaluate\.recipe=auto`"):
        recommended_settings(evaluation(), str(tmp_path))
    assert recommended_settings(evaluation(recipe="auto"), str(tmp_path)) == {}


@pytest.mark.parametrize("place", ["", "discriminator", "export/discriminator"])
def test_a_run_inherits_the_recipe_of_its_initial_model_wherever_that_stands(tmp_path, place):
    folder = tmp_path / "earlier" / place
    folder.mkdir(parents=True)
    recommend(folder, learning_rate=1e-3, pooling="mean")
    start = {"pretrain.initial_model": str(tmp_path / "earlier")}
    options = ["evaluate.pooling='parts'"]
    config = load_config("configs/modern-ko-small.toml", options, start)
    assert recommended_settings(config) == {"learning_rate": 1e-3}  # of its own it says pooling
    none = load_config("configs/modern-ko-small.toml", [], {"pretrain.initial_model": "configs"})
    assert recommended_settings(none) == {}  # nobody knows what suits the start: not its size's


def test_sizes_recommend_a_recipe_and_modern_small_that_of_the_shipped_encoder():
    shipped = evaluation(), "model/shipped/ko-modern/discriminator"
    small = load_config("configs/modern-ko-small.toml")
    assert recommended_settings(small) == recommended_settings(*shipped) != {}
    for size in get_args(Size):
        config = load_config("configs/modern-ko-small.toml", [f"pretrain.size='{size}'"])
        assert recommended_settings(config)["recipe"] == "electra"


def released_adam(start, gradients, rates, decay):
    """google-research/electra model/optimization.py `AdamWeightDecayOptimizer`, step by step."""
    value, m, v = start.astype(np.float64), 0.0, 0.0
    for gradient, rate in zip(gradients, rates, strict=True):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        value = value - rate * (m / (np.sqrt(v) + 1e-6) + decay * value)
    return value


@pytest.mark.parametrize("is_corrected", [False, True])
def test_steps_without_bias_correction_are_the_released_ones(is_corrected):
    fixed = {"weight_decay": 0.01, "learning_rate": 1e-2, "layer_lr_decay": 0.5}
    options = EvaluateConfig(**fixed, adam_bias_correction=is_corrected or None)
    settings = hyper_parameters(COLA, options, 256)
    assert settings.adam_bias_correction == is_corrected
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(3, 2)), rng.normal(size=(40, 3, 2)) * 1e-3
    head = nn.Linear(2, 3, bias=False)
    head.weight.data = torch.tensor(start, dtype=torch.float32)
    optimizer = optim.build_optimizer(nn.Identity(), head, settings)
    for step, gradient in enumerate(gradients):
        optim.set_rates(optimizer, settings, step, 40)
        head.weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
    rates = [1e-2 * optim.schedule("product", step, 40, 4) for step in range(40)]
    expected = released_adam(start, gradients, rates, 0.01)
    found = head.weight.detach().numpy()
    if is_corrected:
        assert np.abs(found - expected).max() > 0.1  # the corrected steps are much smaller
    else:
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_every_suite_names_its_recipe_and_a_new_one_is_refused():
    for tasks in SUITES.values():
        for task in tasks:
            assert recipe_for(task, 256).recipe in ("electra", "klue", "koelectra")
    new = replace(next(iter(SUITES["kobest"])), suite="new")
    with pytest.raises(ValueError, match=r"kobest-boolq: the suite 'new' names no .*by_suite"):
        recipe_for(new, 256)


def test_rates_that_a_recipe_has_for_some_size_are_no_departure():
    task = SUITES["glue"][1]
    for width in (256, 768, 1024):
        settings = recipe_for(task, width).record(1000)
        assert departures(task, settings) == {}
        assert departures(task, settings | {"num_epochs": 7.5}) == {"num_epochs": 7.5}
    small, base = (recipe_for(task, width) for width in (256, 768))
    mixed = small.record(1000) | {"layer_lr_decay": 0.5, "learning_rate": base.learning_rate}
    assert departures(task, mixed) == {"layer_lr_decay": 0.5}
    old = {"recipe": "electra", "num_steps": 3, "dropout": 0.2, "freeze": "none"}
    assert departures(None, old) == {"dropout": 0.2}


def test_a_search_tries_each_combination_once_on_rows_that_it_does_not_learn_from(ynat_folder):
    """The first of the best wins, and failures come last."""
    search = SearchOptions(learning_rate=(1e-4, 1e-3, 1e-4), num_epochs=(2,))
    assert search.trials == [{"learning_rate": r, "num_epochs": 2.0} for r in (1e-4, 1e-3)]
    data = load_data(YNAT, ynat_folder)
    part = held_out_data(YNAT, data, range(100))
    assert {*part.train, *part.reported} == {*data.train[:100]}
    assert not {row.texts[0] for row in part.train} & {row.texts[0] for row in part.reported}

    def trials(*values):
        return [{"value": v, "degenerate": None} for v in values]

    assert best_of(trials(0.1, 0.3, 0.3, math.nan)) == 1
    failed = {"value": 0.9, "degenerate": "constant"}
    assert best_of([failed, *trials(0.1)]) == 1


@pytest.mark.parametrize(
    ("given", "num_rows", "is_noted"),
    [
        ({"num_epochs": 1.0}, 400, True),
        ({"num_epochs": 1.0}, 200 * 32, False),
        ({"num_epochs": 1.0, "min_steps": 1}, 400, False),
        ({}, 400, False),
    ],
)
def test_epochs_that_the_least_number_of_steps_overrules_are_noted(given, num_rows, is_noted):
    task = replace(YNAT, suite="own")
    options = EvaluateConfig(**given)
    settings = replace(hyper_parameters(task, options, 256), min_steps=given.get("min_steps", 200))
    assert bool(few_steps_note(task, options, settings, num_rows)) == is_noted
