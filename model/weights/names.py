"""The networks of a run each by itself, and `transformers`' names for their weights.

A run's state holds a shared tensor once, and with weight_sharing "gdes" the discriminator's tables
as differences from the generator's. `untie` gives every network all weights of its own, and `tie`
takes that back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForTokenClassification,
    PreTrainedModel,
)

from electrify.config.pretrain import PretrainConfig
from electrify.stage.networks import LABELS
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError
from model.networks.batch import SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.plan import EncoderShape

_TABLES = ("word.weight", "position.weight", "token_type.weight")
Pairs = Sequence[tuple[str, str]]  # of prefixes: ours, theirs
# by architecture: the prefixes of a network's parts
_NAMES: dict[str, dict[str, str]] = read_toml(Path(__file__).with_name("names.toml"))
# the output of a language head, which is the word table again
_OUTPUT = {"electra": "generator_lm_head.weight", "modern": "decoder.weight"}
_CLASSIFIER = ("classifier.weight", "classifier.bias")  # of a modern detector, a row a label
# matrices of a modern layer that ModernBERT has as one
_JOINED = {"inputs": ("query", "key", "value"), "gated": ("intermediate", "gate")}
_BIASED = ("query", "key", "value", "attention_output")  # of a modern layer


Folder = Literal["discriminator", "generator", "language_model", "encoder"]


@dataclass(frozen=True)
class Network:
    """What is exported into one folder: the names of its parts."""

    folder: Folder
    embeddings: str
    body: str
    head: str

    @property
    def predicts_tokens(self) -> bool:
        """Whether it is a masked language model; otherwise it detects replaced tokens."""
        return self.head != "discriminator_head"


DETECTOR = Network("discriminator", "embeddings", "discriminator", "discriminator_head")
PREDICTOR = Network("discriminator", "embeddings", "discriminator", "language_head")
LANGUAGE_MODEL = Network("language_model", "embeddings", "discriminator", "language_head")
GENERATOR = Network("generator", "generator_embeddings", "generator", "generator_head")


def exported_networks(config: PretrainConfig) -> list[Network]:
    """What a run's export consists of, the encoder to fine-tune first.

    The main network is `discriminator/` whatever its head. With both heads (all-tokens-mlm) it is
    there with its copy gate, and in `language_model/` with the other.
    """
    networks = [DETECTOR if config.has_detection_head else PREDICTOR]
    if config.has_generator:
        networks.append(GENERATOR)
    if config.has_detection_head and config.has_language_head:
        networks.append(LANGUAGE_MODEL)
    return networks


def untie(state: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The weights of each network, from the model's state."""
    sharing, weights = config.weight_sharing, dict(state)
    if config.has_generator and sharing == "embeddings":
        weights |= renamed(state, (("embeddings.", "generator_embeddings."),))
    if config.has_generator and sharing == "gdes":
        for table in _tables(state):
            base = state[f"generator_embeddings.{table}"]
            weights[f"embeddings.{table}"] = base + state[f"embeddings.{table}"]
    return weights


def _tables(state: Mapping[str, Tensor]) -> list[str]:
    return [table for table in _TABLES if f"embeddings.{table}" in state]


