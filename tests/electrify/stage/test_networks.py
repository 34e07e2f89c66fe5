"""Saved networks have what readers of their files ask for.

text-embeddings-inference (TEI) is held to what its sources read, as its server is not built here:
`ModernBertConfig` and `ModernBertModel` of candle (04f5d63), `ModelConfig` and `PoolConfig` of the
router (009f067). tests/slow/consumers runs the others.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import (
    AutoTokenizer,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertForTokenClassification,
    ModernBertModel,
)

from electrify.stage.networks import LABELS, make_portable, save_network, write_pooling

SHIPPED = Path("model/shipped/ko-modern")
SIZES = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
THETAS = {"full_attention": 5_000.0, "sliding_attention": 700.0}
IDS = {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2}
IDS |= {"eos_token_id": 3, "sep_token_id": 3}
# what TEI cannot do without, and of which type
COUNTS = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
COUNTS += ("num_attention_heads", "max_position_embeddings", "global_attn_every_n_layers")
COUNTS += ("local_attention", *IDS)
NUMBERS = ("initializer_range", "initializer_cutoff_factor", "norm_eps", "global_rope_theta")
NUMBERS += ("local_rope_theta", "attention_dropout")
NAMES = ("model_type", "hidden_activation", "classifier_activation")


def saved(folder: Path, kind: Any, **options: Any) -> dict[str, Any]:
    """The config of a network with local layers, saved with the shipped tokenizer."""
    rope = {name: {"rope_type": "default", "rope_theta": of} for name, of in THETAS.items()}
    layers = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    shape = {"vocab_size": 12_000, "intermediate_size": 16, "layer_types": layers}
    config = ModernBertConfig(**SIZES, **IDS, **shape, rope_parameters=rope, **options)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED / "discriminator")
    save_network(kind(config), folder, tokenizer)
    made: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return made


def check_for_tei(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert {type(config[name]) for name in COUNTS} == {int}
    assert {type(config[name]) for name in NUMBERS} == {float}
    assert {type(config[name]) for name in NAMES} == {str}
    weights = load_file(folder / "model.safetensors")
    prefix = "model." if f"model.{EMBEDDINGS}" in weights else ""
    assert weights[f"{prefix}{EMBEDDINGS}"].shape == (config["vocab_size"], config["hidden_size"])
    if config["architectures"][0].endswith("Classification"):
        labels = config["id2label"]
        assert config["label2id"] == {label: int(number) for number, label in labels.items()}
        assert config["num_labels"] == len(labels) > 1  # one is a reranker
        assert weights["classifier.weight"].shape == (len(labels), config["hidden_size"])
        assert {"classifier.bias", "head.dense.weight", "head.norm.weight"} <= weights.keys()
    else:
        pooling = json.loads((folder / "1_Pooling/config.json").read_text())
        modes = {name: of for name, of in pooling.items() if name.startswith("pooling_mode_")}
        assert [name for name, is_on in modes.items() if is_on] == ["pooling_mode_mean_tokens"]
        assert len(modes) == 4
        lengths = json.loads((folder / "sentence_bert_config.json").read_text())
        assert lengths["max_seq_length"] == config["max_position_embeddings"]
    assert (folder / "tokenizer.json").is_file()


EMBEDDINGS = "embeddings.tok_embeddings.weight"


def test_tei_reads_the_shipped_encoder() -> None:
    check_for_tei(SHIPPED / "discriminator")


def test_tei_and_transformers_4_read_what_is_saved(tmp_path: Path) -> None:
    names = {"id2label": dict(enumerate("abc")), "label2id": {x: n for n, x in enumerate("abc")}}
    classifier = saved(tmp_path / "classifier", ModernBertForSequenceClassification, **names)
    encoder = saved(tmp_path / "encoder", ModernBertModel)
    write_pooling(tmp_path / "encoder")
    for config in (classifier, encoder):
        assert config["global_rope_theta"] == THETAS["full_attention"]
        assert config["local_rope_theta"] == THETAS["sliding_attention"]
        assert config["global_attn_every_n_layers"] == 3
        assert config["rope_parameters"].keys() == THETAS.keys()  # vLLM
        assert len(config["layer_types"]) == 4
    check_for_tei(tmp_path / "classifier")
    check_for_tei(tmp_path / "encoder")
    assert not {"id2label", "label2id", "num_labels"} & encoder.keys()
    options = json.loads((tmp_path / "encoder" / "tokenizer_config.json").read_text())
    assert options["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert options["model_input_names"] == ["input_ids", "attention_mask"]
    assert not any(isinstance(of, list) for n, of in options.items() if n.startswith("extra_"))


def test_a_saved_network_comes_back(tmp_path: Path) -> None:
    config = saved(tmp_path, ModernBertForTokenClassification, id2label=dict(enumerate(LABELS)))
    again = ModernBertForTokenClassification.from_pretrained(tmp_path).config
    assert tuple(again.id2label.values()) == LABELS
    assert again.rope_parameters == config["rope_parameters"]
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert len(modes) == 1  # a server of another user reads all of them, or none


@pytest.mark.parametrize("name", ["discriminator", "generator"])
def test_the_shipped_configs_are_portable(name: str, tmp_path: Path) -> None:
    """What `make_portable` would write again."""
    for file in ("config.json", "tokenizer_config.json"):
        shutil.copyfile(SHIPPED / name / file, tmp_path / file)
    make_portable(tmp_path)
    for file in ("config.json", "tokenizer_config.json"):
        assert (tmp_path / file).read_bytes() == (SHIPPED / name / file).read_bytes()
