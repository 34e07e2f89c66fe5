"""Published fine-tuning recipes, by task and size of the model.

A recipe is made of two parts. How long and how wide (epochs, length of rows, batch) is the task's,
from the code of its own authors. How the weights move (rates, layer-wise decay, warm-up, weight
decay) is that of the recipe asked for, "auto" being the one of the task's authors:
- electra: Table 7 of the paper, and google-research/electra configure_finetuning.py;
- klue: KLUE-baseline run_all.sh, base models and large;
- koelectra: KoELECTRA finetune/config, koelectra-small-v3 and koelectra-base-v3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks.tasks.task import Pooling, Task
from electrify.config.evaluate import EvaluateConfig, FinetuneOptions

Size = Literal["small", "base", "large"]
# "product": (1 - t/T) min(1, t/W), the released ELECTRA code; "linear": up to W, then down to T
Schedule = Literal["product", "linear"]

MAX_GRADIENT_NORM = 1.0  # in all three


@dataclass(frozen=True)
class Recipe:
    """Settings of one fine-tuning before the user's own are put over them."""

    learning_rate: float
    layer_lr_decay: float
    schedule: Schedule
    warmup_fraction: float
    weight_decay: float
    adam_epsilon: float
    num_epochs: float
    batch_size: int
    max_sequence_length: int
    adam_bias_correction: bool = True


@dataclass(frozen=True)
class HyperParameters:
    """Everything that shaped one fine-tuning, as its record states it."""

    recipe: str
    learning_rate: float
    layer_lr_decay: float
    num_epochs: float
    num_steps: int
    warmup_steps: int
    schedule: Schedule
    batch_size: int
    weight_decay: float
    max_sequence_length: int
    max_train_examples: int | None
    train_both_orders: bool
    pooling: Pooling
    freeze: Literal["none", "encoder"] | int
    dropout: float | None
    head_dropout: float
    max_gradient_norm: float
    adam_epsilon: float
    adam_bias_correction: bool
    precision: str


# Rates of the paper, Table 7; the released code's default for small is 1e-4, and the paper's value
# had to be passed to it.
_ELECTRA_LEARNING_RATE: Mapping[Size, float] = {"small": 3e-4, "base": 1e-4, "large": 5e-5}
_ELECTRA_LAYER_DECAY: Mapping[Size, float] = {"small": 0.8, "base": 0.8, "large": 0.9}

# Its Adam has no bias correction (model/optimization.py), so that steps are larger: by 6.5 at step
# 10, 3.2 at step 100 and 1.3 at step 1000. Small tasks would learn at a third of the rate with it.
_OF_ELECTRA = Recipe(3e-4, 0.8, "product", 0.1, 0.0, 1e-6, 3.0, 32, 128, False)
_OF_KLUE = Recipe(5e-5, 1.0, "linear", 0.1, 0.0, 1e-8, 3.0, 32, 128)
_OF_KOELECTRA = Recipe(5e-5, 1.0, "linear", 0.0, 0.0, 1e-8, 10.0, 32, 128)

# what differs from the recipe of the suite; a key is a task, or a suite for all of its tasks
_READING = {"num_epochs": 2.0, "max_sequence_length": 512}
_BY_TASK: Mapping[str, Mapping[str, Any]] = {
    "glue-rte": {"num_epochs": 10.0},
    "glue-stsb": {"num_epochs": 10.0},
    "squad": _READING,
    "xquad": _READING,
    "klue-ynat": {"num_epochs": 4.0},
    "klue-sts": {"num_epochs": 4.0},
    "klue-nli": {"num_epochs": 5.0},
    "klue-ner": {"max_sequence_length": 510, "warmup_fraction": 0.0},
    "klue-re": {"max_sequence_length": 256},
    "klue-dp": {"num_epochs": 10.0, "max_sequence_length": 256},
    "klue-mrc": {
        "num_epochs": 5.0,
        "max_sequence_length": 510,
        "batch_size": 16,
        "learning_rate": 3e-5,
        "warmup_fraction": 0.0,
    },
    "klue-wos": {
        "num_epochs": 5.0,
        "max_sequence_length": 510,
        "batch_size": 16,
        "learning_rate": 3e-5,
        "weight_decay": 0.01,
    },
    "korean-naver-ner": {"num_epochs": 20.0},
    "korean-paws-x": {"num_epochs": 15.0, "learning_rate": 3e-5},
    "korean-kornli": {"num_epochs": 15.0, "batch_size": 64},
    "korean-korquad": {"num_epochs": 7.0, "max_sequence_length": 512, "batch_size": 8},
}
_BY_SIZE: Mapping[Size, Mapping[str, Mapping[str, Any]]] = {
    "small": {  # koelectra-small-v3
        "korean-paws-x": {"batch_size": 64},
        "korean-kornli": {"batch_size": 128},
        "korean-korquad": {"batch_size": 32},
    },
    "base": {},
    "large": {  # klue/roberta-large
        "klue-ynat": {"warmup_fraction": 0.2},
        "klue-sts": {"learning_rate": 2e-5},
        "klue-nli": {"warmup_fraction": 0.2},
        "klue-ner": {"learning_rate": 1e-5, "batch_size": 8},
        "klue-re": {
            "learning_rate": 2e-5,
            "num_epochs": 10.0,
            "batch_size": 16,
            "warmup_fraction": 0.2,
        },
        "klue-dp": {"num_epochs": 15.0, "warmup_fraction": 0.2},
        "klue-wos": {"learning_rate": 2e-5},  # its batches are of 8, summed up two at a time
    },
}
_OF_THE_TASK = ("num_epochs", "max_sequence_length")


