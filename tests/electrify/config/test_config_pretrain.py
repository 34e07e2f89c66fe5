"""The laws of pretraining's options: what follows from them, and which combinations are refused."""

import itertools
import json
from typing import get_args

import pytest

from electrify.config.pretrain import SIZE_PRESETS, Objective, PretrainConfig, Size
from tests.pipeline.cases import read_cases

EQUAL = {"generator_hidden_fraction": 1.0, "generator_layers_fraction": 1.0}
OBJECTIVES = get_args(Objective)


def config_of(size: str = "small", **options: object) -> PretrainConfig:
    options = SIZE_PRESETS[size] | {"size": size} | options
    return PretrainConfig.model_validate_json(json.dumps(options))  # where a list is a tuple


@pytest.mark.parametrize(
    ("fraction", "hidden", "heads"),
    [
        (0.25, 192, 3),
        (1 / 3, 256, 4),
        (0.33333, 256, 4),  # as the original writes it
        (1.0, 768, 12),
        (0.0494, 38, 1),
        (0.0706, 54, 1),
    ],
)
def test_the_generators_widths_follow_its_rounded_hidden_size(fraction, hidden, heads):
    """google-research/electra model/modeling.py:338-348: heads max(1, hidden / 64), FFN 4 x."""
    config = config_of("base", generator_hidden_fraction=fraction)
    assert config.generator_hidden_size == hidden
    assert config.generator_num_attention_heads == heads == max(1, hidden // 64)
    assert config.generator_intermediate_size == 4 * hidden


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({}, 128),
        ({"weight_sharing": "gdes"}, 128),
        ({"weight_sharing": "none"}, 64),  # its own width, as where the original shares nothing
        (EQUAL | {"weight_sharing": "none"}, 256),
        (EQUAL | {"weight_sharing": "none", "objective": "electra-two-stage"}, 128),  # is copied
    ],
)
def test_the_generators_tables_are_as_wide_as_they_must(options, width: int):
    assert config_of(**options).generator_embedding_size == width


def test_a_loss_in_nats_takes_no_factor_of_fifty():
    for objective in {*OBJECTIVES} - {"electra-two-stage"}:
        is_in_nats = objective in ("mlm", "replace-mlm", "all-tokens-mlm")
        assert config_of(objective=objective).main_weight == (1 if is_in_nats else 50)
    assert config_of(objective="mlm", discriminator_weight=3.0).main_weight == 3
    assert config_of(discriminator_weight=0.0).main_weight == 0


@pytest.mark.parametrize("num_steps", [2, 3, 10, 999])
def test_both_stages_have_steps(num_steps: int):
    options = EQUAL | {"objective": "electra-two-stage", "weight_sharing": "none"}
    options |= {"num_steps": num_steps, "warmup_steps": 0}
    assert 0 < config_of(**options).generator_steps < num_steps
    with pytest.raises(ValueError, match="a stage has no step"):
        config_of(**(options | {"num_steps": 1}))
    assert config_of().generator_steps == 0  # joint training


@pytest.mark.parametrize(("message", "options"), read_cases(__file__)["refused"])
def test_what_cannot_work_is_refused_with_its_reason(message: str, options: dict[str, object]):
    with pytest.raises(ValueError, match=message):
        config_of(**options)


@pytest.mark.parametrize("size", get_args(Size))
def test_warmup_follows_the_steps_unless_it_is_given(size: str):
    assert config_of(size).warmup_steps == 10_000  # the paper's, of each size
    steps = (4, 1500, 99_999, 100_000, 10**7)
    warmups = [config_of(size, num_steps=n).warmup_steps for n in steps]
    assert warmups == [0, 150, 9_999, 10_000, 10_000]
    assert config_of(size, num_steps=1500, warmup_steps=7).warmup_steps == 7
    with pytest.raises(ValueError, match="num_steps"):
        config_of(size, num_steps="many")


def test_every_combination_is_accepted_or_explained_by_an_option_of_it():
    accepted, unexplained = set(), []
    for combination in itertools.product(OBJECTIVES, ("none", "embeddings", "gdes")):
        options = dict(zip(("objective", "weight_sharing"), combination, strict=True))
        try:
            config_of(**EQUAL, **options)
        except ValueError as error:
            said = [f"{name} = {value!r}" in str(error) for name, value in options.items()]
            if not all(said):
                unexplained.append((combination, str(error)))
        else:
            accepted.add(combination)
    assert not unexplained
    assert {s for o, s in accepted if o == "electra"} == {"none", "embeddings", "gdes"}
    assert {o for o, _ in accepted} == set(OBJECTIVES)
    assert {s for o, s in accepted if o == "electra-two-stage"} == {"none"}
    assert {s for o, s in accepted if o == "mlm"} == {"embeddings"}
