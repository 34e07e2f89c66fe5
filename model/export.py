"""The last checkpoint as `transformers` folders, proven equal to the model in memory.

The main network of any other checkpoint can be exported too, while the run goes on.
"""

import copy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils.logging import disable_progress_bar

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import write_json
from electrify.stage.networks import ENCODER, make_portable, save_network, write_pooling
from electrify.stage.plan import (
    TOKENIZER_FILES,
    checkpoint_step,
    checkpoints_of,
    export_stage,
    output_dir,
    run_folder,
)
from electrify.stage.run import run_stage
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.checkpoint import DAMAGES, load_model, newest, read_state, trained_options
from model.data import SequenceData, open_shards, special_tokens
from model.networks.electra import ElectraPretrainer
from model.weights.card import as_made, trained_length, write_cards
from model.weights.names import (
    DETECTOR,
    Network,
    exported_networks,
    to_transformers,
    transformers_class,
)


def export_checkpoint(checkpoint: Path, folder: Path) -> None:
    """Write weights, config and tokenizer of `checkpoint-<step>/` into `folder`.

    Text and vocabulary are looked for in the checkpoint's run, two folders up. Raises `ValueError`
    where they are not there or not those it was trained with, and for a damaged checkpoint.
    """
    run = run_folder(checkpoint)
    config = trained_options(_identity_of(checkpoint, run), checkpoint)
    shards = open_shards(run / "shards")
    model = ElectraPretrainer(config, shards.vocab_size, special_tokens(shards)).eval()
    load_model(checkpoint, model)
    save_network(to_transformers(model, exported_networks(config)[0]), folder)
    save_tokenizer(run / "vocab", config.max_position_embeddings, folder)


def _identity_of(checkpoint: Path, run: Path) -> Mapping[str, Any]:
    """What a sound checkpoint was trained with; the run's vocabulary has to be that."""
    try:
        identity: Mapping[str, Any] = read_state(checkpoint)["identity"]
        expected = str(identity["tokenizer_sha256"])
    except DAMAGES as error:
        raise UserError(f"{checkpoint} is damaged ({error}); name another one") from None
    # the shards are compared with the vocabulary beside them
    if open_shards(run / "shards").tokenizer_sha256 != expected:
        raise UserError(
            f"{run / 'shards'} was made with another vocabulary than {checkpoint}: put the old one "
            "back"
        )
    return identity


def save_tokenizer(vocab: Path, max_length: int, folder: Path) -> None:
    """The files that encoded the corpus, with the model's length, beside a network."""
    for name in TOKENIZER_FILES:
        shutil.copyfile(vocab / name, folder / name)
    path = folder / "tokenizer_config.json"
    write_json(path, read_json(path) | {"model_max_length": max_length})
    make_portable(folder)


MAX_LOGIT_DIFFERENCE = 1e-5
_VERIFIED_SEQUENCES = 4
# untyped in transformers
_disable_progress_bar: Callable[[], None] = disable_progress_bar


def export(config: RunConfig, overwrite: bool = False, step: int | None = None) -> None:
    """Write `export/` from the newest checkpoint of a finished run, a folder for each network, and
    check them. With `step` that checkpoint, also of unfinished work: `export-checkpoint-<step>/`.
    """
    stage = export_stage(config, step)
    run_stage(stage, lambda folder: _export(config, folder, step), overwrite)


def _export(config: RunConfig, folder: Path, step: int | None) -> Mapping[str, Any]:
    _disable_progress_bar()  # a bar for each file that is written or read back in no time
    run = output_dir(config)
    checkpoint = newest(run / "pretrain") if step is None else checkpoints_of(run, [step])[step]
    options = trained_options(_identity_of(checkpoint, run), checkpoint)
    _check_stage(options, checkpoint)
    config = config.model_copy(update={"pretrain": options})
    data = SequenceData(config, "valid")
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    load_model(checkpoint, model)
    save_networks(model, folder)
    batch = data.batch(0, min(_VERIFIED_SEQUENCES, data.num_sequences))
    inputs = batch.input_ids, batch.token_type_ids
    differences = verify(model, folder, *inputs)
    if config.export.dtype != "float32":
        save_networks(model, folder, config.export.dtype)
        differences = logit_differences(model, folder, *inputs)
        for name, difference in differences.items():
            log(f"{name} in {config.export.dtype}: logits differ by at most {difference:.1e}")
    for name in (*differences, ENCODER):
        save_tokenizer(run / "vocab", config.pretrain.max_position_embeddings, folder / name)
    made = as_made(config, "clean", "vocab", *(["pretrain"] if step is None else []))
    write_cards(made, folder, differences, checkpoint=checkpoint)
    length, options = trained_length(config), config.pretrain
    if length < options.max_position_embeddings and not options.initial_model:
        warn(
            f"the run saw no sequence longer than {length} tokens: fine-tune with no longer ones, "
            "or train on with a longer pretrain.sequence_length"
        )
    return {"checkpoint": checkpoint.name, "max_logit_difference": differences}


