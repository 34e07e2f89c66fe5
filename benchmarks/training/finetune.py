"""Tokenise a task, fine-tune one encoder on it with one seed, and predict.

The protocol is a fixed number of steps and the model of the last one: the reported rows are not
looked at before.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource, with_added_tokens
from benchmarks.results.predictions import plain, score_predictions, undefined
from benchmarks.results.results import encoder_label
from benchmarks.tasks.features import QuestionExample
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import SPLIT_EVAL, TaskData
from benchmarks.tasks.task import OWN, Example, Features, GoldExample, Outputs, Prediction, Task
from benchmarks.training.bag_of_words import bag_of_words
from benchmarks.training.network import build_network
from benchmarks.training.recipe import HyperParameters
from benchmarks.training.trainer import OnStep, Trainer
from electrify.config.evaluate import Role
from electrify.system.machine import cpu_precision, gpu_precision
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from electrify.system.unknown import coverage_of, warn_of_unknown


@dataclass(frozen=True)
class Split:
    """Examples with their tokenised rows."""

    examples: tuple[Example, ...]
    features: Features
    # of a training split of which only what is learnt from was tokenised: (examples,) the position
    # of each in the whole split, and how many that has
    positions: NDArray[np.int64] | None = None
    num_in_whole: int | None = None


@dataclass(frozen=True)
class TaskFeatures:
    """A task with its tokenised splits; of those to predict, the reported one first."""

    task: Task
    train: Split
    predicted: Mapping[str, Split]


@dataclass(frozen=True)
class Finetuned:
    """Predictions of one fine-tuned model by split, and how they came about, as `Result` has it."""

    predictions: Mapping[str, list[Prediction]]  # predictions are None after a failed training
    degenerate: str | None
    hyper_parameters: dict[str, Any]  # with the number of steps and of rows at once in the end
    num_train_examples: int
    train_seconds: float
    device: str = ""
    network: EncoderWithHead | None = None  # None of a baseline of words and of a failed training

    @property
    def record(self) -> dict[str, Any]:
        """What a `Result` has of it."""
        return {n: value for n, value in vars(self).items() if n not in ("predictions", "network")}


def tokenize(
    task: Task, data: TaskData, source: ModelSource, settings: HyperParameters, seeds: Sequence[int]
) -> TaskFeatures:
    """The task's splits in pieces; of the training split the examples that one of `seeds` learns
    from. A warning names each split in which something is cut.

    Raises `UserError` for a split of which no row can be used.
    """
    length = settings.max_sequence_length
    tokenizer = with_added_tokens(source.tokenizer, task.added_tokens)

    def tokenized(split: str, examples: tuple[Example, ...], train: bool = False) -> Split:
        features = task.featurize(examples, tokenizer, length, train)
        if not features.input_ids:
            raise UserError(f"{task.name} {split}: none of {len(examples)} rows can be used")
        if (cut := features.num_truncated) > 0:
            warn(
                f"{task.name} {split}: {cut:,} of {len(examples):,} examples "
                f"({100 * cut / len(examples):.1f} %) are longer than {length} pieces and were cut"
            )
        return Split(examples, features)

    for split, (here, officially) in data.parts.items():
        warn(f"{task.name} {split}: {here:,} rows, the official split has {officially:,}")
    if SPLIT_EVAL in data.split and task.suite != OWN:
        warn(
            f"{task.name}: no training file; a part of the {task.reported} rows is trained on, and "
            f"the other {len(data.reported):,} are reported as split {data.split!r}"
        )
    train, most = data.train, settings.max_train_examples
    predicted = {name: tokenized(name, rows) for name, rows in data.predicted.items()}
    positions = np.unique(np.concatenate([sampled_examples(len(train), most, n) for n in seeds]))
    learnt = tokenized("train", tuple(train[n] for n in positions), train=True)
    learnt = replace(learnt, positions=positions, num_in_whole=len(train))
    rows = chain.from_iterable(s.features.input_ids for s in (learnt, *predicted.values()))
    warn_of_unknown(coverage_of(rows, tokenizer), f"{task.name} as {source.name} reads it")
    return TaskFeatures(task, learnt, predicted)


def finetune(
    features: TaskFeatures,
    source: ModelSource,
    settings: HyperParameters,
    *,
    seed: int,
    role: Role = "pretrained",
    train_fraction: float = 1.0,
    device_name: str = "auto",
    on_step: OnStep = lambda num_rows: None,
) -> Finetuned:
    """Train encoder and head on `features.train`, predict the other splits.

    The seed decides sample, order, head, dropout and (`random-init`) the encoder; the pretrained
    encoder and random initialisation share all but the last. Global random state is as before
    afterwards. `on_step` gets the number of rows of each finished step, and may raise to stop.
    """
    device, task = choose_device(device_name), features.task
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    rows = training_rows(task, features.train, settings.max_train_examples, seed, train_fraction)
    with seeded(seed, device):
        network = build_network(task, source, role, seed, settings, device)
        label = f"{task.name}, {encoder_label(role, source.name)}, seed {seed}"
        trainer = Trainer(network, task, source.tokenizer.pad_token_id, settings, label)
        start = time.monotonic()
        failure = trainer.train(features.train.features, rows, seed, on_step)
        train_seconds = time.monotonic() - start
        predictions, problem = _predict(
            features, lambda _, split: trainer.predict(split.features), failure
        )
    return Finetuned(
        predictions=predictions,
        degenerate=problem,
        hyper_parameters=settings.record(len(rows))
        | {"micro_batch_size": trainer.micro_batch_size},
        num_train_examples=len(np.unique(features.train.features.example_of[rows])),
        train_seconds=round(train_seconds, 3),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        network=network if failure is None else None,
    )


def fit_bag_of_words(
    features: TaskFeatures, settings: HyperParameters, *, seed: int, train_fraction: float = 1.0
) -> Finetuned:
    """The TF-IDF baseline, learnt from the same examples as an encoder of that seed."""
    task = features.task
    assert isinstance(task, Classification)
    start = time.monotonic()
    rows = training_rows(task, features.train, settings.max_train_examples, seed, train_fraction)
    learnt = [
        features.train.examples[i] for i in np.unique(features.train.features.example_of[rows])
    ]

    def logits(probabilities: NDArray[np.float64]) -> list[Outputs]:
        with np.errstate(divide="ignore"):  # a label without training rows
            return [{"logits": row} for row in np.log(probabilities).clip(min=-1e4)]

    def score(positions: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
        examples = [learnt[i] for i in positions.tolist()]
        predictions = task.predictions(examples, features.train.features, logits(probabilities))
        return score_predictions(task, predictions)[task.headline]

    probabilities, choice = bag_of_words(
        [task.plain_texts(example) for example in learnt],
        np.array([example.gold for example in learnt]),
        {
            name: [task.plain_texts(example) for example in split.examples]
            for name, split in features.predicted.items()
        },
        len(task.labels),
        seed,
        score,
    )
    predictions, problem = _predict(features, lambda name, _: logits(probabilities[name]))
    seconds = round(time.monotonic() - start, 3)
    chosen = {name.rpartition("__")[2]: value for name, value in choice.items()}
    return Finetuned(predictions, problem, chosen, len(learnt), seconds, device="cpu")


def _predict(
    features: TaskFeatures,
    predict: Callable[[str, Split], list[Outputs]],
    failure: str | None = None,
) -> tuple[dict[str, list[Prediction]], str | None]:
    """The predictions of every split, and what is wrong: the failure, or a problem of the reported
    one, which is the first."""
    predictions: dict[str, list[Prediction]] = {}
    problems: list[str | None] = [failure] if failure else []
    for name, split in features.predicted.items():
        predictions[name], problem = _predict_split(features.task, split, predict(name, split))
        problems.append(problem)
        if failure:
            predictions[name] = undefined(predictions[name])
    return predictions, problems[0]


def _predict_split(
    task: Task, split: Split, outputs: list[Outputs]
) -> tuple[list[Prediction], str | None]:
    is_finite = all(np.isfinite(array).all() for row in outputs for array in row.values())
    if not is_finite:
        outputs = [{name: np.nan_to_num(row[name]) for name in row} for row in outputs]
    predictions = plain(task.predictions(split.examples, split.features, outputs))
    if not is_finite:
        return undefined(predictions), "outputs are not numbers"
    constant = task.constant(predictions)
    is_right = constant is None or task.constant(predictions, "gold") is not None
    return predictions, None if is_right else f"constant predictions: {constant}"


def choose_device(name: str) -> torch.device:
    """The device asked for; "auto" is the GPU where there is one, NVIDIA's or Apple's."""
    is_there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    is_there["cpu"] = True
    if name == "auto":
        name = next(kind for kind, here in is_there.items() if here)
    if not is_there[name]:
        raise UserError(f"evaluate.device = {name!r}, but torch sees none; use 'auto' or 'cpu'")
    return torch.device(name)


def choose_precision(name: str, device: torch.device) -> str:
    """The precision asked for; "auto" is bf16 on a device that has units for it."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return gpu_precision(torch.cuda.get_device_capability(device))
    return cpu_precision()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch, and put its state back afterwards."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def sampled_examples(
    num_examples: int, max_train_examples: int | None, seed: int
) -> NDArray[np.int64]:
    """Positions, in order, of the examples to train on: all, or a sample of them by the seed."""
    if max_train_examples is None or max_train_examples >= num_examples:
        return np.arange(num_examples)
    rng = np.random.default_rng([seed, 1])
    return np.sort(rng.choice(num_examples, max_train_examples, replace=False))


