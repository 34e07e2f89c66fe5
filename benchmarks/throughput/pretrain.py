"""How fast a step of pretraining is, beside what a user of `transformers` would write."""

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.throughput.pretrain_systems import (
    AGAIN,
    AS_WRITTEN,
    BERT_VOCAB_SIZE,
    COMPILED_PEER,
    OURS,
    PADDED,
    PEER,
    PEER_PADDED,
    Pool,
    Timed,
    Variant,
    make_ours,
    make_peer,
    ratio,
    shard_pool,
    step_peak_bytes,
    time_in_turn,
    zipf_pool,
)
from benchmarks.throughput.report import Report, Row
from electrify.config.pretrain import SIZE_PRESETS, SIZE_SEQUENCE_LENGTH, PretrainConfig
from electrify.stage.provenance import git_commit
from electrify.system.memory import keep_freed_memory, peak_memory_mb
from electrify.system.outcome import first_line
from electrify.system.progress import log
from model.devices.attention import any_backend
from model.devices.device import describe, precision_of, resolve_device
from model.watch.flops import flops_per_token, peak_flops

PACKAGES = ("torch", "transformers", "numpy")
Size = Literal["tiny", "small", "base", "large"]
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
Medians over rounds; spread: slowest less fastest round, over the median. Tokens/s count padding,
as schedules do. MFU: products that the objective needs, the head at masked positions only, for
every system alike, by the peak of the data sheet. Memory: of a step with weights and moments, on a
GPU only. First step, recorded: from before the model was built to the end of its first step, and
of the first that was a replay. Schedule: hours of the size's whole schedule at this rate.
"""
_RATIOS = """
The median over rounds of the ratio within the round. Against peer_hf_eager and peer_hf_compiled:
the step that a user of transformers writes, as it is and under torch.compile, on the same weights
and text. Against electrify as written: what the compiler and the recording gain.
Against electrify, again: the noise of this run.
"""

_CORRECT = """
The same weights, text, masks and samples, dropout off: ours as it is timed, the peer in fp64 on
the CPU.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured; None is the device's own choice."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    size: Size = "small"
    with_peer: bool = False
    with_compiled_peer: bool = True  # where there is a peer
    run: Path | None = None  # the folder of a run, whose shards are read
    batch_size: int | None = None
    length: int | None = None
    micro_batches: int = 1  # also time a step in so many parts
    rounds: int | None = None
    steps: int | None = None
    dropout: float = 0.1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    vocab_size: int = BERT_VOCAB_SIZE
    with_padded: bool = True  # where text is made up
    fast: Literal["auto", "on", "off"] = "auto"  # as a run of the device has it; compiled; neither

    def config(self) -> PretrainConfig:
        """The paper's values of the size."""
        preset = _TINY if self.size == "tiny" else SIZE_PRESETS[self.size] | {"size": self.size}
        chosen = {
            "device": self.device,
            "precision": self.precision,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
            "compile": self.fast,
            "cuda_graph": "off" if self.fast == "off" else "auto",
        }
        return PretrainConfig.model_validate(preset | chosen)

    def shape(self, device: torch.device) -> tuple[int, int]:
        """Sequences a step and their length; `ValueError` if the parts do not fit."""
        batch_size, length = SHAPES[device.type][self.size]
        batch_size, length = self.batch_size or batch_size, self.length or length
        if batch_size % self.micro_batches:
            raise ValueError(
                f"--micro-batches {self.micro_batches} of {batch_size} sequences: the number of "
                "sequences must divide by it"
            )
        if not 16 <= length <= 512:
            raise ValueError(f"--length {length}: from 16 to the model's 512 positions")
        return batch_size, length


def measure(settings: Settings) -> Report:
    """First steps, losses beside the peer's, then all systems in turn.

    Nothing is compiled before the first steps, so that these include all of it.
    """
    device, config = resolve_device(settings.device), settings.config()
    if device.type == "cpu":  # as `electrify pretrain` does; the peers gain by it, too
        keep_freed_memory()
    bench = Bench(settings, config, device)
    bench.build()
    report = Report("A step of pretraining", PACKAGES, bench.conditions(), notes=bench.notes)
    correct = bench.compare() if settings.with_peer else []
    timed = bench.time()
    report.add("systems", "Systems", _SYSTEMS, bench.system_rows(timed))
    report.add("ratios", "How many times as fast ours is", _RATIOS, ratio_rows(timed))
    report.add("correct", "Correct", _CORRECT, correct)
    report.conditions["process_peak_mb"] = peak_memory_mb()
    return report


