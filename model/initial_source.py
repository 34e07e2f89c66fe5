"""Weights that a run goes on from, read from another run or from `transformers` folders."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from torch import Tensor
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining
from transformers.utils import logging as transformers_logging

from electrify.config_pretrain import PretrainConfig
from electrify.json_text import read_json
from electrify.stages import NETWORKS, initial_checkpoint, run_folder
from model.checkpoint import DAMAGES, read_checkpoint, trained_options
from model.electra import discriminator_shape, generator_shape
from model.layers import EncoderShape
from model.networks import (
    DETECTOR,
    GENERATOR,
    LANGUAGE_MODEL,
    PREDICTOR,
    Network,
    untie,
)
from model.transformers_names import (
    OUTPUT_TABLE,
    WORD_TABLE,
    name_pairs,
    shape_from_transformers,
    to_our_names,
)
from vocab.references import read_pieces
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256

# untyped in transformers
_get_verbosity: Callable[[], int] = transformers_logging.get_verbosity
_set_verbosity: Callable[[int], None] = transformers_logging.set_verbosity
_is_progress_bar_enabled: Callable[[], bool] = transformers_logging.is_progress_bar_enabled
_disable_progress_bar: Callable[[], None] = transformers_logging.disable_progress_bar
_enable_progress_bar: Callable[[], None] = transformers_logging.enable_progress_bar
_HUB_FILES = ["*.json", "*.txt", "*.safetensors", "*.bin"]


@dataclass(frozen=True)
class Source:
    """Weights of each network by itself, under the names of `model.networks`."""

    place: str
    weights: dict[str, Tensor]
    shape: EncoderShape  # of the main network
    generator_shape: EncoderShape | None  # None: there is no generator
    has_towers: bool  # its generator is electric's
    tokenizer_sha256: str | None  # of a run
    pieces: Sequence[str] | None  # None: no vocabulary lies beside the weights


def read_source(config: PretrainConfig) -> Source:
    """What `initial_model` and `initial_generator` name; `ValueError` if it cannot be read."""
    place, generator = config.initial_model, config.initial_generator
    assert place is not None
    checkpoint = initial_checkpoint(place)
    if checkpoint is None:
        return _from_transformers(place, generator)
    if generator is not None:
        raise ValueError(
            f"pretrain.initial_generator = {generator!r} beside the run {place!r}, which has a "
            f"generator of its own: leave it out, or give initial_model = {place}/export/"
            "discriminator"
        )
    return _from_checkpoint(place, checkpoint)


def _from_checkpoint(place: str, checkpoint: Path) -> Source:
    try:
        found = read_checkpoint(checkpoint)
        config = trained_options(found.identity)
        vocab_size = int(found.identity["vocab_size"])
        sha256 = str(found.identity["tokenizer_sha256"])
    except DAMAGES as error:
        raise ValueError(
            f"pretrain.initial_model = {place!r}: {checkpoint} is damaged ({error}); name another "
            "checkpoint folder of that run"
        ) from None
    return Source(
        place,
        untie(found.model, config),
        discriminator_shape(config, vocab_size),
        generator_shape(config, vocab_size) if config.has_generator else None,
        config.objective == "electric",
        sha256,
        _pieces_of_run(checkpoint, sha256),
    )


def _pieces_of_run(checkpoint: Path, sha256: str) -> Sequence[str] | None:
    vocab = run_folder(checkpoint) / "vocab"
    if not (vocab / TOKENIZER_FILE).is_file():
        return None
    if tokenizer_sha256(vocab) != sha256:
        raise ValueError(
            f"{vocab} is not the vocabulary that {checkpoint} was trained with: put that one back"
        )
    return read_pieces(vocab)


def _from_transformers(place: str, generator: str | None) -> Source:
    main = _folder(place, "initial_model")
    extra: list[tuple[Path, Network]] = []
    if not (main / "config.json").is_file() and (main / "discriminator").is_dir():
        # a run's export: all of it
        extra = [
            (main / network.folder, network)
            for network in (GENERATOR, LANGUAGE_MODEL)
            if (main / network.folder).is_dir() and not (generator and network is GENERATOR)
        ]
        main = main / "discriminator"
    if generator is not None:
        extra.append((_folder(generator, "initial_generator"), GENERATOR))
    config = read_electra_config(main)
    predicts = "ElectraForMaskedLM" in (config.architectures or [])
    weights = _read_weights(main, config, PREDICTOR if predicts else DETECTOR)
    pieces, of_generator = read_pieces(main), None
    if len(pieces) > config.vocab_size:
        raise ValueError(
            f"{main} has {len(pieces)} pieces, but vocab_size = {config.vocab_size} in its "
            "config.json: they are not of one model"
        )
    for folder, network in extra:
        own = read_electra_config(folder)
        if read_pieces(folder) != pieces:
            raise ValueError(f"{folder} has another vocabulary than {main}: give networks of one")
        found = _read_weights(folder, own, network)
        if network is GENERATOR:
            of_generator = shape_from_transformers(own)
        else:  # the main network again, with its other head
            found = {n: t for n, t in found.items() if n.startswith(f"{network.head}.")}
        weights |= found
    return Source(
        place, weights, shape_from_transformers(config), of_generator, False, None, pieces
    )


def _folder(name: str, option: str) -> Path:
    """A folder, or the copy of a model of the Hugging Face hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    is_hub_name = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    if not is_hub_name or folder.parent.is_dir():
        raise ValueError(
            f"pretrain.{option} = {name!r}: there is no such folder; give a run, one of its "
            f"checkpoints, its export, a folder that transformers opens, or a hub name"
        )
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # network, rights, no such model: the hub's own errors say which
        raise ValueError(
            f"pretrain.{option} = {name!r} is no folder, and the hub has it not for us: {error}"
        ) from None


