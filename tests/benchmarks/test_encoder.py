"""Encoders of other makes than ours, at a tiny size: any of them is fine-tuned and scored."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ModernBertConfig,
    RobertaConfig,
)

from benchmarks.encoder import load_encoder, num_layers, open_model, with_added_tokens
from benchmarks.evaluate import evaluate
from benchmarks.results.results import read_results
from benchmarks.training.trainer import learning_rate_scales
from tests.benchmarks.conftest import SIZES, save_network

BASE = {"vocab_size": 18, "pad_token_id": 0, **SIZES}
DISTILLED = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
IDS = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
CONFIGS = {
    "bert": BertConfig(**BASE),
    "roberta": RobertaConfig(**BASE | {"max_position_embeddings": 33}, type_vocab_size=1),
    "deberta-v2": DebertaV2Config(
        **BASE | RELATIVE, type_vocab_size=0, position_biased_input=False, norm_rel_ebd="layer_norm"
    ),
    "distilbert": DistilBertConfig(
        vocab_size=18, **DISTILLED, max_position_embeddings=32, pad_token_id=0
    ),
    "modernbert": ModernBertConfig(
        **BASE | IDS, global_attn_every_n_layers=1, reference_compile=False
    ),
}


@pytest.fixture(params=CONFIGS)
def folder(request, tokenizer, tmp_path):
    """A random model of one make, saved with the tokenizer."""
    make = partial(AutoModel.from_config, CONFIGS[request.param])
    return save_network(tmp_path / request.param, make, 1, tokenizer)


def test_any_encoder_is_fine_tuned_and_scored(folder, make_config):
    config = make_config(num_epochs=6, layer_lr_decay=1.0, pooling="mean")
    evaluate(config, str(folder))
    (made,) = Path(config.output_dir).glob("evaluate-*")
    (result,) = read_results(made / "results.jsonl")
    assert result.degenerate is None
    assert result.metrics["accuracy"] > 0.5  # of seven labels
    assert result.model_path == str(folder)


def test_layers_are_found_for_rates(folder):
    encoder = load_encoder(open_model(str(folder)), "pretrained", 0)
    names = [name for name, _ in encoder.named_parameters()]
    assert num_layers(names) == 2
    scales = learning_rate_scales(names, 0.5)
    words = next(name for name in names if "embeddings" in name and name.endswith("weight"))
    assert scales[words] == 0.125
    assert set(scales.values()) == {0.5, 0.25, 0.125}


def test_added_tokens_get_embeddings_by_the_seed(folder):
    source = open_model(str(folder))
    tokenizer = with_added_tokens(source.tokenizer, ("<a>", "</a>"))
    assert len(tokenizer) == 20
    assert len(source.tokenizer) == 18
    assert tokenizer.tokenize("국회 <a> 증시 </a>") == ["국회", "<a>", "증시", "</a>"]
    encoders = (load_encoder(source, "pretrained", seed, 20) for seed in (0, 0, 1))
    first, again, other = (of.get_input_embeddings().weight for of in encoders)
    assert first.shape[0] == 20
    assert torch.equal(first, again)
    assert torch.equal(first[:18], other[:18])
    assert not torch.equal(first[18:], other[18:])
    assert with_added_tokens(source.tokenizer, ()) is source.tokenizer


def test_positions_of_a_roberta_begin_behind_the_padding_id(tokenizer, tmp_path):
    from transformers import RobertaModel

    RobertaModel(CONFIGS["roberta"]).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 10**30}))
    assert open_model(str(tmp_path)).max_positions == 32
