"""How fast a step of pretraining is, beside what a user of `transformers` would write."""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from benchmarks.throughput.pretrain.systems import (
    AGAIN,
    AS_WRITTEN,
    BERT_VOCAB_SIZE,
    COMPILED_PEER,
    OURS,
    PEER,
    Timed,
    Variant,
    make_ours,
    make_peer,
    ratio,
    step_peak_bytes,
    time_in_turn,
    zipf_pool,
)
from benchmarks.throughput.report import Report, Row
from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.stage.provenance import git_commit
from electrify.system.memory import keep_freed_memory, peak_memory_mb
from electrify.system.outcome import first_line
from electrify.system.progress import log
from model.devices.device import describe, precision_of, resolve_device
from model.watch.flops import flops_per_token, peak_flops

PACKAGES = ("torch", "transformers", "numpy")
# of no paper: for trying the command out
_TINY = SIZE_PRESETS["small"] | {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "embedding_size": 16,
    "generator_hidden_fraction": 0.5,
}
# sequences a step and their length. A step of Base has 256 sequences and one of Large 2,048:
# these are what fits beside the peers
SHAPES: dict[str, dict[str, tuple[int, int]]] = {
    "cuda": {"tiny": (4, 32), "small": (128, 128), "base": (64, 512), "large": (16, 512)},
    "cpu": {"tiny": (4, 32), "small": (16, 128), "base": (2, 512), "large": (1, 512)},
}
_ROUNDS = {"cuda": (8, 20, 10), "cpu": (5, 2, 1)}  # rounds, steps in each, steps of warm-up
_SYSTEMS = """
Medians over rounds; spread: slowest less fastest round, over the median. Text follows Zipf's law in
full sequences. MFU: products that the objective needs, the head at masked positions only, for every
system alike, by the peak of the data sheet. Memory: of a step with weights and moments, on a GPU
only. First step: from before the model was built to its end.
"""
_RATIOS = """
The median over rounds of the ratio within the round. Against peer_hf_eager and peer_hf_compiled:
the step that a user of transformers writes, as it is and under torch.compile, on the same weights
and text. Against electrify as written: what the compiler and the recording gain.
Against electrify, again: the noise of this run.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured; None is the device's own choice."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    size: Literal["tiny", "small", "base", "large"] = "small"
    with_peer: bool = False
    batch_size: int | None = None
    length: int | None = None
    micro_batches: int = 1  # also time a step in so many parts
    rounds: int | None = None
    steps: int | None = None
    dropout: float = 0.1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    vocab_size: int = BERT_VOCAB_SIZE

    def config(self) -> PretrainConfig:
        """The paper's values of the size."""
        preset = _TINY if self.size == "tiny" else SIZE_PRESETS[self.size] | {"size": self.size}
        chosen = {
            "device": self.device,
            "precision": self.precision,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
        }
        return PretrainConfig.model_validate(preset | chosen)

    def shape(self, device: torch.device) -> tuple[int, int]:
        """Sequences a step and their length; `ValueError` if the parts do not fit."""
        batch_size, length = SHAPES[device.type][self.size]
        batch_size, length = self.batch_size or batch_size, self.length or length
        if batch_size % self.micro_batches:
            raise ValueError(
                f"--micro-batches {self.micro_batches} of {batch_size} sequences: the number of "
                "sequences must be a multiple of it"
            )
        if not 16 <= length <= 512:
            raise ValueError(f"--length {length}: from 16 to the model's 512 positions")
        return batch_size, length


