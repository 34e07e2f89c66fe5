"""Continued pretraining: the weights of an earlier model as the start of a run.

Embedding matrices for another vocabulary are made piece by piece.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from electrify.config.load import toml_value
from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.checkpoint import restore_model
from model.electra import ElectraPretrainer
from model.plan import EncoderShape, discriminator_shape, generator_shape
from model.weights.names import renamed, tie, untie
from model.weights.source import Source, Weights, read_shapes, read_source
from vocab.shards.files import TokenShards
from vocab.tokenizer import read_pieces

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
    theirs = source.shape, source.generator_shape
    uses_generator = _check_shapes(pretrain, theirs, (model.shape, model.generator_shape))
    if pretrain.objective == "electra-two-stage":
        warn("after the first stage the generator's weights replace the initial discriminator's")
    rows = _rows_between(source, config)
    given = _given(source, pretrain, uses_generator)
    state = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    filled = {
        name: _fitted(name, given[name], tensor, rows) if name in given else tensor
        for name, tensor in untie(state, pretrain).items()
    }
    restore_model(model, tie(filled, pretrain), source.place)
    _report(source, rows, filled, given, len(state.get("embeddings.position.weight", ())))
    _warn_of_lost(source, filled, given, pretrain)
    lowercase = config.vocab.lowercase
    if source.is_lowercase not in (None, lowercase):
        warn(
            f"{source.place} has do_lower_case = {str(source.is_lowercase).lower()}, this run "
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


def _rows_between(source: Source, config: RunConfig) -> PieceRows:
    run = output_dir(config)
    shards = TokenShards(run / "shards")
    if source.tokenizer_sha256 == shards.tokenizer_sha256:
        size = shards.vocab_size
        return PieceRows([[index] for index in range(size)], size)
    if source.spell is None:
        raise UserError(
            f"pretrain.initial_model = {source.place!r} was trained with another tokenizer than "
            f"this run's ({source.tokenizer_sha256}, here {shards.tokenizer_sha256}), and its "
            "vocabulary is not there: keep its run's vocab/ beside its pretrain/"
        )
    pieces = read_pieces(run / "vocab")
    assert len(pieces) == shards.vocab_size  # `open_shards` has compared them
    return PieceRows([source.spell(piece) for piece in pieces], source.num_pieces)


_Shapes = tuple[EncoderShape, EncoderShape | None]  # of the main network and of the generator


def check_initial_shapes(config: RunConfig) -> None:
    """`UserError` if the initial weights do not fit the config; reads their sizes alone."""
    options, vocab_size = config.pretrain, config.vocab.size
    ours = discriminator_shape(options, vocab_size), generator_shape(options, vocab_size)
    _check_shapes(options, read_shapes(options), ours)


def _check_shapes(config: PretrainConfig, source: _Shapes, model: _Shapes) -> bool:
    """Whether the earlier generator is one of the new run's kind; `UserError` naming every size
    that differs, and the options to set."""
    (theirs, their_generator), (ours, our_generator) = source, model
    assert our_generator is not None
    uses_generator = their_generator is not None and config.has_generator
    if config.objective == "electra-two-stage" and not uses_generator:
        raise UserError(
            f"pretrain.initial_model = {config.initial_model!r} has no generator, and with "
            "objective = 'electra-two-stage' the discriminator is replaced by the trained "
            "generator: give initial_generator too, or take the objective electra"
        )
    if problems := _differences(theirs, ours):
        raise UserError(
            f"pretrain.initial_model = {config.initial_model!r} does not fit the config: "
            + ", ".join(f"{name} is {a} there, {b} here" for name, a, b in problems)
            + ". Set "
            + ", ".join(f"pretrain.{name} = {toml_value(a)}" for name, a, _ in problems)
        )
    if not uses_generator or their_generator is None:
        return uses_generator
    if problems := _differences(their_generator, our_generator):
        width = their_generator.hidden_size / ours.hidden_size
        depth = their_generator.num_hidden_layers / ours.num_hidden_layers
        raise UserError(
            f"the generator of {config.initial_model!r} does not fit the config: "
            + ", ".join(f"{name} is {a} there, {b} here" for name, a, b in problems)
            + f". Set pretrain.generator_hidden_fraction = {width:.10g}, "
            f"pretrain.generator_layers_fraction = {depth:.10g} and a pretrain.weight_sharing with "
            f"generator embeddings {their_generator.embedding_size} wide; or give the "
            "discriminator alone (of a run its export/discriminator), and the generator is new"
        )
    return uses_generator


def _differences(theirs: EncoderShape, ours: EncoderShape) -> list[tuple[str, object, object]]:
    names = [*_SIZES, *(_MODERN_SIZES if ours.is_modern else ())]
    pairs = [(name, getattr(theirs, name), getattr(ours, name)) for name in names]
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


def _warn_of_lost(source: Source, filled: Weights, given: Weights, config: PretrainConfig) -> None:
    """Of an earlier generator that shared less than this run's."""
    made = untie(tie(filled, config), config)
    lost = [n for n in filled if n in given and not torch.allclose(made[n], filled[n], atol=1e-5)]
    if lost:
        warn(
            f"{source.place}: the generator has weights of its own, {_parts(lost)}; with "
            f'pretrain.weight_sharing = "{config.weight_sharing}" the discriminator\'s replace '
            'them, with "none" they stay'
        )


def _report(
    source: Source,
    rows: PieceRows,
    filled: Weights,
    given: Mapping[str, Tensor],
    num_positions: int,
) -> None:
    taken = _parts(name for name in filled if name in given)
    log(f"initial weights from {source.place}: {taken}")
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
