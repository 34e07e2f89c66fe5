"""Continued pretraining: the weights of an earlier model as the start of a run.

They are read from another run or from `transformers` folders. Embedding matrices for another
vocabulary are made piece by piece.
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
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
)
from transformers.utils import logging as transformers_logging

from electrify.config.load import toml_value
from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.plan import (
    NETWORKS,
    check_initial,
    initial_checkpoint,
    output_dir,
    run_folder,
)
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.batch import SpecialTokens
from model.electra import ElectraPretrainer
from model.plan import EncoderShape, discriminator_shape, generator_shape
from model.train.checkpoint import DAMAGES, read_checkpoint, restore_model, trained_options
from model.weights.names import (
    DETECTOR,
    GENERATOR,
    LANGUAGE_MODEL,
    OUTPUT_TABLE,
    PREDICTOR,
    WORD_TABLE,
    Network,
    name_pairs,
    renamed,
    tie,
    to_our_names,
    untie,
)
from vocab.shards.files import TokenShards
from vocab.tokenizer import (
    CLS,
    MASK,
    PAD,
    SEP,
    TOKENIZER_FILE,
    is_lowercase,
    is_special,
    read_pieces,
    tokenizer_sha256,
)
from vocab.wordpiece.segment import is_continuing, surface

_HUB_FILES = ["*.json", "*.txt", "*.safetensors", "*.bin"]
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
_BY_PIECE = (".word.weight", "generator_head.bias", "language_head.bias")
_MANY_UNKNOWN = 0.1  # of the pieces
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Source:
    """Weights of each network by itself, under the names of `model.electra`."""

    place: str
    weights: Weights
    shape: EncoderShape  # of the main network
    generator_shape: EncoderShape | None  # None: there is no generator
    tokenizer_sha256: str | None  # of a run
    pieces: Sequence[str] | None  # None: no vocabulary lies beside the weights
    is_lowercase: bool | None  # its text; None: nothing says so


def load_initial(model: ElectraPretrainer, config: RunConfig) -> None:
    """Fill a new model from `pretrain.initial_model` and `initial_generator`.

    Rows follow the pieces, not the ids. What the earlier model does not have stays as it was
    initialised, and the log says so. To be called in every process, before the model is wrapped.
    `UserError` if sizes or vocabularies do not fit.
    """
    pretrain = config.pretrain
    source = read_source(pretrain)
    uses_generator = _uses_generator(source, model)
    _check_sizes(source, model, uses_generator)
    rows = _rows_between(source, config, model.special)
    given = _given(source, pretrain, uses_generator)
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    filled = {
        name: _fitted(name, given[name], tensor, rows) if name in given else tensor
        for name, tensor in untie(state, pretrain).items()
    }
    restore_model(model, tie(filled, pretrain), source.place)
    _report(source, rows, filled, given)
    lowercase = config.vocab.lowercase
    if source.is_lowercase not in (None, lowercase):
        warn(
            f"{source.place} has do_lower_case = {str(source.is_lowercase).lower()}, this run "
            f"vocab.lowercase = {str(lowercase).lower()}: the model has not learnt such text"
        )


def read_source(config: PretrainConfig) -> Source:
    """What `initial_model` and `initial_generator` name; `UserError` if it cannot be read."""
    check_initial(config)
    place, generator = config.initial_model, config.initial_generator
    assert place is not None
    checkpoint = initial_checkpoint(place)
    if checkpoint is None:
        return _from_transformers(place, generator)
    if generator is not None:
        raise UserError(
            f"pretrain.initial_generator = {generator!r} beside the run {place!r}, which has a "
            f"generator of its own: leave it out, or give initial_model = {place}/export/"
            "discriminator"
        )
    return _from_checkpoint(place, checkpoint)


def _from_checkpoint(place: str, path: Path) -> Source:
    try:
        checkpoint = read_checkpoint(path)
        config = trained_options(checkpoint.identity)
        vocab_size = int(checkpoint.identity["vocab_size"])
        sha256 = str(checkpoint.identity["tokenizer_sha256"])
    except DAMAGES as error:
        raise UserError(
            f"pretrain.initial_model = {place!r}: {path} is damaged ({error}); name another "
            "checkpoint folder of that run"
        ) from None
    vocab, pieces = run_folder(path) / "vocab", None
    if (vocab / TOKENIZER_FILE).is_file():
        if tokenizer_sha256(vocab) != sha256:
            raise UserError(
                f"{vocab} is not the vocabulary that {path} was trained with: put that one back"
            )
        pieces = read_pieces(vocab)
    return Source(
        place,
        untie(checkpoint.model, config),
        discriminator_shape(config, vocab_size),
        generator_shape(config, vocab_size) if config.has_generator else None,
        sha256,
        pieces,
        is_lowercase(vocab),
    )


def _from_transformers(place: str, generator: str | None) -> Source:
    main = _folder(place, "initial_model")
    extra: list[tuple[Path, Network]] = []
    if not (main / "config.json").is_file() and (main / "discriminator").is_dir():
        # a run's export: all of it
        networks = (LANGUAGE_MODEL,) if generator else (GENERATOR, LANGUAGE_MODEL)
        extra = [(main / n.folder, n) for n in networks if (main / n.folder).is_dir()]
        main = main / "discriminator"
    if generator is not None:
        extra.append((_folder(generator, "initial_generator"), GENERATOR))
    config = read_electra_config(main)
    predicts = "ElectraForMaskedLM" in (config.architectures or [])
    weights = _read_weights(main, config, PREDICTOR if predicts else DETECTOR)
    pieces, shape_of_generator = read_pieces(main), None
    if len(pieces) > config.vocab_size:
        raise UserError(
            f"{main} has {len(pieces)} pieces, but vocab_size = {config.vocab_size} in its "
            "config.json: they are not of one model"
        )
    for folder, network in extra:
        own = read_electra_config(folder)
        if read_pieces(folder) != pieces:
            raise UserError(f"{folder} has another vocabulary than {main}: give networks of one")
        added = _read_weights(folder, own, network)
        if network is GENERATOR:
            shape_of_generator = EncoderShape.of(own)
        else:  # the main network again, with its other head
            added = {n: t for n, t in added.items() if n.startswith(f"{network.head}.")}
        weights |= added
    shape, lowercase = EncoderShape.of(config), is_lowercase(main)
    return Source(place, weights, shape, shape_of_generator, None, pieces, lowercase)


def _folder(name: str, option: str) -> Path:
    """A folder, or the copy of a model of the Hugging Face hub; `check_initial` has been asked."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # network, rights, no such model: the hub's own errors say which
        raise UserError(
            f"pretrain.{option} = {name!r} is not a folder, and the hub does not give it: {error}"
        ) from None


