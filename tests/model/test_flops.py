"""Parameters and FLOPs against transformers, torch's counter and the paper's figures."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electrify.config_file import parse_config
from model.electra import ElectraPretrainer, SpecialTokens
from model.export import transformers_config
from model.flops import estimate, matmul_flops_per_token, paper_flops, parameter_counts

SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
BERT_VOCAB = 30_522


def sized(size: str):
    source = {"kind": "text", "language": "en", "path": "x"}
    raw = {
        "name": "x",
        "output_dir": "o",
        "clean": {"sources": [source]},
        "pretrain": {"size": size},
    }
    return parse_config(raw)


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_parameters_equal_transformers(size: str):
    config = sized(size).pretrain
    with torch.device("meta"):
        ours = ElectraPretrainer(config, BERT_VOCAB, SPECIAL)
        disc = ElectraForPreTraining(transformers_config(ours.shape, ours))
        gen = ElectraForMaskedLM(transformers_config(ours.generator_shape, ours))
    counted = parameter_counts(config, BERT_VOCAB)
    assert counted["trained"] == sum(p.numel() for p in ours.parameters())
    assert counted["discriminator"] == disc.num_parameters()
    assert counted["generator"] == sum(p.numel() for p in gen.parameters())


def test_small_discriminator_has_the_papers_size():
    counted = parameter_counts(sized("small").pretrain, BERT_VOCAB)
    assert round(counted["discriminator"] / 1e6, 1) == 13.5


@pytest.mark.parametrize(
    ("size", "table_1"), [("small", 1.294e18), ("base", 6.425e19), ("large", 7.118e20)]
)
def test_paper_convention_gives_the_scripts_figures(size: str, table_1: float):
    config = sized(size)
    num_sequences = config.pretrain.num_steps * config.pretrain.batch_size
    flops = paper_flops(config.pretrain, BERT_VOCAB, config.encode.sequence_length, num_sequences)
    assert flops == pytest.approx(table_1, rel=1e-3)


def test_matmul_flops_equal_torchs_counter(config, data, model):
    batch = data.batch(0, 2)
    model.train()
    with FlopCounterMode(display=False) as counter:
        model(
            batch.input_ids, batch.token_type_ids, torch.Generator().manual_seed(0)
        ).loss.backward()
    ours = matmul_flops_per_token(config.pretrain, data.vocab_size, 32) * 64
    # the counter takes attention's backward at 2.5 times its forward, the formula at twice
    assert counter.get_total_flops() == pytest.approx(ours, rel=0.05)


def test_small_costs_70_million_flops_a_token():
    flops = matmul_flops_per_token(sized("small").pretrain, BERT_VOCAB, 128)
    assert flops == pytest.approx(70.19e6, rel=1e-3)


def test_estimate_names_the_paper_mask_counts():
    assert "masked positions: 19 of 128" in estimate(sized("small"))
    assert "masked positions: 79 of 512" in estimate(sized("base"))
    assert "masked positions: 130 of 512" in estimate(sized("large"))
