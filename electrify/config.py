"""Every option of a run, in one place, as frozen models; `config_file.py` reads the TOML."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from electrify.config_clean import CleanConfig
from electrify.config_section import Count, Fraction, Section
from electrify.config_vocab import EncodeConfig, VocabConfig

Size = Literal["small", "base", "large"]

# The paper's own values (Table 6; google-research/electra configure_pretraining.py). `large` masks
# a quarter of the tokens. Base and large stand in the original code as comments only.
SIZE_PRESETS: dict[str, dict[str, Any]] = {
    "small": {
        "num_hidden_layers": 12,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
        "embedding_size": 128,
        "generator_hidden_fraction": 0.25,
        "mask_fraction": 0.15,
        "batch_size": 128,
        "learning_rate": 5e-4,
        "num_steps": 1_000_000,
        "warmup_steps": 10_000,
    },
    "base": {
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "embedding_size": 768,
        "generator_hidden_fraction": 1 / 3,
        "mask_fraction": 0.15,
        "batch_size": 256,
        "learning_rate": 2e-4,
        "num_steps": 766_000,
        "warmup_steps": 10_000,
    },
    "large": {
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "embedding_size": 1024,
        "generator_hidden_fraction": 0.25,
        "mask_fraction": 0.25,
        "batch_size": 2048,
        "learning_rate": 2e-4,
        "num_steps": 400_000,
        "warmup_steps": 10_000,
    },
}
SIZE_SEQUENCE_LENGTH = {"small": 128, "base": 512, "large": 512}


class PretrainConfig(Section):
    """Token shards to checkpoints (model/). Architecture fields keep `ElectraConfig` names."""

    size: Size = "small"
    objective: Literal["electra"] = "electra"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on CUDA, fp32 on CPU
    # architecture, from the size preset unless given
    num_hidden_layers: Count
    hidden_size: Count
    intermediate_size: Count
    num_attention_heads: Count
    embedding_size: Count
    max_position_embeddings: Count = 512
    hidden_dropout_prob: Fraction = 0.1
    attention_probs_dropout_prob: Fraction = 0.1
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    layer_norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    generator_hidden_fraction: Annotated[float, Field(gt=0, le=1)]
    generator_layers_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    # objective
    mask_fraction: Annotated[float, Field(gt=0, lt=1)]
    mask_token_fraction: Fraction = 0.85  # of the chosen positions; the rest keep their token
    sampling_temperature: Annotated[float, Field(gt=0)] = 1.0
    generator_weight: Annotated[float, Field(ge=0)] = 1.0
    discriminator_weight: Annotated[float, Field(ge=0)] = 50.0
    # optimisation
    num_steps: Count
    warmup_steps: Annotated[int, Field(ge=0)]
    batch_size: Count  # sequences a step
    micro_batch_size: Count | None = None  # sequences a forward pass; gradients accumulate
    learning_rate: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    adam_beta1: Fraction = 0.9
    adam_beta2: Fraction = 0.999
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-6
    adam_bias_correction: bool = False  # as the original; True is torch's AdamW
    max_gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    # watching
    log_every_steps: Count = 50
    valid_every_steps: Count = 1000
    num_valid_batches: Count = 16
    checkpoint_every_steps: Count = 1000
    keep_checkpoints: Count = 2

    @property
    def generator_hidden_size(self) -> int:
        """Width of the generator."""
        return round(self.hidden_size * self.generator_hidden_fraction)

    @property
    def generator_num_hidden_layers(self) -> int:
        """Depth of the generator."""
        return max(1, round(self.num_hidden_layers * self.generator_layers_fraction))

    @property
    def generator_num_attention_heads(self) -> int:
        """Heads of the generator: of the discriminator's head size, at least one."""
        head_size = self.hidden_size // self.num_attention_heads
        return max(1, self.generator_hidden_size // head_size)

    @property
    def generator_intermediate_size(self) -> int:
        """Feed-forward width of the generator, the discriminator's by the same fraction."""
        return round(self.intermediate_size * self.generator_hidden_fraction)

    def num_masked(self, sequence_length: int) -> int:
        """Masked positions in a full sequence: int((p + .005) L), as the original has it."""
        return max(1, int((self.mask_fraction + 0.005) * sequence_length))

    @model_validator(mode="after")
    def _check(self) -> Self:
        for who, hidden, heads in (
            ("hidden_size", self.hidden_size, self.num_attention_heads),
            (
                "generator hidden size (hidden_size x generator_hidden_fraction)",
                self.generator_hidden_size,
                self.generator_num_attention_heads,
            ),
        ):
            if hidden % heads:
                raise ValueError(f"{who} = {hidden} must divide by its {heads} attention heads")
        if self.warmup_steps > self.num_steps:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps} is more than num_steps = {self.num_steps}"
            )
        if self.micro_batch_size and self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"batch_size = {self.batch_size} must divide by "
                f"micro_batch_size = {self.micro_batch_size}"
            )
        return self


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
        if "://" in self.output_dir:
            raise ValueError(
                f"output_dir = {self.output_dir!r}: stages are written to a local folder so far; "
                "sources may be remote"
            )
        return self
