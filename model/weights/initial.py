"""Continued pretraining: the weights of an earlier model as the start of a run.

They are those of a run's checkpoint, or of folders of `transformers`. Embedding matrices for
another vocabulary are made piece by piece.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from electrify.storage.hub import hub_failure, try_hub
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.checkpoint import DAMAGES, read_weights, restore_model, trained_options
from model.electra import ElectraPretrainer
from model.plan import EncoderShape, discriminator_shape, generator_shape, network_shapes
from model.weights.names import (
    DETECTOR,
    GENERATOR,
    LANGUAGE_MODEL,
    PREDICTOR,
    Network,
    renamed,
    tie,
    to_our_names,
    untie,
)
from vocab.segment import is_continuing, surface
from vocab.shards.files import TokenShards
from vocab.tokenizer import (
    CLS,
    MASK,
    PAD,
    SEP,
    TOKENIZER_FILE,
    UNK,
    is_lowercase,
    is_special,
    read_pieces,
    tokenizer_sha256,
)

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class InitialWeights:
    """Weights of each network by itself, under the names of `model.electra`."""

    name: str
    weights: Weights
    shape: EncoderShape  # of the main network
    generator_shape: EncoderShape | None  # None: there is no generator
    tokenizer_sha256: str | None  # of a run
    num_pieces: int  # behind them the embedding matrix has rows that are no piece's
    spell: "Spell | None"  # None: no vocabulary lies beside the weights
    is_lowercase: bool | None  # its text; None: nothing says so


Spell = Callable[[str], list[int]]  # a piece of ours by the ids of its own; none if it cannot


# what weights must share; the options that set the main network's sizes have the same names
_SIZES = (
    "architecture",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "layer_norm_eps",
)
_MODERN_SIZES = (
    "global_attn_every_n_layers",
    "local_attention",
    "global_rope_theta",
    "local_rope_theta",
)
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
    uses_generator = _check_shapes(pretrain, source, model.shape, model.generator_shape)
    if pretrain.objective == "electra-two-stage":
        warn("after the first stage the generator's weights replace the initial discriminator's")
    rows = _rows_between(source, config)
    given = _given(source, pretrain, uses_generator)
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    filled = {
        name: _fitted(name, given[name], tensor, rows) if name in given else tensor
        for name, tensor in untie(state, pretrain).items()
    }
    restore_model(model, tie(filled, pretrain), source.name)
    _report(source, rows, filled, given, len(state.get("embeddings.position.weight", ())))
    _warn_of_lost(source, filled, given, pretrain)
    lowercase = config.vocab.lowercase
    if source.is_lowercase not in (None, lowercase):
        warn(
            f"{source.name} has do_lower_case = {str(source.is_lowercase).lower()}, this run "
            f"vocab.lowercase = {str(lowercase).lower()}: the model has not learnt such text"
        )


@dataclass(frozen=True)
class PieceRows:
    """Which old rows each new piece is the mean of: itself, its sub-pieces, or (none) all rows."""

    sources: list[list[int]]
    num_old: int

    @property
    def num_kept(self) -> int:
        """New pieces that are pieces of the old vocabulary."""
        return sum(len(rows) == 1 for rows in self.sources)

    @property
    def num_unknown(self) -> int:
        """New pieces that the old vocabulary cannot spell."""
        return sum(not rows for rows in self.sources)

    def take(self, matrix: Tensor) -> Tensor:
        """(V_old, E) or (V_old,) to (V_new, E) or (V_new,); a kept row is the same to the bit."""
        wide = matrix if matrix.dim() == 2 else matrix[:, None]
        flat = torch.tensor([row for rows in self.sources for row in rows], dtype=torch.int64)
        lengths = torch.tensor([0, *(len(rows) for rows in self.sources)])
        taken = F.embedding_bag(flat, wide, lengths.cumsum(0)[:-1], mode="mean")
        unknown = torch.tensor([not rows for rows in self.sources])
        taken[unknown] = wide.mean(0)
        return taken if matrix.dim() == 2 else taken[:, 0]


def _rows_between(source: InitialWeights, config: RunConfig) -> PieceRows:
    run = output_dir(config)
    shards = TokenShards(run / "shards")
    if source.tokenizer_sha256 == shards.tokenizer_sha256:
        size = shards.vocab_size
        return PieceRows([[index] for index in range(size)], size)
    if source.spell is None:
        raise UserError(
            f"pretrain.initial_model = {source.name!r} was trained with another tokenizer than "
            f"this run's ({source.tokenizer_sha256}, here {shards.tokenizer_sha256}), and its "
            "vocabulary is not there: keep its run's vocab/ beside its pretrain/"
        )
    pieces = read_pieces(run / "vocab")
    assert len(pieces) == shards.vocab_size  # `open_shards` has compared them
    return PieceRows([source.spell(piece) for piece in pieces], source.num_pieces)


def check_initial_shapes(config: RunConfig) -> None:
    """`UserError` if the initial weights cannot be read, or do not fit the config."""
    options, vocab_size = config.pretrain, config.vocab.num_pieces  # no size that is compared
    shapes = discriminator_shape(options, vocab_size), generator_shape(options, vocab_size)
    _check_shapes(options, read_source(options), *shapes)


def _check_shapes(
    config: PretrainConfig, source: InitialWeights, ours: EncoderShape, our_generator: EncoderShape
) -> bool:
    """Whether the earlier generator is one of the new run's kind; `UserError` naming every size
    that differs, and the options to set."""
    their_generator = source.generator_shape
    uses_generator = their_generator is not None and config.has_generator
    if config.objective == "electra-two-stage" and not uses_generator:
        raise UserError(
            f"pretrain.initial_model = {config.initial_model!r} has no generator, and with "
            "objective = 'electra-two-stage' the discriminator is replaced by the trained "
            "generator: give initial_generator too, or take the objective electra"
        )
    if problems := _differences(source.shape, ours):
        options = (f"pretrain.{n} = {toml_value(getattr(source.shape, n))}" for n in problems)
        raise UserError(
            f"pretrain.initial_model = {config.initial_model!r} does not fit the config: "
            f"{', '.join(problems.values())}. Set {', '.join(options)}"
        )
    if not uses_generator or their_generator is None:
        return uses_generator
    if problems := _differences(their_generator, our_generator):
        width = their_generator.hidden_size / ours.hidden_size
        depth = their_generator.num_hidden_layers / ours.num_hidden_layers
        raise UserError(
            f"the generator of {config.initial_model!r} does not fit the config: "
            f"{', '.join(problems.values())}. Set "
            f"pretrain.generator_hidden_fraction = {width:.10g}, "
            f"pretrain.generator_layers_fraction = {depth:.10g} and a pretrain.weight_sharing with "
            f"generator embeddings {their_generator.embedding_size} wide; or give the "
            "discriminator alone (of a run its export/discriminator), and the generator is new"
        )
    return uses_generator


def _differences(theirs: EncoderShape, ours: EncoderShape) -> dict[str, str]:
    """Both values, by the name of the size."""
    names = [*_SIZES, *(_MODERN_SIZES if ours.is_modern else ())]
    if theirs.attention_bias:  # where they are not there, they begin at 0
        names.append("attention_bias")
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


def _fitted(name: str, given: Tensor, initial: Tensor, rows: PieceRows) -> Tensor:
    if name.endswith(_BY_PIECE):
        given = rows.take(given[: rows.num_old])  # behind them only rows without a piece
    if name.endswith(".position.weight"):  # those that are new stay as initialised
        num_both = min(len(given), len(initial))
        given = torch.cat([given[:num_both], initial[num_both:]])
    assert given.shape == initial.shape, name
    return given


def _warn_of_lost(
    source: InitialWeights, filled: Weights, given: Weights, config: PretrainConfig
) -> None:
    """Of an earlier generator that shared less than this run's."""
    shared = untie(tie(filled, config), config)
    lost = [n for n in filled if n in given and not torch.allclose(shared[n], filled[n], atol=1e-5)]
    if lost:
        warn(
            f"{source.name}: the generator has weights of its own, {_parts(lost)}; with "
            f'pretrain.weight_sharing = "{config.weight_sharing}" the discriminator\'s replace '
            'them, with "none" they stay'
        )


