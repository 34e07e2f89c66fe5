"""How fast a step of pretraining is, beside what a user of `transformers` would write."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.throughput.pretrain_check import compare_with_peer
from benchmarks.throughput.pretrain_counts import big_tensors, count_launches, record
from benchmarks.throughput.pretrain_data import BERT_VOCAB_SIZE, Pool, shard_pool, zipf_pool
from benchmarks.throughput.pretrain_figures import PretrainFigures, System, judge, ratios_of
from benchmarks.throughput.pretrain_loader import LoaderFigures, measure_loader
from benchmarks.throughput.pretrain_parts import step_parts
from benchmarks.throughput.pretrain_probe import run_probes
from benchmarks.throughput.pretrain_timing import ceilings, ratio, step_peak_bytes, time_in_turn
from benchmarks.throughput.pretrain_variants import (
    AGAIN,
    COMPILED_PEER,
    OURS,
    PADDED,
    PEER,
    PEER_PADDED,
    Variant,
    make_ours,
    make_peer,
)
from electrify.allocator import keep_freed_memory
from electrify.artifacts import git_commit, peak_memory_mb
from electrify.config_pretrain import PretrainConfig
from electrify.config_sizes import SIZE_PRESETS, SIZE_SEQUENCE_LENGTH
from electrify.progress import log
from model.device import describe, precision_of, resolve_device
from model.electra import ElectraPretrainer
from model.flops import flops_per_token
from model.mfu import peak_flops

Size = Literal["tiny", "small", "base", "large"]
# of no paper: for trying the command out
_TINY = SIZE_PRESETS["small"] | {
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
    "embedding_size": 16, "generator_hidden_fraction": 0.5,
}  # fmt: skip
# sequences a step and their length. A step of Base has 256 sequences and one of Large 2,048:
# these are what fits beside the peers
_SHAPES: dict[str, dict[str, tuple[int, int]]] = {
    "cuda": {"tiny": (4, 32), "small": (128, 128), "base": (64, 512), "large": (16, 512)},
    "cpu": {"tiny": (4, 32), "small": (16, 128), "base": (2, 512), "large": (1, 512)},
}
_PAPER_SHAPES = {"small": (128, 128), "base": (256, 512), "large": (2048, 512)}
_ROUNDS = {"cuda": (8, 20, 10), "cpu": (5, 2, 1)}  # rounds, steps in each, steps of warm-up
_LARGE_ELEMENTS = 100_000


@dataclass(frozen=True)
class PretrainSettings:
    """What is measured; None is the device's own choice."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    size: Size = "small"
    with_peer: bool = False
    with_compiled_peer: bool = True  # where there is a peer
    with_probes: bool = False
    run: Path | None = None  # the folder of a run, whose shards are read
    batch_size: int | None = None
    length: int | None = None
    micro_batches: int = 1  # also time a step in so many parts
    rounds: int | None = None
    steps: int | None = None
    dropout: float = 0.1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    vocab_size: int = BERT_VOCAB_SIZE
    with_ceilings: bool = True

    def config(self) -> PretrainConfig:
        """The paper's values of the size."""
        preset = _TINY if self.size == "tiny" else SIZE_PRESETS[self.size] | {"size": self.size}
        chosen = {
            "device": self.device, "precision": self.precision, "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
        }  # fmt: skip
        return PretrainConfig.model_validate(preset | chosen)

    def shape(self, device: torch.device) -> tuple[int, int]:
        """Sequences a step and their length; `ValueError` if the parts do not fit."""
        batch_size, length = _SHAPES[device.type][self.size]
        batch_size, length = self.batch_size or batch_size, self.length or length
        if batch_size % self.micro_batches:
            raise ValueError(
                f"--micro-batches {self.micro_batches} of {batch_size} sequences: the number of "
                "sequences must divide by it"
            )
        if not 16 <= length <= 512:
            raise ValueError(f"--length {length}: from 16 to the model's 512 positions")
        return batch_size, length


def measure_pretraining(settings: PretrainSettings) -> PretrainFigures:
    """Ceilings, correctness, then all variants in turn, then what their steps are made of."""
    if settings.with_probes and settings.device == "cpu":
        run_probes(torch.device("cpu"))  # says why not
    device, config = resolve_device(settings.device), settings.config()
    if device.type == "cpu":  # as `electrify pretrain` does; the peers gain by it, too
        keep_freed_memory()
    bench = Bench(settings, config, device)
    figures = PretrainFigures(
        bench.conditions(), peak_flops(_device_name(device), precision_of(config, device))
    )
    if settings.with_ceilings:
        log("ceilings: matrix product and copy")
        figures.ceilings = ceilings(device)
    if settings.with_probes:
        log("attention backends and widths of the head")
        figures.probes = run_probes(device)
    if settings.with_peer:
        log("ours against the peer in fp64")
        figures.correct = compare_with_peer(config, bench.pool, device)
    bench.build()
    bench.time(figures)
    figures.loader = bench.loader()
    log(figures.loader.line())
    figures.conditions["process_peak_mb"] = peak_memory_mb()
    figures.notes += bench.notes
    figures.goals = judge(figures)
    return figures


