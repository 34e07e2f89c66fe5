"""An encoder of `transformers` and the paper's classification head on it."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

Variant = Literal["pretrained", "random-init"]
Pooling = Literal["cls", "mean", "none"]  # none: a tagging head reads every state

# partly typed: as Any they are the same to the type checker in every version of transformers
_AUTO_MODEL: Any = AutoModel
_TRANSFORMERS_LOGGING: Any = logging

HEAD_DROPOUT = 0.1
HEAD_INITIALIZER_RANGE = 0.02


@dataclass(frozen=True)
class ModelSource:
    """A model folder (or hub name) whose config and tokenizer are read; weights come a job."""

    path: str
    config: Any
    tokenizer: Any


def open_model(path: str, max_sequence_length: int) -> ModelSource:
    """Read config and tokenizer of a model folder or hub name, and check that they fit.

    Raises `ValueError` for a folder that is no model, a tokenizer with more ids than the model has
    embeddings, or a `max_sequence_length` the model has no positions for.
    """
    looks_local = path.startswith((".", "/", "~")) or path.count("/") > 1
    if looks_local and not Path(path).is_dir():
        raise ValueError(f"no model folder {path}; give a folder with config.json, or a hub name")
    try:
        with _quiet_transformers():
            config = AutoConfig.from_pretrained(path)
            tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot read a model at {path}: {str(error).splitlines()[0]} "
            "(needed: config.json, model.safetensors and the tokenizer files)"
        ) from error
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"{path}: the tokenizer has {len(tokenizer)} ids, the model {config.vocab_size} "
            "embeddings; they are not of one export"
        )
    positions = min(
        getattr(config, "max_position_embeddings", None) or max_sequence_length,
        tokenizer.model_max_length,
    )
    if max_sequence_length > positions:
        raise ValueError(
            f"evaluate.max_sequence_length = {max_sequence_length} is more than the {positions} "
            f"positions of {path}"
        )
    return ModelSource(path, config, tokenizer)


def load_encoder(model: ModelSource, variant: Variant, seed: int) -> nn.Module:
    """The encoder in float32: the saved weights, or fresh ones of the same shape from the seed.

    Raises `ValueError` if the folder lacks weights of the encoder: `transformers` would fill them
    at random and the score would be of another model.
    """
    with _quiet_transformers():
        if variant == "random-init":
            with torch.random.fork_rng(devices=[]):  # built on the CPU whatever the device
                torch.manual_seed(seed)
                return _module(_AUTO_MODEL.from_config(model.config, dtype=torch.float32))
        encoder, loading = _AUTO_MODEL.from_pretrained(
            model.path, dtype=torch.float32, output_loading_info=True
        )
    # a pooler stands on top of the encoder and is not used here
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise ValueError(
            f"{model.path} lacks {len(missing)} weights of its encoder, such as {missing[0]}; "
            "export the model again"
        )
    return _module(encoder)


def prepare_encoder(
    encoder: nn.Module, dropout: float | None, device: torch.device, precision: str
) -> None:
    """Set what fine-tuning sets in place of the model's config.

    Raises `ValueError` for a `dropout` where the encoder has no dropout modules to take it.
    """
    if dropout is not None:
        modules = [module for module in encoder.modules() if isinstance(module, nn.Dropout)]
        if not modules:
            raise ValueError(
                f"evaluate.dropout = {dropout}: {type(encoder).__name__} has no dropout modules; "
                "leave it out"
            )
        for module in modules:
            module.p = dropout
    if device.type == "cpu" and precision == "bf16":
        # torch's fused attention takes up to twice as long there, most of it in the backward pass
        any_encoder: Any = encoder
        any_encoder.set_attn_implementation("eager")


def _module(value: Any) -> nn.Module:
    assert isinstance(value, nn.Module)
    return value


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Without its bars and load report (the head of the pre-training task is left out on purpose).

    What is missing is checked by `load_encoder` itself.
    """
    verbosity = _TRANSFORMERS_LOGGING.get_verbosity()
    had_bar = _TRANSFORMERS_LOGGING.is_progress_bar_enabled()
    _TRANSFORMERS_LOGGING.set_verbosity_error()
    _TRANSFORMERS_LOGGING.disable_progress_bar()
    try:
        yield
    finally:
        _TRANSFORMERS_LOGGING.set_verbosity(verbosity)
        if had_bar:
            _TRANSFORMERS_LOGGING.enable_progress_bar()


class Classifier(nn.Module):
    """Dropout and one linear layer on the first token's state, as the paper's code has it.

    `ElectraForSequenceClassification` has a dense layer and GELU in between: another model.
    With pooling "mean" the head reads the mean of the states of all real tokens instead. In
    pretraining [CLS] is never replaced, so for a long time its state carries no content: after
    20 M tokens its variance over texts was 0.8 % of its energy, that of the tokens 33 %.
    """

    def __init__(
        self,
        encoder: nn.Module,
        num_labels: int,
        generator: torch.Generator,
        pooling: Pooling = "cls",
    ) -> None:
        super().__init__()
        config: Any = encoder.config
        self.pooling = pooling
        self.encoder = encoder
        self.dropout = nn.Dropout(HEAD_DROPOUT)
        self.head = nn.Linear(config.hidden_size, num_labels)
        nn.init.normal_(self.head.weight, std=HEAD_INITIALIZER_RANGE, generator=generator)
        nn.init.zeros_(self.head.bias)
        accepted = inspect.signature(encoder.forward).parameters
        # models of the RoBERTa kind have one token type, whatever their tokenizer gives
        self._takes_token_types = (
            "token_type_ids" in accepted and getattr(config, "type_vocab_size", 0) > 1
        )

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Input ids, token types and attention mask, each (B, T), to logits (B, labels).

        Without pooling logits are (B, T, labels).
        """
        if not self._takes_token_types:
            inputs = {name: inputs[name] for name in inputs if name != "token_type_ids"}
        states: Tensor = self.encoder(**inputs).last_hidden_state  # (B, T, H)
        pooled = states if self.pooling == "none" else states[:, 0]
        if self.pooling == "mean":
            mask = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
            pooled = (states * mask).sum(dim=1) / mask.sum(dim=1)
        logits: Tensor = self.head(self.dropout(pooled))
        return logits