class Bench:
    """The systems of one run."""

    def __init__(self, settings: Settings, config: PretrainConfig, device: torch.device) -> None:
        self.settings, self.config, self.device = settings, config, device
        self.batch_size, self.length = settings.shape(device)
        self.pool = self._pool(packed=True)
        self.variants: list[Variant] = []
        self.notes: list[str] = []
        self.how, self.is_compiled = "", False  # ours runs
        rounds, steps, self.num_warmup = _ROUNDS[device.type]
        self.num_rounds, self.num_steps = settings.rounds or rounds, settings.steps or steps

    def _pool(self, packed: bool) -> Pool:
        shape, run = (self.batch_size, self.length), self.settings.run
        if run is not None and packed:
            return shard_pool(run, self.config, *shape)
        return zipf_pool(self.config, *shape, packed, self.settings.vocab_size)

    def conditions(self) -> dict[str, Any]:
        """What the figures are of."""
        return {
            "size": self.settings.size,
            "batch_size": self.batch_size,
            "sequence_length": self.length,
            "data": self.pool.name,
            "vocab_size": self.pool.vocab_size,
            "dropout": self.settings.dropout,
            "device_type": self.device.type,
            "device": describe(self.device),
            "precision": precision_of(self.config, self.device),
            "fp32_matmul_precision": torch.get_float32_matmul_precision(),
            "cuda": torch.version.cuda,
            "rounds": self.num_rounds,
            "steps_per_round": self.num_steps,
            "warmup_steps": self.num_warmup,
            "how": self.how,
            "git_commit": git_commit(),
        }

    def build(self) -> None:
        """Build every system and run its first step; one that cannot run leaves a note."""
        parts, with_peer = self.settings.micro_batches, self.settings.with_peer
        with_padded = self.settings.with_padded and not self.settings.run
        padded = self._pool(packed=False) if with_padded else None
        self._add(OURS, self._ours)
        if self.variants and (step := self.variants[0].fast_step) is not None:
            self.how, self.is_compiled = step.how(), step.is_compiled
            if step.is_compiled or step.is_recorded:
                self._add(AS_WRITTEN, lambda: self._ours(compile="off", cuda_graph="off"))
        if parts > 1:
            name = f"{OURS}, {parts} micro-batches"
            self._add(name, lambda: make_ours(self.config, self.pool, self.device, parts)[0])
        if not self.variants:
            raise ValueError(f"{'; '.join(self.notes)}: try a smaller --batch-size")
        if with_peer:
            self._add(PEER, lambda: self._peer(self.pool, compiled=False))
        if with_peer and self.settings.with_compiled_peer:
            self._add(COMPILED_PEER, lambda: self._peer(self.pool, compiled=True))
        if padded is not None:
            self._add(PADDED, lambda: make_ours(self.config, padded, self.device)[0])
            if with_peer:
                self._add(PEER_PADDED, lambda: self._peer(padded, compiled=False))

    def _ours(self, **options: str) -> Variant:
        config = self.config.model_copy(update=options)
        return make_ours(config, self.pool, self.device)[0]

    def _peer(self, pool: Pool, compiled: bool) -> Variant:
        return make_peer(self.config, pool, self.device, compiled)[0]

    def _add(self, name: str, make: Callable[[], Variant]) -> None:
        try:
            log(f"first step of {name}")
            variant = make()
            variant.name = name
            variant.run_first()
        except RuntimeError as error:  # out of memory, or a compiler that is not there
            self.notes.append(f"{name} did not run: {first_line(error)[:200]}")
        else:
            self.variants.append(variant)
            return
        gc.collect()  # what failed refers to itself, and would keep its memory

    def compare(self) -> list[Row]:
        """Losses and a gradient of both sides, on the same weights and masks."""
        from benchmarks.throughput.pretrain_peer import compare_with_peer

        log("ours against the peer in fp64")
        with any_backend():
            found = compare_with_peer(self.config, self.pool, self.device, self.is_compiled)
        return [{"figure": name.replace("_", " "), "value": of} for name, of in found.items()]

    def time(self) -> list[Timed]:
        """All in turn, the first twice so that the noise is seen: the last is the first again."""
        log(f"{self.num_rounds} rounds of {self.num_steps} steps of {len(self.variants)} systems")
        every = [*self.variants, self.variants[0]]
        return time_in_turn(every, self.num_rounds, self.num_steps, self.num_warmup)

    def system_rows(self, timed: list[Timed]) -> list[Row]:
        """Time and memory of a step of each system."""
        flops = flops_per_token(self.config, self.pool.vocab_size, self.length, "joint").matmul
        device = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        peak = peak_flops(device, precision_of(self.config, self.device))
        hours = _schedule_tokens(self.settings.size) / 3600
        rows: list[Row] = []
        for variant, found in zip(self.variants, timed, strict=False):
            rate = self.batch_size * self.length / found.seconds
            memory = step_peak_bytes(variant)
            rows.append(
                {
                    "system": found.name,
                    "data": variant.pool.name,
                    "ms_per_step": 1000 * found.seconds,
                    "spread": found.spread,
                    "cpu_ms_per_step": 1000 * found.cpu_seconds,
                    "tokens_per_second": rate,
                    "without_padding": variant.tokens() / found.seconds,
                    "mfu": None if math.isnan(peak) else flops * rate / peak,
                    "peak_memory_mb": None if memory is None else memory / 1e6,
                    "first_step_seconds": variant.first_seconds,
                    "recorded_seconds": variant.recorded_seconds,
                    "schedule_hours": hours / rate if hours else None,
                }
            )
        return rows


def ratio_rows(timed: list[Timed]) -> list[Row]:
    """Ours against every other system on the same text, by the clock and by processor time."""
    *first, again = timed
    by_name = {of.name: of for of in first} | {AGAIN: again}
    if OURS not in by_name:
        return []
    ours = by_name[OURS]
    return [
        {
            "against": name,
            "by_the_clock": ratio(other, ours),
            "by_processor_time": ratio(other, ours, "cpu"),
        }
        for name in (PEER, COMPILED_PEER, AS_WRITTEN, AGAIN)
        if (other := by_name.get(name)) is not None
    ]


def _schedule_tokens(size: Size) -> int:
    """Of the paper's whole schedule; 0 for a size of no paper."""
    if size == "tiny":
        return 0
    preset = SIZE_PRESETS[size]
    return int(preset["num_steps"] * preset["batch_size"] * SIZE_SEQUENCE_LENGTH[size])
