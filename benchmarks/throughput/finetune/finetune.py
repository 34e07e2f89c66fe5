"""How fast fine-tuning is, and how good, beside the `Trainer` of `transformers`."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizer, ElectraConfig

from benchmarks.encoder import ModelSource, Variant, fitting_length, open_model
from benchmarks.finetune.finetune import (
    Split,
    TaskFeatures,
    choose_device,
    choose_precision,
    finetune,
    training_rows,
)
from benchmarks.finetune.recipe import hyper_parameters
from benchmarks.finetune.training import OnStep
from benchmarks.results.predictions import score_lines
from benchmarks.results.results import summary_of
from benchmarks.statistics.comparison import SEEDS_RULE, compare
from benchmarks.statistics.scores import Sample
from benchmarks.tasks.data import load_data
from benchmarks.tasks.kinds.classification import Classification
from benchmarks.tasks.registry import resolve_tasks
from benchmarks.tasks.task import Example, Line, Task
from benchmarks.throughput.report import Report, Row
from electrify.config.evaluate import EvaluateConfig
from electrify.config.pretrain import SIZE_PRESETS
from electrify.stage.provenance import git_commit
from electrify.system.progress import log

OURS, PEER = "electrify", "Trainer"
PEER_BY_LENGTH, PEER_IN_FP32 = "Trainer, by length", "Trainer, in fp32"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
_MEANING = f"""
Both sides have KLUE's recipe: AdamW, linear warm-up and decay, no decay by layer; the same encoder
with the same first weights, hyper-parameters, training rows and seeds. Trainer is that of
transformers with its own sampler, optimizer and schedule, over rows that are tokenised before and
padded to the longest of a batch; "by length" draws batches of like length; "in fp32" is as it comes
where ours is in bf16. One fine-tuning of each
system a seed, in turn, in alternating order, in one process. Examples/s leave out building the
model and the first tenth of the steps.
{SEEDS_RULE}
"""
_SHAPE = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "embedding_size",
)
_TINY = dict(zip(_SHAPE, (2, 64, 128, 2, 64), strict=True))  # of no paper: to try the command out
_PIECES = 8_000  # of a tokenizer made here
_RANDOM_WEIGHTS_LEARNING_RATE = 2e-3
_UNTIMED_FRACTION = 0.1  # of the steps, which allocate, choose kernels and find their caches cold

Work = Callable[[OnStep], list[Line]]  # one fine-tuning to the lines of the reported rows


@dataclass(frozen=True)
class Settings:
    """What is measured; None is the default of the data or the recipe."""

    with_peer: bool = False
    model: str | None = None  # a folder or hub name; None: random weights of `size`
    size: Literal["tiny", "small", "base", "large"] = "tiny"
    data_dir: Path = Path("../shared/data")  # with the files of the tasks
    tasks: tuple[str, ...] = ("klue-ynat", "klue-nli")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    num_train: int = 2_048  # rows, rounded down to whole batches
    num_reported: int = 1_000
    num_epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float | None = None
    length: int = 128
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
            recipe="klue",
            layer_lr_decay=1.0,
            num_epochs=self.num_epochs,
            batch_size=self.batch_size,
            learning_rate=learning_rate,
            max_sequence_length=self.length,
            seeds=self.seeds,
            max_train_examples=self.num_train // self.batch_size * self.batch_size,
            device=self.device,
            precision=self.precision,
        )


def measure(settings: Settings) -> Report:
    """Every task: each seed on all systems in turn, in alternating order."""
    if settings.with_peer:
        from benchmarks.throughput.finetune.peer import require_trainer

        require_trainer()
    if settings.num_train // settings.batch_size * settings.num_epochs < 2:
        raise ValueError(
            f"--rows {settings.num_train} in batches of {settings.batch_size} for "
            f"{settings.num_epochs:g} epochs: fewer than two steps, nothing to time"
        )
    device = choose_device(settings.device)
    rows = [read_task(task, settings) for task in resolve_tasks((), settings.tasks)]
    texts = [text for _, train, _ in rows for row in train for text in row.texts]
    model = open_model(settings.model) if settings.model else random_model(settings.size, texts)
    path = Path(model.path)
    conditions = {
        "model": "/".join(path.parts[-2:]) if path.is_absolute() else model.path,
        "num_hidden_layers": model.config.num_hidden_layers,
        "hidden_size": model.config.hidden_size,
        "vocab_size": model.config.vocab_size,
        "seeds": list(settings.seeds),
        "num_epochs": settings.num_epochs,
        "batch_size": settings.batch_size,
        "max_sequence_length": settings.length,
        "device_type": device.type,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "threads": torch.get_num_threads(),
        "precision": choose_precision(settings.precision, device),
        "cuda": torch.version.cuda,
        "git_commit": git_commit(),
    }
    report = Report("Fine-tuning", PACKAGES, conditions)
    for task, train, reported in rows:
        data = tokenized(task, train, reported, model, settings.length)
        about, systems = _measure_task(settings, data, model, device)
        report.add(task.name, task.name, about + _MEANING, system_rows(task.headline, systems))
    return report


# What both sides learn from.


def read_task(task: Task, settings: Settings) -> tuple[Task, Sequence[Example], Sequence[Example]]:
    """With its training rows, and so many reported ones, the same in every run.

    `ValueError` for one that is no classification.
    """
    if not isinstance(task, Classification):
        raise ValueError(f"--tasks {task.name}: this benchmark compares classification alone")
    data = load_data(task, settings.data_dir)
    number = len(data.reported)
    count = min(settings.num_reported, number)
    chosen = np.sort(np.random.default_rng(2).choice(number, count, replace=False))
    return task, data.train, [data.reported[place] for place in chosen]


def random_model(size: str, texts: Sequence[str]) -> ModelSource:
    """A config of the paper's shape and a tokenizer learnt from these texts; weights come a run."""
    learner: Any = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    options = {"vocab_size": _PIECES, "limit_alphabet": _PIECES, "min_frequency": 0}
    learner.train_from_iterator(texts, show_progress=False, **options)
    make: Any = BertTokenizer
    tokenizer = make(vocab=learner.get_vocab(), do_lower_case=False, model_max_length=512)
    preset = _TINY if size == "tiny" else SIZE_PRESETS[size]
    shape: dict[str, Any] = {name: preset[name] for name in _SHAPE}
    config = ElectraConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **shape)
    return ModelSource(f"ELECTRA {size}, random weights", config, tokenizer)