def _report(
    source: InitialWeights,
    rows: PieceRows,
    filled: Weights,
    given: Mapping[str, Tensor],
    num_positions: int,
) -> None:
    taken = _parts(name for name in filled if name in given)
    log(f"initial weights from {source.name}: {taken}")
    if new := [name for name in filled if name not in given]:
        log(f"start at random, because the old model lacks them: {_parts(new)}")
    num_old = len(given.get("embeddings.position.weight", ()))
    if num_old < num_positions:
        log(f"positions {num_old:,} to {num_positions - 1:,} start at random, too")
    num_pieces = len(rows.sources)
    log(
        f"{num_pieces:,} pieces: {rows.num_kept:,} keep their vector, "
        f"{num_pieces - rows.num_kept - rows.num_unknown:,} start as the mean of their sub-pieces, "
        f"{rows.num_unknown:,} as the mean of all old pieces; {rows.num_old - rows.num_kept:,} old "
        "pieces are dropped"
    )
    if rows.num_unknown > _MANY_UNKNOWN * num_pieces:
        warn(
            f"the old vocabulary cannot spell {rows.num_unknown:,} of {num_pieces:,} new pieces. "
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
    config = trained_options(identity, path)
    shape, shape_of_generator = network_shapes(config, vocab_size)
    vocab, spell = run_folder(path) / "vocab", None
    if (vocab / TOKENIZER_FILE).is_file():
        if tokenizer_sha256(vocab) != sha256:
            raise UserError(
                f"{vocab} is not the vocabulary that {path} was trained with: put that one back"
            )
        spell = wordpiece(read_pieces(vocab))
    return InitialWeights(
        name,
        untie(weights, config),
        shape,
        shape_of_generator,
        sha256,
        shape.vocab_size,
        spell,
        is_lowercase(vocab),
    )


def _from_transformers(name: str, generator: str | None) -> InitialWeights:
    main = _folder(name, "initial_model")
    extra: list[tuple[Path, Network]] = []
    if not (main / "config.json").is_file() and (main / "discriminator").is_dir():
        # a run's export: all of it
        networks = (LANGUAGE_MODEL,) if generator else (GENERATOR, LANGUAGE_MODEL)
        extra = [(main / n.folder, n) for n in networks if (main / n.folder).is_dir()]
        main = main / "discriminator"
    if generator is not None:
        extra.append((_folder(generator, "initial_generator"), GENERATOR))
    given = read_given(main)
    weights = _read_weights(given, PREDICTOR if given.predicts_tokens else DETECTOR)
    shape_of_generator = None
    pieces: Sequence[str] | None = None
    num_pieces, spell = given.shape.vocab_size, _other_tokenizer(main, given)
    if spell is None:
        pieces = read_pieces(main)
        num_pieces, spell = len(pieces), wordpiece(pieces)
    if num_pieces > given.shape.vocab_size:
        raise UserError(
            f"{main} has {num_pieces} pieces, but vocab_size = {given.shape.vocab_size} in its "
            "config.json: they are not of one model"
        )
    for folder, network in extra:
        own = read_given(folder)
        if pieces is None or read_pieces(folder) != pieces:
            raise UserError(f"{folder} has another vocabulary than {main}: give networks of one")
        added = _read_weights(own, network)
        if network is GENERATOR:
            shape_of_generator = own.shape
        else:  # the main network again, with its other head
            added = {n: t for n, t in added.items() if n.startswith(f"{network.head}.")}
        weights |= added
    lowercase = is_lowercase(main)
    return InitialWeights(
        name, weights, given.shape, shape_of_generator, None, num_pieces, spell, lowercase
    )


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


def _other_tokenizer(folder: Path, given: "Given") -> Spell | None:
    """Of a tokenizer that is not WordPiece (ModernBERT's, mmBERT's); None for WordPiece."""
    if given.kind != "modernbert" or not (folder / TOKENIZER_FILE).is_file():
        return None
    try:
        kind: Any = AutoTokenizer
        tokenizer = kind.from_pretrained(folder)
    except Exception as error:  # transformers and tokenizers have sorts of their own
        raise UserError(f"{folder}: its tokenizer cannot be read: {error}") from None
    if type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece":
        return None
    ends = tokenizer.bos_token_id, tokenizer.eos_token_id  # mmBERT has them for [CLS] and [SEP]
    special = {
        UNK: tokenizer.unk_token_id,
        PAD: tokenizer.pad_token_id,
        CLS: ends[0] if tokenizer.cls_token_id is None else tokenizer.cls_token_id,
        SEP: ends[1] if tokenizer.sep_token_id is None else tokenizer.sep_token_id,
        MASK: tokenizer.mask_token_id,
    }

    def spell(piece: str) -> list[int]:
        if is_special(piece):
            return [special[piece]] if special.get(piece) is not None else []
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


@dataclass(frozen=True)
class Given:
    """A folder of `transformers` whose network can be trained on."""

    folder: Path
    kind: str  # model_type
    shape: EncoderShape
    predicts_tokens: bool  # whether it is a masked language model


# what the config of a network of `transformers` must say, for it to be trained on here
_COMMON: Mapping[str, object] = {
    "hidden_act": "gelu",
    "type_vocab_size": 2,
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}
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
    "electra": (ElectraForMaskedLM, ElectraForPreTraining, _COMMON),
    "modernbert": (ModernBertForMaskedLM, ModernBertForTokenClassification, _MODERN),
}