def tie(weights: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The model's state, from the weights of each network; of what is shared, the main network's.

    `tie(untie(state))` is `state`, but for the rounding of differences.
    """
    sharing, state = config.weight_sharing, dict(weights)
    if config.has_generator and sharing == "gdes":
        for table in _tables(weights):
            base = weights[f"generator_embeddings.{table}"]
            state[f"embeddings.{table}"] = weights[f"embeddings.{table}"] - base
    if config.has_generator and sharing == "embeddings":
        own = "generator_embeddings."
        return {name: tensor for name, tensor in state.items() if not name.startswith(own)}
    return state


def renamed(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """Weights with the second prefix of a pair in place of the first; others are left out."""
    return {
        after + name.removeprefix(before): tensor
        for name, tensor in weights.items()
        for before, after in pairs
        if name.startswith(before)
    }


def _pairs(network: Network, shape: EncoderShape) -> list[tuple[str, str]]:
    """Every prefix of a network's weights, ours and theirs."""
    head = "predictor" if network.predicts_tokens else "detector"
    parts = {"embeddings": network.embeddings, "body": network.body, head: network.head}
    pairs = []
    for ours, theirs in _NAMES[shape.architecture].items():
        part, _, name = ours.partition(".")
        for number in map(str, range(shape.num_hidden_layers if "#" in ours else 1)):
            if part in parts:
                own = f"{parts[part]}.{name}"
                pairs.append((own.replace("#", number), theirs.replace("#", number)))
    return pairs


def to_their_names(
    weights: Mapping[str, Tensor], network: Network, shape: EncoderShape
) -> dict[str, Tensor]:
    """The weights of one network as `transformers` has them."""
    made, table = dict(weights), f"{network.embeddings}.word.weight"
    if shape.is_modern:
        for layer in _layers(network, shape):
            for joined, parts in _JOINED.items():
                for kind in ("weight", "bias"):
                    if found := [made[n] for p in parts if (n := f"{layer}.{p}.{kind}") in made]:
                        made[f"{layer}.{joined}.{kind}"] = torch.cat(found)
        if shape.is_projected:
            made[table] = made[table] @ made[f"{network.body}.project.weight"].mT
    named = renamed(made, _pairs(network, shape))
    if network.predicts_tokens:
        named[_OUTPUT[shape.architecture]] = made[table]
    elif shape.is_modern:  # the logit of a token that is not replaced is 0
        for kind in _CLASSIFIER:
            named[kind] = torch.cat([torch.zeros_like(named[kind]), named[kind]])
    return named


def to_our_names(
    theirs: Mapping[str, Tensor], network: Network, shape: EncoderShape
) -> dict[str, Tensor]:
    """The reverse. Of a modern network biases that are not there are 0, and the embedding matrix is
    as wide as the hidden states. `ValueError` if an output table is not tied."""
    theirs = dict(theirs)
    for kind in _CLASSIFIER:
        if kind in theirs and len(theirs[kind]) == len(LABELS):
            theirs[kind] = theirs[kind][1:] - theirs[kind][:1]
    made = renamed(theirs, [(b, a) for a, b in _pairs(network, shape)])
    output = theirs.get(_OUTPUT[shape.architecture])
    if output is not None and not torch.equal(output, made[f"{network.embeddings}.word.weight"]):
        raise UserError(
            f"{_OUTPUT[shape.architecture]} is not the embedding matrix; only tied ones can be "
            "trained on"
        )
    for layer in _layers(network, shape) if shape.is_modern else ():
        for joined, parts in _JOINED.items():
            for kind in ("weight", "bias"):
                if (whole := made.pop(f"{layer}.{joined}.{kind}", None)) is not None:
                    chunks = zip(parts, whole.chunk(len(parts)), strict=True)
                    made |= {f"{layer}.{part}.{kind}": chunk for part, chunk in chunks}
        for part in _BIASED:
            made.setdefault(f"{layer}.{part}.bias", torch.zeros(shape.hidden_size))
    return made


def _layers(network: Network, shape: EncoderShape) -> list[str]:
    return [f"{network.body}.layers.{number}" for number in range(shape.num_hidden_layers)]


def to_transformers(model: ElectraPretrainer, network: Network) -> PreTrainedModel:
    """One of the model's `exported_networks` as a `transformers` model with the same weights."""
    shape = model.generator_shape if network.body == "generator" else model.shape
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    std, kind = model.config.initializer_range, transformers_class(network, model.config)
    if shape.is_modern:
        made: PreTrainedModel = kind(modern_config(shape, model.special, std))
    else:
        made = kind(
            ElectraConfig(
                **_common(shape, ElectraConfig()),
                initializer_range=std,
                hidden_act="gelu",
                type_vocab_size=2,
                pad_token_id=model.special.pad,
            )
        )
    weights = to_their_names(untie(state, model.config), network, shape)
    made.load_state_dict(weights, strict=True)
    made.train(False)
    return made


def transformers_class(network: Network, config: PretrainConfig) -> type[PreTrainedModel]:
    classes: tuple[Any, Any] = (ElectraForMaskedLM, ElectraForPreTraining)
    if config.architecture == "modern":
        classes = ModernBertForMaskedLM, ModernBertForTokenClassification
    chosen: type[PreTrainedModel] = classes[0] if network.predicts_tokens else classes[1]
    return chosen


def _common(shape: EncoderShape, config: object) -> dict[str, Any]:
    """The sizes that a config of `transformers` has under the same names."""
    return {name: value for name, value in asdict(shape).items() if hasattr(config, name)}


def modern_config(
    shape: EncoderShape, special: SpecialTokens, initializer_range: float
) -> ModernBertConfig:
    """ModernBERT's config of a modern network, with the labels of the detection head."""
    layers = range(shape.num_hidden_layers)
    kinds = ["sliding_attention" if shape.is_local(n) else "full_attention" for n in layers]
    thetas = {
        "full_attention": shape.global_rope_theta,
        "sliding_attention": shape.local_rope_theta,
    }
    rope = {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()}
    kind: Any = ModernBertConfig  # partly typed
    config: ModernBertConfig = kind(
        **_common(shape, ModernBertConfig()),
        norm_eps=shape.layer_norm_eps,
        norm_bias=False,
        mlp_bias=False,
        hidden_activation="gelu",
        layer_types=kinds,
        rope_parameters=rope,
        attention_dropout=shape.attention_probs_dropout_prob,
        mlp_dropout=shape.hidden_dropout_prob,
        embedding_dropout=shape.hidden_dropout_prob,
        initializer_range=initializer_range,
        classifier_pooling="mean",
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
        pad_token_id=special.pad,
        bos_token_id=special.cls,
        cls_token_id=special.cls,
        eos_token_id=special.sep,
        sep_token_id=special.sep,
    )
    return config
