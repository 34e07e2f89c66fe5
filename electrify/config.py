"""Every option of a run, in one place, as frozen models; `config_file.py` reads the TOML."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from electrify.config_clean import CleanConfig
from electrify.config_pretrain import PretrainConfig
from electrify.config_section import Count, Fraction, Section
from electrify.config_vocab import EncodeConfig, VocabConfig


class EvaluateConfig(Section):
    """An exported encoder to scores (benchmarks/)."""

    suites: tuple[str, ...] = ()  # names of task tables: "klue", "glue"
    tasks: tuple[str, ...] = ()  # single tasks, such as "klue-ynat"
    data_dir: str | None = None  # folder with the official files; or `--data-dir`
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2, 3, 4)
    random_init_control: bool = True  # score a random encoder of the same shape beside it
    max_train_examples: Count | None = None  # a seeded sample of the train split
    max_sequence_length: Count = 128
    # what the head reads: the [CLS] state, as the paper, or the mean of all states, for encoders
    # trained so briefly that [CLS] does not yet attend to the text
    pooling: Literal["cls", "mean"] = "cls"
    batch_size: Count = 32
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # None: the paper's for the size
    num_epochs: Annotated[float, Field(gt=0)] | None = None  # None: the task's
    layer_lr_decay: Annotated[float, Field(gt=0, le=1)] | None = None  # None: the paper's
    warmup_fraction: Fraction = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    dropout: Fraction | None = None  # of the encoder; None: as its own config has it
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on CUDA, fp32 on CPU
    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_processes: Count = 1  # jobs at once; small models on a CPU are fastest with one a core


class RunConfig(Section):
    """A whole run, as one TOML file states it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    output_dir: Annotated[str, Field(min_length=1)]
    clean: CleanConfig
    vocab: VocabConfig = VocabConfig()
    encode: EncodeConfig
    pretrain: PretrainConfig
    evaluate: EvaluateConfig = EvaluateConfig()

    @model_validator(mode="after")
    def _check(self) -> Self:
        length, positions = self.encode.sequence_length, self.pretrain.max_position_embeddings
        if length > positions:
            raise ValueError(
                f"encode.sequence_length = {length} is more than "
                f"pretrain.max_position_embeddings = {positions}"
            )
        for phase in self.pretrain.curriculum:
            if phase.sequence_length > positions:
                raise ValueError(
                    f"pretrain.curriculum: sequence_length = {phase.sequence_length} is more than "
                    f"pretrain.max_position_embeddings = {positions}"
                )
        if "://" in self.output_dir:
            raise ValueError(
                f"output_dir = {self.output_dir!r}: stages are written to a local folder so far; "
                "sources may be remote"
            )
        return self
