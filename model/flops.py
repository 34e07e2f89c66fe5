"""Parameters of a run's networks and the cost of training them. Plain arithmetic, no torch.

`matmul` counts the algorithm's matrix products: backward is twice forward, look-ups are 0, and a
head counts at the positions that its loss needs. MFU is these FLOPs / seconds / the peak of all
devices (PaLM, appendix B). `paper` is the count of the paper's Table 1 (google-research/electra
flops_computation.py, quirks kept): backward is as much as forward, the input embedding is a dense
product, and a language head counts at 15.625 % of the positions; in all-tokens-mlm at all of them.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import NamedTuple

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.system.machine import Precision, cpu_precision
from electrify.system.progress import duration
from model.plan import EncoderShape, Stage, network_shapes, phases_of, stages_of


def parameter_counts(config: PretrainConfig, vocab_size: int) -> dict[str, int]:
    """Parameters that are trained, each once, and those of each network, embeddings included."""
    main, generator = network_shapes(config, vocab_size)
    in_main = main.embedding_parameters + main.encoder_parameters
    in_main += main.detection_head_parameters if config.has_detection_head else 0
    in_main += main.language_head_parameters if config.has_language_head else 0
    counts = {"trained": in_main, "discriminator": in_main, "generator": 0}
    if config.mlm_steps and not config.has_language_head:  # the head of the MLM warm-up
        counts["trained"] += main.language_head_parameters
    if generator is None:
        return counts
    in_generator = generator.encoder_parameters + generator.language_head_parameters
    counts["generator"] = generator.embedding_parameters + in_generator
    counts["trained"] += in_generator
    if config.weight_sharing in ("none", "gdes"):
        counts["trained"] += generator.embedding_parameters
    if config.objective == "electra-adversarial":
        counts["trained"] += generator.hidden_size + 1  # the baseline
    return counts


@dataclass(frozen=True)
class Cost:
    """Positions trained on, padding included, and training FLOPs by both counts."""

    positions: float = 0
    matmul: float = 0
    paper: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> "Cost":
        return Cost(*(factor * number for number in astuple(self)))

    def figures(self) -> dict[str, float]:
        """FLOPs by the names that they have in files."""
        return {"flops_matmul": self.matmul, "flops_paper": self.paper}


def flops_per_token(config: PretrainConfig, vocab_size: int, length: int, stage: Stage) -> Cost:
    """Training FLOPs a token of a sequence of `length`, in one stage of training.

    ELECTRA-Small at 30,522 pieces and length 128: 70.2 M in matrix products.
    """
    if stage == "language":  # the same network is trained as in a run of objective mlm
        changed = {"objective": "mlm", "mlm_steps_fraction": 0.0}
        return flops_per_token(config.model_copy(update=changed), vocab_size, length, "joint")

    counts = []
    for count, factor in ((_matmul, 3), (_paper, 2)):  # times forward, where trained
        generator, main = _forward(count, config, vocab_size, length)
        counts.append(generator * (1 if stage == "discriminator" else factor))
        counts[-1] += 0.0 if stage == "generator" else factor * main
    return Cost(1, *counts)


def run_flops(config: PretrainConfig, vocab_size: int, num_steps: int | None = None) -> Cost:
    """Training FLOPs of a run's first `num_steps` steps, None for all, phase by phase.

    By the paper's convention 1.29e18 for ELECTRA-Small (the table prints 1.4e18), 6.4e19 for Base.
    """
    steps = config.num_steps if num_steps is None else num_steps
    total = Cost()
    for phase in phases_of(config):
        options = phase.options(config)
        for stage, first, end in stages_of(config):
            here = max(0, min(end, phase.end, steps) - max(first, phase.first_step))
            per_token = flops_per_token(options, vocab_size, phase.sequence_length, stage)
            total += per_token * (here * phase.tokens_per_step)
    return total


class _Forward(NamedTuple):
    """FLOPs of one forward pass a token, part by part, as one convention counts them."""

    encoder: float
    detection_head: float
    language_head: float


def _forward(
    count: Callable[[EncoderShape, int], _Forward],
    config: PretrainConfig,
    vocab_size: int,
    length: int,
) -> tuple[float, float]:
    """FLOPs of one forward pass a token: the generator's and the main network's."""
    shape, generator_shape = network_shapes(config, vocab_size)
    # positions that pass a language head
    chosen = _PAPER_CHOSEN if count is _paper else config.num_masked(length) / length
    main, in_generator = count(shape, length), 0.0
    in_main = main.encoder + config.has_detection_head * main.detection_head
    if config.has_language_head:
        in_main += main.language_head * (1 if config.objective == "all-tokens-mlm" else chosen)
    if generator_shape is not None:
        generator = count(generator_shape, length)
        in_generator = generator.encoder + generator.language_head * chosen
    return in_generator, in_main


def _matmul(size: EncoderShape, length: int) -> _Forward:
    """Two for each factor of the matrix products."""
    # attention is taken whole, also where a mask of documents leaves half or less of it
    e, h, v = size.embedding_size, size.hidden_size, size.vocab_size
    num_layers = size.num_hidden_layers
    window = min(length, size.local_attention + 1)
    keys = sum(window if size.is_local(layer) else length for layer in range(num_layers))
    matrices = (3 if size.is_modern else 2) * h * size.intermediate_size + 4 * h * h
    project = e * h * size.is_projected
    dense = h * h + project if size.is_modern else e * h
    return _Forward(
        encoder=num_layers * 2 * matrices + 4 * keys * h + 2 * project,
        detection_head=2 * h * (h + 1),
        language_head=2 * (dense + e * v),
    )


# the paper's script: FLOPs an element, and the part of the positions that pass a language head
_DROPOUT, _NORM, _ACTIVATION, _SOFTMAX, _PAPER_CHOSEN = 4, 5, 8, 5, 0.15625


def _paper(size: EncoderShape, length: int) -> _Forward:
    """As google-research/electra flops_computation.py."""
    e, h, v = size.embedding_size, size.hidden_size, size.vocab_size
    i = size.intermediate_size
    softmax = (_SOFTMAX + _DROPOUT + 1) * length * size.num_attention_heads
    attention = 3 * (2 * h * h + h) + 4 * h * length + softmax
    # the script counts the LayerNorm after attention once, not for each of the h elements
    after = 2 * h * h + h + _DROPOUT * h + h + _NORM
    matrices = 6 if size.is_modern else 4
    feed_forward = matrices * h * i + (_ACTIVATION + 1) * i + (1 + _DROPOUT + 1 + _NORM) * h
    project = (2 * h * e + h) * size.is_projected
    tables = 2 * e * v + 2 * e * (length + 2) + (2 + _NORM + _DROPOUT) * e
    return _Forward(
        encoder=tables + size.num_hidden_layers * (attention + after + feed_forward) + project,
        detection_head=h * (2 * h + 1 + _ACTIVATION + 2),
        language_head=2 * e * v + (_SOFTMAX + 2) * v + 2 * h * e + (1 + _ACTIVATION + _NORM) * e,
    )


# matrix products that steps reached on one H200 in bf16, by width (PERFORMANCE.md), FLOPs a second
_H200 = ((768, 3.1e14), (256, 1.15e14))
_CPU_RATES = {"fp32": 1.2e11, "bf16": 2.6e11}  # of two cores, bf16 as written
# of that rate, what steps of 2,048 tokens reach: 1.67 a second of modern-small with 8 layers
_FEW_TOKENS, _FEW_TOKENS_RATE = 4096, 0.63


def estimate(config: RunConfig) -> tuple[list[str], float]:
    """The size and cost of pretraining in words, before it is started, and its seconds on two CPU
    cores."""
    pretrain, vocab = config.pretrain, config.vocab.num_pieces
    counts, flops = parameter_counts(pretrain, vocab), run_flops(pretrain, vocab)
    precision = cpu_precision() if pretrain.precision == "auto" else pretrain.precision
    cpu = _CPU_RATES.get(precision, _CPU_RATES["fp32"])
    if pretrain.batch_size * pretrain.sequence_length < _FEW_TOKENS:
        cpu *= _FEW_TOKENS_RATE
    width, gpu = next((pair for pair in _H200 if pair[0] <= pretrain.hidden_size), _H200[-1])
    where = {
        f"one H200 in bf16 at {gpu / 1e12:.0f} TFLOP/s, as width {width} reaches": gpu,
        f"two CPU cores in {precision} at {cpu / 1e12:.2g} TFLOP/s, assumed": cpu,
    }
    is_for_gpu = pretrain.device not in ("auto", "cpu")
    taken = "bf16" if is_for_gpu and pretrain.precision == "auto" else precision
    memory = memory_bytes(pretrain, vocab, taken)
    generator = f", {counts['generator']:,} in the generator" if counts["generator"] else ""
    times = [f"{duration(flops.matmul / r)} ({name})" for name, r in where.items()]
    lines = [
        f"parameters: {counts['trained']:,} trained, {counts['discriminator']:,} in the "
        f"discriminator{generator}",
        f"training tokens: {flops.positions:,}",
        f"training FLOPs: {flops.matmul:.3g} in matrix products, "
        f"{flops.paper:.3g} by the paper's convention",
        f"pretraining: {', '.join(times)}",
        f"estimated memory: {memory / 2**30:.1f} GiB for weights, moments and activations in "
        f"{taken}",
    ]
    return lines, flops.matmul / cpu


# bytes for each number that backward keeps: those with which a step of sizes small and base has the
# peak that torch's allocator shows on an emulated H100 and T4
_KEPT_BYTES = {"electra": 1.5, "modern": 2.0, "fp32": 2.5}


def memory_bytes(config: PretrainConfig, vocab_size: int, precision: Precision) -> float:
    """Bytes of a step: 16 a parameter, and what backward keeps of the main network: about
    16 H + 3 I numbers a layer and token of a micro-batch."""
    tokens = max(phase.micro_batch_size * phase.sequence_length for phase in phases_of(config))
    size, _ = network_shapes(config, vocab_size)
    per_layer = 16 * size.hidden_size + 3 * size.intermediate_size
    kept = size.num_hidden_layers * per_layer + 6 * size.embedding_size
    width = _KEPT_BYTES["fp32" if precision == "fp32" else config.architecture]
    return 16 * parameter_counts(config, vocab_size)["trained"] + width * tokens * kept
