"""Continued pretraining: the weights of an earlier model as the start of a run.

They are those of a run's checkpoint, or of folders of `transformers`. Embedding matrices for
another vocabulary are made piece by piece.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from tokenizers import models
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    AutoTokenizer,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ModernBertForMaskedLM,
    ModernBertForTokenClassification,
)
from transformers.utils import logging as transformers_logging

from electrify.config.load import toml_value
from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.networks import detects_replaced
from electrify.stage.plan import NETWORKS, check_initial, initial_checkpoint, output_dir, run_folder
from electrify.storage.files import read_json
from electrify.storage.hub import file_beside, hub_failure, try_hub
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.checkpoint import DAMAGES, read_weights, restore_model, trained_options
from model.networks.electra import ElectraPretrainer
from model.plan import EncoderShape, discriminator_shape, generator_shape, network_shapes
from model.weights.names import (
    DETECTOR,
    GENERATOR,
    PREDICTOR,
    Network,
    renamed,
    tie,
    to_our_names,
    untie,
)
from vocab.segment import SPECIAL_TOKENS, is_continuing, surface
from vocab.tokenizer import (
    CLS,
    SEP,
    TOKENIZER_FILE,
    is_lowercase,
    is_special,
    read_pieces,
    tokenizer_sha256,
)

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class InitialWeights:
    """Weights of each network by itself, under the names of `model.networks.electra`."""

    name: str
    weights: Weights
    shape: EncoderShape  # of the main network
    generator_shape: EncoderShape | None  # None: there is no generator
    num_pieces: int  # behind them the embedding matrix has rows that are no piece's
    spell: "Spell"
    is_lowercase: bool | None  # its text; None: nothing says so


Spell = Callable[[str], list[int]]  # a piece of ours by the ids of its own; none if it cannot


# sizes that weights need not share; the options that set the others have the same names
_FREE = {"vocab_size", "max_position_embeddings", "attention_bias"}
_FREE |= {"hidden_dropout_prob", "attention_probs_dropout_prob"}
_BY_PIECE = (".word.weight", "generator_head.bias", "language_head.bias")
_MANY_UNKNOWN = 0.1  # of the pieces


def load_initial(model: ElectraPretrainer, config: RunConfig) -> None:
    """Fill a new model from `pretrain.initial_model` and `initial_generator`.

    Rows follow the pieces, not the ids. What the earlier model does not have stays as it was
    initialised, and the log says so. To be called in every process, before the model is wrapped.
    `UserError` if sizes or vocabularies do not fit.
    """
    pretrain = config.pretrain
    source = read_source(pretrain)
    theirs, ours = (source.shape, source.generator_shape), (model.shape, model.generator_shape)
    uses_generator = _check_shapes(pretrain, theirs, *ours)
    pieces = read_pieces(output_dir(config) / "vocab")
    rows = [source.spell(piece) for piece in pieces]
    given = _given(source, pretrain, uses_generator)
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    filled = {
        name: _fitted(name, given[name], initial, source.num_pieces, rows)
        if name in given
        else initial
        for name, initial in untie(state, pretrain).items()
    }
    restore_model(model, tie(filled, pretrain), source.name)
    _report(source, rows, filled, given)
    own, shared = given.get("generator_embeddings.word.weight"), given["embeddings.word.weight"]
    is_own = own is not None and not (own.shape == shared.shape and own.allclose(shared))
    if pretrain.weight_sharing == "embeddings" and is_own:
        warn(
            f"{source.name}: the generator has an embedding matrix of its own, which the "
            'discriminator\'s replaces; pretrain.weight_sharing = "none" keeps both'
        )
    lowercase = config.vocab.lowercase
    if source.is_lowercase not in (None, lowercase):
        warn(
            f"{source.name} has do_lower_case = {str(source.is_lowercase).lower()}, this run "
            f"vocab.lowercase = {str(lowercase).lower()}: the model has not learnt such text"
        )


def take_rows(matrix: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """(V_old, E) or (V_old,) to (V_new, E) or (V_new,): each new row is the mean of these old ones,
    of none the mean of all. One that is kept is the same to the bit."""
    wide = matrix if matrix.dim() == 2 else matrix[:, None]
    flat = torch.tensor([row for several in rows for row in several], dtype=torch.int64)
    lengths = torch.tensor([0, *map(len, rows)])
    taken = F.embedding_bag(flat, wide, lengths.cumsum(0)[:-1], mode="mean")
    taken[lengths[1:] == 0] = wide.mean(0)
    return taken if matrix.dim() == 2 else taken[:, 0]


def check_initial_shapes(config: RunConfig) -> None:
    """`UserError` if the initial weights cannot be read, or do not fit the config.

    Of a model of the hub `config.json` alone is read, and nothing where the hub does not give it.
    """
    options, vocab_size = config.pretrain, config.vocab.num_pieces  # no size that is compared
    ours = discriminator_shape(options, vocab_size), generator_shape(options, vocab_size)
    name, generator = options.initial_model, options.initial_generator
    if name and check_initial(options) and not initial_checkpoint(name):
        theirs = _shape_at(name), _shape_at(generator) if generator else None
        _check_shapes(options, theirs, *ours)
    else:
        source = read_source(options)
        _check_shapes(options, (source.shape, source.generator_shape), *ours)


def _shape_at(name: str) -> EncoderShape | None:
    """Sizes of a folder of `transformers`, or of a model of the hub; None where that does not give
    them."""
    folder, file = Path(name).expanduser(), None
    if not folder.is_dir():
        with suppress(UserError):
            file = file_beside(name, "config.json", None)
        if file is None:
            return None
        folder = file.parent
    return _shape_of(_read_config(folder)[1], folder)


def _check_shapes(
    config: PretrainConfig,
    both: tuple[EncoderShape | None, EncoderShape | None],
    ours: EncoderShape,
    our_generator: EncoderShape,
) -> bool:
    """Whether the earlier generator is one of the new run's kind; `UserError` naming every size
    in which one of `both` earlier networks differs, and the options to set."""
    main, generator = both
    if main is not None and (problems := _differences(main, ours)):
        options = (f"pretrain.{n} = {toml_value(getattr(main, n))}" for n in problems)
        raise UserError(
            f"pretrain.initial_model = {config.initial_model!r} does not fit the config: "
            f"{', '.join(problems.values())}. Set {', '.join(options)}"
        )
    theirs = generator if config.has_generator else None
    if theirs is not None and (problems := _differences(theirs, our_generator)):
        raise UserError(
            f"the generator of {config.initial_model!r} does not fit the config: "
            f"{', '.join(problems.values())}. Set "
            f"pretrain.generator_hidden_fraction = {theirs.hidden_size / ours.hidden_size:.10g}, "
            "pretrain.generator_layers_fraction = "
            f"{theirs.num_hidden_layers / ours.num_hidden_layers:.10g} and a "
            f"pretrain.weight_sharing with generator embeddings {theirs.embedding_size} wide; or "
            "give the discriminator alone, and the generator is new"
        )
    return theirs is not None


def _differences(theirs: EncoderShape, ours: EncoderShape) -> dict[str, str]:
    """Both values, by the name of the size."""
    # biases that are not there begin at 0
    free = _FREE - ({"attention_bias"} if theirs.attention_bias else set())
    names = [size.name for size in fields(EncoderShape) if size.name not in free]
    pairs = {name: (getattr(theirs, name), getattr(ours, name)) for name in names}
    return {n: f"{n} is {a} there, {b} here" for n, (a, b) in pairs.items() if a != b}


def _given(source: InitialWeights, config: PretrainConfig, uses_generator: bool) -> Weights:
    """The earlier weights that the new run has a use for, by network."""
    if uses_generator:
        return source.weights
    of_generator = ("generator", "baseline")  # and its embeddings and head
    given = {n: t for n, t in source.weights.items() if not n.startswith(of_generator)}
    if config.has_generator and "language_head.bias" in given:  # as between two stages of a run
        given["generator_head.bias"] = given["language_head.bias"]
    if config.has_generator and config.weight_sharing != "none":
        given |= renamed(given, (("embeddings.", "generator_embeddings."),))
    return given


def _fitted(
    name: str, given: Tensor, initial: Tensor, num_pieces: int, rows: Sequence[Sequence[int]]
) -> Tensor:
    if name.endswith(_BY_PIECE):
        given = take_rows(given[:num_pieces], rows)  # behind them only rows without a piece
    if name.endswith(".position.weight"):  # those that are new stay as initialised
        num_both = min(len(given), len(initial))
        given = torch.cat([given[:num_both], initial[num_both:]])
    assert given.shape == initial.shape, name
    return given


def _report(
    source: InitialWeights, rows: Sequence[Sequence[int]], filled: Weights, given: Weights
) -> None:
    taken = _parts(name for name in filled if name in given)
    log(f"initial weights from {source.name}: {taken}")
    if new := [name for name in filled if name not in given]:
        log(f"start at random, because the old model lacks them: {_parts(new)}")
    num_pieces, lengths = len(rows), Counter(map(len, rows))
    num_kept, num_unknown = lengths[1], lengths[0]
    log(
        f"{num_pieces:,} pieces: {num_kept:,} keep their vector, "
        f"{num_pieces - num_kept - num_unknown:,} start as the mean of their sub-pieces, "
        f"{num_unknown:,} as the mean of all old pieces; {source.num_pieces - num_kept:,} old "
        "pieces are dropped"
    )
    if num_unknown > _MANY_UNKNOWN * num_pieces:
        warn(
            f"the old vocabulary cannot spell {num_unknown:,} of {num_pieces:,} new pieces. "
            "Check that case and language are the same; vocab.extend keeps the old pieces"
        )


def _parts(names: Iterable[str]) -> str:
    counts = Counter(name.split(".")[0] for name in names)
    return ", ".join(f"{part} ({count})" for part, count in counts.items())


# --- reading --------------------------------------------------------------------------------------

_HUB_FILES = ["*.json", "*.txt", "*.safetensors", "*.bin"]


def read_source(config: PretrainConfig) -> InitialWeights:
    """What `initial_model` and `initial_generator` name; `UserError` if it cannot be read."""
    check_initial(config)
    name, generator = config.initial_model, config.initial_generator
    assert name is not None
    checkpoint = initial_checkpoint(name)
    if checkpoint is None:
        return _from_transformers(name, generator)
    if generator is not None:
        raise UserError(
            f"pretrain.initial_generator = {generator!r} beside the run {name!r}, which has a "
            f"generator of its own: leave it out, or give initial_model = {name}/export/"
            "discriminator"
        )
    return _from_checkpoint(name, checkpoint)


def _from_checkpoint(name: str, path: Path) -> InitialWeights:
    try:
        state, weights = read_weights(path)
        identity = state["identity"]
        sha256, vocab_size = str(identity["tokenizer_sha256"]), int(identity["vocab_size"])
    except DAMAGES as error:
        raise UserError(
            f"pretrain.initial_model = {name!r}: {path} is damaged ({error}); name another "
            "checkpoint folder of that run"
        ) from None
    config, vocab = trained_options(identity, path), run_folder(path) / "vocab"
    if not (vocab / TOKENIZER_FILE).is_file() or tokenizer_sha256(vocab) != sha256:
        raise UserError(
            f"{vocab} is not the vocabulary that {path} was trained with: put that one there"
        )
    shapes, spell = network_shapes(config, vocab_size), wordpiece(read_pieces(vocab))
    weights = untie(weights, config)
    return InitialWeights(name, weights, *shapes, vocab_size, spell, is_lowercase(vocab))


def _from_transformers(name: str, generator: str | None) -> InitialWeights:
    main = _folder(name, "initial_model")
    weights, shape = _read_network(main)
    num_pieces, spell = shape.vocab_size, _other_tokenizer(main) if shape.is_modern else None
    pieces: Sequence[str] | None = None
    if spell is None:
        pieces = read_pieces(main)
        num_pieces, spell = len(pieces), wordpiece(pieces)
    if num_pieces > shape.vocab_size:
        raise UserError(
            f"{main} has {num_pieces} pieces, but vocab_size = {shape.vocab_size} in its "
            "config.json: they are not of one model"
        )
    shape_of_generator = None
    if generator is not None:
        folder = _folder(generator, "initial_generator")
        added, shape_of_generator = _read_network(folder, GENERATOR)
        is_same = pieces == read_pieces(folder) if pieces else _has_pieces_of(main, folder)
        if not is_same:
            raise UserError(f"{folder} has another vocabulary than {main}: give networks of one")
        weights |= added
    shapes = shape, shape_of_generator
    return InitialWeights(name, weights, *shapes, num_pieces, spell, is_lowercase(main))


def _has_pieces_of(main: Path, folder: Path) -> bool:
    """Whether two tokenizers that are not WordPiece have the same pieces by the same ids."""
    kind: Any = AutoTokenizer
    first, second = (kind.from_pretrained(each).get_vocab() for each in (main, folder))
    return bool(first == second)


_MARK = "\0"  # a letter that stands in no piece: what follows it continues a word


def wordpiece(pieces: Sequence[str]) -> Spell:
    """A piece that is there is itself; another one takes those that WordPiece would cut it into, a
    special token none."""
    mark, ids = len(pieces), {piece: index for index, piece in enumerate(pieces)}
    model = models.WordPiece(ids | {_MARK: mark}, unk_token=_MARK, max_input_chars_per_word=1000)

    def spell(piece: str) -> list[int]:
        if piece in ids or is_special(piece):
            return [ids[piece]] if piece in ids else []
        text = _MARK + surface(piece) if is_continuing(piece) else piece
        return [token.id for token in model.tokenize(text) if token.id != mark]

    return spell


def _other_tokenizer(folder: Path) -> Spell | None:
    """Of a tokenizer that is not WordPiece (ModernBERT's, mmBERT's); None for WordPiece."""
    if not (folder / TOKENIZER_FILE).is_file():
        return None
    try:
        kind: Any = AutoTokenizer
        tokenizer = kind.from_pretrained(folder)
    except Exception as error:  # transformers and tokenizers have sorts of their own
        raise UserError(f"{folder}: its tokenizer cannot be read: {error}") from None
    if type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece":
        return None
    special = {CLS: tokenizer.bos_token_id, SEP: tokenizer.eos_token_id}  # as mmBERT has them
    for name in SPECIAL_TOKENS:
        own = getattr(tokenizer, f"{name.strip('[]').lower()}_token_id")
        special[name] = special.get(name) if own is None else own

    def spell(piece: str) -> list[int]:
        if is_special(piece):
            return [number for number in [special.get(piece)] if number is not None]
        # a word begins with the space before it
        text = surface(piece) if is_continuing(piece) else f" {piece}"
        ids = tokenizer.encode(text, add_special_tokens=False)
        return [number for number in ids if number != tokenizer.unk_token_id]

    return spell


def _folder(name: str, option: str) -> Path:
    """A folder, or the copy of a model of the Hugging Face hub; `check_initial` has been asked."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    try_hub()
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # network, rights, no such model: the hub's own errors say which
        raise UserError(
            f"pretrain.{option} = {name!r} is not a folder, and the hub does not give it: "
            f"{hub_failure(error)}"
        ) from None


