"""An encoder with its head: built, written as the network of `transformers` that it is, and read
again."""

import copy
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.encoder import (
    ModelSource,
    accepted_inputs,
    load_encoder,
    load_network,
    open_model,
    prepare_encoder,
    quiet_transformers,
    with_added_tokens,
)
from benchmarks.results.results import MODELS, current_results, largest_part
from benchmarks.tasks.heads import make_head
from benchmarks.tasks.heads.linear import AutoHead, EncoderWithHead
from benchmarks.tasks.labels import MultiLabelClassification, Regression, TextTask
from benchmarks.tasks.own import record_of, task_of_record
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.tags import Tagging, WordLabels
from benchmarks.tasks.task import Task
from benchmarks.training.recipe import HyperParameters
from electrify.config.evaluate import Role
from electrify.stage.folder import write_json
from electrify.stage.networks import save_network
from electrify.storage.files import read_json
from electrify.system.outcome import UserError

ABOUT = "task.json"
_NETWORKS: Any = transformers


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
    pooled = replace(task, pooling=settings.pooling)
    return EncoderWithHead(encoder, make_head(pooled, encoder, tokenizer, generator)).to(device)


def keep(
    folder: Path,
    network: EncoderWithHead,
    task: Task,
    source: ModelSource,
    settings: HyperParameters,
) -> None:
    """Write a network with the head of `transformers` in place of what is in `folder`: a folder of
    its class that says its labels, and `task.json`. `network` is used up.

    A number is given in the task's own range. Its tokenizer cuts rows as they were learnt from.
    """
    assert isinstance(network.head, AutoHead)
    whole = network.head.whole(network.encoder.cpu()).cpu()
    if isinstance(task, TextTask):
        whole.config.problem_type = "single_label_classification"
        if isinstance(task, MultiLabelClassification):
            whole.config.problem_type = "multi_label_classification"
        elif isinstance(task, Regression):
            whole.config.problem_type = "regression"
            _put_into_range(whole, task)
    if names := _label_names(task):
        whole.config.id2label = dict(enumerate(names))
        whole.config.label2id = {name: number for number, name in enumerate(names)}
    tokenizer = copy.deepcopy(source.tokenizer)
    tokenizer.model_max_length = settings.max_sequence_length
    names = [name for name in accepted_inputs(network.encoder) if name != "position_ids"]
    tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = names
    shutil.rmtree(folder, ignore_errors=True)
    with quiet_transformers():
        save_network(whole, folder, tokenizer)
    about = {"task": task.name, "own_task": record_of(task), "settings": asdict(settings)}
    write_json(folder / ABOUT, about)  # last: without it the folder is none


def _label_names(task: Task) -> list[str]:
    """What the network calls its labels: B-PER of PER-B, as token classification reads them."""
    if isinstance(task, Regression):
        return [task.label_field.rpartition(".")[2]]
    is_tagged = isinstance(task, Tagging) and not isinstance(task, WordLabels)
    return list(task.tag_names if is_tagged else task.labels)  # type: ignore[attr-defined]


def _put_into_range(whole: nn.Module, task: Regression) -> None:
    """Scale the last layer, whose output was learnt as 0..1."""
    low, high = task.value_range
    *_, last = (each for each in whole.modules() if isinstance(each, nn.Linear))
    assert last.out_features == 1
    with torch.no_grad():
        last.weight *= high - low
        last.bias.mul_(high - low).add_(low)


def read_kept(folder: Path) -> Kept:
    """The network of a folder of `keep`; `ValueError` for a folder that is none."""
    if not (folder / ABOUT).is_file():
        raise UserError(
            f"{folder} has no {ABOUT}: it is no network that `electrify finetune` or "
            "`evaluate.keep_models` wrote"
        )
    about = read_json(folder / ABOUT)
    own, name = about["own_task"], about["task"]
    if not own and name not in TASKS:
        raise UserError(f"{folder}: this version of electrify has no task {name}")
    task = (task_of_record(own) if own else TASKS[name]).with_auto_head()
    if isinstance(task, Regression):
        task = replace(task, is_scaled=False)
    source = open_model(str(folder))
    (kind,) = source.config.architectures
    whole = load_network(source, getattr(_NETWORKS, kind))
    encoder = whole.base_model
    network = EncoderWithHead(encoder, AutoHead(whole, encoder)).eval()
    return Kept(source, task, network, HyperParameters.of(about["settings"]))


def kept_folders(results: Path) -> list[Path]:
    """The kept networks that the last `evaluate` asked for, one a task: of the first seed."""
    folders: dict[str, Path] = {}
    for result in sorted(largest_part(current_results(results)), key=lambda each: each.seed):
        if (place := results / MODELS / result.predictions).is_dir():
            folders.setdefault(result.task, place)
    return [folders[task] for task in sorted(folders)]
