"""Each network's weights by themselves, whatever a run shares between them, and back again.

A run's state holds a shared tensor once, and with weight_sharing "gdes" the discriminator's tables
as differences from the generator's. Here every network has all of its own: `embeddings.`,
`discriminator.` and its heads; `generator_embeddings.`, `generator.`, `generator_head.`
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from electrify.config_pretrain import PretrainConfig

TABLES = ("word.weight", "position.weight", "token_type.weight")
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
    """Whether there is a generator that is one encoder."""
    return config.has_generator and config.objective != "electric"


def untie(state: Mapping[str, Tensor], config: PretrainConfig) -> dict[str, Tensor]:
    """The weights of each network, from the model's state."""
    sharing, made = config.weight_sharing, dict(state)
    if not config.has_generator:
        return made
    if sharing in ("embeddings", "all"):
        made |= _renamed(state, "embeddings.", "generator_embeddings.")
    if sharing == "all":
        made |= _renamed(state, "discriminator.", "generator.")
    if sharing == "gdes":
        for table in TABLES:
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
        for table in TABLES:
            base = weights[f"generator_embeddings.{table}"]
            made[f"embeddings.{table}"] = weights[f"embeddings.{table}"] - base
    dropped = {"embeddings": ("generator_embeddings.",), "all": _GENERATORS}.get(sharing, ())
    return {name: tensor for name, tensor in made.items() if not name.startswith(dropped)}


_GENERATORS = ("generator_embeddings.", "generator.")


def _renamed(state: Mapping[str, Tensor], before: str, after: str) -> dict[str, Tensor]:
    return {
        after + name.removeprefix(before): tensor
        for name, tensor in state.items()
        if name.startswith(before)
    }