def measure(settings: Settings) -> Report:
    """First steps, then all systems in turn, the first twice so that the noise is seen.

    Nothing is compiled before the first steps, so that these include all of it.
    """
    device, config = resolve_device(settings.device), settings.config()
    if device.type == "cpu":  # as `electrify pretrain` does; the peers gain by it, too
        keep_freed_memory()
    batch_size, length = settings.shape(device)
    rounds, steps, warmup = _ROUNDS[device.type]
    rounds, steps = settings.rounds or rounds, settings.steps or steps
    conditions = {
        "size": settings.size,
        "batch_size": batch_size,
        "sequence_length": length,
        "vocab_size": settings.vocab_size,
        "dropout": settings.dropout,
        "device_type": device.type,
        "device": describe(device),
        "precision": precision_of(config, device),
        "fp32_matmul_precision": torch.get_float32_matmul_precision(),
        "cuda": torch.version.cuda,
        "rounds": rounds,
        "steps_per_round": steps,
        "warmup_steps": warmup,
        "git_commit": git_commit(),
    }
    report = Report("A step of pretraining", PACKAGES, conditions)
    variants = build(settings, config, device, report.notes)
    if (step := variants[0].fast_step) is not None:
        conditions["how"] = step.how()
    log(f"{rounds} rounds of {steps} steps of {len(variants)} systems")
    timed = time_in_turn([*variants, variants[0]], rounds, steps, warmup)
    report.add("systems", "Systems", _SYSTEMS, system_rows(settings, config, variants, timed))
    report.add("ratios", "How many times as fast ours is", _RATIOS, ratio_rows(timed))
    conditions["process_peak_mb"] = peak_memory_mb()
    return report


def build(
    settings: Settings, config: PretrainConfig, device: torch.device, notes: list[str]
) -> list[Variant]:
    """Every system behind its first step, ours first; one that cannot run leaves a note.

    `ValueError` where ours cannot.
    """
    pool = zipf_pool(config, *settings.shape(device), settings.vocab_size)
    variants: list[Variant] = []

    def add(name: str, make: Callable[[], Variant]) -> None:
        try:
            log(f"first step of {name}")
            variant = make()
            variant.name = name
            variant.run_first()
        except RuntimeError as error:  # out of memory, or a compiler that is not there
            notes.append(f"{name} did not run: {first_line(error)[:200]}")
        else:
            variants.append(variant)
            return
        gc.collect()  # what failed refers to itself, and would keep its memory

    add(OURS, lambda: make_ours(config, pool, device))
    if not variants:
        raise ValueError(f"{notes[-1]}: try a smaller --batch-size")
    step, parts = variants[0].fast_step, settings.micro_batches
    if step is not None and (step.is_compiled or step.is_recorded):
        plain = config.model_copy(update={"compile": "off", "cuda_graph": "off"})
        add(AS_WRITTEN, lambda: make_ours(plain, pool, device))
    if parts > 1:
        add(f"{OURS}, {parts} micro-batches", lambda: make_ours(config, pool, device, parts))
    if settings.with_peer:
        add(PEER, lambda: make_peer(config, pool, device, compiled=False))
        add(COMPILED_PEER, lambda: make_peer(config, pool, device, compiled=True))
    return variants


def system_rows(
    settings: Settings, config: PretrainConfig, variants: Sequence[Variant], timed: Sequence[Timed]
) -> list[Row]:
    """Time and memory of a step of each system."""
    device = variants[0].device
    batch_size, length = settings.shape(device)
    flops = flops_per_token(config, settings.vocab_size, length, "joint").matmul
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    peak = peak_flops(name, precision_of(config, device))
    rows: list[Row] = []
    for variant, found in zip(variants, timed, strict=False):
        rate = batch_size * length / found.seconds
        memory = step_peak_bytes(variant)
        rows.append(
            {
                "system": found.name,
                "ms_per_step": 1000 * found.seconds,
                "spread": found.spread,
                "cpu_ms_per_step": 1000 * found.cpu_seconds,
                "tokens_per_second": rate,
                "mfu": None if math.isnan(peak) else flops * rate / peak,
                "peak_memory_mb": None if memory is None else memory / 1e6,
                "first_step_seconds": variant.first_seconds,
            }
        )
    return rows


def ratio_rows(timed: Sequence[Timed]) -> list[Row]:
    """Ours against every other system, by the clock and by processor time."""
    ours, *others, again = timed
    by_name = {of.name: of for of in others} | {AGAIN: again}
    return [
        {
            "against": name,
            "by_the_clock": ratio(by_name[name], ours),
            "by_processor_time": ratio(by_name[name], ours, "cpu"),
        }
        for name in (PEER, COMPILED_PEER, AS_WRITTEN, AGAIN)
        if name in by_name
    ]
