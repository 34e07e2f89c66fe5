"""Folders of networks that transformers 4 and 5 and other readers of their files open alike.

The others are text-embeddings-inference (TEI), vLLM, transformers.js, sentence-transformers and
optimum. `save_pretrained` of transformers 5 leaves out names that some of them need.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from electrify.stage.folder import write_json
from electrify.storage.files import read_json

ENCODER: Final = "encoder"  # in an export: the main network without a head
LABELS = ("original", "replaced")  # of a token, with the logits 0 and x
# by key of `rope_parameters`: what transformers 4 and TEI read
_THETAS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
_LABEL_KEYS = ("id2label", "label2id", "num_labels")
_OF_THIS_MACHINE = ("backend", "is_local", "local_files_only")  # in tokenizer_config.json


def save_network(network: Any, folder: Path, tokenizer: Any = None) -> None:
    """Write a network of `transformers` and, if given, its tokenizer."""
    network.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    make_portable(folder)
    for weights in folder.glob("*.safetensors"):  # safetensors lets nobody else read them
        weights.chmod((folder / "config.json").stat().st_mode)


def make_portable(folder: Path) -> None:
    """Complete `config.json` and, where it is there, `tokenizer_config.json`."""
    config = portable_config(read_json(folder / "config.json"))
    write_json(folder / "config.json", config)
    if (path := folder / "tokenizer_config.json").exists():
        write_json(path, portable_tokenizer(read_json(path), config))


def portable_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """With ModernBERT's names of transformers 4 and the number of labels, which TEI needs; labels
    of a classification alone."""
    made = dict(config)
    if made["model_type"] == "modernbert" and "rope_parameters" in made:
        is_local = [kind == "sliding_attention" for kind in made["layer_types"]]
        made["global_attn_every_n_layers"] = [*is_local[1:], False].index(False) + 1
        rope = made["rope_parameters"]
        made |= {name: rope[kind]["rope_theta"] for kind, name in _THETAS.items()}
    if not (made.get("architectures") or [""])[0].endswith("Classification"):
        return {name: of for name, of in made.items() if name not in _LABEL_KEYS}
    return made | {"num_labels": len(made["id2label"])} if "id2label" in made else made


def portable_tokenizer(options: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """With a class and keys that transformers 4 knows, and inputs that the network takes."""
    made = {name: of for name, of in options.items() if name not in _OF_THIS_MACHINE}
    if made.get("tokenizer_class") == "TokenizersBackend":
        made["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(made.get("extra_special_tokens"), list):  # in transformers 4 a table
        made["additional_special_tokens"] = made.pop("extra_special_tokens")
    if config["model_type"] == "modernbert":
        made["model_input_names"] = ["input_ids", "attention_mask"]
    return made


def detects_replaced(id2label: Mapping[int, str]) -> bool:
    """Whether a token classification of ModernBERT is a discriminator. Earlier exports of it had
    one label."""
    return len(id2label) == 1 or tuple(id2label.values()) == LABELS


def write_pooling(folder: Path) -> None:
    """Add what sentence-transformers and TEI read beside an encoder: the mean of all tokens."""
    config, name = read_json(folder / "config.json"), "sentence_transformers.models"
    modules = {"Transformer": "", "Pooling": "1_Pooling"}
    write_json(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"{name}.{kind}"}
            for number, (kind, path) in enumerate(modules.items())
        ],
    )
    length = config["max_position_embeddings"]
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False}
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    pooling = {f"pooling_mode_{mode}": mode == "mean_tokens" for mode in modes}
    size = {"word_embedding_dimension": config["hidden_size"]}
    write_json(folder / "1_Pooling" / "config.json", size | pooling)
