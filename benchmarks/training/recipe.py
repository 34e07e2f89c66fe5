"""Published fine-tuning recipes, by task and size of the model; `recipe.toml` has them.

How long and how wide (epochs, length of rows, batch) is the task's, from the code of its authors.
How the weights move (rates, layer-wise decay, warm-up, weight decay) is that of the recipe asked
for, "auto" being the one of the task's authors: electra (Table 7 of the paper, and
google-research/electra configure_finetuning.py), klue (KLUE-baseline run_all.sh) or koelectra
(KoELECTRA finetune/config).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from benchmarks.tasks.load import TaskData, split_by_group
from benchmarks.tasks.spans import OwnReading
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig, FinetuneOptions, Pooling
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

Size = Literal["small", "base", "large"]
# "product": (1 - t/T) min(1, t/W), the released ELECTRA code; "linear": up to W, then down to T
Schedule = Literal["product", "linear"]


@dataclass(frozen=True)
class HyperParameters:
    """Everything that shapes one fine-tuning but the seed and the rows; records state it."""

    recipe: str
    learning_rate: float
    layer_lr_decay: float
    schedule: Schedule
    warmup_fraction: float
    weight_decay: float
    adam_epsilon: float
    num_epochs: float = 3.0
    batch_size: int = 32
    max_sequence_length: int = 128
    adam_bias_correction: bool = True
    min_steps: int = 1
    max_train_examples: int | None = None
    train_both_orders: bool = False
    pooling: Pooling = "cls"
    dropout: float | None = None  # of the encoder; None: as its own config has it
    precision: str = "fp32"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """From a file, perhaps of an earlier version, which had more of them."""
        return cls(**{f.name: settings[f.name] for f in fields(cls) if f.name in settings})

    def num_steps(self, num_train_rows: int) -> int:
        """int(epochs x rows / batch), at least `min_steps`, as in the released code."""
        return max(self.min_steps, int(self.num_epochs * num_train_rows / self.batch_size))

    def record(self, num_train_rows: int) -> dict[str, Any]:
        """As a result states it, with the number of steps over so many rows."""
        num_steps = self.num_steps(num_train_rows)
        warmup_steps = int(num_steps * self.warmup_fraction)
        return asdict(self) | {"num_steps": num_steps, "warmup_steps": warmup_steps}


_TABLES = read_toml(Path(__file__).with_suffix(".toml"))
_HELD_OUT_FRACTION = 0.2  # of the training rows, for `evaluate.search`
_OF_THE_TASK = ("num_epochs", "max_sequence_length")


def size_of(hidden_size: int) -> Size:
    if hidden_size <= 256:
        return "small"
    return "base" if hidden_size < 1024 else "large"


def recipe_for(task: Task, hidden_size: int, name: str = "auto") -> HyperParameters:
    """The published settings of a task for a model of that width; "auto" is the recipe of the
    task's authors. `ValueError` for a suite that names none."""
    if (own := _TABLES["by_suite"].get(task.suite)) is None:
        raise UserError(
            f"{task.name}: the suite {task.suite!r} names no fine-tuning recipe; add one of "
            f"{', '.join(_TABLES['recipes'])} to [by_suite] of benchmarks/training/recipe.toml"
        )
    chosen, size = own if name == "auto" else name, size_of(hidden_size)
    known = {**_entry(_TABLES["by_task"], task), **_entry(_TABLES["by_size"][size], task)}
    if chosen != own:  # of another suite's authors: its rates, with the task's own extent
        extent = {field: getattr(_recipe(own), field) for field in _OF_THE_TASK}
        known = extent | {field: known[field] for field in _OF_THE_TASK if field in known}
    if chosen == "electra":
        known |= _TABLES["electra_rates"][size]
    return replace(_recipe(chosen), **known)


def _recipe(name: str) -> HyperParameters:
    return HyperParameters(name, **_TABLES["recipes"][name])


def _entry(table: Mapping[str, Mapping[str, Any]], task: Task) -> Mapping[str, Any]:
    """Of the task, or of its suite."""
    suite = "own-reading" if isinstance(task, OwnReading) else task.suite
    return table.get(task.name, table.get(suite, {}))


