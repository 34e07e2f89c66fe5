"""Options of fine-tuning and scoring; what is omitted is the recipe's."""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from electrify.config.fields import (
    NOISE_SUITES,
    TASK_NAMES,
    Count,
    Fraction,
    Section,
    check_suite,
    check_task,
)
from electrify.system.outcome import UserError

# what is scored: an encoder as given, its network at random initialisation, or TF-IDF
Role = Literal["pretrained", "random-init", "bag-of-words"]
Pooling = Literal["cls", "mean", "parts", "transformers"]
_Positive = Annotated[float, Field(gt=0)]
_Fraction = Annotated[float, Field(gt=0, le=1)]
_Suite = Annotated[str, AfterValidator(check_suite)]
_Task = Annotated[str, AfterValidator(check_task)]
_Text = Annotated[str, Field(min_length=1)]
_Seed = Annotated[int, Field(ge=0, lt=2**63)]


class FinetuneOptions(Section):
    """Options that may differ from task to task. The recipe gives what is omitted."""

    seeds: Annotated[tuple[_Seed, ...], Field(min_length=1)] | None = None
    num_epochs: _Positive | None = None
    """Passes over the training examples."""
    min_steps: Count | None = None
    """Number of steps at least, for few examples."""
    learning_rate: _Positive | None = None
    """Highest learning rate."""
    layer_lr_decay: _Fraction | None = None
    """Factor of the rate from each layer to the one below."""
    warmup_fraction: Fraction | None = None
    """Fraction of the steps in which the rate rises."""
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    """Decay of the weights, as AdamW applies it."""
    adam_bias_correction: bool | None = None
    """Whether Adam corrects the bias of its moments; ELECTRA's recipe does not."""
    batch_size: Count | None = None
    """Examples a step."""
    max_sequence_length: Count | None = None
    """Longest input in tokens, at most the positions of the model."""
    max_train_examples: Count | None = None
    """Number of training examples at most, drawn by the seed."""
    dropout: Fraction | None = None
    """Dropout of the encoder; of a ModernBERT, of its embeddings and feed-forward layers. If
    omitted, the model's own."""
    pooling: Pooling | None = None
    """What the head reads. `cls`: [CLS]. `mean`: the mean of the hidden states. `parts`: also the
    means a and b of both texts, or entities, with |a - b| and a * b. `transformers`: as the class
    of `transformers` for the task and encoder has it, with its hidden layer. If omitted, `cls`."""

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if seeds and len(set(seeds)) < len(seeds):
            raise UserError(f"{list(seeds)} has a seed twice: each is a fine-tuning of its own")
        return seeds


# what is the task's own or the machine's, not the encoder's
_NOT_RECOMMENDED = ("seeds", "max_sequence_length", "max_train_examples")


class SearchOptions(Section):
    """Lists of values to try. Every combination learns from four fifths of the training examples
    and is scored on the rest. The encoder and the random initialisation each take their best."""

    learning_rate: tuple[_Positive, ...] = ()
    num_epochs: tuple[_Positive, ...] = ()

    @property
    def trials(self) -> list[dict[str, Any]]:
        """All combinations, each once."""
        values = {name: dict.fromkeys(tried) for name, tried in self if tried}
        return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]

    @model_validator(mode="after")
    def _something_to_try(self) -> Self:
        if self.trials == [{}]:
            raise UserError(
                "evaluate.search has no values to try; give for example "
                "learning_rate = [3e-4, 1e-3] or num_epochs = [4, 10]"
            )
        return self


# a first look, `evaluate --quick`: the scores are no one's recipe
QUICK: Mapping[str, Any] = {
    "seeds": (0,),
    "max_train_examples": 1000,
    "num_epochs": 2.0,
    "min_steps": 60,  # as of 1,000 rows, also where there are few
}
OwnKind = Literal[
    "classification",
    "multi-label",
    "regression",
    "tagging",
    "word-labels",
    "entities",
    "reading",
]


def task_name_of(train: str) -> str:
    """What a task of the user's own is called where it has no `name`: as its file."""
    path = Path(train)
    stem = path.name if ":" in path.name else path.stem
    return re.sub(r"[^\w.-]+", "-", stem).strip("._-") or "own"


class OwnTask(Section):
    """A task of the user's own: texts or pairs with a label, number, tags or spans. What is left
    out is guessed and printed."""

    train: _Text
    """File to learn from: .csv, .tsv, .txt, .json, .jsonl, .parquet or .conll. Or a data set of the
    hub, `ORG/NAME` or `ORG/NAME:CONFIG`, whose splits are train, dev and test."""
    dev: _Text | None = None
    """File to score. If omitted, a fifth of the texts of `train`."""
    test: _Text | None = None
    """File to score in place of `dev`."""
    further: _Text | dict[str, _Text] = Field(default_factory=dict)
    """Files that the same fine-tuning is scored on beside it, by name, such as other languages:
    `{ ko = "ko/test.jsonl" }` gives `ko_accuracy`. Or a pattern with one `*` that stands for the
    name: `"*/test.jsonl"`; the task's own files are left out."""
    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] | None = None
    """Name of the task. If omitted, of the file."""
    kind: OwnKind | None = None
    """What is learnt."""
    text: _Text | tuple[_Text, ...] | None = None
    """Column of the text or words, or columns of the texts of a pair. More texts follow the second
    behind separators."""
    label: _Text | None = None
    """Column of the label, number or tags."""
    word_column: Count | None = None
    """Column of the words in a file of CoNLL, counted from 1."""
    tag_column: Count | None = None
    """Column of their tags there, counted from 1."""
    metric: _Text | None = None
    """Headline metric. If omitted, the first of its kind."""
    note: _Text | None = None
    """Note beside the name wherever a score is shown, such as `made up`."""

    @property
    def texts(self) -> tuple[str, ...]:
        """`text` or `word_column` as columns; none where they are left out."""
        text = f"column {self.word_column}" if self.word_column else self.text
        return (text,) if isinstance(text, str) else text or ()

    @property
    def gold(self) -> str | None:
        """`label` or `tag_column` as a column."""
        return f"column {self.tag_column}" if self.tag_column else self.label

    @property
    def task_name(self) -> str:
        """As records and tables call it."""
        return self.name or task_name_of(self.train)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.task_name in TASK_NAMES:
            raise UserError(
                f"{self.train}: {self.task_name} is the name of an official task; give another, "
                f'name = "my-{self.task_name}"'
            )
        if (self.word_column and self.text) or (self.tag_column and self.label):
            raise UserError(f"{self.train}: text or word_column, label or tag_column: give one")
        if isinstance(self.further, str):
            if self.further.count("*") != 1:
                raise UserError(f"{self.train}: further: {self.further!r} has no `*`, or several")
        else:
            self.check_names(self.further)
        return self

    def check_names(self, names: Iterable[str]) -> None:
        """`UserError` for a name that no further file can have."""
        for name in names:
            if name in ("train", "dev", "test") or not re.fullmatch(r"\w[\w-]*", name):
                raise UserError(
                    f"{self.train}: further: {name!r} is no name of a further file; give one of "
                    "letters and digits, other than train, dev and test"
                )


