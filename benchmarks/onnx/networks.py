"""What a `transformers` folder gives as a network with named inputs and outputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.encoder import ModelSource, accepted_inputs, load_network, open_model
from benchmarks.finetune.kept import ABOUT, Kept, read_kept
from benchmarks.tasks.heads.linear import LinearHead
from benchmarks.tasks.heads.spans import SpanHead
from electrify.system.outcome import UserError

STATES, REPLACED, VOCABULARY = "states", "replaced_logits", "vocabulary_logits"
_DETECTOR, _LANGUAGE_MODEL, _ENCODER = "ElectraForPreTraining", "AutoModelForMaskedLM", "AutoModel"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_ANY: Any = transformers
Outputs = dict[str, Tensor]
Compute = Callable[[Mapping[str, Tensor]], Outputs]  # inputs by name to outputs by name


@dataclass(frozen=True)
class Network:
    """A network in single precision.

    `module` takes tensors in the order of `inputs`, each (B, L) int64, and gives a tuple in the
    order of `outputs`, each (B, ...).
    """

    source: ModelSource
    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def open_network(folder: Path) -> Network:
    """The network of a folder, by the class that its config names.

    `ElectraForPreTraining` gives `states` (B, L, H) and `replaced_logits` (B, L), a masked language
    model `vocabulary_logits` (B, L, V), a fine-tuned network (`kept.keep`) the outputs of its head,
    every other class `states`. Raises `ValueError` for a folder that is no model.
    """
    if (folder / ABOUT).is_file():
        return task_network(read_kept(folder))
    source = open_model(str(folder))
    name = (source.config.architectures or [_ENCODER])[0]
    if name != _DETECTOR:
        name = _LANGUAGE_MODEL if name.endswith("ForMaskedLM") else _ENCODER
    # eager: the fused attention's graph has branches for empty rows
    model = load_network(str(folder), getattr(_ANY, name), attn_implementation="eager")

    def compute(given: Mapping[str, Tensor]) -> Outputs:
        if name == _LANGUAGE_MODEL:
            return {VOCABULARY: model(**given).logits}
        if name == _ENCODER:
            return {STATES: model(**given).last_hidden_state}
        states = model.electra(**given).last_hidden_state
        return {STATES: states, REPLACED: model.discriminator_predictions(states)}

    inputs = accepted_inputs(getattr(model, model.base_model_prefix, model))
    return make_network(
        source, model, tuple(each for each in inputs if each != "position_ids"), compute
    )


def task_network(kept: Kept) -> Network:
    """A fine-tuned network; `ValueError` for a head that reads more than its row of pieces."""
    if not isinstance(kept.network.head, LinearHead | SpanHead):
        raise UserError(f"{kept.task.name}: only labels, numbers, tags and spans go to ONNX")
    encoder: Any = kept.network.encoder
    encoder.set_attn_implementation("eager")
    return make_network(kept.source, kept.network, _INPUTS, kept.network)


def make_network(
    source: ModelSource, model: nn.Module, inputs: tuple[str, ...], compute: Compute
) -> Network:
    """The network that `compute` makes of a model; the names of its outputs are found by a run."""
    with torch.inference_mode():
        found = compute({name: torch.ones(1, 2, dtype=torch.int64) for name in inputs})
    return Network(source, _Positional(model.eval(), inputs, compute), inputs, tuple(found))


class _Positional(nn.Module):
    """Takes and gives tensors in an order, as ONNX does."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], compute: Compute) -> None:
        super().__init__()
        self.model, self._inputs, self._compute = model, inputs, compute

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._compute(dict(zip(self._inputs, tensors, strict=True))).values())
