"""The networks of a run each by itself, and `transformers`' names for their weights.

A run's state holds a shared tensor once, and with weight_sharing "gdes" the discriminator's tables
as differences from the generator's. `untie` gives every network all weights of its own, and `tie`
takes that back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
from model.batch import SpecialTokens
from model.electra import ElectraPretrainer
from model.plan import EncoderShape

_TABLES = ("word.weight", "position.weight", "token_type.weight")
_GENERATORS = ("generator_embeddings.", "generator.")
# our prefix, theirs
Pairs = tuple[tuple[str, str], ...]
_EMBEDDINGS: Pairs = (
    ("word.", "word_embeddings."),
    ("position.", "position_embeddings."),
    ("token_type.", "token_type_embeddings."),
    ("norm.", "LayerNorm."),
)
_LAYER: Pairs = (
    ("query.", "attention.self.query."),
    ("key.", "attention.self.key."),
    ("value.", "attention.self.value."),
    ("attention_output.", "attention.output.dense."),
    ("attention_norm.", "attention.output.LayerNorm."),
    ("intermediate.", "intermediate.dense."),
    ("output.", "output.dense."),
    ("output_norm.", "output.LayerNorm."),
)
_PREDICTOR: Pairs = (
    ("dense.", "generator_predictions.dense."),
    ("norm.", "generator_predictions.LayerNorm."),
    ("bias", "generator_lm_head.bias"),
)
_DETECTOR: Pairs = (
    ("dense.", "discriminator_predictions.dense."),
    ("prediction.", "discriminator_predictions.dense_prediction."),
)
# a modern network's: what stands for itself, then the matrices that ModernBERT has joined
_MODERN_LAYER: Pairs = (
    ("attention_norm.", "attn_norm."),
    ("attention_output.", "attn.Wo."),
    ("output_norm.", "mlp_norm."),
    ("output.", "mlp.Wo."),
)
_JOINED: Mapping[str, tuple[str, ...]] = {
    "attn.Wqkv.weight": ("query.weight", "key.weight", "value.weight"),
    "attn.Wqkv.bias": ("query.bias", "key.bias", "value.bias"),
    "mlp.Wi.weight": ("intermediate.weight", "gate.weight"),
}
_MODERN_PREDICTOR: Pairs = (
    ("dense.", "head.dense."),
    ("norm.", "head.norm."),
    ("bias", "decoder.bias"),
)
_MODERN_DETECTOR: Pairs = (
    ("dense.", "head.dense."),
    ("norm.", "head.norm."),
    ("prediction.", "classifier."),
)
WORD_TABLE = "electra.embeddings.word_embeddings.weight"
OUTPUT_TABLE = "generator_lm_head.weight"  # the word table again


Folder = Literal["discriminator", "generator", "language_model"]


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
    there with its copy gate, and in `language_model/` with the other. The two towers of electric
    are no generator that `transformers` has a class for.
    """
    networks = [DETECTOR if config.has_detection_head else PREDICTOR]
    if has_plain_generator(config):
        networks.append(GENERATOR)
    if config.has_detection_head and config.has_language_head:
        networks.append(LANGUAGE_MODEL)
    return networks


def has_plain_generator(config: PretrainConfig) -> bool:
    return config.has_generator and config.objective != "electric"


