"""What a config comes to: sizes of the networks, phases, stages, learning rate. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from electrify.config.pretrain import CurriculumPhase, MixtureConfig, PretrainConfig

Stage = Literal["joint", "language", "generator", "discriminator"]


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """Sizes of one network; names as in `ElectraConfig`."""

    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    layer_norm_eps: float
    architecture: str = "electra"
    global_attn_every_n_layers: int = 1
    local_attention: int = 128
    global_rope_theta: float = 1000.0
    local_rope_theta: float = 1000.0
    attention_bias: bool = True

    @classmethod
    def of(cls, config: object, **others: Any) -> Self:
        """Those that a config gives, with `others` in place of its own."""
        names = {field.name for field in fields(cls)} - {*others}
        given = {name: getattr(config, name) for name in names if hasattr(config, name)}
        return cls(**given | others)

    @property
    def is_modern(self) -> bool:
        return self.architecture == "modern"

    @property
    def is_projected(self) -> bool:
        """Whether the embeddings are not as wide as the hidden states."""
        return self.embedding_size != self.hidden_size

    def is_local(self, layer: int) -> bool:
        """Whether a token of this layer attends to those around it alone."""
        return layer % self.global_attn_every_n_layers > 0

    @property
    def embedding_parameters(self) -> int:
        """The embedding matrix; of the paper's network also positions, types and a LayerNorm."""
        others = 0 if self.is_modern else self.max_position_embeddings + 2 + 2
        return self.embedding_size * (self.vocab_size + others)

    @property
    def encoder_parameters(self) -> int:
        """All layers, and the projection from the embeddings where widths differ."""
        e, h, i = self.embedding_size, self.hidden_size, self.intermediate_size
        attention, project = 4 * (h * h + h * self.attention_bias), e * h * self.is_projected
        if (
            self.is_modern
        ):  # norms have no bias: after the embeddings, two a layer but one, the last
            return project + self.num_hidden_layers * (attention + 3 * h * i + 2 * h) + h
        layer = attention + (h * i + i) + (i * h + h) + 4 * h
        project += h * self.is_projected
        return self.num_hidden_layers * layer + project

    @property
    def language_head_parameters(self) -> int:
        """Dense, LayerNorm and output bias; the embedding matrix is counted elsewhere."""
        if self.is_modern:
            return (self.hidden_size + 1) * self.hidden_size + self.vocab_size
        e = self.embedding_size
        return (self.hidden_size + 1) * e + 2 * e + self.vocab_size

    @property
    def detection_head_parameters(self) -> int:
        """Dense with a bias, or a LayerNorm behind it, and one logit."""
        return (self.hidden_size + 1) * self.hidden_size + self.hidden_size + 1


def discriminator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    """Sizes of the main network."""
    return EncoderShape.of(config, vocab_size=vocab_size)


def generator_shape(config: PretrainConfig, vocab_size: int) -> EncoderShape:
    """Sizes of the generator, a fraction of the main network's."""
    return EncoderShape.of(
        config,
        vocab_size=vocab_size,
        embedding_size=config.generator_embedding_size,
        hidden_size=config.generator_hidden_size,
        num_hidden_layers=config.generator_num_hidden_layers,
        num_attention_heads=config.generator_num_attention_heads,
        intermediate_size=config.generator_intermediate_size,
    )


def network_shapes(
    config: PretrainConfig, vocab_size: int
) -> tuple[EncoderShape, EncoderShape | None]:
    """The main network's shape and the generator's, None where none is trained."""
    generator = generator_shape(config, vocab_size) if config.has_generator else None
    return discriminator_shape(config, vocab_size), generator


@dataclass(frozen=True)
class Phase:
    """Consecutive steps whose batches have one form."""

    first_step: int  # steps are counted from 0
    num_steps: int
    sequence_length: int
    batch_size: int  # sequences a step, over all processes
    micro_batch_size: int  # sequences a forward pass of one process, which has no more than these
    mask_fraction: float = 0.15
    mixture: MixtureConfig = field(default_factory=MixtureConfig)

    @property
    def end(self) -> int:
        return self.first_step + self.num_steps

    def options(self, config: PretrainConfig) -> PretrainConfig:
        """The run's options as they are in this phase."""
        return config.model_copy(
            update={
                "sequence_length": self.sequence_length,
                "mask_fraction": self.mask_fraction,
                "mixture": self.mixture,
            }
        )

    def is_shared_by(self, num_processes: int) -> bool:
        """Whether processes have batches of one size, and micro-batches, too."""
        own, left = divmod(self.batch_size, num_processes)
        return own > 0 == left and own % min(self.micro_batch_size, own) == 0

    @property
    def num_sequences(self) -> int:
        return self.batch_size * self.num_steps

    @property
    def tokens_per_step(self) -> int:
        """Positions a step, padding included."""
        return self.batch_size * self.sequence_length


