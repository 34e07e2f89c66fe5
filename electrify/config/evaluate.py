"""Options of fine-tuning and scoring; what is left out is the recipe's."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from electrify.config.section import Count, Fraction, Section
from electrify.config.tasks import check_suite, check_task

_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(gt=0, le=1)]
_Suite = Annotated[str, AfterValidator(check_suite)]
_Task = Annotated[str, AfterValidator(check_task)]


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


class EvaluateConfig(FinetuneOptions):
    """An exported encoder to scores (benchmarks/)."""

    suites: tuple[_Suite, ...] = ()  # names of task tables: "klue", "glue"
    tasks: tuple[_Task, ...] = ()  # single tasks, such as "klue-ynat"
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
    # by the task's name; before the ones above
    tasks_options: dict[_Task, FinetuneOptions] = Field(default_factory=dict)
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where it is faster
    device: Literal["auto", "cpu", "cuda"] = "auto"
    # jobs at once; small models on a CPU are fastest with one a core; GPUs are taken in turn
    num_processes: Count = 1
