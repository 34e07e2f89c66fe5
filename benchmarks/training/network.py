"""An encoder with its head: built, written to a `transformers` folder with the head beside it, and
read again."""

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.encoder import (
    ModelSource,
    freeze,
    load_encoder,
    open_model,
    prepare_encoder,
    quiet_transformers,
    with_added_tokens,
)
from benchmarks.results.results import MODELS, Result, current_results, largest_part
from benchmarks.tasks.heads import make_head
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.own import record_of, task_of_record
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Task
from benchmarks.training.recipe import HyperParameters
from electrify.config.evaluate import Role
from electrify.stage.folder import write_json
from electrify.storage.files import read_json
from electrify.system.outcome import UserError

ABOUT = "head.json"
_HEAD = "head.safetensors"


@dataclass(frozen=True)
class Kept:
    """A fine-tuned network, on the CPU and ready to predict, and what it was made for."""

    source: ModelSource
    task: Task
    network: EncoderWithHead
    settings: HyperParameters


def build_network(
    task: Task,
    source: ModelSource,
    role: Role,
    seed: int,
    settings: HyperParameters,
    device: torch.device,
) -> EncoderWithHead:
    """The encoder with the task's head, drawn by the seed."""
    generator = torch.Generator().manual_seed(seed)
    tokenizer = with_added_tokens(source.tokenizer, task.added_tokens)
    encoder = load_encoder(source, role, seed, len(tokenizer))
    prepare_encoder(encoder, settings.dropout, device, settings.precision)
    freeze(encoder, settings.freeze)
    pooled = replace(task, pooling=settings.pooling)
    return EncoderWithHead(encoder, make_head(pooled, encoder, tokenizer, generator)).to(device)


def keep(
    folder: Path,
    network: EncoderWithHead,
    task: Task,
    source: ModelSource,
    settings: HyperParameters,
) -> None:
    """Write what `read_kept` reads, in place of what is in `folder`; `AutoModel` opens the folder
    as the encoder."""
    encoder: Any = network.encoder
    shutil.rmtree(folder, ignore_errors=True)
    with quiet_transformers():
        encoder.save_pretrained(folder)
    with_added_tokens(source.tokenizer, task.added_tokens).save_pretrained(folder)
    weights = {name: tensor.cpu() for name, tensor in network.head.state_dict().items()}
    save_file(weights, folder / _HEAD)
    about = {"task": task.name, "own_task": record_of(task), "settings": asdict(settings)}
    write_json(folder / ABOUT, about)  # last: without it the folder is none


def read_kept(folder: Path) -> Kept:
    """The network of a folder of `keep`; `ValueError` for a folder that is none."""
    if not (folder / ABOUT).is_file():
        raise UserError(
            f"{folder} has no {ABOUT}: it is no fine-tuned network that `evaluate.keep_models` kept"
        )
    about = read_json(folder / ABOUT)
    own = about["own_task"]
    task = task_of_record(own) if own else TASKS[about["task"]]
    settings = HyperParameters(**about["settings"])
    source = open_model(str(folder))
    exact = replace(settings, precision="fp32")
    network = build_network(task, source, "pretrained", 0, exact, torch.device("cpu"))
    network.head.load_state_dict(load_file(folder / _HEAD))
    return Kept(source, task, network.eval(), settings)


def kept_folder(results: Path, result: Result) -> Path:
    """Where the network of a result in a folder of results is kept; named as its predictions."""
    return results / MODELS / result.predictions


def kept_folders(results: Path) -> list[Path]:
    """The kept networks that the last `evaluate` asked for, one a task: of the first seed."""
    folders: dict[str, Path] = {}
    for result in sorted(largest_part(current_results(results)), key=lambda each: each.seed):
        if (place := kept_folder(results, result)).is_dir():
            folders.setdefault(result.task, place)
    return [folders[task] for task in sorted(folders)]