def tokenized(
    task: Task,
    train: Sequence[Example],
    reported: Sequence[Example],
    model: ModelSource,
    length: int,
) -> TaskFeatures:
    """Both splits as rows of pieces; pairs in one order, as the peer has them."""
    task = replace(task, train_both_orders=False)
    length = fitting_length(length, model, was_given=False)

    def split(rows: Sequence[Example], is_train: bool) -> Split:
        features = task.featurize(rows, model.tokenizer, length, is_train)
        return Split(tuple(rows), features)

    return TaskFeatures(task, split(train, True), {"reported": split(reported, False)})


# One fine-tuning after the other.


@dataclass(frozen=True)
class Run:
    """One fine-tuning: the score, and rates behind the first steps."""

    seed: int
    value: float  # the task's headline on the reported rows
    examples_per_second: float  # by the clock
    examples_per_cpu_second: float  # by the seconds of all threads of this process


class Clock:
    """Rates of one fine-tuning from the steps that it reports."""

    def __init__(self, num_steps: int, device: torch.device) -> None:
        self.device, self.num_steps = device, num_steps
        self.num_untimed = max(1, int(_UNTIMED_FRACTION * num_steps))
        self.count = self.rows = 0
        self.marks: list[tuple[float, float]] = []

    def tick(self, rows: int) -> None:
        """One step is over."""
        self.count += 1
        self.rows += rows if self.count > self.num_untimed else 0
        if self.count in (self.num_untimed, self.num_steps):
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.marks.append((time.perf_counter(), time.process_time()))

    def rates(self) -> tuple[float, float]:
        """Rows a second behind the first steps, by the clock and by processor time."""
        assert self.count == self.num_steps, (self.count, self.num_steps)
        wall, cpu = (b - a for a, b in zip(*self.marks, strict=True))
        return self.rows / wall, self.rows / cpu