def size_of(hidden_size: int) -> Size:
    """The paper's sizes are 256, 768 and 1024 wide."""
    if hidden_size <= 256:
        return "small"
    return "base" if hidden_size < 1024 else "large"


def recipe_name(task: Task, name: str) -> str:
    """ "auto" as the recipe of the task's authors."""
    if name != "auto":
        return name
    return {"klue": "klue", "korean": "koelectra"}.get(task.suite, "electra")


def recipe_for(task: Task, hidden_size: int, name: str = "auto") -> Recipe:
    """The published settings of a task for a model of that width."""
    own, size = recipe_name(task, "auto"), size_of(hidden_size)
    chosen = recipe_name(task, name)
    known = {**_entry(_BY_TASK, task), **_entry(_BY_SIZE[size], task)}
    base = {"electra": _OF_ELECTRA, "klue": _OF_KLUE, "koelectra": _OF_KOELECTRA}
    if chosen != own:  # of another suite's authors: its rates, with the task's own extent
        extent = {field: getattr(base[own], field) for field in _OF_THE_TASK}
        known = extent | {field: known[field] for field in _OF_THE_TASK if field in known}
    found = replace(base[chosen], **known)
    if chosen == "electra":
        found = replace(
            found,
            learning_rate=_ELECTRA_LEARNING_RATE[size],
            layer_lr_decay=_ELECTRA_LAYER_DECAY[size],
        )
    return found


def _entry(table: Mapping[str, Mapping[str, Any]], task: Task) -> Mapping[str, Any]:
    """Of the task, of the one it is a variant of, or of its suite."""
    return table.get(task.original, table.get(task.suite, {}))


def options_for(task: Task, options: EvaluateConfig) -> FinetuneOptions:
    """What the user set for a task: its own section first, then that of all tasks."""
    names = FinetuneOptions.model_fields
    given = {name: getattr(options, name) for name in names}
    if task.name in options.tasks_options:
        own = options.tasks_options[task.name]
        given |= {name: value for name in names if (value := getattr(own, name)) is not None}
    return FinetuneOptions(**given)


def seeds_for(task: Task, options: EvaluateConfig) -> tuple[int, ...]:
    """The task's own seeds, else those of all tasks; each once."""
    seeds = options_for(task, options).seeds
    assert seeds is not None, "the options of all tasks have seeds"
    return tuple(dict.fromkeys(seeds))


def max_sequence_length(task: Task, options: EvaluateConfig, hidden_size: int) -> int:
    """The longest row in pieces, as set or as the recipe has it."""
    given = options_for(task, options).max_sequence_length
    return given or recipe_for(task, hidden_size, options.recipe).max_sequence_length


def num_training_steps(num_epochs: float, num_train_rows: int, batch_size: int) -> int:
    """int(epochs x rows / batch), at least one, as in the released code."""
    return max(1, int(num_epochs * num_train_rows / batch_size))


def resolve_hyper_parameters(
    task: Task,
    options: EvaluateConfig,
    hidden_size: int,
    num_train_rows: int,
    head_dropout: float,
    precision: str,
) -> HyperParameters:
    """Options as given, else the recipe's."""
    recipe, given = recipe_for(task, hidden_size, options.recipe), options_for(task, options)

    def chosen(name: str) -> Any:
        value = getattr(given, name)
        return getattr(recipe, name) if value is None else value

    num_steps = num_training_steps(chosen("num_epochs"), num_train_rows, chosen("batch_size"))
    num_steps = max(num_steps, given.min_steps or 1)
    return HyperParameters(
        recipe=recipe_name(task, options.recipe),
        learning_rate=chosen("learning_rate"),
        layer_lr_decay=chosen("layer_lr_decay"),
        num_epochs=chosen("num_epochs"),
        num_steps=num_steps,
        warmup_steps=int(num_steps * chosen("warmup_fraction")),
        schedule=recipe.schedule,
        batch_size=chosen("batch_size"),
        weight_decay=chosen("weight_decay"),
        max_sequence_length=chosen("max_sequence_length"),
        max_train_examples=given.max_train_examples,
        train_both_orders=task.train_both_orders,
        pooling=given.pooling or task.pooling,
        freeze="none" if given.freeze is None else given.freeze,
        dropout=given.dropout,
        head_dropout=head_dropout,
        max_gradient_norm=MAX_GRADIENT_NORM,
        adam_epsilon=recipe.adam_epsilon,
        adam_bias_correction=chosen("adam_bias_correction"),
        precision=precision,
    )
