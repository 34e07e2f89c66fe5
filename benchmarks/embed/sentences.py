"""A sentence encoder: pooled hidden states of an encoder, in the folder of `sentence-transformers`.

Its modules are a transformer, the pooling and the division by the length of the vector, so that dot
products are cosines. A folder without modules is an encoder as pretraining left it: its hidden
states are pooled as they are.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from benchmarks.encoder import (
    ModelSource,
    accepted_inputs,
    encode,
    load_encoder,
    prepare_encoder,
)
from benchmarks.finetune.finetune import choose_device, choose_precision
from benchmarks.tasks.heads import pad_rows, prediction_batches, to_device
from benchmarks.tasks.heads.linear import mean_state
from benchmarks.tasks.pieces import encode_texts
from benchmarks.tasks.task import Features
from electrify.config.evaluate import Role
from electrify.stage.folder import write_json
from electrify.stage.plan import TOKENIZER_FILES
from electrify.storage.files import read_json
from electrify.storage.hub import file_beside
from electrify.system.outcome import UserError

Pooling = Literal["mean", "cls"]
_MODULES, _POOLING, _LENGTH = "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"
_NAMES = ("Transformer", "Pooling", "Normalize")  # of modules, in their order
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_LONGEST = 512  # tokens of a text, where neither folder nor user says otherwise
_BATCH_SIZE = 32  # texts without gradients


@dataclass(frozen=True)
class SentenceEncoder:
    """Texts to vectors of length 1."""

    source: ModelSource
    network: Any  # of `transformers`
    pooling: Pooling
    max_length: int  # tokens
    precision: str

    @property
    def device(self) -> torch.device:
        return torch.device(self.network.device)

    def tokenize(self, texts: Sequence[str]) -> Features:
        return encode_texts([(text,) for text in texts], self.source.tokenizer, self.max_length)

    def pooled(self, features: Features, rows: NDArray[np.int64]) -> Tensor:
        """Embeddings (B, H) of some rows in float32, with gradients."""
        arrays = pad_rows(features, rows, self.source.tokenizer.pad_token_id)
        batch = to_device(arrays, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, self.precision == "bf16"):
            states = encode(self.network, batch, accepted_inputs(self.network)).float()
        mean = self.pooling == "mean"
        return F.normalize(mean_state(states, batch["attention_mask"]) if mean else states[:, 0])

    @torch.inference_mode()
    def embed(
        self, texts: Sequence[str], on_batch: Callable[[int], None] = lambda rows: None
    ) -> NDArray[np.float32]:
        """Embeddings (N, H) of texts, in their order."""
        self.network.eval()
        features = self.tokenize(texts)
        embeddings = np.zeros((len(texts), self.network.config.hidden_size), np.float32)
        for rows in prediction_batches(features.lengths, _BATCH_SIZE):
            embeddings[rows] = self.pooled(features, rows).cpu().numpy()
            on_batch(len(rows))
        return embeddings


def open_sentence_encoder(
    source: ModelSource,
    device: str = "auto",
    precision: str = "fp32",
    max_length: int | None = None,
    pooling: Pooling | None = None,
    role: Role = "pretrained",
) -> SentenceEncoder:
    """The encoder of a source, pooled as its folder says, else by the mean.

    Raises `ValueError` for a folder with modules that are not ours, such as a dense layer.
    """
    own_pooling, own_length = _own_modules(source)
    length = max_length or own_length or _LONGEST
    where = choose_device(device)
    settled = choose_precision(precision, where)
    network = load_encoder(source, role, seed=0)
    prepare_encoder(network, None, where, settled)
    length = min(length, source.max_positions or length)
    return SentenceEncoder(
        source, network.to(where), pooling or own_pooling or "mean", length, settled
    )


def _own_modules(source: ModelSource) -> tuple[Pooling | None, int | None]:
    """Pooling and length in tokens that a folder of `sentence-transformers` names."""

    def read(name: str) -> Any:
        file = file_beside(source.path, name, source.commit)
        return read_json(file) if file else {}

    modules = [str(module["type"]).rpartition(".")[2] for module in read(_MODULES) or []]
    if not modules:
        return None, None
    pooling = read(_POOLING)
    # up to version 5 a switch a mode, then a name
    modes = {mode for mode, switch in _MODES.items() if pooling.get(switch)}
    modes |= {str(pooling["pooling_mode"])} if "pooling_mode" in pooling else set()
    others = [key for key, value in pooling.items() if value is True and "_mode_" in key]
    if (
        not set(modules) <= {*_NAMES}
        or len(modes) != 1
        or len(others) > 1
        or not modes <= {*_MODES}
    ):
        raise UserError(
            f"{source.path} has the modules {', '.join(modules)} with the pooling {pooling}; read "
            f"are {', '.join(_NAMES)} with the pooling {' or '.join(_MODES)}"
        )
    (mode,) = modes
    return ("mean" if mode == "mean" else "cls"), read(_LENGTH).get("max_seq_length")


def write_folder(encoder: SentenceEncoder, folder: Path) -> None:
    """The files that `SentenceTransformer(folder)` reads, of its versions 2 to 6."""
    network = encoder.network
    network.save_pretrained(folder)
    encoder.source.tokenizer.save_pretrained(folder)
    for name in TOKENIZER_FILES:  # as they are: what is saved names classes of transformers 5
        if (file := Path(encoder.source.path, name)).is_file():
            shutil.copyfile(file, folder / name)
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{name}" if number else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(_NAMES)
    ]
    write_json(folder / _MODULES, modules)
    switches = {switch: mode == encoder.pooling for mode, switch in _MODES.items()}
    width = {"word_embedding_dimension": network.config.hidden_size}
    (folder / _POOLING).parent.mkdir(exist_ok=True)
    write_json(folder / _POOLING, width | switches)
    length = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    write_json(folder / _LENGTH, length)
    options: dict[str, Any] = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", options)