class Bench:
    """The variants of one run and what is told of them."""

    def __init__(
        self, settings: PretrainSettings, config: PretrainConfig, device: torch.device
    ) -> None:
        self.settings, self.config, self.device = settings, config, device
        self.batch_size, self.length = settings.shape(device)
        self.pool = self._pool(packed=True)
        self.variants: list[Variant] = []
        self.notes: list[str] = []
        self.model: ElectraPretrainer | None = None
        rounds, steps, self.num_warmup = _ROUNDS[device.type]
        self.num_rounds, self.num_steps = settings.rounds or rounds, settings.steps or steps

    def _pool(self, packed: bool) -> Pool:
        shape, run = (self.batch_size, self.length), self.settings.run
        if run is not None and packed:
            return shard_pool(run, self.config, *shape)
        return zipf_pool(self.config, *shape, packed, self.settings.vocab_size)

    def conditions(self) -> dict[str, Any]:
        """What the figures are of."""
        shape = self.batch_size, self.length
        return {
            "size": self.settings.size,
            "batch_size": self.batch_size,
            "sequence_length": self.length,
            "is_paper_shape": _PAPER_SHAPES.get(self.settings.size) == shape,
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
            "git_commit": git_commit(),
        }

    def build(self) -> None:
        """Build every variant and run its first step; one that cannot run leaves a note."""
        parts, with_peer = self.settings.micro_batches, self.settings.with_peer
        padded = None if self.settings.run else self._pool(packed=False)
        self._add(OURS, self._ours)
        if parts > 1:
            self._add(f"{OURS}, {parts} micro-batches", lambda: self._ours(parts))
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

    def _ours(self, num_parts: int = 1) -> Variant:
        variant, model = make_ours(self.config, self.pool, self.device, num_parts)
        if not self.variants:
            self.model = model
        return variant

    def _peer(self, pool: Pool, compiled: bool) -> Variant:
        return make_peer(self.config, pool, self.device, compiled)[0]

    def _add(self, name: str, make: Callable[[], Variant]) -> None:
        try:
            log(f"first step of {name}")
            variant = make()
            variant.name = name
            variant.run_first()
        except RuntimeError as error:  # out of memory, or a compiler that is not there
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.notes.append(f"{name} did not run: {first_line[:200]}")
            return
        self.variants.append(variant)

    def time(self, figures: PretrainFigures) -> None:
        """All in turn, ours twice so that the noise is seen; then counts, memory and parts."""
        log(f"{self.num_rounds} rounds of {self.num_steps} steps of {len(self.variants)} systems")
        ours, model = self.variants[0], self.model
        assert model is not None
        timed = time_in_turn(
            [*self.variants, ours], self.num_rounds, self.num_steps, self.num_warmup
        )
        *timed, again = timed
        figures.ratios = ratios_of({of.name: of for of in timed})
        figures.ratios[f"ratio_to_{AGAIN}"] = ratio(again, timed[0])
        flops = flops_per_token(self.config, self.pool.vocab_size, self.length, "joint").matmul
        for variant, found in zip(self.variants, timed, strict=True):
            system = System(
                found, variant.pool.name, self.batch_size * self.length, variant.tokens(), flops,
                variant.first_seconds, step_peak_bytes(variant), *self._count(variant),
            )  # fmt: skip
            figures.systems.append(system)
        figures.largest = big_tensors(record(lambda: ours.run(1)), _LARGE_ELEMENTS)
        figures.parts = step_parts(ours, model, max(3, self.num_steps))
        if self.settings.size != "tiny":
            preset = SIZE_PRESETS[self.settings.size]
            length = SIZE_SEQUENCE_LENGTH[self.settings.size]
            figures.schedule_tokens = preset["num_steps"] * preset["batch_size"] * length

    def loader(self) -> LoaderFigures:
        """What a run's loader costs at this shape."""
        shape, pool = (self.batch_size, self.length), self.pool
        return measure_loader(
            self.config, shape, self.device, pool.vocab_size, pool.special, self.settings.run
        )

    def _count(self, variant: Variant) -> tuple[int | None, int | None, int | None]:
        """Operators, views and launches of a step; a compiled one hides its operators."""
        launches = count_launches(lambda: variant.run(1), self.device)
        if variant.name == COMPILED_PEER:
            return None, None, launches
        found = record(lambda: variant.run(1))
        return found.working, found.free.total(), launches


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