def _check_stage(options: PretrainConfig, checkpoint: Path) -> None:
    """Warn of a checkpoint of the MLM warm-up; `UserError` for one before the discriminator
    begins."""
    if checkpoint_step(checkpoint) > options.second_stage_step:
        return
    if options.generator_steps:
        raise UserError(
            f"{checkpoint} is of the first stage, in which the generator alone is trained: name a "
            f"step after {options.generator_steps:,}"
        )
    if options.mlm_steps:
        warn(
            f"{checkpoint} is of the MLM warm-up ({options.mlm_steps:,} steps), which trains "
            "neither the detection head nor the generator: the encoder alone is of use"
        )


def save_networks(model: ElectraPretrainer, folder: Path, dtype: str = "float32") -> None:
    """Write weights and config of each network into a folder of its own, and the main one once more
    without its head."""
    for network in exported_networks(model.config):
        made = to_transformers(model, network).to(getattr(torch, dtype))
        save_network(made, folder / network.folder)
        if network.folder == DETECTOR.folder:
            save_network(made.base_model, folder / ENCODER)
            write_pooling(folder / ENCODER)


def verify(
    model: ElectraPretrainer, folder: Path, input_ids: Tensor, token_type_ids: Tensor
) -> dict[str, float]:
    """`logit_differences` of folders in single precision; `ValueError` above 1e-5 of the largest
    logit, or of 1."""
    differences = logit_differences(model, folder, input_ids, token_type_ids)
    for name, difference in differences.items():
        log(f"{name}: largest logit difference to the trained model {difference:.1e}")
        if not difference <= MAX_LOGIT_DIFFERENCE:
            raise UserError(
                f"the exported {name} differs from the trained one by {difference:.1e} "
                f"(allowed {MAX_LOGIT_DIFFERENCE}): installed transformers may have changed; "
                "pin it as constraints.txt does"
            )
    return differences


@torch.no_grad()
def logit_differences(
    model: ElectraPretrainer, folder: Path, input_ids: Tensor, token_type_ids: Tensor
) -> dict[str, float]:
    """Largest logit difference between the folders as loaded and the model in memory, as a
    fraction of the largest logit where that is above 1.

    Inputs are (B, L) int64. In double precision, where equal networks differ by nothing: in single
    precision the order of additions alone moves a well-trained discriminator's logits by 6e-5.
    """
    model = copy.deepcopy(model).double().eval()
    differences: dict[str, float] = {}
    for network in exported_networks(model.config):
        kind = transformers_class(network, model.config)
        loaded: Any = kind.from_pretrained(folder / network.folder, dtype=torch.float64)
        inputs = {"input_ids": input_ids}
        if not model.shape.is_modern:
            inputs["token_type_ids"] = token_type_ids
        theirs = loaded(**inputs).logits
        if model.shape.is_modern and not network.predicts_tokens:
            theirs = theirs[..., 1] - theirs[..., 0]
        ours = _logits(model, network, input_ids, token_type_ids)
        largest = ours.abs().max().clamp(min=1.0)
        differences[network.folder] = float((ours - theirs).abs().max() / largest)
    return differences


def _logits(model: ElectraPretrainer, network: Network, ids: Tensor, types: Tensor) -> Tensor:
    if not network.predicts_tokens:
        return model.detection_logits(model.main_states(ids, types))
    if network.folder == "generator":
        return model.generator_output().logits(model.generator_states(ids, types))
    return model.language_output().logits(model.main_states(ids, types))