# what the config of a network of `transformers` must say, for it to be trained on here
_ELECTRA: Mapping[str, object] = {"hidden_act": "gelu", "type_vocab_size": 2}
_MODERN: Mapping[str, object] = {
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "norm_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "tie_word_embeddings": True,
}
# by model_type: the classes that predict tokens, and that detect replaced ones
_KINDS: Mapping[str, tuple[Any, Any, Mapping[str, object]]] = {
    "electra": (ElectraForMaskedLM, ElectraForPreTraining, _ELECTRA),
    "modernbert": (ModernBertForMaskedLM, ModernBertForTokenClassification, _MODERN),
}


def _read_config(folder: Path) -> tuple[str, Any]:
    """`model_type` and the config of a network; `UserError` if it is none that can be trained on
    here."""
    path = folder / "config.json"
    if not path.is_file() and initial_checkpoint(str(folder)):
        raise UserError(
            f"{folder} is a run or a checkpoint: pretrain.initial_generator takes an exported "
            "folder, as RUN/export/generator"
        )
    if not path.is_file():
        raise UserError(
            f"{folder} holds neither a checkpoint of ours nor a config.json of transformers; in an "
            f"export name the folders {' and '.join(NETWORKS[:2])}"
        )
    options = read_json(path)
    kind = options.get("model_type") if isinstance(options, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UserError(
            f"{path}: model_type = {kind!r}; only {', '.join(map(repr, _KINDS))} can be trained on"
        )
    predictor, _, wanted = _KINDS[kind]
    try:
        config = predictor.config_class.from_pretrained(folder)
    except Exception as error:  # transformers has sorts of its own for a value of another type
        raise UserError(f"{path} is no config of {kind}: {error}") from None
    for name, value in wanted.items():
        if (there := getattr(config, name, value)) != value:
            raise UserError(f"{path}: {name} = {there!r}; only {value!r} can be trained on")
    return kind, config


def _shape_of(config: Any, folder: Path) -> EncoderShape:
    if config.model_type != "modernbert":
        return EncoderShape.of(config)
    is_local = [kind == "sliding_attention" for kind in config.layer_types]
    every = [*is_local[1:], False].index(False) + 1
    is_periodic = is_local == [layer % every > 0 for layer in range(len(is_local))]
    rope = config.rope_parameters
    if not is_periodic or any(kind["rope_type"] != "default" for kind in rope.values()):
        raise UserError(
            f"{folder}: layer_types or rope_parameters are none that can be trained on: every nth "
            "layer must be global, and positions of the type default"
        )
    return EncoderShape.of(
        config,
        embedding_size=config.hidden_size,
        hidden_dropout_prob=config.mlp_dropout,
        attention_probs_dropout_prob=config.attention_dropout,
        layer_norm_eps=config.norm_eps,
        architecture="modern",
        global_attn_every_n_layers=every,
        global_rope_theta=rope["full_attention"]["rope_theta"],
        local_rope_theta=rope["sliding_attention"]["rope_theta"],
    )


def _read_network(folder: Path, network: Network | None = None) -> tuple[Weights, EncoderShape]:
    """A folder's weights under our names, and their sizes. A head that is not there is left out.

    `network` None: the main one, with the head that it has.
    """
    kind, config = _read_config(folder)
    predictor, detector, _ = _KINDS[kind]
    if network is None:
        predicts = any(name.endswith("ForMaskedLM") for name in config.architectures or [])
        network = PREDICTOR if predicts else DETECTOR
    chosen = predictor if network.predicts_tokens else detector
    quiet: Any = transformers_logging  # the log names missing heads in our words; files are small
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    try:
        model, report = chosen.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, weights_only=True
        )
    except Exception as error:  # safetensors, zip and pickle have sorts of their own
        raise UserError(f"{folder} cannot be read as {chosen.__name__}: {error}") from None
    missing, encoder = set(report["missing_keys"]), f"{chosen.base_model_prefix}."
    theirs = {n: t.detach() for n, t in model.state_dict().items() if n not in missing}
    if lacking := sorted(name for name in missing if name.startswith(encoder)):
        raise UserError(
            f"{folder} is not a whole model: it lacks {lacking[0]} and {len(lacking) - 1} others"
        )
    is_modern = kind == "modernbert"
    if network is DETECTOR and is_modern and not detects_replaced(config.id2label):
        # its head is of another task
        theirs = {n: t for n, t in theirs.items() if n.startswith(encoder)}
    shape = _shape_of(config, folder)
    return to_our_names(theirs, network, shape), shape
