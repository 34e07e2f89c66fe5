"""How fast fine-tuning is, and how good, beside the `Trainer` of `transformers`."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ElectraConfig, PreTrainedTokenizerFast

from benchmarks.encoder import ModelSource, Variant, fitting_length, open_model
from benchmarks.finetune.finetune import (
    Split,
    TaskFeatures,
    choose_device,
    choose_precision,
    finetune,
    training_rows,
)
from benchmarks.finetune.recipe import HyperParameters, hyper_parameters
from benchmarks.finetune.training import OnStep
from benchmarks.results.predictions import score_lines
from benchmarks.results.results import Summary, sample_sd
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

OURS, PEER, PEER_BY_LENGTH = "electrify", "Trainer", "Trainer, by length"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
_MEANING = f"""
Both sides have KLUE's recipe: AdamW, linear warm-up and decay, no decay by layer; the same encoder
with the same first weights, hyper-parameters, training rows and seeds. Trainer is that of
transformers with its own sampler, optimizer and schedule, over rows that are tokenised before and
padded to the longest of a batch; "by length" draws batches of like length. One fine-tuning of each
system a seed, in turn, in alternating order, in one process. Examples/s leave out building the
model and the first tenth of the steps; seconds are those of all of it with predicting.
{SEEDS_RULE}
"""


@dataclass(frozen=True)
class Run:
    """One fine-tuning: the score, and rates behind the first steps."""

    seed: int
    value: float  # the task's headline on the reported rows
    examples_per_second: float  # by the clock
    examples_per_cpu_second: float  # by the seconds of all threads of this process
    seconds: float  # of all of it: building, training and predicting


def system_rows(metric: str, systems: Mapping[str, Sequence[Run]]) -> list[Row]:
    """A row a system, of its runs of each seed; ratios are medians over seeds, and scores are
    compared by the rule of the reports."""
    return [_system_row(metric, name, runs, systems[OURS]) for name, runs in systems.items()]


def _system_row(metric: str, name: str, runs: Sequence[Run], ours: Sequence[Run]) -> Row:
    rates = [run.examples_per_second for run in runs]
    scores = _scores(runs)
    row = {
        "system": name,
        "examples_per_second": statistics.median(rates),
        "spread": (max(rates) - min(rates)) / statistics.median(rates),
        "examples_per_cpu_second": statistics.median(r.examples_per_cpu_second for r in runs),
        "seconds": sum(run.seconds for run in runs) / len(runs),
        f"mean_{metric}": scores.summary.mean,
        "sd": scores.summary.sd,
        **{f"seed_{seed}": value for seed, value in scores.values.items()},
    }
    if name == OURS:
        return row
    pairs = list(zip(ours, runs, strict=True))
    found = compare(_scores(ours), scores, higher_is_better=True, shares_seeds=True)
    return row | {
        "ours_is_times_as_fast": statistics.median(
            one.examples_per_second / two.examples_per_second for one, two in pairs
        ),
        "by_processor_time": statistics.median(
            one.examples_per_cpu_second / two.examples_per_cpu_second for one, two in pairs
        ),
        "ours_less_it": found.gain,
        "verdict": found.verdict,
    }


def _scores(runs: Sequence[Run]) -> Sample:
    values = {run.seed: run.value for run in runs}
    scores = list(values.values())
    return Sample(values, Summary(statistics.fmean(scores), sample_sd(scores), len(scores)))


# What both sides learn from.

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SHAPE = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "embedding_size",
)
# of no paper: for trying the command out
_TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "embedding_size": 64,
}
_PIECES = 8_000  # of a tokenizer made here


def read_task(task: Task, data_dir: Path) -> tuple[Task, Sequence[Example], Sequence[Example]]:
    """With its training and reported rows; `ValueError` for one that is no classification."""
    if not isinstance(task, Classification):
        raise ValueError(f"--tasks {task.name}: this benchmark compares classification alone")
    data = load_data(task, data_dir)
    return task, data.train, data.reported


def sample(rows: Sequence[Example], count: int) -> tuple[Example, ...]:
    """So many rows in file order, the same ones in every run; all if there are no more."""
    if len(rows) <= count:
        return tuple(rows)
    chosen: NDArray[np.int64] = np.random.default_rng(2).choice(len(rows), count, replace=False)
    return tuple(rows[n] for n in np.sort(chosen))


def random_model(size: str, texts: Sequence[str]) -> ModelSource:
    """A config of the paper's shape and a tokenizer learnt from these texts; weights come a run."""
    tokenizer = _learn_tokenizer(texts)
    preset = _TINY if size == "tiny" else SIZE_PRESETS[size]
    shape: dict[str, Any] = {name: preset[name] for name in _SHAPE}
    config = ElectraConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **shape)
    return ModelSource(f"ELECTRA {size}, random weights", config, tokenizer)


def _learn_tokenizer(texts: Sequence[str]) -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=_PIECES, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(piece, tokenizer.token_to_id(piece)) for piece in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=tokenizer, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    )


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


_RANDOM_WEIGHTS_LEARNING_RATE = 2e-3
_UNTIMED_FRACTION = 0.1  # of the steps, which allocate, choose kernels and find their caches cold

Work = Callable[[OnStep], list[Line]]  # one fine-tuning to the lines of the reported rows