def read_electra_config(folder: Path) -> ElectraConfig:
    """`config.json` of a folder; `ValueError` if its model is none that can be trained on here."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} holds neither a checkpoint of ours nor a config.json of transformers; in "
            f"an export these are {', '.join(NETWORKS)}"
        )
    options = read_json(path)
    kind = options.get("model_type") if isinstance(options, dict) else None
    if kind != "electra":
        raise ValueError(f"{path}: model_type = {kind!r}; only 'electra' can be trained on")
    try:
        config = ElectraConfig.from_pretrained(folder)
    except Exception as error:  # transformers has sorts of its own for a value of another type
        raise ValueError(f"{path} is no config of an ELECTRA model: {error}") from None
    wanted: dict[str, Any] = {
        "hidden_act": "gelu", "type_vocab_size": 2, "is_decoder": False,
        "add_cross_attention": False, "position_embedding_type": "absolute",
    }  # fmt: skip
    for name, value in wanted.items():
        if (found := getattr(config, name, value)) != value:
            raise ValueError(f"{path}: {name} = {found!r}; only {value!r} can be trained on")
    return config


def _read_weights(folder: Path, config: ElectraConfig, network: Network) -> dict[str, Tensor]:
    """Under our names; a head that is not there is left out."""
    kind = ElectraForMaskedLM if network.predicts_tokens else ElectraForPreTraining
    with _quiet():
        try:
            loaded: Any = kind.from_pretrained(
                folder, output_loading_info=True, dtype=torch.float32, weights_only=True
            )
        except Exception as error:  # safetensors, zip and pickle have sorts of their own
            raise ValueError(f"{folder} cannot be read as {kind.__name__}: {error}") from None
    model, report = loaded
    missing = set(report["missing_keys"])
    if lacking := sorted(name for name in missing if name.startswith("electra.")):
        raise ValueError(
            f"{folder} lacks {len(lacking)} weights of the encoder, the first {lacking[0]}: it is "
            "no whole ELECTRA model"
        )
    theirs = {n: t.detach() for n, t in model.state_dict().items() if n not in missing}
    output = theirs.get(OUTPUT_TABLE)
    if output is not None and not torch.equal(output, theirs[WORD_TABLE]):
        raise ValueError(
            f"{folder}: {OUTPUT_TABLE} is not the word table; only tied tables can be trained on"
        )
    return to_our_names(theirs, name_pairs(network, config.num_hidden_layers))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without `transformers`' report of missing heads, which the log gives in our words, and its
    bars for files that are read in no time."""
    verbosity, has_bar = _get_verbosity(), _is_progress_bar_enabled()
    _set_verbosity(logging.ERROR)
    _disable_progress_bar()
    try:
        yield
    finally:
        _set_verbosity(verbosity)
        if has_bar:
            _enable_progress_bar()
