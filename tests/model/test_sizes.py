"""The sizes are the paper's, and as large as `transformers` makes them."""

import pytest
import torch
from torch import nn

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from model.batch import SpecialTokens
from model.electra import ElectraPretrainer
from model.flops import parameter_counts
from tests.model.conftest import VARIANTS, preset, run_of

BERT_VOCAB = 30_522
SIZES = ("small", "small++", "base", "large")

# Table 6 of the paper, top to bottom, and what the released small++ differs in
# (google-research/electra README and issues 39, 68). Columns: small, small++, base, large.
TABLE_6 = {
    "sequence_length": (128, 512, 512, 512),
    "num_hidden_layers": (12, 12, 12, 24),
    "hidden_size": (256, 256, 768, 1024),
    "intermediate_size": (1024, 1024, 3072, 4096),
    "num_attention_heads": (4, 4, 12, 16),
    "embedding_size": (128, 128, 768, 1024),
    "generator_hidden_fraction": (1 / 4, 1.0, 1 / 3, 1 / 4),
    "generator_layers_fraction": (1.0, 1.0, 1.0, 1.0),
    "mask_fraction": (0.15, 0.15, 0.15, 0.25),
    "warmup_steps": (10_000,) * 4,
    "learning_rate": (5e-4, 5e-4, 2e-4, 2e-4),
    "adam_epsilon": (1e-6,) * 4,
    "adam_beta1": (0.9,) * 4,
    "adam_beta2": (0.999,) * 4,
    "attention_probs_dropout_prob": (0.1,) * 4,
    "hidden_dropout_prob": (0.1,) * 4,
    "weight_decay": (0.01,) * 4,
    "batch_size": (128, 128, 256, 2048),
    "num_steps": (1_000_000, 4_000_000, 766_000, 400_000),
    # not in the table: sections 3.1 and 3.2, and the original's code
    "generator_weight": (1.0,) * 4,
    "main_weight": (50.0,) * 4,
    "weight_sharing": ("embeddings",) * 4,
    "mask_token_fraction": (0.85,) * 4,
    "max_gradient_norm": (1.0,) * 4,
    "initializer_range": (0.02,) * 4,
    "layer_norm_eps": (1e-12,) * 4,
    "max_position_embeddings": (512,) * 4,
    "optimizer": ("paper",) * 4,
    "architecture": ("electra",) * 4,
    "global_attn_every_n_layers": (1,) * 4,
    "initialization": ("paper",) * 4,
    "generator_hidden_size": (64, 256, 256, 256),
    "generator_num_hidden_layers": (12, 12, 12, 24),
    "generator_num_attention_heads": (1, 4, 4, 4),
    "generator_intermediate_size": (256, 1024, 1024, 1024),
    "generator_embedding_size": (128, 128, 768, 1024),
}
MASKED = (19, 79, 79, 130)  # the original's own base and large keep 19 of 512: the trap


@pytest.mark.parametrize("column", range(4), ids=SIZES)
def test_a_size_is_the_papers_in_every_field(column: int):
    run = run_of(size=SIZES[column])
    found = {name: getattr(run.pretrain, name) for name in TABLE_6}
    assert found == {name: values[column] for name, values in TABLE_6.items()}
    length = run.pretrain.sequence_length
    assert run.pretrain.num_masked(length) == MASKED[column]
    assert run.pretrain.num_chosen(length) == (19, 77, 77, 128)[column]
    assert set(SIZE_PRESETS[SIZES[column]]) <= set(TABLE_6)


def on_meta(config: PretrainConfig) -> ElectraPretrainer:
    with torch.device("meta"):
        return ElectraPretrainer(config, BERT_VOCAB, SpecialTokens(0, 2, 3, 4))


def count(*modules: nn.Module | None) -> int:
    """Parameters of all, each once."""
    return sum({id(p): p.numel() for m in modules if m for p in m.parameters()}.values())


def test_the_head_of_a_first_stage_is_trained_too():
    config = preset("small", mlm_steps_fraction=0.5)
    assert parameter_counts(config, BERT_VOCAB)["trained"] == count(on_meta(config))


DEPTH = {"half as deep": {"generator_layers_fraction": 0.5}}


@pytest.mark.parametrize("name", [*VARIANTS, *DEPTH])
def test_counts_are_those_of_the_model(name: str):
    config = preset("small", **(VARIANTS | DEPTH)[name])
    model, counted = on_meta(config), parameter_counts(config, BERT_VOCAB)
    assert counted["trained"] == count(model)
    assert counted["discriminator"] == count(
        model.embeddings, model.discriminator, model.discriminator_head, model.language_head
    )
    expected = 0
    if model.generator_head is not None:
        tables = model.generator_embeddings or model.embeddings
        expected = count(tables, model.generator or model.discriminator, model.generator_head)
    assert counted["generator"] == expected
