"""What the pretraining benchmark is asked to measure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.throughput.pretrain_data import BERT_VOCAB_SIZE
from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig

Size = Literal["tiny", "small", "base", "large"]
# of no paper: for trying the command out
_TINY = SIZE_PRESETS["small"] | {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "embedding_size": 16,
    "generator_hidden_fraction": 0.5,
}
# sequences a step and their length. A step of Base has 256 sequences and one of Large 2,048:
# these are what fits beside the peers
SHAPES: dict[str, dict[str, tuple[int, int]]] = {
    "cuda": {"tiny": (4, 32), "small": (128, 128), "base": (64, 512), "large": (16, 512)},
    "cpu": {"tiny": (4, 32), "small": (16, 128), "base": (2, 512), "large": (1, 512)},
}
# a model whose loss falls in 500 steps on two CPU cores, for `--band` there
_BAND_ON_CPU = _TINY | {
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "intermediate_size": 512,
    "embedding_size": 64,
    "learning_rate": 1e-3,
    "warmup_steps": 50,
}
BAND_SHAPE_ON_CPU = 8, 64


@dataclass(frozen=True)
class PretrainSettings:
    """What is measured; None is the device's own choice."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    size: Size = "small"
    with_peer: bool = False
    with_compiled_peer: bool = True  # where there is a peer
    with_probes: bool = False
    run: Path | None = None  # the folder of a run, whose shards are read
    batch_size: int | None = None
    length: int | None = None
    micro_batches: int = 1  # also time a step in so many parts
    rounds: int | None = None
    steps: int | None = None
    dropout: float = 0.1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    vocab_size: int = BERT_VOCAB_SIZE
    with_ceilings: bool = True
    with_padded: bool = True  # where text is made up
    fast: Literal["auto", "on", "off"] = "auto"  # as a run of the device has it; compiled; neither
    band_steps: int = 0  # also compare loss curves over so many steps

    def config(self) -> PretrainConfig:
        """The paper's values of the size."""
        preset = _TINY if self.size == "tiny" else SIZE_PRESETS[self.size] | {"size": self.size}
        return self._with_options(preset)

    def band_config(self, device: torch.device) -> PretrainConfig:
        """Of the runs whose loss curves are compared: on the CPU a small model, always compiled."""
        steps = {"num_steps": self.band_steps, "warmup_steps": self.band_steps // 10}
        if device.type != "cpu":
            return self.config().model_copy(update=steps)
        return self._with_options(_BAND_ON_CPU | steps).model_copy(update={"compile": "on"})

    def _with_options(self, preset: dict[str, Any]) -> PretrainConfig:
        chosen = {
            "device": self.device,
            "precision": self.precision,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
            "compile": self.fast,
            "cuda_graph": "off" if self.fast == "off" else "auto",
        }
        return PretrainConfig.model_validate(preset | chosen)

    def shape(self, device: torch.device) -> tuple[int, int]:
        """Sequences a step and their length; `ValueError` if the parts do not fit."""
        batch_size, length = SHAPES[device.type][self.size]
        batch_size, length = self.batch_size or batch_size, self.length or length
        if batch_size % self.micro_batches:
            raise ValueError(
                f"--micro-batches {self.micro_batches} of {batch_size} sequences: the number of "
                "sequences must divide by it"
            )
        if not 16 <= length <= 512:
            raise ValueError(f"--length {length}: from 16 to the model's 512 positions")
        return batch_size, length
