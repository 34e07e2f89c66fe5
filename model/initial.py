"""Continued pretraining: the weights of an earlier model as the start of a run."""

from collections import Counter
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from electrify.config import RunConfig
from electrify.config_pretrain import PretrainConfig
from electrify.progress import log, warn
from electrify.stages import output_dir
from model.batch import SpecialTokens
from model.checkpoint import own_tensors, restore_model
from model.electra import ElectraPretrainer
from model.initial_source import Source, read_source
from model.layers import EncoderShape
from model.networks import tie, untie
from model.piece_rows import PieceRows
from vocab.references import read_pieces
from vocab.shards import TokenShards
from vocab.tokenizer import CLS, MASK, PAD, SEP

# what weights must share; the options that set the main network's sizes have the same names
_SIZES = (
    "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "layer_norm_eps",
)  # fmt: skip
_BY_PIECE = (".word.weight", "generator_head.bias", "language_head.bias")
_MANY_UNKNOWN = 0.1  # of the pieces
_SAME = 1e-5  # tables equal but for rounding

Weights = dict[str, Tensor]


def load_initial(model: ElectraPretrainer, config: RunConfig) -> dict[str, int]:
    """Fill a new model from `pretrain.initial_model` and `initial_generator`; counts of what fits.

    Tables follow the pieces, not the ids. What the earlier model does not have stays as it was
    initialised, and the log says so. To be called in every process, before the model is wrapped.
    `ValueError` if sizes or vocabularies do not fit.
    """
    pretrain = config.pretrain
    source = read_source(pretrain)
    uses_generator = _uses_generator(source, pretrain)
    _check_sizes(source, model, uses_generator)
    rows = _rows_between(source, config, model.special)
    given = _given(source, pretrain, uses_generator)
    initial = _weights(model)
    made = {
        name: _fitted(name, given[name], tensor, rows) if name in given else tensor
        for name, tensor in initial.items()
    }
    restore_model(model, tie(made, pretrain), source.place)
    _report(source, rows, made, given)
    _warn_of_sharing(made, _weights(model), pretrain)
    return {
        "tensors_taken": sum(name in given for name in made),
        "tensors_initialised": sum(name not in given for name in made),
        "pieces_kept": rows.num_kept,
        "pieces_from_sub_pieces": rows.num_composed,
        "pieces_from_mean_of_all": rows.num_unknown,
        "pieces_dropped": rows.num_dropped,
    }


def _weights(model: ElectraPretrainer) -> Weights:
    state = {name: tensor.detach().cpu() for name, tensor in own_tensors(model).items()}
    return untie(state, model.config)


def _uses_generator(source: Source, config: PretrainConfig) -> bool:
    """Whether the earlier generator is one of the new run's kind."""
    there, wanted = source.generator_shape is not None, config.has_generator
    uses = there and wanted and source.has_towers == (config.objective == "electric")
    if config.objective == "electra-two-stage":
        if not uses:
            raise ValueError(
                f"pretrain.initial_model = {source.place!r} has no generator, and with objective = "
                "'electra-two-stage' the discriminator is replaced by the trained generator: give "
                "initial_generator too, or take the objective electra"
            )
        warn("after the first stage the generator's weights replace the initial discriminator's")
    return uses


def _check_sizes(source: Source, model: ElectraPretrainer, uses_generator: bool) -> None:
    """`ValueError` naming every size that differs, and the options to set."""
    if problems := _differences(source.shape, model.shape):
        raise ValueError(
            f"pretrain.initial_model = {source.place!r} does not fit the config: "
            + ", ".join(f"{name} is {theirs} there, {ours} here" for name, theirs, ours in problems)
            + ". Set "
            + ", ".join(f"pretrain.{name} = {theirs}" for name, theirs, _ in problems)
        )
    theirs = source.generator_shape
    if not uses_generator or theirs is None:
        return
    if problems := _differences(theirs, model.generator_shape):
        width = theirs.hidden_size / model.shape.hidden_size
        depth = theirs.num_hidden_layers / model.shape.num_hidden_layers
        raise ValueError(
            f"the generator of {source.place!r} does not fit the config: "
            + ", ".join(f"{name} is {a} there, {b} here" for name, a, b in problems)
            + f". Set pretrain.generator_hidden_fraction = {width:.10g}, "
            f"pretrain.generator_layers_fraction = {depth:.10g} and a pretrain.weight_sharing with "
            f"generator tables {theirs.embedding_size} wide; or give the discriminator alone (of a "
            "run its export/discriminator), and the generator is a new one"
        )