# of `transformers`, whose networks can be trained on here: the class of a config
_CONFIGS: dict[str, Any] = {"electra": ElectraConfig, "bert": BertConfig}
# an ELECTRA whose embeddings are as wide as its hidden states is a BERT: theirs, ELECTRA's
_BERT_NAMES = (
    ("bert.", "electra."),
    ("cls.predictions.transform.", "generator_predictions."),
    ("cls.predictions.decoder.weight", OUTPUT_TABLE),
    ("cls.predictions.bias", "generator_lm_head.bias"),
)
_WANTED: dict[str, object] = {
    "hidden_act": "gelu",
    "type_vocab_size": 2,
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}


def read_electra_config(folder: Path) -> ElectraConfig:
    """`config.json` of an ELECTRA folder, or of a BERT folder that of the ELECTRA it is.

    `UserError` if its model is none that can be trained on here.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(
            f"{folder} holds neither a checkpoint of ours nor a config.json of transformers; in "
            f"an export these are {', '.join(NETWORKS)}"
        )
    options = read_json(path)
    kind = options.get("model_type") if isinstance(options, dict) else None
    if kind not in _CONFIGS:
        raise UserError(
            f"{path}: model_type = {kind!r}; only {' and '.join(map(repr, _CONFIGS))} can be "
            "trained on"
        )
    try:
        config = _CONFIGS[kind].from_pretrained(folder)
    except Exception as error:  # transformers has sorts of its own for a value of another type
        raise UserError(f"{path} is no config of {kind}: {error}") from None
    for name, value in _WANTED.items():
        if (there := getattr(config, name, value)) != value:
            raise UserError(f"{path}: {name} = {there!r}; only {value!r} can be trained on")
    if isinstance(config, ElectraConfig):
        return config
    shape = {name: getattr(config, name) for name in _SIZES[2:]}
    return ElectraConfig(
        **shape,
        embedding_size=config.hidden_size,
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_position_embeddings,
        architectures=["ElectraForMaskedLM"],
    )


def _read_weights(folder: Path, config: ElectraConfig, network: Network) -> Weights:
    """Under our names; a head that is not there is left out."""
    kind: Any = ElectraForMaskedLM if network.predicts_tokens else ElectraForPreTraining
    is_bert = read_json(folder / "config.json")["model_type"] == "bert"
    if is_bert:
        kind = BertForMaskedLM
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
    encoder = "bert." if is_bert else "electra."
    if lacking := sorted(name for name in missing if name.startswith(encoder)):
        raise UserError(
            f"{folder} is not a whole model: it lacks {len(lacking)} weights of the encoder, the "
            f"first {lacking[0]}"
        )
    if is_bert:
        theirs = renamed(theirs, _BERT_NAMES)
    output = theirs.get(OUTPUT_TABLE)
    if output is not None and not torch.equal(output, theirs[WORD_TABLE]):
        raise UserError(
            f"{folder}: {OUTPUT_TABLE} is not the embedding matrix; only tied ones can be trained "
            "on"
        )
    return to_our_names(theirs, name_pairs(network, config.num_hidden_layers))


@dataclass(frozen=True)
class PieceRows:
    """Which old rows each new piece is the mean of: itself, its sub-pieces, or (none) all rows."""

    sources: list[list[int]]
    num_old: int
    num_kept: int

    @classmethod
    def between(cls, old: Sequence[str], new: Sequence[str]) -> "PieceRows":
        """For a matrix of the pieces `new` from one of the pieces `old`, each in order of ids.

        A piece that is new takes those that the old vocabulary would cut it into; a special token
        has none.
        """
        ids, cut = {piece: index for index, piece in enumerate(old)}, _wordpiece(old)
        sources = [
            [ids[piece]] if piece in ids else [] if is_special(piece) else cut(piece)
            for piece in new
        ]
        return cls(sources, len(ids), sum(piece in ids for piece in new))

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


_MARK = "\0"  # a letter that stands in no piece: what follows it continues a word


def _wordpiece(pieces: Sequence[str]) -> Callable[[str], list[int]]:
    """The ids that a vocabulary cuts a piece into, as WordPiece cuts words; none if it cannot."""
    mark = len(pieces)
    ids = {piece: index for index, piece in enumerate(pieces)} | {_MARK: mark}
    model = models.WordPiece(ids, unk_token=_MARK, max_input_chars_per_word=1000)

    def cut(piece: str) -> list[int]:
        text = _MARK + surface(piece) if is_continuing(piece) else piece
        return [token.id for token in model.tokenize(text) if token.id != mark]

    return cut


def _rows_between(source: Source, config: RunConfig, special: SpecialTokens) -> PieceRows:
    run = output_dir(config)
    shards = TokenShards(run / "shards")
    if source.tokenizer_sha256 == shards.tokenizer_sha256:
        size = shards.vocab_size
        return PieceRows([[index] for index in range(size)], size, size)
    if source.pieces is None:
        raise UserError(
            f"pretrain.initial_model = {source.place!r} was trained with another tokenizer than "
            f"this run's ({source.tokenizer_sha256}, here {shards.tokenizer_sha256}), and its "
            "vocabulary is not there: keep its run's vocab/ beside its pretrain/"
        )
    pieces = read_pieces(run / "vocab")
    ids = {PAD: special.pad, CLS: special.cls, SEP: special.sep, MASK: special.mask}
    wrong = [token for token, number in ids.items() if pieces[number : number + 1] != [token]]
    if wrong or len(pieces) != shards.vocab_size:
        raise UserError(
            f"{run / 'vocab'} ({len(pieces)} pieces) is not the vocabulary of {run / 'shards'} "
            f"({shards.vocab_size} pieces{'; other ids of ' * bool(wrong)}{', '.join(wrong)}): "
            "make both again: electrify train-vocab CONFIG, electrify encode CONFIG"
        )
    return PieceRows.between(source.pieces, pieces)


def _uses_generator(source: Source, model: ElectraPretrainer) -> bool:
    """Whether the earlier generator is one of the new run's kind."""
    config, there, ours = model.config, source.generator_shape, model.generator_shape
    uses = there is not None and config.has_generator and there.num_towers == ours.num_towers
    if config.objective == "electra-two-stage":
        if not uses:
            raise UserError(
                f"pretrain.initial_model = {source.place!r} has no generator, and with objective = "
                "'electra-two-stage' the discriminator is replaced by the trained generator: give "
                "initial_generator too, or take the objective electra"
            )
        warn("after the first stage the generator's weights replace the initial discriminator's")
    return uses


