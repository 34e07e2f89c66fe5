"""The networks of a run each by itself, and `transformers`' names for their weights.

A run's state holds a shared tensor once, and with weight_sharing "gdes" the discriminator's tables
as differences from the generator's. `untie` gives every network all weights of its own, and `tie`
takes that back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from torch import Tensor
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PreTrainedModel,
)

from electrify.config.pretrain import PretrainConfig
from model.electra import ElectraPretrainer

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
        for table in _TABLES:
            base = state[f"generator_embeddings.{table}"]
            made[f"embeddings.{table}"] = base + state[f"embeddings.{table}"]
    return made


def tie(weights: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The model's state, from the weights of each network; of what is shared, the main network's.

    `tie(untie(state))` is `state`, but for the rounding of differences.
    """
    sharing, made = config.weight_sharing, dict(weights)
    if not config.has_generator:
        return made
    if sharing == "gdes":
        for table in _TABLES:
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
    sizes = asdict(shape)  # which has its names
    del sizes["num_towers"]
    config = ElectraConfig(
        **sizes,
        initializer_range=model.config.initializer_range,
        hidden_act="gelu",
        type_vocab_size=2,
        pad_token_id=model.special.pad,
    )
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    weights = untie(state, model.config)
    named = renamed(weights, name_pairs(network, config.num_hidden_layers))
    if network.predicts_tokens:
        named[OUTPUT_TABLE] = named[WORD_TABLE]
    made: PreTrainedModel = transformers_class(network)(config)
    made.load_state_dict(named, strict=True)
    made.train(False)
    return made


def transformers_class(network: Network) -> type[PreTrainedModel]:
    chosen: type[PreTrainedModel] = (
        ElectraForMaskedLM if network.predicts_tokens else ElectraForPreTraining
    )
    return chosen