def phases_of(config: PretrainConfig) -> tuple[Phase, ...]:
    """The curriculum's phases, then the rest of the run; together `num_steps` steps.

    Phase k ends at num_steps times the sum of the first k fractions, rounded. What a phase leaves
    open it has from the rest of the run.
    """
    phases, first = [], 0
    rest = CurriculumPhase(steps_fraction=0.5)  # which nobody reads
    parts = zip(
        (*config.curriculum, rest), (*config.curriculum_ends, config.num_steps), strict=True
    )
    for given, end in parts:
        batch_size = given.batch_size or config.batch_size
        phases.append(
            Phase(
                first,
                end - first,
                given.sequence_length or config.sequence_length,
                batch_size,
                given.micro_batch_size or config.micro_batch_size or batch_size,
                given.mask_fraction or config.mask_fraction,
                config.mixture.model_copy(
                    update=given.mixture.model_dump(exclude_unset=True) if given.mixture else {}
                ),
            )
        )
        first = end
    assert all(phase.num_steps > 0 for phase in phases), phases  # the config checks it
    return tuple(phases)


def phase_at(phases: Sequence[Phase], step: int) -> Phase:
    """The phase of the update that follows `step` finished ones; the last one's at the end."""
    assert 0 <= step <= phases[-1].end, step
    return next((phase for phase in phases if step < phase.end), phases[-1])


def sequences_until(phases: Sequence[Phase], step: int) -> int:
    """Sequences seen in the first `step` steps, over all processes."""
    return sum(
        phase.batch_size * min(max(step - phase.first_step, 0), phase.num_steps) for phase in phases
    )


def stages_of(config: PretrainConfig) -> list[tuple[Stage, int, int]]:
    """What a run trains one after the other, each with its first step and its end.

    All networks ("joint"), but for electra-two-stage (paper, Appendix F) and for the first steps of
    a run whose main network begins as a masked language model ("language").
    """
    second, end = config.second_stage_step, config.num_steps
    if config.mlm_steps:
        return [("language", 0, second), ("joint", second, end)]
    if second:
        return [("generator", 0, second), ("discriminator", second, end)]
    return [("joint", 0, end)]


def _span_at(config: PretrainConfig, step: int) -> tuple[Stage, int, int]:
    return [span for span in stages_of(config) if span[1] <= step][-1]


def stage_at(config: PretrainConfig, step: int) -> Stage:
    """What the update that follows `step` finished ones trains."""
    return _span_at(config, step)[0]


def learning_rate(step: int, config: PretrainConfig) -> float:
    """Rate of the update that follows `step` finished ones, 0 <= step <= num_steps.

    peak min(1, (1 - t/T) / decay) min(1, t/warmup), decay = `decay_fraction`. At 1, the default,
    warmup and linear decay apply *together* from t = 0, as in google-research/electra
    model/optimization.py:36-45 (so the first update has rate 0); `transformers`' schedule differs.
    Below 1 the rate is constant until the last share of the steps (trapezoidal: Hägele et al.
    2024), so one run serves for ends of several lengths. Each stage of electra-two-stage has its
    own t and T, and warms up over `warmup_steps` or, if it is shorter, all its steps. After
    `mlm_steps` the rate warms up again, to another peak.
    """
    assert 0 <= step <= config.num_steps, step
    stage, first, end = _span_at(config, step)
    done, num_steps = step - first, end - first
    if config.objective == "electra-two-stage":
        left = 1 - done / num_steps
    else:
        left = 1 - step / config.num_steps
    peak = config.learning_rate
    if stage == "language":
        peak = config.mlm_learning_rate or peak
    warmup_steps = min(config.warmup_steps, num_steps)
    warmup = min(1.0, done / warmup_steps) if warmup_steps else 1.0
    return peak * min(1.0, left / config.decay_fraction) * warmup