def hyper_parameters(
    task: Task,
    options: EvaluateConfig,
    hidden_size: int,
    recommended: Mapping[str, Any] = MappingProxyType({}),
) -> HyperParameters:
    """What a job is done with: the task's own options, else those of all tasks, else what the
    encoder recommends, else the recipe's. The one place where this is decided."""
    given = {**recommended, **options_for(task, options)}
    del given["seeds"]
    name = given.pop("recipe", options.recipe)
    of_task = {"train_both_orders": task.train_both_orders, "pooling": task.pooling}
    recipe = recipe_for(task, hidden_size, name)
    chosen = {**of_task, **given, "precision": options.precision}
    if task.pooling == "transformers":  # of `with_auto_head`, whatever is given
        chosen["pooling"] = task.pooling
    if chosen["pooling"] == "parts" and not task.has_parts:
        chosen["pooling"] = "mean"  # its one part is the whole
    return replace(recipe, **chosen)


def few_steps_note(
    task: Task, options: EvaluateConfig, settings: HyperParameters, num_train_rows: int
) -> str | None:
    """A sentence where the user's epochs over so many rows are fewer steps than the recipe's least,
    so that they do not count."""
    given = options_for(task, options)
    num_rows = min(num_train_rows, settings.max_train_examples or num_train_rows)
    num_steps = replace(settings, min_steps=1).num_steps(num_rows)
    if "num_epochs" not in given or "min_steps" in given or num_steps >= settings.min_steps:
        return None
    return (
        f"{task.name}: num_epochs = {settings.num_epochs:g} over {num_rows:,} rows asks for "
        f"{num_steps} steps; the recipe's least, {settings.min_steps}, are done. "
        "evaluate.min_steps = 1 lowers it"
    )


def departures(task: Task | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record that its recipe does not give a model of any one size.

    Left out is what follows from others (steps), what changes no score (rows at once) and what an
    earlier version had. Of an unknown task or recipe all the others are departures.
    """
    recipe = settings.get("recipe")
    known = {field.name for field in fields(HyperParameters)} - {"recipe"}
    given = {name: value for name, value in settings.items() if name in known}
    if task is None or recipe not in _TABLES["recipes"]:
        return given
    published = [asdict(recipe_for(task, width, settings["recipe"])) for width in (256, 768, 1024)]
    of_sizes = [
        {name: value for name, value in given.items() if of_size.get(name, ...) != value}
        for of_size in published
    ]
    return min(of_sizes, key=len)


def options_for(task: Task, options: EvaluateConfig) -> dict[str, Any]:
    """What the user set for a task: in its own section, else for all tasks."""
    sections = (options, options.tasks_options.get(task.name, FinetuneOptions()))
    return {
        name: value
        for section in sections
        for name in FinetuneOptions.model_fields
        if (value := getattr(section, name)) is not None
    }


def seeds_for(task: Task, options: EvaluateConfig) -> tuple[int, ...]:
    """The task's own seeds, else those of all tasks; each once."""
    return tuple(dict.fromkeys(options_for(task, options)["seeds"]))


def held_out_data(task: Task, data: TaskData, rows: Sequence[int]) -> TaskData:
    """The training examples at positions `rows` in two: by groups a fifth of them is scored, the
    others are learnt from.

    Raises `UserError` where either part is empty.
    """
    examples = tuple(data.train[number] for number in rows)
    learnt, scored = split_by_group(task, examples, 1 - _HELD_OUT_FRACTION, salt="search\n")
    if not learnt or not scored:
        raise UserError(
            f"{task.name}: a search would learn from {len(learnt)} of {len(examples)} training "
            f"rows and be scored on {len(scored)}; leave evaluate.search out"
        )
    return replace(
        data, train=learnt, reported=scored, split="train-held-out", further={}, parts={}
    )


def best_of(trials: Sequence[Mapping[str, Any]]) -> int:
    """The position of the best trial by its `value`; the first of equals. A failed training (its
    `degenerate` says why) and an undefined value (nan) come last."""

    def worth(trial: Mapping[str, Any]) -> tuple[bool, float]:
        value = trial["value"]
        return (False, -math.inf) if math.isnan(value) else (trial["degenerate"] is None, value)

    return max(range(len(trials)), key=lambda number: worth(trials[number]))
