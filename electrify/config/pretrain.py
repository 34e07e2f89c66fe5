"""The options of pretraining."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, field_serializer, model_validator

from electrify.config.fields import TABLES, Address, Count, Fraction, Section, TrackerOptions
from electrify.system.outcome import UserError, nearest

Size = Literal["small", "small++", "base", "large", "modern-small", "modern-base"]

# values in the order of `Size`
SIZES: dict[str, list[str | float]] = TABLES["sizes"]
SIZE_PRESETS: dict[str, dict[str, Any]] = {
    size: {key: values[index] for key, values in SIZES.items()}
    for index, size in enumerate(get_args(Size))
}


Objective = Literal[
    "electra",
    "electra-15",
    "replace-mlm",
    "all-tokens-mlm",
    "mlm",
    "electra-adversarial",
    "electra-two-stage",
]

# objectives whose main network predicts tokens: its loss is a cross-entropy of some nats, not of
# tenths, and takes no factor of 50
_PREDICTS_TOKENS = ("mlm", "replace-mlm", "all-tokens-mlm")
# whose main network may begin as a masked language model
STARTS_AS_MLM = ("electra", "electra-15", "electra-adversarial")

_Positive = Annotated[float, Field(gt=0)]
_Portion = Annotated[float, Field(gt=0, lt=1)]  # some, and not all


class MixtureConfig(Section):
    """How often each language is read."""

    temperature: Fraction = 1.0
    """A language with n sequences weighs n^temperature. 1: as the corpus has it, 0: all alike."""
    weight: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Factors of these weights by language, such as `{ ko = 2.0 }`. 0 leaves it out."""

    @property
    def follows_the_corpus(self) -> bool:
        """Whether each pass over all text reads every sequence once."""
        return self.temperature == 1.0 and not self.weight

    def check_names(self, known: Sequence[str], lacking: str) -> None:
        """`UserError` for a name that is not known, `lacking` where it is looked for."""
        for name in self.weight:
            if name not in known:
                raise UserError(
                    f"pretrain.mixture.weight: {lacking} {name!r}{nearest(name, known)} "
                    f"(there are {', '.join(known)})"
                )


class CurriculumPhase(Section):
    """The first steps of a run, with other values than the rest. What is omitted is as in the
    run."""

    steps_fraction: _Portion
    """Fraction of `num_steps` that the phase takes."""
    sequence_length: Annotated[int, Field(ge=16)] | None = None
    """Tokens of a sequence."""
    batch_size: Count | None = None
    """Sequences a step."""
    micro_batch_size: Count | None = None
    """Sequences in a forward pass of a process."""
    mask_fraction: _Portion | None = None
    """Fraction of the tokens that are chosen."""
    mixture: MixtureConfig | None = None
    """How often each language is read."""

    @field_serializer("mixture")
    def _given_alone(self, mixture: MixtureConfig | None) -> dict[str, Any] | None:
        """What is omitted is the run's, also when it is read back."""
        return None if mixture is None else mixture.model_dump(exclude_unset=True)


class SequenceConfig(Section):
    """How token shards are read as sequences; a change needs no new encoding."""

    sequence_length: Annotated[int, Field(ge=16)]
    """Tokens of a sequence, with [CLS] and [SEP]."""
    mixture: MixtureConfig = MixtureConfig()