def untie(state: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The weights of each network, from the model's state."""
    sharing, made = config.weight_sharing, dict(state)
    if not config.has_generator:
        return made
    if sharing in ("embeddings", "all"):
        made |= renamed(state, (("embeddings.", "generator_embeddings."),))
    if sharing == "all":
        made |= renamed(state, (("discriminator.", "generator."),))
    if sharing == "gdes":
        for table in _tables(state):
            base = state[f"generator_embeddings.{table}"]
            made[f"embeddings.{table}"] = base + state[f"embeddings.{table}"]
    return made


def _tables(state: Mapping[str, Tensor]) -> list[str]:
    return [table for table in _TABLES if f"embeddings.{table}" in state]


def tie(weights: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The model's state, from the weights of each network; of what is shared, the main network's.

    `tie(untie(state))` is `state`, but for the rounding of differences.
    """
    sharing, made = config.weight_sharing, dict(weights)
    if not config.has_generator:
        return made
    if sharing == "gdes":
        for table in _tables(weights):
            base = weights[f"generator_embeddings.{table}"]
            made[f"embeddings.{table}"] = weights[f"embeddings.{table}"] - base
    dropped = {"embeddings": ("generator_embeddings.",), "all": _GENERATORS}.get(sharing, ())
    return {name: tensor for name, tensor in made.items() if not name.startswith(dropped)}


def name_pairs(network: Network, num_hidden_layers: int) -> Pairs:
    """Every prefix of a network's weights, ours and theirs."""
    embeddings = [(f"{network.embeddings}.{a}", f"electra.embeddings.{b}") for a, b in _EMBEDDINGS]
    project = (f"{network.body}.project.", "electra.embeddings_project.")
    layers = [
        (f"{network.body}.layers.{number}.{a}", f"electra.encoder.layer.{number}.{b}")
        for number in range(num_hidden_layers)
        for a, b in _LAYER
    ]
    head = _PREDICTOR if network.predicts_tokens else _DETECTOR
    return (*embeddings, project, *layers, *((f"{network.head}.{a}", b) for a, b in head))


def renamed(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """Weights with the second prefix of a pair in place of the first; others are left out."""
    return {
        after + name.removeprefix(before): tensor
        for name, tensor in weights.items()
        for before, after in pairs
        if name.startswith(before)
    }


def to_our_names(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    return renamed(weights, tuple((theirs, ours) for ours, theirs in pairs))


def to_transformers(model: ElectraPretrainer, folder: str) -> PreTrainedModel:
    """One of the model's `exported_networks` as a `transformers` model with the same weights."""
    network = next(n for n in exported_networks(model.config) if n.folder == folder)
    shape = model.generator_shape if network.body == "generator" else model.shape
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    weights = untie(state, model.config)
    kind = transformers_class(network, model.config)
    if shape.is_modern:
        config = modern_config(shape, model.special, model.config.initializer_range)
        made: PreTrainedModel = kind(config)
        made.load_state_dict(_modern_weights(weights, network, shape), strict=True)
    else:
        made = kind(
            ElectraConfig(
                **_common(shape, ElectraConfig()),
                initializer_range=model.config.initializer_range,
                hidden_act="gelu",
                type_vocab_size=2,
                pad_token_id=model.special.pad,
            )
        )
        named = renamed(weights, name_pairs(network, shape.num_hidden_layers))
        if network.predicts_tokens:
            named[OUTPUT_TABLE] = named[WORD_TABLE]
        made.load_state_dict(named, strict=True)
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
    """ModernBERT's config of a modern network; with one label, the logit of the detection head."""
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
        attention_bias=True,
        mlp_bias=False,
        hidden_activation="gelu",
        layer_types=kinds,
        rope_parameters=rope,
        attention_dropout=shape.attention_probs_dropout_prob,
        mlp_dropout=shape.hidden_dropout_prob,
        embedding_dropout=shape.hidden_dropout_prob,
        initializer_range=initializer_range,
        classifier_pooling="mean",
        num_labels=1,
        pad_token_id=special.pad,
        bos_token_id=special.cls,
        cls_token_id=special.cls,
        eos_token_id=special.sep,
        sep_token_id=special.sep,
    )
    for name in ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"):
        setattr(config, name, getattr(shape, name))  # where transformers 4 has what says the same
    return config


def _modern_pairs(network: Network, num_hidden_layers: int) -> Pairs:
    """Every prefix of weights that stand for themselves, ours and ModernBERT's."""
    body = f"{network.body}."
    head = _MODERN_PREDICTOR if network.predicts_tokens else _MODERN_DETECTOR
    pairs = [(f"{network.head}.{ours}", theirs) for ours, theirs in head]
    pairs += [
        (f"{body}norm.", "model.embeddings.norm."),
        (f"{body}final_norm.", "model.final_norm."),
    ]
    layers = [
        (f"{body}layers.{number}.{ours}", f"model.layers.{number}.{theirs}")
        for number in range(num_hidden_layers)
        for ours, theirs in _MODERN_LAYER
    ]
    return (*pairs, *layers)


_MODERN_TABLE = "model.embeddings.tok_embeddings.weight"


def _modern_weights(
    weights: Mapping[str, Tensor], network: Network, shape: EncoderShape
) -> dict[str, Tensor]:
    """Under the names of ModernBERT, where the projection is folded into the embedding matrix."""
    body = f"{network.body}."
    named = renamed(weights, _modern_pairs(network, shape.num_hidden_layers))
    for number in range(shape.num_hidden_layers):
        for theirs, ours in _JOINED.items():
            parts = [weights[f"{body}layers.{number}.{name}"] for name in ours]
            named[f"model.layers.{number}.{theirs}"] = torch.cat(parts)
    matrix = weights[f"{network.embeddings}.word.weight"]
    if shape.is_projected:
        matrix = matrix @ weights[f"{body}project.weight"].mT
    named[_MODERN_TABLE] = matrix
    if network.predicts_tokens:
        named["decoder.weight"] = matrix
    return named


def from_modern(
    theirs: Mapping[str, Tensor], network: Network, shape: EncoderShape
) -> dict[str, Tensor]:
    """ModernBERT's weights under our names; biases that it lacks are 0, the embedding matrix is
    as wide as the hidden states."""
    named = to_our_names(theirs, _modern_pairs(network, shape.num_hidden_layers))
    named[f"{network.embeddings}.word.weight"] = theirs[_MODERN_TABLE]
    for number in range(shape.num_hidden_layers):
        layer, own = f"model.layers.{number}.", f"{network.body}.layers.{number}."
        for joined, ours in _JOINED.items():
            if f"{layer}{joined}" in theirs:
                parts = theirs[f"{layer}{joined}"].chunk(len(ours))
                named |= {f"{own}{name}": part for name, part in zip(ours, parts, strict=True)}
        for name in ("query", "key", "value", "attention_output"):
            named.setdefault(f"{own}{name}.bias", torch.zeros(shape.hidden_size))
    return named
