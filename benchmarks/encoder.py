"""An encoder of `transformers`: read, check, load its weights or draw fresh ones."""

import copy
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    ElectraForPreTraining,
    ModernBertForTokenClassification,
)
from transformers.utils import logging

from benchmarks.model_name import commit_of
from electrify.config.evaluate import Role
from electrify.stage.networks import detects_replaced
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError, first_line, panics_as_errors

# partly typed: as Any they are the same to the type checker in every version of transformers
_AUTO_MODEL: Any = AutoModel
_TRANSFORMERS_LOGGING: Any = logging
# positions are counted from behind the padding id, so two embeddings are never used
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "longformer")
# "layer.3.", "layers.3.", "h.3.", "block.3." of the encoders of `transformers`
_LAYER = re.compile(r"(?:^|[._])(?:layers?|h|blocks?)\.(\d+)\.")


def num_layers(encoder_names: Iterable[str]) -> int:
    numbers = [int(match[1]) for name in encoder_names if (match := _LAYER.search(name))]
    return max(numbers, default=-1) + 1


def layer_depth(name: str, num_layers: int) -> int:
    """Depth of an encoder parameter: 0 embeddings, 1 to n the layers, n for what stands on top."""
    match = _LAYER.search(name)
    if match:
        return int(match[1]) + 1
    return 0 if "embed" in name else num_layers


@dataclass(frozen=True)
class ModelSource:
    """A model folder (or hub name) whose config and tokenizer are read; each job loads weights."""

    path: str
    config: Any
    tokenizer: Any
    name: str = ""  # what records say where the path is a temporary one; else the path
    title: str = ""  # what tables call it, where the user says so; else the name
    # of `[evaluate]`: what its finetuning.json recommends and the user did not set
    recommended: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None  # of a model of the hub: all jobs load this one

    @property
    def max_positions(self) -> int | None:
        """The longest row it takes; None if it says nothing."""
        positions = getattr(self.config, "max_position_embeddings", None)
        if positions and getattr(self.config, "model_type", "") in _OFFSET_POSITIONS:
            positions -= self.config.pad_token_id + 1
        limits = [n for n in (positions, self.tokenizer.model_max_length) if n and n < 1e9]
        return min(limits, default=None)


def open_model(path: str, name: str | None = None, commit: str | None = None) -> ModelSource:
    """Read config and tokenizer of a model folder or hub name, and check that they fit; `name` is
    what records call it. Of a hub name a commit is read: `commit_of` unless one is given.

    Raises `ValueError` for a folder that is no model, a tokenizer with more ids than the model has
    embeddings, one without padding token and one with a [CLS] that it does not put first.
    """
    commit = commit or commit_of(path)
    at = {"revision": commit} if commit else {}
    try:
        with quiet_transformers(), panics_as_errors():
            config = AutoConfig.from_pretrained(path, **at)
            tokenizer = AutoTokenizer.from_pretrained(path, **at)
    except Exception as error:  # transformers and tokenizers have many sorts for damaged files
        raise UserError(
            f"cannot read a model at {path}: {hub_failure(error) if commit else first_line(error)} "
            "(needed: config.json, model.safetensors and the tokenizer files)"
        ) from error
    if len(tokenizer) > config.vocab_size:
        raise UserError(
            f"{path}: the tokenizer has {len(tokenizer)} ids, the model {config.vocab_size} "
            "embeddings; they do not belong together"
        )
    check_tokenizer(tokenizer)
    return ModelSource(path, config, tokenizer, name or path, commit=commit)


def is_discriminator(source: ModelSource) -> bool:
    """Whether it tells replaced tokens: by ELECTRA's head or, as an export of a modern network, by
    the labels of a token classification of ModernBERT."""
    names = source.config.architectures or ()
    is_modern = "ModernBertForTokenClassification" in names
    return "ElectraForPreTraining" in names or (
        is_modern and detects_replaced(source.config.id2label)
    )


def load_discriminator(source: ModelSource) -> Any:
    """The network of a folder for which `is_discriminator` holds; as `load_network`."""
    modern = source.config.model_type == "modernbert"
    return load_network(
        source, ModernBertForTokenClassification if modern else ElectraForPreTraining
    )


def replaced_logits(logits: Tensor) -> Tensor:
    """Logits (B, T) that tokens were replaced, of what a discriminator gives: these (ELECTRA) or
    those of its labels, (B, T, 2)."""
    return logits if logits.dim() == 2 else logits[..., 1] - logits[..., 0]


def generator_of(path: str) -> str | None:
    """The generator of a discriminator, "generator" in its name for "discriminator"; None where the
    name has no such word, or there is no such folder beside a folder."""
    place = Path(path).absolute() if Path(path).is_dir() else Path(path)
    beside = place.with_name(place.name.replace("discriminator", "generator"))
    is_there = beside.is_dir() or not place.is_dir()
    return str(beside) if is_there and beside != place else None


