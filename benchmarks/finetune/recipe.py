"""Published fine-tuning recipes, by task and size of the model.

A recipe is made of two parts. How long and how wide (epochs, length of rows, batch) is the task's,
from the code of its own authors. How the weights move (rates, layer-wise decay, warm-up, weight
decay) is that of the recipe asked for, "auto" being the one of the task's authors:
- electra: Table 7 of the paper, and google-research/electra configure_finetuning.py;
- klue: KLUE-baseline run_all.sh, base models and large;
- koelectra: KoELECTRA finetune/config, koelectra-small-v3 and koelectra-base-v3.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from benchmarks.tasks.heads.linear import HEAD_DROPOUT, HeadInitialization, PooledNorm
from benchmarks.tasks.kinds.spans import OwnReading
from benchmarks.tasks.task import Pooling, Task
from electrify.config.evaluate import EvaluateConfig, FinetuneOptions

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
    micro_batch_size: int | None = None  # rows at once; None: the whole batch
    train_both_orders: bool = False
    pooling: Pooling = "cls"
    num_layers: int | None = None  # of the encoder; None: all
    layer_states: Literal["last", "mean"] = "last"
    reinitialized_layers: int = 0  # the last ones
    pooled_norm: PooledNorm = "none"
    head_initialization: HeadInitialization = "bert"
    freeze: Literal["none", "encoder"] | int = "none"
    dropout: float | None = None  # of the encoder; None: as its own config has it
    head_dropout: float = HEAD_DROPOUT
    max_gradient_norm: float = 1.0  # in all three recipes
    precision: str = "fp32"
    selection: Literal["last", "best-on-a-split-of-train"] = "last"
    selection_fraction: float | None = None  # of the training groups; None: the last step is taken
    evaluations_per_epoch: int | None = None
    patience: int | None = None

    def num_steps(self, num_train_rows: int) -> int:
        """int(epochs x rows / batch), at least `min_steps`, as in the released code."""
        return max(self.min_steps, int(self.num_epochs * num_train_rows / self.batch_size))

    def record(self, num_train_rows: int) -> dict[str, Any]:
        """As a result states it, with the number of steps over so many rows."""
        num_steps = self.num_steps(num_train_rows)
        warmup_steps = int(num_steps * self.warmup_fraction)
        return asdict(self) | {"num_steps": num_steps, "warmup_steps": warmup_steps}


# Rates of the paper, Table 7; the released code's default for small is 1e-4, and the paper's value
# had to be passed to it.
_ELECTRA_LEARNING_RATE: Mapping[Size, float] = {"small": 3e-4, "base": 1e-4, "large": 5e-5}
_ELECTRA_LAYER_DECAY: Mapping[Size, float] = {"small": 0.8, "base": 0.8, "large": 0.9}

# Its Adam has no bias correction (model/optimization.py), so that steps are larger: by 6.5 at step
# 10, 3.2 at step 100 and 1.3 at step 1000. Small tasks would learn at a third of the rate with it.
_RECIPES = {
    "electra": HyperParameters(
        "electra", 3e-4, 0.8, "product", 0.1, 0.0, 1e-6, adam_bias_correction=False
    ),
    "klue": HyperParameters("klue", 5e-5, 1.0, "linear", 0.1, 0.0, 1e-8),
    "koelectra": HyperParameters("koelectra", 5e-5, 1.0, "linear", 0.0, 0.0, 1e-8, num_epochs=10.0),
}

# what differs from the recipe of the suite; a key is a task, or a suite for all of its tasks
_READING = {"num_epochs": 2.0, "max_sequence_length": 512}
_BY_TASK: Mapping[str, Mapping[str, Any]] = {
    "glue-rte": {"num_epochs": 10.0},
    "glue-stsb": {"num_epochs": 10.0},
    "own": {"min_steps": 200},  # three epochs of few rows leave an encoder where it began
    "own-reading": {**_READING, "min_steps": 200},
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


def recipe_for(task: Task, hidden_size: int, name: str = "auto") -> HyperParameters:
    """The published settings of a task for a model of that width."""
    own, size = recipe_name(task, "auto"), size_of(hidden_size)
    chosen = recipe_name(task, name)
    known = {**_entry(_BY_TASK, task), **_entry(_BY_SIZE[size], task)}
    if chosen != own:  # of another suite's authors: its rates, with the task's own extent
        extent = {field: getattr(_RECIPES[own], field) for field in _OF_THE_TASK}
        known = extent | {field: known[field] for field in _OF_THE_TASK if field in known}
    if chosen == "electra":
        known["learning_rate"] = _ELECTRA_LEARNING_RATE[size]
        known["layer_lr_decay"] = _ELECTRA_LAYER_DECAY[size]
    return replace(_RECIPES[chosen], **known)


def _entry(table: Mapping[str, Mapping[str, Any]], task: Task) -> Mapping[str, Any]:
    """Of the task, of the one it is a variant of, or of its suite."""
    suite = "own-reading" if isinstance(task, OwnReading) else task.suite
    return table.get(task.original, table.get(suite, {}))


def hyper_parameters(task: Task, options: EvaluateConfig, hidden_size: int) -> HyperParameters:
    """What a job is done with: the task's own options, else those of all tasks, else the recipe's.

    The one place where this is decided.
    """
    given = {name: value for name, value in options_for(task, options).items() if name != "seeds"}
    if options.selection != "last":
        names = ("selection", "selection_fraction", "evaluations_per_epoch", "patience")
        given |= {name: getattr(options, name) for name in names}
    of_task = {"train_both_orders": task.train_both_orders, "pooling": task.pooling}
    recipe = recipe_for(task, hidden_size, options.recipe)
    chosen = {**of_task, **given, "precision": options.precision}
    if chosen["pooling"] == "parts" and not task.has_parts:
        chosen["pooling"] = "mean"  # its one part is the whole
    return replace(recipe, **chosen)


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