def training_rows(
    task: Task, split: Split, max_train_examples: int | None, seed: int, fraction: float = 1.0
) -> NDArray[np.int64]:
    """Rows to train on: those of `sampled_examples`, of which a reading task may have none, or of
    the fraction of them that `low_shot_rows` takes."""
    row_of = example_of = split.features.example_of
    if split.positions is not None:
        example_of = split.positions[example_of]
    num_examples = split.num_in_whole or len(split.examples)
    chosen = sampled_examples(num_examples, max_train_examples, seed)
    rows = np.flatnonzero(np.isin(example_of, chosen))
    return low_shot_rows(task, split.examples, row_of, rows, fraction, seed)


def low_shot_rows(
    task: Task,
    examples: Sequence[Example],
    example_of: NDArray[np.int64],
    rows: NDArray[np.int64],
    fraction: float,
    seed: int,
) -> NDArray[np.int64]:
    """Those of `rows` whose examples are in the part of that size; `example_of` is by row.

    Of each class (a label, or whether a question has an answer) `fraction` of the examples is
    taken, rounded, and at least one, in an order by the seed: 1 % stands inside 10 %.
    """
    if fraction == 1.0:
        return rows
    order = np.random.default_rng([seed, 3]).permutation(np.unique(example_of[rows]))
    groups: dict[Hashable, list[int]] = {}
    for number in map(int, order):
        groups.setdefault(_class_of(task, examples[number]), []).append(number)
    sizes = {kind: max(1, int(fraction * len(of) + 0.5)) for kind, of in groups.items()}
    taken = [number for kind, of in groups.items() for number in of[: sizes[kind]]]
    return rows[np.isin(example_of[rows], taken)]


def _class_of(task: Task, example: Example) -> Hashable:
    if isinstance(task, Classification) and isinstance(example, GoldExample):
        return int(example.gold)
    if isinstance(example, QuestionExample):
        return bool(example.answers)
    return None
