"""Continued pretraining: the weights of an earlier model as the start of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from electrify.config import RunConfig
from electrify.config_pretrain import PretrainConfig
from electrify.progress import log, warn
from electrify.stages import output_dir
from model.checkpoint import model_tensors, restore_model
from model.electra import ElectraPretrainer
from model.initial_source import Source, read_source
from model.layers import EncoderShape
from model.networks import has_plain_generator, tie, untie
from model.piece_rows import PieceRows
from vocab.references import read_pieces
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256
from vocab.wordpiece import SPECIAL_TOKENS

# fields of a shape that weights must share, and the options that set them
_OPTIONS = {
    "embedding_size": "embedding_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "layer_norm_eps": "layer_norm_eps",
}
_MANY_UNKNOWN = 0.1  # of the pieces


def load_initial(model: ElectraPretrainer, config: RunConfig) -> dict[str, int]:
    """Fill a new model from `pretrain.initial_model` and `initial_generator`; counts of what fits.

    Tables follow the pieces, not the ids; what the earlier model does not have stays as it was
    initialised, and the log says so. `ValueError` if sizes or vocabularies do not fit.
    """
    pretrain = config.pretrain
    source = read_source(pretrain)
    check_shapes(model, source)
    rows = _rows(model, source, config)
    given = _given_weights(source, pretrain)
    fresh = untie(model_tensors(model), pretrain)
    made, counts = {}, Counter[str]()
    for name, initial in fresh.items():
        made[name] = _fit(name, given[name], initial, rows) if name in given else initial
        counts["tensors taken" if name in given else "tensors initialised anew"] += 1
    restore_model(model, tie(made, pretrain), source.place)
    counts |= {
        "pieces kept": rows.num_kept,
        "pieces from their sub-pieces": rows.num_composed,
        "pieces from the mean of all": rows.num_unknown,
        "pieces dropped": rows.num_dropped,
    }
    _report(source, fresh, given, counts)
    _warn_of_sharing(made, untie(model_tensors(model), pretrain), pretrain)
    return dict(counts)


def check_shapes(model: ElectraPretrainer, source: Source) -> None:
    """`ValueError` naming every size that differs and the options to set."""
    config = model.config
    problems = _differences(source.shape, model.shape)
    if problems:
        lines = "; ".join(f"pretrain.{_OPTIONS[n]} = {a} there, {b} here" for n, a, b in problems)
        raise ValueError(
            f"pretrain.initial_model = {source.place!r} does not fit: {lines}. Set these options "
            "to its values"
        )
    theirs, ours = source.generator_shape, model.generator_shape
    if theirs is None or not has_plain_generator(config):
        _check_two_stage(source, config)
        return
    if problems := _differences(theirs, ours):
        lines = "; ".join(f"{name} = {a} there, {b} here" for name, a, b in problems)
        raise ValueError(
            f"the generator of {source.place!r} does not fit: {lines}. Set "
            f"pretrain.generator_hidden_fraction = {theirs.hidden_size / ours_main(model):.6g}, "
            "pretrain.generator_layers_fraction = "
            f"{theirs.num_hidden_layers / model.shape.num_hidden_layers:.6g} and "
            f"pretrain.weight_sharing so that its tables are {theirs.embedding_size} wide, or give "
            "the discriminator alone (of a run: its export/discriminator) for a new generator"
        )


def ours_main(model: ElectraPretrainer) -> int:
    """Width of the main network."""
    return model.shape.hidden_size