def read_given(folder: Path) -> Given:
    """What `config.json` says; `UserError` if its model is none that can be trained on here."""
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(
            f"{folder} holds neither a checkpoint of ours nor a config.json of transformers; in "
            f"an export these are {', '.join(NETWORKS)}"
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
    names = config.architectures or []
    predicts = any(name.endswith("ForMaskedLM") for name in names)
    shape = EncoderShape.of(config) if kind == "electra" else _modern_shape(config, path)
    return Given(folder, kind, shape, predicts)


def _modern_shape(config: Any, path: Path) -> EncoderShape:
    is_local = [kind == "sliding_attention" for kind in config.layer_types]
    every = [*is_local[1:], False].index(False) + 1
    is_periodic = is_local == [layer % every > 0 for layer in range(len(is_local))]
    rope = config.rope_parameters
    if not is_periodic or any(kind["rope_type"] != "default" for kind in rope.values()):
        raise UserError(
            f"{path}: layer_types or rope_parameters are none that can be trained on: every nth "
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


def _read_weights(given: Given, network: Network) -> Weights:
    """Under our names; a head that is not there is left out."""
    predictor, detector, _ = _KINDS[given.kind]
    folder, kind = given.folder, predictor if network.predicts_tokens else detector
    quiet: Any = transformers_logging  # the log names missing heads in our words; files are small
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    try:
        model, report = kind.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, weights_only=True
        )
    except Exception as error:  # safetensors, zip and pickle have sorts of their own
        raise UserError(f"{folder} cannot be read as {kind.__name__}: {error}") from None
    missing = set(report["missing_keys"])
    theirs = {n: t.detach() for n, t in model.state_dict().items() if n not in missing}
    encoder = f"{kind.base_model_prefix}."
    if lacking := sorted(name for name in missing if name.startswith(encoder)):
        raise UserError(
            f"{folder} is not a whole model: it lacks {len(lacking)} weights of the encoder, the "
            f"first {lacking[0]}"
        )
    if given.kind == "modernbert" and not (
        network.predicts_tokens or detects_replaced(model.config.id2label)
    ):  # its head is of another task
        theirs = {n: t for n, t in theirs.items() if n.startswith(encoder)}
    try:
        return to_our_names(theirs, network, given.shape)
    except ValueError as error:
        raise UserError(f"{folder}: {error}") from None
