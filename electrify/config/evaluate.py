"""Options of fine-tuning and scoring; what is left out is the recipe's."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from electrify.config.section import Count, Fraction, Section
from electrify.config.tasks import TASK_NAMES, check_suite, check_task

_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(gt=0, le=1)]
_Suite = Annotated[str, AfterValidator(check_suite)]
_Task = Annotated[str, AfterValidator(check_task)]
_Text = Annotated[str, Field(min_length=1)]


class FinetuneOptions(Section):
    """What may differ from task to task; None: as the recipe has it
    (benchmarks/finetune/recipe.py)."""

    seeds: Annotated[tuple[int, ...], Field(min_length=1)] | None = None  # None: those of all tasks
    num_epochs: _Positive | None = None
    min_steps: Count | None = None  # however few the examples: low-shot parts have few steps
    learning_rate: _Positive | None = None
    layer_lr_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    warmup_fraction: Fraction | None = None
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    adam_bias_correction: bool | None = None  # ELECTRA's recipe is without, the others have it
    batch_size: Count | None = None
    max_sequence_length: Count | None = None  # the recipe's is lowered to the model's positions
    max_train_examples: Count | None = None  # a seeded sample of the train split
    micro_batch_size: Count | None = None  # rows at once; gradients of a batch are summed
    # "encoder": the head alone is learnt (linear probing); k: the last k layers and the head
    freeze: Literal["none", "encoder"] | Count | None = None  # None: none
    dropout: Fraction | None = None  # of the encoder; None: as its own config has it
    # what the head reads: the [CLS] state, as the paper, or the mean of all states, for encoders
    # trained so briefly that [CLS] does not yet attend to the text
    pooling: Literal["cls", "mean"] | None = None  # None: cls
    num_layers: Count | None = None  # the first k layers; those above are left out
    # whose states the head reads: the last layer's, or the mean of all layers' states
    layer_states: Literal["last", "mean"] | None = None  # None: last
    # the last k layers begin with fresh weights (Zhang et al. 2021, "Revisiting Few-sample BERT
    # Fine-tuning")
    reinitialized_layers: Annotated[int, Field(ge=0)] | None = None  # None: 0
    # what a pooled state goes through before the head: "batch" takes away what all texts share,
    # of the rows that are learnt from at once (micro_batch_size changes it)
    pooled_norm: Literal["none", "layer", "batch"] | None = None  # None: none
    # standard deviation .02, as BERT, or Glorot's uniform weights, which are larger here
    head_initialization: Literal["bert", "glorot"] | None = None  # None: bert


class SearchOptions(Section):
    """Values to try before the scored fine-tunings, on a part of the training rows.

    Every combination is a trial. The encoder and its untrained twin have the same trials, each
    takes the best of its own.
    """

    learning_rate: tuple[_Positive, ...] = ()
    num_epochs: tuple[_Positive, ...] = ()
    layer_lr_decay: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    dropout: tuple[Fraction, ...] = ()
    pooling: tuple[Literal["cls", "mean"], ...] = ()
    num_layers: tuple[Count, ...] = ()
    layer_states: tuple[Literal["last", "mean"], ...] = ()
    reinitialized_layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    pooled_norm: tuple[Literal["none", "layer", "batch"], ...] = ()
    head_initialization: tuple[Literal["bert", "glorot"], ...] = ()
    num_trials: Count | None = None  # so many of the combinations, drawn; None: all
    held_out_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2  # of the training groups

    @property
    def values(self) -> dict[str, tuple[Any, ...]]:
        """What is tried of each option that is searched over."""
        names = [name for name in type(self).model_fields if name in FinetuneOptions.model_fields]
        return {name: tried for name in names if (tried := getattr(self, name))}

    @model_validator(mode="after")
    def _something_to_try(self) -> Self:
        if not self.values:
            raise ValueError(
                "evaluate.search has no values to try; give for example "
                "learning_rate = [3e-4, 1e-3] or num_epochs = [4, 10]"
            )
        return self


class OwnTask(Section):
    """A task of the user's own: files of texts, or pairs, with a label, a number or tags.

    What is left out is guessed from the rows (benchmarks/tasks/own.py) and printed.
    """

    train: _Text  # a file: .csv, .tsv, .json (a list), .jsonl or .parquet
    dev: _Text | None = None  # None: a fifth of the texts of train is reported
    test: _Text | None = None  # reported in place of dev, which then stands beside it
    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] | None = None  # None: that of the file
    kind: Literal["classification", "regression", "tagging"] | None = None
    # columns: of the text, or the words of tagging; of the other text of a pair; of the gold value
    text: _Text | None = None
    second_text: _Text | None = None
    label: _Text | None = None
    metric: _Text | None = None  # that stands for the task; None: the first of its kind

    @property
    def task_name(self) -> str:
        """As records and tables call it."""
        stem = re.sub(r"[^\w.-]+", "-", Path(self.train).stem).strip("._-")
        return self.name or stem or "own"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.task_name in TASK_NAMES:
            raise ValueError(
                f"{self.train}: {self.task_name} is the name of an official task; give another, "
                f'name = "my-{self.task_name}"'
            )
        if self.second_text and not self.text:
            raise ValueError(
                f"second_text = {self.second_text!r}: give text, the first column, too"
            )
        return self


class EvaluateConfig(FinetuneOptions):
    """An exported encoder to scores (benchmarks/)."""

    suites: tuple[_Suite, ...] = ()  # names of task tables: "klue", "glue"
    tasks: tuple[_Task, ...] = ()  # single tasks, such as "klue-ynat"
    own_tasks: tuple[OwnTask, ...] = ()  # files of one's own; or `--own-task`
    data_dir: str | None = None  # folder with the official files; or `--data-dir`
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2, 3, 4)
    # parts of the examples to learn from, each a job of its own; the largest is the headline
    train_fractions: Annotated[tuple[_Share, ...], Field(min_length=1)] = (1.0,)
    random_init_control: bool = True  # score a random encoder of the same shape beside it
    # score TF-IDF with logistic regression beside it, where a task gives texts a label; None: as
    # random_init_control
    bag_of_words: bool | None = None
    recipe: Literal["auto", "electra", "klue", "koelectra"] = "auto"  # auto: that of the task
    # "last": the weights of the last step; else the best on a part of the training split by the
    # headline metric (the reported rows decide nothing)
    selection: Literal["last", "best-on-a-split-of-train"] = "last"
    selection_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1  # of the training groups
    evaluations_per_epoch: Count = 4  # as KLUE-baseline
    patience: Count | None = None  # evaluations in a row that are no better end the training
    # options that are chosen by the score on held-out training rows, for each task and encoder
    search: SearchOptions | None = None
    # by the task's name; before the ones above
    tasks_options: dict[str, FinetuneOptions] = Field(default_factory=dict)
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where it is faster
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    # jobs at once; small models on a CPU are fastest with one a core; GPUs are taken in turn
    num_processes: Count = 1

    @property
    def has_tasks(self) -> bool:
        """Whether there is anything to evaluate."""
        return bool(self.suites or self.tasks or self.own_tasks)

    @field_validator("own_tasks")
    @classmethod
    def _names_differ(cls, tasks: tuple[OwnTask, ...]) -> tuple[OwnTask, ...]:
        names = [task.task_name for task in tasks]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two tasks are called {twice[0]!r}: give each a name")
        return tasks

    @field_validator("tasks_options")
    @classmethod
    def _of_known_tasks(
        cls, options: dict[str, FinetuneOptions], info: ValidationInfo
    ) -> dict[str, FinetuneOptions]:
        own = {task.task_name for task in info.data.get("own_tasks", ())}
        for name in options:
            if name not in own:
                check_task(name)
        return options

    @model_validator(mode="after")
    def _search_has_one_part(self) -> Self:
        if self.search and set(self.train_fractions) != {1.0}:
            raise ValueError(
                f"evaluate.search with evaluate.train_fractions = {list(self.train_fractions)}: "
                "a search takes the whole training split; give max_train_examples, or leave one out"
            )
        return self