class PretrainConfig(SequenceConfig, TrackerOptions):
    """Token shards to checkpoints. Keys of the architecture are those of `ElectraConfig`."""

    size: Size = "small"
    """Fills in the keys of the table [Sizes](#sizes)."""
    architecture: Literal["electra", "modern"] = "electra"
    """`electra`: the paper's network. `modern`: rotary positions and gated feed-forward layers,
    exported as ModernBERT."""
    objective: Objective = "electra"
    """What the networks learn: [objectives](pretraining.md#objectives)."""
    weight_sharing: Literal["none", "embeddings", "gdes"] = "embeddings"
    """What generator and discriminator share. `gdes`: the discriminator adds to the generator's
    embedding matrix without changing it (DeBERTaV3)."""
    initial_model: str | None = None
    """Weights to start from: a run, a `transformers` folder of ELECTRA or ModernBERT, or a hub
    name."""
    initial_generator: str | None = None
    """The generator of `initial_model`: a `transformers` folder or a hub name."""
    device: Literal["auto", "cpu", "cuda", "xla"] = "auto"
    """`auto`: a TPU (`xla`) or GPU where there is one."""
    num_devices: Count | None = None
    """GPUs of this machine that train, a process each. If omitted, all that are visible and can
    share `batch_size` evenly. On a CPU: processes, by default one."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Precision of matrix products. `auto`: bf16 where the device has units for it. `fp16`: with a
    loss scale, for GPUs without units for bf16."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Use `torch.compile`. `auto`: on CUDA. `on`: a failure is an error. On a CPU it needs a
    C++ compiler, and makes long runs in bf16 faster."""
    cuda_graph: Literal["auto", "on", "off"] = "auto"
    """Record the step as a CUDA graph. Values as for `compile`."""
    # architecture, from the size preset unless given
    num_hidden_layers: Count
    """Layers of the discriminator."""
    hidden_size: Count
    """Width of the discriminator's hidden states."""
    intermediate_size: Count
    """Width of the feed-forward layers."""
    num_attention_heads: Count
    """Attention heads of a layer."""
    embedding_size: Count
    """Width of the embedding matrix."""
    max_position_embeddings: Count
    """Longest sequence that the model can read."""
    global_attn_every_n_layers: Count = 1
    """`modern`: from the first, one of so many layers attends globally, the others locally."""
    local_attention: Annotated[int, Field(ge=2)] = 128
    """Tokens that a token attends to locally, half of them on each side."""
    global_rope_theta: _Positive = 1000.0
    """Base of the rotary positions. ModernBERT has 160,000 for 8,192 tokens."""
    local_rope_theta: _Positive = 1000.0
    """The same in layers with local attention."""
    attention_bias: bool = True
    """`modern`: query, key, value and the output of attention have biases. ModernBERT has none."""
    hidden_dropout_prob: Fraction
    """Dropout of the hidden states."""
    attention_probs_dropout_prob: Fraction
    """Dropout of the attention weights."""
    initialization: Literal["paper", "mimetic"]
    """`paper`: truncated normal. `mimetic`: layers attend to neighbours from the first step, which
    small networks need."""
    initializer_range: _Positive = 0.02
    """Standard deviation of the weights at the start."""
    layer_norm_eps: _Positive
    """Epsilon of the layer norms."""
    generator_hidden_fraction: Annotated[float, Field(gt=0, le=1)]
    """Width of the generator, as a fraction of the discriminator's."""
    generator_layers_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Layers of the generator, as a fraction of the discriminator's."""
    attention: Literal["sequence", "document"] = "sequence"
    """A token attends to the whole `sequence`, or to its own `document` with positions from 0."""
    # objective
    mask_fraction: _Portion
    """Fraction of the tokens that are chosen."""
    mask_token_fraction: Fraction = 0.85
    """Fraction of the chosen positions that become [MASK]."""
    generator_weight: Annotated[float, Field(ge=0)] = 1.0
    """Factor of the generator's loss."""
    discriminator_weight: Annotated[float, Field(ge=0)] | None = None
    """Factor of the discriminator's loss. If omitted, 50, or 1 where it predicts tokens."""
    mlm_steps_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Fraction of the steps for MLM warm-up of the discriminator."""
    mlm_learning_rate: _Positive | None = None
    """Learning rate of the MLM warm-up. If omitted, `learning_rate`."""
    # optimisation
    num_steps: Count
    """Number of steps."""
    warmup_steps: Annotated[
        int, Field(ge=0, default_factory=lambda fields: min(10_000, fields["num_steps"] // 10))
    ]
    """Steps in which the rate rises. If omitted, 10,000, or a tenth of a shorter run."""
    decay_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of the steps, at the end, in which the rate falls to 0."""
    batch_size: Count
    """Sequences a step, over all processes."""
    micro_batch_size: Count | None = None
    """Sequences in a forward pass of a process. If omitted, all of a step."""
    curriculum: tuple[CurriculumPhase, ...] = ()
    learning_rate: _Positive
    """Highest learning rate."""
    generator_learning_rate: _Positive | None = None
    """Learning rate of the generator. If omitted, `learning_rate`."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decay of the weights, as AdamW applies it."""
    optimizer: Literal["paper", "bias-corrected", "muon"]
    """`paper`: Adam without bias correction. `bias-corrected`: torch's AdamW, for short runs.
    `muon`: Muon for the matrices of the layers, AdamW for the rest."""
    matrix_learning_rate: _Positive | None = None
    """Learning rate of the matrices of `muon`; where `mlm_learning_rate` or
    `generator_learning_rate` holds, in the same proportion to it. If omitted, twice
    `learning_rate`."""
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of Adam's first moment."""
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Decay of Adam's second moment."""
    adam_epsilon: _Positive = 1e-6
    """Epsilon of Adam."""
    max_gradient_norm: _Positive = 1.0
    """Norm above which gradients are scaled down."""
    clipping: Literal["together", "network"] = "together"
    """Norm of both networks `together`, or of each `network`."""
    # watching
    log_every_steps: Count = 50
    """Steps between two lines of the log and `metrics.jsonl`."""
    valid_every_steps: Count = 1000
    """Steps between two validations."""
    num_valid_batches: Count = 16
    """Batches of a validation."""
    checkpoint_every_steps: Count = 1000
    """Steps between two checkpoints."""
    keep_checkpoints: Count = 2
    """Number of newest checkpoints that are kept. With `decay_fraction` below 1 the last one before
    the rate falls is kept, too. A longer run goes on from it."""
    keep_every_steps: Count | None = None
    """Keep also a checkpoint every so many steps."""
    checkpoint_dir: Address | None = None
    """Folder or address that gets a copy of each checkpoint."""

    @property
    def initial(self) -> dict[str, str]:
        """What weights start from, by option."""
        names = {name: getattr(self, name) for name in ("initial_model", "initial_generator")}
        return {option: name for option, name in names.items() if name}

    @property
    def warnings(self) -> list[str]:
        """What is allowed, but seldom wanted."""
        if not self.initial_model or "learning_rate" in self.model_fields_set:
            return []
        return [
            f"pretrain.learning_rate = {self.learning_rate:g} of size {self.size!r} is for random "
            "initialisation: set one for initial_model, usually lower"
        ]

    @property
    def generator_hidden_size(self) -> int:
        return round(self.hidden_size * self.generator_hidden_fraction)

    @property
    def generator_num_hidden_layers(self) -> int:
        return max(1, round(self.num_hidden_layers * self.generator_layers_fraction))

    @property
    def generator_num_attention_heads(self) -> int:
        """Heads of the generator: of the discriminator's head size, at least one."""
        head_size = max(1, self.hidden_size // self.num_attention_heads)
        return max(1, self.generator_hidden_size // head_size)

    @property
    def generator_intermediate_size(self) -> int:
        """Feed-forward width of the generator: to its own width as the discriminator's to its."""
        return round(self.intermediate_size * self.generator_hidden_size / self.hidden_size)

    @property
    def generator_embedding_size(self) -> int:
        """Width of the generator's tables: its own width where nothing is shared, as in the
        original (modeling.py: embedding_size None), but the discriminator's where it is copied."""
        own = self.weight_sharing == "none" and self.objective != "electra-two-stage"
        return self.generator_hidden_size if own else self.embedding_size

    @property
    def has_generator(self) -> bool:
        return self.objective != "mlm"

    @property
    def has_detection_head(self) -> bool:
        """Whether the main network tells replaced tokens, by itself or as its copy gate."""
        return self.objective not in ("mlm", "replace-mlm")

    @property
    def has_language_head(self) -> bool:
        return self.objective in _PREDICTS_TOKENS

    @property
    def main_weight(self) -> float:
        if self.discriminator_weight is not None:
            return self.discriminator_weight
        return 1.0 if self.has_language_head else 50.0

    @property
    def generator_steps(self) -> int:
        """Steps in which the generator alone is trained: the first half of electra-two-stage."""
        return round(self.num_steps / 2) if self.objective == "electra-two-stage" else 0

    @property
    def mlm_steps(self) -> int:
        """Steps, the first, in which the main network is trained as a masked language model."""
        return round(self.num_steps * self.mlm_steps_fraction)

    @property
    def flat_end(self) -> int:
        """The step at which a rate that stays where it rose to begins to fall; 0 of one that falls
        from the start."""
        return round(self.num_steps * (1 - self.decay_fraction))

    @property
    def second_stage_step(self) -> int:
        """The step at which other networks, or another loss, begin to be trained; 0: none does."""
        return self.generator_steps or self.mlm_steps

    @property
    def _sections(self) -> list[tuple[str, "PretrainConfig | CurriculumPhase"]]:
        """The run and its phases, with what a message calls them."""
        return [("", self), *(("curriculum: ", phase) for phase in self.curriculum)]

    @property
    def curriculum_ends(self) -> tuple[int, ...]:
        fractions = accumulate(phase.steps_fraction for phase in self.curriculum)
        return tuple(round(self.num_steps * fraction) for fraction in fractions)

    def num_masked(self, sequence_length: int) -> int:
        """Slots for masked positions: int((p + .005) L), as the original has it."""
        return min(max(1, int((self.mask_fraction + 0.005) * sequence_length)), sequence_length)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for problems in (self._sizes, self._steps, self._objective_options, self._unused_options):
            if problem := next(problems(), None):
                raise UserError(problem)
        return self

    def _sizes(self) -> Iterator[str]:
        generator = self.generator_hidden_size, self.generator_num_attention_heads
        for who, hidden, heads in (
            ("hidden_size", self.hidden_size, self.num_attention_heads),
            ("generator hidden size (hidden_size x generator_hidden_fraction)", *generator),
        ):
            if hidden == 0 or hidden % heads:
                yield f"{who} = {hidden} must be a multiple of its {heads} attention heads"
            elif self.architecture == "modern" and hidden // heads % 2:
                yield f"{who} = {hidden} with {heads} heads: rotary positions need even head sizes"
        for name, section in self._sections:
            if (section.sequence_length or 0) > self.max_position_embeddings:
                yield (
                    f"{name}sequence_length = {section.sequence_length} is more than "
                    f"max_position_embeddings = {self.max_position_embeddings}"
                )
        if self.architecture == "electra" and self.global_attn_every_n_layers > 1:
            yield (
                f"global_attn_every_n_layers = {self.global_attn_every_n_layers} with architecture "
                "= 'electra': its layers have global attention; leave it out, or set modern"
            )

    def _steps(self) -> Iterator[str]:
        if self.warmup_steps > self.num_steps:
            yield f"warmup_steps = {self.warmup_steps} is more than num_steps = {self.num_steps}"
        for name, section in self._sections:
            batch = section.batch_size or self.batch_size
            micro = section.micro_batch_size or self.micro_batch_size
            if micro and batch % micro:
                yield f"{name}batch_size = {batch} must be a multiple of micro_batch_size = {micro}"
        ends = (0, *self.curriculum_ends, self.num_steps)
        if any(first >= end for first, end in pairwise(ends)):
            yield (
                f"curriculum: with num_steps = {self.num_steps}, a phase or the rest has no step "
                f"(phases end at {list(self.curriculum_ends)}); change steps_fraction or num_steps"
            )
        has_stages = self.mlm_steps_fraction > 0 or self.objective == "electra-two-stage"
        if has_stages and not 0 < self.second_stage_step < self.num_steps:
            yield (
                f"num_steps = {self.num_steps} with objective = {self.objective!r} and "
                f"mlm_steps_fraction = {self.mlm_steps_fraction:g}: a stage has no step; take more"
            )

    def _objective_options(self) -> Iterator[str]:
        objective, sharing = f"with objective = {self.objective!r}", self.weight_sharing
        width, depth = self.generator_hidden_size, self.generator_num_hidden_layers
        is_equal = (width, depth) == (self.hidden_size, self.num_hidden_layers)
        if self.objective == "electra-two-stage" and (not is_equal or sharing != "none"):
            yield (
                f"generator_hidden_fraction = {self.generator_hidden_fraction:g}, "
                f"generator_layers_fraction = {self.generator_layers_fraction:g} and "
                f"weight_sharing = {sharing!r} {objective}: the discriminator starts as a copy of "
                "the generator; set both fractions to 1.0 and weight_sharing to none"
            )
        if not self.has_generator and sharing != "embeddings":
            yield f"weight_sharing = {sharing!r} {objective}: there is no generator to share with"
        if self.mlm_steps_fraction and self.objective not in STARTS_AS_MLM:
            yield (
                f"mlm_steps_fraction = {self.mlm_steps_fraction:g} {objective}: only "
                f"{', '.join(STARTS_AS_MLM)} begin as a masked language model; leave it out"
            )

    def _unused_options(self) -> Iterator[str]:
        """Options that would change nothing are refused, not passed over."""
        if self.initial_model and self.objective == "electra-two-stage":
            yield (
                f"initial_model with objective = {self.objective!r}: the trained generator would "
                "replace the discriminator; take the objective electra"
            )
        if self.initial_generator is not None and self.initial_model is None:
            yield f"initial_generator = {self.initial_generator!r} needs initial_model"
        is_modern = self.architecture == "modern"
        for name, is_used in (
            ("matrix_learning_rate", self.optimizer == "muon"),
            ("local_attention", is_modern),
            ("global_rope_theta", is_modern),
            ("local_rope_theta", is_modern),
            ("attention_bias", is_modern),
            ("generator_weight", self.has_generator),
            ("generator_learning_rate", self.has_generator),
            ("clipping", self.has_generator),
            ("initial_generator", self.has_generator),
            ("mlm_learning_rate", self.mlm_steps_fraction > 0),
        ):
            value, default = getattr(self, name), type(self).model_fields[name].default
            if value != default and not is_used:
                yield (
                    f"{name} = {value!r} with objective = {self.objective!r}, architecture = "
                    f"{self.architecture!r} and optimizer = {self.optimizer!r}: nothing "
                    "would use it; leave it out"
                )