def check_tokenizer(tokenizer: Any) -> None:
    """Raises `ValueError` for a tokenizer without padding, or that does not put its [CLS] first."""
    if tokenizer.pad_token_id is None:
        raise UserError("the tokenizer has no padding token; save one with it (pad_token)")
    if tokenizer.cls_token_id is not None and tokenizer("")["input_ids"][:1] != [
        tokenizer.cls_token_id
    ]:
        raise UserError(
            f"the tokenizer does not put {tokenizer.cls_token} before a text, but the head reads "
            "that token; save the tokenizer with its post-processor"
        )


def with_added_tokens(tokenizer: Any, tokens: Sequence[str]) -> Any:
    """A copy of the tokenizer that keeps each of `tokens` whole; itself if there are none."""
    if not tokens:
        return tokenizer
    extended = copy.deepcopy(tokenizer)
    extended.add_tokens(list(tokens), special_tokens=True)
    return extended


def load_encoder(
    source: ModelSource, role: Role, seed: int, num_ids: int | None = None
) -> nn.Module:
    """The encoder in float32: the saved weights, or fresh ones of the same shape from the seed.

    `num_ids` are those of a tokenizer with added tokens, whose embeddings are drawn by the seed.
    Raises `ValueError` as `load_network`.
    """
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        # built on the CPU whatever the device
        torch.manual_seed(seed)
        if role == "random-init":
            encoder = _AUTO_MODEL.from_config(copy.deepcopy(source.config), dtype=torch.float32)
        else:
            encoder = load_network(source, _AUTO_MODEL)
        if num_ids is not None and num_ids > encoder.get_input_embeddings().num_embeddings:
            encoder.resize_token_embeddings(num_ids, mean_resizing=False)
    assert isinstance(encoder, nn.Module)
    return encoder


def load_network(source: ModelSource, kind: Any, **options: Any) -> Any:
    """The network of a source, of a class of `transformers`, in float32 and without dropout.

    Raises `ValueError` if it cannot be read, and if weights are missing: `transformers` would fill
    them at random and the score would be of another model. A pooler stands on top of the encoder
    and is not used here, so it may be missing.
    """
    path, at = source.path, {"revision": source.commit} if source.commit else {}
    options = {**at, **options}
    try:
        with quiet_transformers():
            network, loading = kind.from_pretrained(
                path, dtype=torch.float32, output_loading_info=True, weights_only=True, **options
            )
    except Exception as error:  # safetensors, zip and pickle have sorts of their own
        why = hub_failure(error) if at else error
        raise UserError(f"cannot read the weights of the model at {path}: {why}") from error
    if missing := sorted(n for n in loading["missing_keys"] if not n.startswith("pooler.")):
        raise UserError(
            f"{path} is no whole {type(network).__name__}: it lacks {len(missing)} weights, such "
            f"as {missing[0]}; give a folder that `electrify export` wrote, or one like it"
        )
    return network


def prepare_encoder(
    encoder: nn.Module, dropout: float | None, device: torch.device, precision: str
) -> None:
    """Set what fine-tuning sets in place of the model's config. Raises `ValueError` for a `dropout`
    where the encoder has no dropout modules to take it."""
    if dropout is not None:
        modules = [module for module in encoder.modules() if isinstance(module, nn.Dropout)]
        if not modules:
            raise UserError(
                f"evaluate.dropout = {dropout}: {type(encoder).__name__} has no dropout modules; "
                "leave it out"
            )
        for module in modules:
            module.p = dropout
    any_encoder: Any = encoder
    if device.type == "cpu" and precision == "bf16":
        # torch's fused attention takes up to twice as long there, most of it in the backward pass
        any_encoder.set_attn_implementation("eager")


def accepted_inputs(encoder: nn.Module) -> tuple[str, ...]:
    """Which of input ids, attention mask, token types and, of BERT and ELECTRA, positions (others
    count them in ways of their own) the encoder takes."""
    config: Any = encoder.config
    names = inspect.signature(encoder.forward).parameters
    # models of the RoBERTa kind have one token type, whatever their tokenizer gives
    has_types = "token_type_ids" in names and getattr(config, "type_vocab_size", 0) > 1
    has_positions = getattr(config, "model_type", "") in ("bert", "electra")
    further = (("token_type_ids", has_types), ("position_ids", has_positions))
    return ("input_ids", "attention_mask", *(name for name, is_taken in further if is_taken))


def encode(encoder: nn.Module, batch: Mapping[str, Tensor], inputs: Sequence[str]) -> Tensor:
    """Hidden states (B, T, H) of the last layer of a batch, which has positions where they do not
    count up."""
    given = {name: batch[name] for name in inputs if name != "position_ids" or name in batch}
    states: Tensor = encoder(**given).last_hidden_state
    return states


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without its bars and load report: `load_network` checks what is missing."""
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