def _measure_task(
    settings: Settings, data: TaskFeatures, model: ModelSource, device: torch.device
) -> tuple[str, dict[str, list[Run]]]:
    """What is learnt and scored, in a sentence, and the runs of every system by name."""
    task = data.task
    given = hyper_parameters(task, settings.options(), model.config.hidden_size)
    rows = training_rows(data.train, given.max_train_examples, settings.seeds[0])
    rows = rows[: len(rows) // settings.batch_size * settings.batch_size]
    given = replace(given, max_train_examples=len(rows))
    num_steps = given.num_steps(len(rows))

    def systems(seed: int) -> dict[str, Work]:
        arguments = data, model, settings.variant, seed, given

        def ours(on_step: OnStep) -> list[Line]:
            fitted = finetune(*arguments, on_step, device_name=settings.device)
            return fitted.lines["reported"]

        def peer(by_length: bool, precision: str = given.precision) -> Work:
            from benchmarks.throughput.finetune.peer import finetune_with_trainer

            one = *arguments[:-1], replace(given, precision=precision)
            return lambda on_step: finetune_with_trainer(*one, settings.device, on_step, by_length)

        if not settings.with_peer:
            return {OURS: ours}
        peers = {PEER: peer(False), PEER_BY_LENGTH: peer(True)}
        if choose_precision(given.precision, device) == "bf16":
            peers[PEER_IN_FP32] = peer(False, "fp32")
        return {OURS: ours, **peers}

    runs: dict[str, list[Run]] = {}
    for number, seed in enumerate(settings.seeds):
        works = list(systems(seed).items())
        for name, work in works if number % 2 == 0 else reversed(works):
            clock = Clock(num_steps, device)
            value = score_lines(task, work(clock.tick))[task.headline]
            run = Run(seed, value, *clock.rates())
            runs.setdefault(name, []).append(run)
            log(
                f"{task.name}, seed {seed}, {name}: {run.examples_per_second:,.0f} examples/s, "
                f"{task.headline} {run.value:.4f}"
            )
    lengths = data.train.features.lengths[rows]
    texts = "one text" if len(task.text_fields) == 1 else "two texts"
    about = (
        f"{len(rows):,} training rows of {texts}, {float(np.median(lengths)):g} pieces in the "
        f"median and {lengths.max()} at most, {num_steps:,} steps; {task.headline} on "
        f"{len(data.predicted['reported'].examples):,} reported rows."
    )
    return about, runs


def system_rows(metric: str, systems: Mapping[str, Sequence[Run]]) -> list[Row]:
    """A row a system, of its runs of each seed; ratios are medians over seeds, and scores are
    compared by the rule of the reports."""
    ours = systems[OURS]
    rows: list[Row] = []
    for name, runs in systems.items():
        rates = [run.examples_per_second for run in runs]
        scores = _scores(runs)
        row = {
            "system": name,
            "examples_per_second": statistics.median(rates),
            "spread": (max(rates) - min(rates)) / statistics.median(rates),
            f"mean_{metric}": scores.summary.mean,
            "sd": scores.summary.sd,
        }
        if name != OURS:
            pairs = list(zip(ours, runs, strict=True))
            found = compare(_scores(ours), scores, higher_is_better=True, shares_seeds=True)
            row |= {
                "ours_is_times_as_fast": statistics.median(
                    one.examples_per_second / two.examples_per_second for one, two in pairs
                ),
                "by_processor_time": statistics.median(
                    one.examples_per_cpu_second / two.examples_per_cpu_second for one, two in pairs
                ),
                "ours_less_it": found.gain,
                "verdict": found.verdict,
            }
        rows.append(row)
    return rows


def _scores(runs: Sequence[Run]) -> Sample:
    values = {run.seed: run.value for run in runs}
    return Sample(values, summary_of(list(values.values())))