def _differences(theirs: EncoderShape, ours: EncoderShape) -> list[tuple[str, float, float]]:
    pairs = [(name, getattr(theirs, name), getattr(ours, name)) for name in _SIZES]
    return [(name, a, b) for name, a, b in pairs if a != b]


def _rows_between(source: Source, config: RunConfig, special: SpecialTokens) -> PieceRows:
    """From the earlier vocabulary to the run's."""
    run = output_dir(config)
    shards = TokenShards(run / "shards")
    if source.tokenizer_sha256 == shards.tokenizer_sha256:
        return PieceRows.same(shards.vocab_size)
    if source.pieces is None:
        raise ValueError(
            f"pretrain.initial_model = {source.place!r} was trained with another tokenizer than "
            f"this run's ({source.tokenizer_sha256}, here {shards.tokenizer_sha256}), and its "
            "vocabulary is not there: keep its run's vocab/ beside its pretrain/"
        )
    pieces = read_pieces(run / "vocab")
    ids = {PAD: special.pad, CLS: special.cls, SEP: special.sep, MASK: special.mask}
    wrong = [token for token, number in ids.items() if pieces[number : number + 1] != [token]]
    if wrong or len(pieces) != shards.vocab_size:
        raise ValueError(
            f"{run / 'vocab'} ({len(pieces)} pieces) is not the vocabulary of {run / 'shards'} "
            f"({shards.vocab_size} pieces{'; other ids of ' * bool(wrong)}{', '.join(wrong)}): "
            "make both again: electrify train-vocab CONFIG, electrify encode CONFIG"
        )
    return PieceRows.between(source.pieces, pieces)


def _given(source: Source, config: PretrainConfig, uses_generator: bool) -> Weights:
    """The earlier weights that the new run has a place for, by network."""
    of_generator = ("generator", "baseline")  # and its embeddings and head
    if uses_generator:
        return source.weights
    given = {n: t for n, t in source.weights.items() if not n.startswith(of_generator)}
    if config.has_generator and config.weight_sharing != "none":
        given |= {f"generator_{n}": t for n, t in given.items() if n.startswith("embeddings.")}
    if config.weight_sharing == "all":
        bodies = [n for n in given if n.startswith("discriminator.")]
        given |= {n.replace("discriminator.", "generator."): given[n] for n in bodies}
    return given


def _fitted(name: str, given: Tensor, initial: Tensor, rows: PieceRows) -> Tensor:
    """One earlier tensor in the new one's shape."""
    if name.endswith(_BY_PIECE):
        given = rows.take(given[: rows.num_old])  # behind them only rows without a piece
    if name.endswith(".position.weight"):  # those that are new stay as initialised
        num_both = min(len(given), len(initial))
        given = torch.cat([given[:num_both], initial[num_both:]])
    assert given.shape == initial.shape, name
    return given


def _report(source: Source, rows: PieceRows, made: Weights, given: Mapping[str, Tensor]) -> None:
    taken = _parts(name for name in made if name in given)
    log(f"initial weights from {source.place}: {taken}")
    if new := [name for name in made if name not in given]:
        log(f"initialised anew, not being there: {_parts(new)}")
    num_pieces = len(rows.sources)
    log(
        f"of {num_pieces:,} pieces {rows.num_kept:,} are kept, {rows.num_composed:,} begin as the "
        f"mean of their sub-pieces, {rows.num_unknown:,} as the mean of all; {rows.num_dropped:,} "
        "old ones are dropped"
    )
    if rows.num_unknown > _MANY_UNKNOWN * num_pieces:
        warn(
            f"the earlier vocabulary cannot spell {rows.num_unknown:,} of {num_pieces:,} pieces: "
            "are case and language the same? vocab.extend makes a vocabulary from an earlier one"
        )
    positions = "embeddings.position.weight"
    before, now = len(given[positions]), len(made[positions])
    if before != now:
        log(f"of the {before:,} positions {min(before, now):,} are kept; there are {now:,} now")


def _parts(names: Iterable[str]) -> str:
    """Parts of the model with their numbers of tensors, as words."""
    counts = Counter(name.split(".")[0] for name in names)
    return ", ".join(f"{part} ({count})" for part, count in counts.items())


def _warn_of_sharing(given: Weights, shared: Weights, config: PretrainConfig) -> None:
    """Where the earlier generator had weights of its own which the new run shares."""
    lost = [n for n, t in given.items() if float((t - shared[n]).abs().max()) > _SAME]
    if lost:
        warn(
            f"pretrain.weight_sharing = {config.weight_sharing!r}, but the initial generator has "
            f"other weights than the discriminator in {_parts(lost)}: the discriminator's are "
            "taken"
        )