def _check_sizes(source: Source, model: ElectraPretrainer, uses_generator: bool) -> None:
    """`UserError` naming every size that differs, and the options to set."""
    if problems := _differences(source.shape, model.shape):
        raise UserError(
            f"pretrain.initial_model = {source.place!r} does not fit the config: "
            + ", ".join(f"{name} is {theirs} there, {ours} here" for name, theirs, ours in problems)
            + ". Set "
            + ", ".join(f"pretrain.{name} = {toml_value(theirs)}" for name, theirs, _ in problems)
        )
    theirs = source.generator_shape
    if not uses_generator or theirs is None:
        return
    if problems := _differences(theirs, model.generator_shape):
        width = theirs.hidden_size / model.shape.hidden_size
        depth = theirs.num_hidden_layers / model.shape.num_hidden_layers
        raise UserError(
            f"the generator of {source.place!r} does not fit the config: "
            + ", ".join(f"{name} is {a} there, {b} here" for name, a, b in problems)
            + f". Set pretrain.generator_hidden_fraction = {width:.10g}, "
            f"pretrain.generator_layers_fraction = {depth:.10g} and a pretrain.weight_sharing with "
            f"generator embeddings {theirs.embedding_size} wide; or give the discriminator alone "
            "(of a run its export/discriminator), and the generator is a new one"
        )


