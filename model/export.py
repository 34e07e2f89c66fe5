"""The last checkpoint as `transformers` folders, proven equal to the model in memory."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils.logging import disable_progress_bar

from electrify.artifacts import write_json
from electrify.config import RunConfig
from electrify.progress import log, warn
from electrify.run_stage import run_stage
from electrify.stages import export_stage, output_dir
from model.card import trained_length, write_cards
from model.checkpoint import load_model, newest
from model.data import SequenceData
from model.electra import ElectraPretrainer
from model.example import EXAMPLE, gives_probabilities, mark_example
from model.export_checkpoint import save_tokenizer
from model.networks import Network, exported_networks
from model.transformers_names import to_transformers, transformers_class

MAX_LOGIT_DIFFERENCE = 1e-5
_VERIFIED_SEQUENCES = 4
# untyped in transformers
_disable_progress_bar: Callable[[], None] = disable_progress_bar


def export(config: RunConfig, overwrite: bool = False) -> None:
    """Write `export/` from the newest checkpoint, a folder for each network, and check them."""
    run_stage(export_stage(config), lambda folder: _export(config, folder), overwrite)


def _export(config: RunConfig, folder: Path) -> Mapping[str, Any]:
    _disable_progress_bar()  # a bar for each file that is written or read back in no time
    run = output_dir(config)
    data = SequenceData.from_config(config, "valid")
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    checkpoint = newest(run / "pretrain")
    load_model(checkpoint, model)
    for network in exported_networks(config.pretrain):
        target = folder / network.folder
        to_transformers(model, network.folder).save_pretrained(target)
        save_tokenizer(run / "vocab", config.pretrain.max_position_embeddings, target)
    batch = data.batch(0, min(_VERIFIED_SEQUENCES, data.num_sequences))
    differences = verify(model, folder, batch.input_ids, batch.token_type_ids)
    if gives_probabilities(config.pretrain):
        example = mark_example(folder / "discriminator", config.clean.sources[0].language)
        write_json(folder / EXAMPLE, example)
    write_cards(config, folder, differences)
    _warn_of_limits(config)
    return {"checkpoint": checkpoint.name, "max_logit_difference": differences}


@torch.no_grad()
def verify(
    model: ElectraPretrainer, folder: Path, input_ids: Tensor, token_type_ids: Tensor
) -> dict[str, float]:
    """Largest logit difference between the folders as loaded and the model in memory.

    Inputs are (B, L) int64. In double precision, where equal networks differ by nothing: in single
    precision the order of additions alone moves a well-trained discriminator's logits by 6e-5.
    `ValueError` above 1e-5.
    """
    model = copy.deepcopy(model).double().eval()
    differences: dict[str, float] = {}
    for network in exported_networks(model.config):
        loaded = transformers_class(network).from_pretrained(
            folder / network.folder, dtype=torch.float64
        )
        theirs = loaded(input_ids=input_ids, token_type_ids=token_type_ids).logits
        ours = _logits(model, network, input_ids, token_type_ids)
        difference = float((ours - theirs).abs().max())
        log(f"{network.folder}: largest logit difference to the trained model {difference:.1e}")
        if not difference <= MAX_LOGIT_DIFFERENCE:
            raise ValueError(
                f"the exported {network.folder} differs from the trained one by {difference:.1e} "
                f"(allowed {MAX_LOGIT_DIFFERENCE}): installed transformers may have changed; "
                "pin it as constraints.txt does"
            )
        differences[network.folder] = difference
    return differences


def _logits(model: ElectraPretrainer, network: Network, ids: Tensor, types: Tensor) -> Tensor:
    everywhere = torch.arange(ids.shape[1]).expand(ids.shape[0], -1)
    if not network.predicts_tokens:
        return model.discriminate(ids, types)
    if network.folder == "generator":
        return model.generate(ids, types, everywhere)
    return model.predict(ids, types, everywhere)


def _warn_of_limits(config: RunConfig) -> None:
    length, positions = trained_length(config), config.pretrain.max_position_embeddings
    if length < positions:
        warn(
            f"positions {length} to {positions - 1} were not trained: fine-tune with sequences "
            f"of at most {length} tokens, or train on with a longer encode.sequence_length"
        )
    if config.pretrain.has_generator and config.pretrain.objective == "electric":
        warn(
            "the two-tower generator of electric is not exported: transformers has no class for "
            "it; its weights stay in the checkpoint"
        )
