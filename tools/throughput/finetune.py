"""How fast fine-tuning is, and how good, beside the `Trainer` of `transformers`."""

import importlib
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.encoder import ModelSource, accepted_inputs, encode, fitting_length, open_model
from benchmarks.finetune import (
    Split,
    TaskFeatures,
    build_network,
    choose_device,
    choose_precision,
    finetune,
    seeded,
    training_rows,
)
from benchmarks.results.predictions import score_lines
from benchmarks.tasks.heads.linear import LinearHead
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import load_data
from benchmarks.tasks.registry import resolve_tasks
from benchmarks.tasks.task import Example, Features, Line, Task
from benchmarks.training.recipe import HyperParameters, hyper_parameters
from benchmarks.training.trainer import PREDICTION_BATCH_FACTOR, OnStep
from electrify.config.evaluate import EvaluateConfig
from electrify.system.machine import git_commit
from electrify.system.outcome import UserError
from electrify.system.progress import log
from tools.throughput.report import Report, Row
from tools.throughput.texts import DATA, SHIPPED

OURS, PEER = "electrify", "Trainer"
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
_MEANING = """
Both sides have KLUE's recipe: AdamW, linear warm-up and decay, no decay by layer; the same encoder
with the same first weights, hyper-parameters, training rows and seeds. Trainer is that of
transformers with its own sampler, optimizer and schedule, over rows that are tokenised before and
padded to the longest of a batch. One fine-tuning of each system a seed, in turn, in alternating
order, in one process. Examples/s leave out building the model and the first tenth of the steps.
Rates, scores and ratios are medians over seeds.
"""
_UNTIMED_FRACTION = 0.1  # of the steps, which allocate, choose kernels and find their caches cold


@dataclass(frozen=True)
class Settings:
    """What is measured; None is the default of the data or the recipe."""

    peer: Annotated[bool, "measure the Trainer, too"] = False
    model: Annotated[str, "a folder or hub name"] = SHIPPED
    data_dir: Annotated[Path, "folder with the tasks' files"] = DATA
    tasks: Annotated[tuple[str, ...], "of that folder"] = ("klue-ynat", "klue-nli")
    seeds: Annotated[tuple[int, ...], "one fine-tuning of each system a seed"] = (0, 1, 2, 3, 4)
    rows: Annotated[PositiveInt, "training rows, rounded down to whole batches"] = 2_048
    reported: Annotated[PositiveInt, "rows that are scored, at most"] = 1_000
    epochs: Annotated[PositiveFloat, "passes over the training rows"] = 3.0
    batch_size: Annotated[PositiveInt, "rows of a step"] = 32
    learning_rate: Annotated[PositiveFloat | None, "the recipe's if not given"] = None
    length: Annotated[PositiveInt, "pieces of a row, at most"] = 128
    device: Annotated[Literal["auto", "cpu", "cuda"], "where"] = "auto"
    precision: Annotated[Literal["auto", "fp32", "bf16"], "of products"] = "auto"

    def options(self) -> EvaluateConfig:
        """What both sides are given: KLUE's recipe, which is plain AdamW, linear and undecayed."""
        return EvaluateConfig(
            recipe="klue",
            layer_lr_decay=1.0,
            num_epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            max_sequence_length=self.length,
            seeds=self.seeds,
            max_train_examples=self.rows // self.batch_size * self.batch_size,
            device=self.device,
            precision=self.precision,
        )


def measure(settings: Settings) -> Report:
    """Every task: each seed on both systems, in alternating order."""
    if settings.rows // settings.batch_size * settings.epochs < 2:
        raise UserError(
            f"--rows {settings.rows} in batches of {settings.batch_size} for {settings.epochs:g} "
            "epochs: fewer than two steps, nothing to time"
        )
    device = choose_device(settings.device)
    tasks = resolve_tasks((), settings.tasks)
    for task in tasks:
        if not isinstance(task, Classification):
            raise UserError(f"--tasks {task.name}: this benchmark compares classification alone")
    data = {task.name: load_data(task, settings.data_dir) for task in tasks}
    model = open_model(settings.model)
    conditions = {
        "model": settings.model,
        "training_rows": settings.rows,
        "epochs": settings.epochs,
        "batch_size": settings.batch_size,
        "max_sequence_length": settings.length,
        "seeds": settings.seeds,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "threads": torch.get_num_threads(),
        "precision": choose_precision(settings.precision, device),
        "git_commit": git_commit(),
    }
    report = Report("Fine-tuning", _PACKAGES, conditions)
    rows: list[Row] = []
    for task in tasks:
        of = data[task.name]
        reported = of.reported[: settings.reported]
        features = tokenized(task, of.train, reported, model, settings.length)
        values, rates = _measure_task(settings, features, model, device)
        for name in rates:
            ratios = [ours / its for ours, its in zip(rates[OURS], rates[name], strict=True)]
            row = {
                "task": task.name,
                "system": name,
                "examples_per_second": statistics.median(rates[name]),
                task.headline: statistics.median(values[name]),
                "ours_is_times_as_fast": None if name == OURS else statistics.median(ratios),
            }
            rows.append(row)
    report.add("systems", "Systems", _MEANING, rows)
    return report