def _differences(theirs: EncoderShape, ours: EncoderShape) -> list[tuple[str, object, object]]:
    pairs = [(name, getattr(theirs, name), getattr(ours, name)) for name in _SIZES]
    return [(name, a, b) for name, a, b in pairs if a != b]


def _given(source: Source, config: PretrainConfig, uses_generator: bool) -> Weights:
    """The earlier weights that the new run has a place for, by network."""
    if uses_generator:
        return source.weights
    of_generator = ("generator", "baseline")  # and its embeddings and head
    given = {n: t for n, t in source.weights.items() if not n.startswith(of_generator)}
    if config.has_generator and "language_head.bias" in given:  # as between two stages of a run
        given["generator_head.bias"] = given["language_head.bias"]
    if config.has_generator and config.weight_sharing != "none":
        given |= {f"generator_{n}": t for n, t in given.items() if n.startswith("embeddings.")}
    if config.weight_sharing == "all":
        bodies = [n for n in given if n.startswith("discriminator.")]
        given |= {n.replace("discriminator.", "generator."): given[n] for n in bodies}
    return given


def _fitted(name: str, given: Tensor, initial: Tensor, rows: PieceRows) -> Tensor:
    if name.endswith(_BY_PIECE):
        given = rows.take(given[: rows.num_old])  # behind them only rows without a piece
    if name.endswith(".position.weight"):  # those that are new stay as initialised
        num_both = min(len(given), len(initial))
        given = torch.cat([given[:num_both], initial[num_both:]])
    assert given.shape == initial.shape, name
    return given


def _report(source: Source, rows: PieceRows, filled: Weights, given: Mapping[str, Tensor]) -> None:
    taken = _parts(name for name in filled if name in given)
    log(f"initial weights from {source.place}: {taken}")
    if new := [name for name in filled if name not in given]:
        log(f"start at random, because the old model lacks them: {_parts(new)}")
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
    positions = "embeddings.position.weight"
    if positions not in given or positions not in filled:
        return
    before, now = len(given[positions]), len(filled[positions])
    if before != now:
        log(f"of the {before:,} positions {min(before, now):,} are kept; there are {now:,} now")


def _parts(names: Iterable[str]) -> str:
    counts = Counter(name.split(".")[0] for name in names)
    return ", ".join(f"{part} ({count})" for part, count in counts.items())