@dataclass(frozen=True)
class Settings:
    """What is measured; None is the default of the data or the recipe."""

    with_peer: bool = False
    with_lengths: bool = True  # where there is a peer, also its batches of like length
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
            recipe="klue",
            layer_lr_decay=1.0,
            num_epochs=self.num_epochs,
            batch_size=self.batch_size,
            learning_rate=learning_rate,
            max_sequence_length=self.length,
            pooling=self.pooling,
            seeds=self.seeds,
            max_train_examples=self.num_train // self.batch_size * self.batch_size,
            device=self.device,
            precision=self.precision,
        )


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


def measure(settings: Settings) -> Report:
    """Every task: each seed on all systems in turn, in alternating order."""
    if settings.with_peer:
        from benchmarks.throughput.finetune_peer import require_trainer

        require_trainer()
    _check(settings)
    device = choose_device(settings.device)
    rows = [read_task(task, settings.data_dir) for task in resolve_tasks((), settings.tasks)]
    texts = [text for _, train, _ in rows for row in train for text in row.texts]
    model = (
        random_model(settings.size, texts) if settings.model is None else open_model(settings.model)
    )
    report = Report("Fine-tuning", PACKAGES, _conditions(settings, model, device))
    for task, train, reported in rows:
        chosen = sample(reported, settings.num_reported)
        data = tokenized(task, train, chosen, model, settings.length)
        about, systems = _measure_task(settings, data, model, device)
        rows_of_systems = system_rows(task.headline, systems)
        report.add(task.name, task.name, f"{about} {_MEANING}", rows_of_systems)
    return report


def _check(settings: Settings) -> None:
    if settings.num_train // settings.batch_size * settings.num_epochs < 2:
        raise ValueError(
            f"--rows {settings.num_train} in batches of {settings.batch_size} for "
            f"{settings.num_epochs:g} epochs: fewer than two steps, nothing to time"
        )


def _conditions(settings: Settings, model: ModelSource, device: torch.device) -> dict[str, Any]:
    """What the figures are of; of an absolute path the last parts alone."""
    path = Path(model.path)
    name = "/".join(path.parts[-2:]) if path.is_absolute() else model.path
    return {
        "model": name,
        "num_hidden_layers": model.config.num_hidden_layers,
        "hidden_size": model.config.hidden_size,
        "vocab_size": model.config.vocab_size,
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
    settings: Settings, data: TaskFeatures, model: ModelSource, device: torch.device
) -> tuple[str, dict[str, list[Run]]]:
    """What is learnt and scored, in a sentence, and the runs of every system by name."""
    given = hyper_parameters(data.task, settings.options(), model.config.hidden_size)
    rows = training_rows(data.train, given.max_train_examples, settings.seeds[0])
    if len(rows) % settings.batch_size:
        whole = len(rows) // settings.batch_size * settings.batch_size
        given = replace(given, max_train_examples=whole)
        rows = rows[:whole]
    num_steps = given.num_steps(len(rows))
    runs: dict[str, list[Run]] = {name: [] for name in _systems(settings, data, model, 0, given)}
    for number, seed in enumerate(settings.seeds):
        systems = list(_systems(settings, data, model, seed, given).items())
        for name, work in systems if number % 2 == 0 else reversed(systems):
            run = _timed(work, data, seed, num_steps, device)
            runs[name].append(run)
            log(
                f"{data.task.name}, seed {seed}, {name}: {run.examples_per_second:,.0f} "
                f"examples/s, {data.task.headline} {run.value:.4f}"
            )
    lengths = data.train.features.lengths[rows]
    texts = "one text" if len(data.task.text_fields) == 1 else "two texts"
    about = (
        f"{len(rows):,} training rows of {texts}, {float(np.median(lengths)):g} pieces in the "
        f"median and {lengths.max()} at most, {num_steps:,} steps; {data.task.headline} on "
        f"{len(data.predicted['reported'].examples):,} reported rows."
    )
    return about, runs


def _systems(
    settings: Settings,
    data: TaskFeatures,
    model: ModelSource,
    seed: int,
    given: HyperParameters,
) -> dict[str, Work]:
    """Every side by name."""
    variant = settings.variant

    def ours(on_step: OnStep) -> list[Line]:
        device = settings.device
        fitted = finetune(data, model, variant, seed, given, on_step, device_name=device)
        return fitted.lines["reported"]

    def peer(by_length: bool) -> Work:
        from benchmarks.throughput.finetune_peer import finetune_with_trainer

        return lambda on_step: finetune_with_trainer(
            data, model, variant, seed, given, settings.device, on_step, by_length
        )

    if not settings.with_peer:
        return {OURS: ours}
    peers = {PEER: peer(False), PEER_BY_LENGTH: peer(True)}
    if not settings.with_lengths:
        del peers[PEER_BY_LENGTH]
    return {OURS: ours, **peers}


def _timed(work: Work, data: TaskFeatures, seed: int, num_steps: int, device: torch.device) -> Run:
    clock = Clock(num_steps, device)
    start = time.perf_counter()
    lines = work(clock.tick)
    seconds = time.perf_counter() - start
    value = score_lines(data.task, lines)[data.task.headline]
    return Run(seed, value, *clock.rates(), seconds)
