"""`transformers`' ELECTRA classes: their names for our weights, in both directions."""

from collections.abc import Mapping
from dataclasses import asdict, fields

from torch import Tensor
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PreTrainedModel,
)

from model.electra import ElectraPretrainer, Network, exported_networks, untie
from model.layers import EncoderShape
from model.train.checkpoint import own_tensors

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


def to_their_names(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """A network's weights (of `untie`) under `transformers`' names; what is not its is left out."""
    return _renamed(weights, pairs)


def to_our_names(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """The inverse of `to_their_names`."""
    return _renamed(weights, tuple((theirs, ours) for ours, theirs in pairs))


def _renamed(weights: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    return {
        after + name.removeprefix(before): tensor
        for name, tensor in weights.items()
        for before, after in pairs
        if name.startswith(before)
    }


def to_transformers(model: ElectraPretrainer, folder: str) -> PreTrainedModel:
    """One of the model's `exported_networks` as a `transformers` model with the same weights."""
    network = find_network(model, folder)
    config = transformers_config(shape_of(model, network), model)
    state = {name: tensor.cpu() for name, tensor in own_tensors(model).items()}
    weights = untie(state, model.config)
    named = to_their_names(weights, name_pairs(network, config.num_hidden_layers))
    if network.predicts_tokens:
        named[OUTPUT_TABLE] = named[WORD_TABLE]
    made: PreTrainedModel = transformers_class(network)(config)
    made.load_state_dict(named, strict=True)
    made.train(False)
    return made


def find_network(model: ElectraPretrainer, folder: str) -> Network:
    """The exported network of a folder."""
    return next(n for n in exported_networks(model.config) if n.folder == folder)


def shape_of(model: ElectraPretrainer, network: Network) -> EncoderShape:
    """The sizes of one network."""
    return model.generator_shape if network.body == "generator" else model.shape


def transformers_class(network: Network) -> type[PreTrainedModel]:
    """The class that has the network's head."""
    chosen: type[PreTrainedModel] = (
        ElectraForMaskedLM if network.predicts_tokens else ElectraForPreTraining
    )
    return chosen


def transformers_config(shape: EncoderShape, model: ElectraPretrainer) -> ElectraConfig:
    """The `ElectraConfig` of one network: the fields of `EncoderShape` have its names."""
    return ElectraConfig(
        **asdict(shape),
        initializer_range=model.config.initializer_range,
        hidden_act="gelu",
        type_vocab_size=2,
        pad_token_id=model.special.pad,
    )


def shape_from_transformers(config: ElectraConfig) -> EncoderShape:
    """The inverse of `transformers_config`."""
    return EncoderShape(
        **{field.name: getattr(config, field.name) for field in fields(EncoderShape)}
    )