def tokenized(
    task: Task,
    train: Sequence[Example],
    reported: Sequence[Example],
    model: ModelSource,
    length: int,
) -> TaskFeatures:
    """Both splits as rows of pieces; pairs in one order, as the peer has them."""
    task = replace(task, train_both_orders=False)
    how = model.tokenizer, fitting_length(length, model, was_given=False)
    first = Split(tuple(train), task.featurize(train, *how, True))
    second = Split(tuple(reported), task.featurize(reported, *how, False))
    return TaskFeatures(task, first, {"reported": second})


class _SequenceClassifier(nn.Module):
    """An encoder with dropout and one layer on it, called as `Trainer` calls a model."""

    def __init__(self, encoder: nn.Module, head: LinearHead) -> None:
        super().__init__()
        self.encoder, self.dropout, self.classifier = encoder, head.dropout, head.linear
        self.inputs = accepted_inputs(encoder)

    def forward(self, labels: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        """`loss` and `logits` (B, labels) of ids, mask and token types (B, T)."""
        states = encode(self.encoder, inputs, self.inputs)
        logits = self.classifier(self.dropout(states[:, 0]))
        return {"loss": F.cross_entropy(logits.float(), labels), "logits": logits}


def finetune_with_trainer(
    data: TaskFeatures,
    model: ModelSource,
    seed: int,
    given: HyperParameters,
    on_step: OnStep,
    device_name: str,
) -> list[Line]:
    """As `finetune`, by the Trainer of `transformers` and its own sampler, AdamW and schedule.

    What would only slow it is left out: logging, checkpoints, progress bars and evaluation.
    """
    # untyped here, and importing it takes seconds
    library: Any = importlib.import_module("transformers")
    device = choose_device(device_name)
    given = replace(given, precision=choose_precision(given.precision, device))
    rows = training_rows(data.task, data.train, given.max_train_examples, seed)
    steps = given.record(len(rows))
    reported = next(iter(data.predicted.values()))

    class Steps(library.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            on_step(given.batch_size)  # training rows fill every batch

    with seeded(seed, device), tempfile.TemporaryDirectory() as folder:
        network = build_network(data.task, model, "pretrained", seed, given, device)
        assert isinstance(network.head, LinearHead)
        options = library.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=given.batch_size,
            per_device_eval_batch_size=PREDICTION_BATCH_FACTOR * given.batch_size,
            max_steps=steps["num_steps"],
            learning_rate=given.learning_rate,
            warmup_steps=steps["warmup_steps"],
            lr_scheduler_type="linear",
            weight_decay=given.weight_decay,
            adam_epsilon=given.adam_epsilon,
            max_grad_norm=given.max_gradient_norm,
            bf16=given.precision == "bf16",
            seed=seed,
            use_cpu=device.type == "cpu",
            dataloader_pin_memory=device.type == "cuda",
            remove_unused_columns=False,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = library.Trainer(
            model=_SequenceClassifier(network.encoder, network.head),
            args=options,
            train_dataset=_dataset(data.train.features, rows),
            data_collator=library.DataCollatorWithPadding(model.tokenizer),
            callbacks=[Steps()],
        )
        trainer.remove_callback(library.PrinterCallback)
        trainer.train()
        predicted = _dataset(reported.features, range(len(reported.examples)))
        logits = trainer.predict(predicted).predictions
    outputs = [{"logits": row} for row in logits]
    return data.task.lines(reported.examples, reported.features, outputs)


def _dataset(features: Features, rows: Iterable[int]) -> list[dict[str, Any]]:
    ids, types, labels = features.input_ids, features.token_type_ids, features.labels["labels"]
    return [
        {"input_ids": ids[n].tolist(), "token_type_ids": types[n].tolist(), "labels": labels[n]}
        for n in rows
    ]


def _measure_task(
    settings: Settings, data: TaskFeatures, model: ModelSource, device: torch.device
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Scores and examples per second of every system by name, one of each seed."""
    task = data.task
    given = hyper_parameters(task, settings.options(), model.config.hidden_size)
    rows = training_rows(data.task, data.train, given.max_train_examples, settings.seeds[0])
    num_rows = len(rows) // settings.batch_size * settings.batch_size
    given = replace(given, max_train_examples=num_rows)
    num_steps = given.num_steps(num_rows)
    num_untimed = max(1, int(_UNTIMED_FRACTION * num_steps))

    names = (OURS, PEER) if settings.peer else (OURS,)
    values: dict[str, list[float]] = {name: [] for name in names}
    rates: dict[str, list[float]] = {name: [] for name in names}
    for number, seed in enumerate(settings.seeds):
        for name in names if number % 2 == 0 else reversed(names):
            marks: list[float] = []

            def tick(_: int, marks: list[float] = marks) -> None:
                if len(marks) in (num_untimed - 1, num_steps - 1) and device.type == "cuda":
                    torch.cuda.synchronize(device)
                marks.append(time.perf_counter())

            if name == OURS:
                ours = finetune(
                    data, model, given, seed=seed, on_step=tick, device_name=settings.device
                )
                lines = ours.lines["reported"]
            else:
                lines = finetune_with_trainer(data, model, seed, given, tick, settings.device)
            values[name].append(score_lines(task, lines)[task.headline])
            assert len(marks) == num_steps, (len(marks), num_steps)
            num_timed = (num_steps - num_untimed) * settings.batch_size
            rates[name].append(num_timed / (marks[-1] - marks[num_untimed - 1]))
            log(f"{task.name}, seed {seed}, {name}: {rates[name][-1]:,.0f} examples/s")
    return values, rates