class EvaluateConfig(FinetuneOptions):
    """An exported encoder to scores. The recipe gives the options of fine-tuning that are left
    out."""

    suites: tuple[_Suite, ...] = ()
    """Suites whose tasks are scored; also `robustness` and `fairness` ([noise](probes.md))."""
    tasks: tuple[_Task, ...] = ()
    """Single tasks, such as `klue-ynat`. `electrify ls` lists them."""
    own_tasks: tuple[OwnTask, ...] = ()
    """Tasks of one's own, from files."""
    data_dir: str | tuple[str, ...] | None = None
    """Folder with the official files, or `hub`. Of several, the first that has a task."""
    seeds: Annotated[tuple[_Seed, ...], Field(min_length=1)] = (0, 1, 2, 3, 4)
    """Seeds, each a fine-tuning of its own."""
    train_fractions: Annotated[tuple[_Fraction, ...], Field(min_length=1)] = (1.0,)
    """Fractions of the training examples, each a fine-tuning of its own. The largest gives the
    headline score."""
    random_init_control: bool = True
    """Score the same network with random initialisation, too."""
    start_control: bool = True
    """Of a run that continues from `pretrain.initial_model`, score that encoder, too. The
    difference is what the run has taught."""
    bag_of_words: bool | None = None
    """Score TF-IDF with logistic regression, too. If omitted, as `random_init_control`."""
    recipe: Literal["auto", "electra", "klue", "koelectra"] = "auto"
    """Recipe for what is omitted. `auto`: that of the task's authors. Where none is named, the
    `finetuning.json` beside an encoder of `--model` goes before it."""
    keep_models: bool = False
    """Write each fine-tuned network to `models/`, as `electrify finetune` does, for `electrify
    export --onnx`. Its head is that of `transformers` (`pooling`), whatever is recommended."""
    search: SearchOptions | None = None
    tasks_options: dict[str, FinetuneOptions] = Field(default_factory=dict)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of matrix products. `auto`: bf16 where the device has units for it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """`auto`: a GPU where there is one."""
    num_processes: Count = 1
    """Fine-tunings at once. On a CPU, one a core is fastest for small models."""

    @property
    def recommended(self) -> dict[str, Any]:
        """What is set of the recipe. An export recommends it for its encoder."""
        names = {"recipe", *FinetuneOptions.model_fields} - {*_NOT_RECOMMENDED}
        return {
            n: value for n in sorted(names) if (value := getattr(self, n)) not in (None, "auto")
        }

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """`data_dir` as paths, in the order in which tasks are looked for."""
        names = (self.data_dir,) if isinstance(self.data_dir, str) else self.data_dir or ()
        return tuple(Path(name).expanduser() for name in names)

    @property
    def has_tasks(self) -> bool:
        """Whether there is anything to score as it is, such suites aside."""
        return bool(self.task_suites or self.tasks or self.own_tasks)

    @property
    def task_suites(self) -> tuple[str, ...]:
        return tuple(suite for suite in self.suites if suite not in NOISE_SUITES)

    @property
    def noise_suites(self) -> tuple[str, ...]:
        """The suites that look at tasks in another way, each once."""
        return tuple(suite for suite in NOISE_SUITES if suite in self.suites)

    @field_validator("own_tasks")
    @classmethod
    def _names_differ(cls, tasks: tuple[OwnTask, ...]) -> tuple[OwnTask, ...]:
        names = [task.task_name for task in tasks]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"two tasks are called {twice[0]!r}: give each a name")
        return tasks

    @field_validator("tasks_options")
    @classmethod
    def _of_known_tasks(
        cls, options: dict[str, FinetuneOptions], info: ValidationInfo
    ) -> dict[str, FinetuneOptions]:
        if "own_tasks" not in info.data:  # what is wrong there is said already
            return options
        own = {task.task_name for task in info.data["own_tasks"]}
        for name in options:
            if name not in own:
                check_task(name)
        return options

    @model_validator(mode="after")
    def _search_has_one_part(self) -> Self:
        if self.search and set(self.train_fractions) != {1.0}:
            raise UserError(
                f"evaluate.search with evaluate.train_fractions = {list(self.train_fractions)}: "
                "a search takes the whole training split; give max_train_examples, or leave one out"
            )
        return self
