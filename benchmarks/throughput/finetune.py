"""How fast fine-tuning is, and how good, beside the `Trainer` of `transformers`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.encoder import ModelSource, Variant, open_model
from benchmarks.finetune import (
    TaskFeatures,
    choose_device,
    choose_precision,
    finetune,
    training_rows,
)
from benchmarks.heads import HEAD_DROPOUT
from benchmarks.kind import Line
from benchmarks.predictions import score_lines
from benchmarks.recipe import HyperParameters, resolve_hyper_parameters
from benchmarks.throughput.finetune_data import (
    random_model,
    sample,
    tasks_made_up,
    tasks_of_files,
    tokenized,
)
from benchmarks.throughput.finetune_figures import (
    OURS,
    PEER,
    PEER_BY_LENGTH,
    FinetuneFigures,
    Run,
    System,
    TaskFigures,
    judge,
)
from benchmarks.training import OnStep
from electrify.config_evaluate import EvaluateConfig
from electrify.progress import log
from electrify.provenance import git_commit

_RANDOM_WEIGHTS_LEARNING_RATE = 2e-3
_UNTIMED_FRACTION = 0.1  # of the steps, which allocate, choose kernels and find their caches cold

Work = Callable[[OnStep], list[Line]]  # one fine-tuning to the lines of the reported rows


@dataclass(frozen=True)
class FinetuneSettings:
    """What is measured; None is the default of the data or the recipe."""

    with_peer: bool = False
    with_lengths: bool = True  # where there is a peer, also its batches of like length
    model: str | None = None  # a folder or hub name; None: random weights of `size`
    size: Literal["tiny", "small", "base", "large"] = "tiny"
    data_dir: Path | None = None  # None: texts made here
    tasks: tuple[str, ...] = ("klue-ynat", "klue-nli")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    num_train: int = 2_048  # rows, rounded down to whole batches
    num_reported: int = 1_000
    num_epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float | None = None
    length: int = 128
    pooling: Literal["cls", "mean"] | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"

    @property
    def variant(self) -> Variant:
        """Random weights are drawn a run, by the seed."""
        return "random-init" if self.model is None else "pretrained"

    def options(self) -> EvaluateConfig:
        """What both sides are given: KLUE's recipe, which is plain AdamW, linear and undecayed.

        Random weights learn in so few steps only at a higher rate than the recipe's.
        """
        learning_rate = self.learning_rate
        if learning_rate is None and self.model is None:
            learning_rate = _RANDOM_WEIGHTS_LEARNING_RATE
        return EvaluateConfig(
            recipe="klue", layer_lr_decay=1.0, num_epochs=self.num_epochs,
            batch_size=self.batch_size, learning_rate=learning_rate,
            max_sequence_length=self.length, pooling=self.pooling, seeds=self.seeds,
            max_train_examples=self.num_train // self.batch_size * self.batch_size,
            device=self.device, precision=self.precision,
        )  # fmt: skip


class Clock:
    """Rates of one fine-tuning from the steps that it reports."""

    def __init__(self, num_steps: int, device: torch.device) -> None:
        self.device, self.num_steps = device, num_steps
        self.num_untimed = max(1, int(_UNTIMED_FRACTION * num_steps))
        self.count = self.rows = 0
        self.first = self.last = (0.0, 0.0)

    def tick(self, rows: int) -> None:
        """One step is over."""
        self.count += 1
        self.rows += rows if self.count > self.num_untimed else 0
        if self.count in (self.num_untimed, self.num_steps):
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.last = time.perf_counter(), time.process_time()
            if self.count == self.num_untimed:
                self.first = self.last

    def rates(self) -> tuple[float, float]:
        """Rows a second behind the first steps, by the clock and by processor time."""
        assert self.count == self.num_steps, (self.count, self.num_steps)
        wall, cpu = (b - a for a, b in zip(self.first, self.last, strict=True))
        return self.rows / wall, self.rows / cpu


def measure_finetuning(settings: FinetuneSettings) -> FinetuneFigures:
    """Every task: each seed on all systems in turn, in alternating order."""
    if settings.with_peer:
        from benchmarks.throughput.finetune_peer import require_trainer

        require_trainer()
    _check(settings)
    device = choose_device(settings.device)
    rows = (
        tasks_made_up(settings.num_train, settings.num_reported)
        if settings.data_dir is None
        else tasks_of_files(settings.tasks, settings.data_dir)
    )
    texts = [text for _, train, _ in rows for row in train for text in row.texts]
    model = random_model(settings.size, texts) if settings.model is None else open_model(
        settings.model
    )  # fmt: skip
    figures = FinetuneFigures(_conditions(settings, model, device))
    for task, train, reported in rows:
        chosen = sample(reported, settings.num_reported)
        data = tokenized(task, train, chosen, model, settings.length)
        figures.tasks.append(_measure_task(settings, data, model, device))
    figures.goals = judge(figures.tasks)
    return figures


def _check(settings: FinetuneSettings) -> None:
    if settings.num_train // settings.batch_size * settings.num_epochs < 2:
        raise ValueError(
            f"--rows {settings.num_train} in batches of {settings.batch_size} for "
            f"{settings.num_epochs:g} epochs: fewer than two steps, nothing to time"
        )


def _conditions(
    settings: FinetuneSettings, model: ModelSource, device: torch.device
) -> dict[str, Any]:
    """What the figures are of; of an absolute path the last parts alone."""
    path = Path(model.path)
    name = "/".join(path.parts[-2:]) if path.is_absolute() else model.path
    return {
        "model": name,
        "num_hidden_layers": model.config.num_hidden_layers,
        "hidden_size": model.config.hidden_size,
        "vocab_size": model.config.vocab_size,
        "data": "made up" if settings.data_dir is None else "official files",
        "seeds": list(settings.seeds),
        "num_epochs": settings.num_epochs,
        "batch_size": settings.batch_size,
        "max_sequence_length": settings.length,
        "pooling": settings.pooling or "cls",
        "device_type": device.type,
        "device": _device_name(device),
        "precision": choose_precision(settings.precision, device),
        "cuda": torch.version.cuda,
        "git_commit": git_commit(),
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def _measure_task(
    settings: FinetuneSettings, data: TaskFeatures, model: ModelSource, device: torch.device
) -> TaskFigures:
    options = settings.options()
    rows = training_rows(data.train, options.max_train_examples, settings.seeds[0])
    if len(rows) % settings.batch_size:
        whole = len(rows) // settings.batch_size * settings.batch_size
        options = options.model_copy(update={"max_train_examples": whole})
        rows = rows[:whole]
    given = resolve_hyper_parameters(
        data.task, options, model.config.hidden_size, len(rows), HEAD_DROPOUT, "fp32"
    )
    runs: dict[str, list[Run]] = {}
    for number, seed in enumerate(settings.seeds):
        systems = list(_systems(settings, data, model, seed, options).items())
        for name, work in systems if number % 2 == 0 else reversed(systems):
            run = _timed(work, data, seed, given, device)
            runs.setdefault(name, []).append(run)
            log(
                f"{data.task.name}, seed {seed}, {name}: {run.examples_per_second:,.0f} "
                f"examples/s, {data.task.headline} {run.value:.4f}"
            )
    lengths = data.train.features.lengths[rows]
    order = list(_systems(settings, data, model, 0, options))
    return TaskFigures(
        data.task.name, data.task.headline, len(data.task.text_fields), len(rows),
        len(data.predicted["reported"].examples), given.num_steps, float(np.median(lengths)),
        int(lengths.max()), [System(name, runs[name]) for name in order],
    )  # fmt: skip


def _systems(
    settings: FinetuneSettings,
    data: TaskFeatures,
    model: ModelSource,
    seed: int,
    options: EvaluateConfig,
) -> dict[str, Work]:
    """Every side by name."""
    variant = settings.variant

    def ours(on_step: OnStep) -> list[Line]:
        return finetune(data, model, variant, seed, options, on_step).lines["reported"]

    def peer(by_length: bool) -> Work:
        from benchmarks.throughput.finetune_peer import finetune_with_trainer

        return lambda on_step: finetune_with_trainer(
            data, model, variant, seed, options, on_step, by_length
        )

    if not settings.with_peer:
        return {OURS: ours}
    peers = {PEER: peer(False), PEER_BY_LENGTH: peer(True)}
    if not settings.with_lengths:
        del peers[PEER_BY_LENGTH]
    return {OURS: ours, **peers}


def _timed(
    work: Work, data: TaskFeatures, seed: int, given: HyperParameters, device: torch.device
) -> Run:
    clock = Clock(given.num_steps, device)
    start = time.perf_counter()
    lines = work(clock.tick)
    seconds = time.perf_counter() - start
    value = score_lines(data.task, lines)[data.task.headline]
    return Run(seed, value, *clock.rates(), seconds)
