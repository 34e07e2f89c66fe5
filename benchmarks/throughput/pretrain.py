"""How fast a step of pretraining is, beside what a user of `transformers` would write."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.throughput.pretrain_band import Band, measure_band
from benchmarks.throughput.pretrain_check import compare_with_peer
from benchmarks.throughput.pretrain_counts import big_tensors, record
from benchmarks.throughput.pretrain_data import Pool, shard_pool, zipf_pool
from benchmarks.throughput.pretrain_figures import PretrainFigures, System, judge, ratios_of
from benchmarks.throughput.pretrain_kernels import profile_steps
from benchmarks.throughput.pretrain_loader import LoaderFigures, measure_loader
from benchmarks.throughput.pretrain_parts import step_parts
from benchmarks.throughput.pretrain_probe import run_probes
from benchmarks.throughput.pretrain_settings import BAND_SHAPE_ON_CPU, PretrainSettings
from benchmarks.throughput.pretrain_text import sample_pool
from benchmarks.throughput.pretrain_timing import ceilings, ratio, step_peak_bytes, time_in_turn
from benchmarks.throughput.pretrain_variants import (
    AGAIN,
    AS_WRITTEN,
    COMPILED_ONLY,
    COMPILED_PEER,
    OURS,
    PADDED,
    PEER,
    PEER_PADDED,
    Variant,
    make_ours,
    make_peer,
)
from electrify.config.pretrain import SIZE_PRESETS, SIZE_SEQUENCE_LENGTH, PretrainConfig
from electrify.stage.provenance import git_commit
from electrify.system.memory import keep_freed_memory, peak_memory_mb
from electrify.system.outcome import first_line
from electrify.system.progress import log
from model.devices.attention import any_backend
from model.devices.device import describe, precision_of, resolve_device
from model.electra import ElectraPretrainer
from model.watch.flops import flops_per_token, peak_flops

_PAPER_SHAPES = {"small": (128, 128), "base": (256, 512), "large": (2048, 512)}
_ROUNDS = {"cuda": (8, 20, 10), "cpu": (5, 2, 1)}  # rounds, steps in each, steps of warm-up
_LARGE_ELEMENTS = 100_000


def measure_pretraining(settings: PretrainSettings) -> PretrainFigures:
    """Ceilings, first steps, correctness, all variants in turn, what steps are made of, curves.

    Nothing is compiled before the first steps, so that these include all of it.
    """
    if settings.with_probes and settings.device == "cpu":
        run_probes(torch.device("cpu"))  # says why not
    device, config = resolve_device(settings.device), settings.config()
    if device.type == "cpu":  # as `electrify pretrain` does; the peers gain by it, too
        keep_freed_memory()
    bench = Bench(settings, config, device)
    text = curve_pool(settings, device) if settings.band_steps else None
    figures = PretrainFigures(
        bench.conditions(), peak_flops(_device_name(device), precision_of(config, device))
    )
    if settings.with_ceilings:
        log("ceilings: matrix product and copy")
        figures.ceilings = ceilings(device)
    if settings.with_probes:
        log("attention backends and widths of the head")
        figures.probes = run_probes(device)
    bench.build()
    if settings.with_peer:
        log("ours against the peer in fp64")
        with any_backend():
            figures.correct = compare_with_peer(config, bench.pool, device, bench.is_compiled)
    bench.time(figures)
    if text is not None:
        figures.band = measure_curves(settings, device, text)
    figures.loader = bench.loader()
    log(figures.loader.line())
    figures.conditions["process_peak_mb"] = peak_memory_mb()
    figures.notes += bench.notes
    figures.goals = judge(figures)
    return figures


def curve_pool(settings: PretrainSettings, device: torch.device) -> Pool:
    """Text for loss curves, of a run or the bundled sample; `ValueError` if it is too little."""
    config = settings.band_config(device)
    shape = BAND_SHAPE_ON_CPU if device.type == "cpu" else settings.shape(device)
    if settings.run:
        return shard_pool(settings.run, config, *shape)
    return sample_pool(config, *shape)


def measure_curves(settings: PretrainSettings, device: torch.device, text: Pool) -> Band:
    """Loss curves as written and fast."""
    config = settings.band_config(device)
    return measure_band(config, text, device, settings.band_steps, settings.with_peer)


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
        self.models: dict[str, ElectraPretrainer] = {}  # of ours, in one part
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
        with_padded = self.settings.with_padded and not self.settings.run
        padded = self._pool(packed=False) if with_padded else None
        self._add(OURS, lambda: self._ours(OURS))
        if self.variants and (step := self.variants[0].fast_step) is not None:
            self.how, self.is_compiled = step.how(), step.is_compiled
            if step.is_compiled and step.is_recorded:
                self._add(COMPILED_ONLY, lambda: self._ours(COMPILED_ONLY, cuda_graph="off"))
            if self.variants[0].is_fast:
                off = {"compile": "off", "cuda_graph": "off"}
                self._add(AS_WRITTEN, lambda: self._ours(AS_WRITTEN, **off))
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

    def _ours(self, name: str, **options: str) -> Variant:
        config = self.config.model_copy(update=options)
        variant, self.models[name] = make_ours(config, self.pool, self.device)
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
            self.notes.append(f"{name} did not run: {first_line(error)[:200]}")
            self.models.pop(name, None)
        else:
            self.variants.append(variant)
            if variant.num_cached:
                found = f"{variant.num_cached} pieces of code that had been compiled before"
                self.notes.append(f"{name}: its first step found {found}")
            return
        gc.collect()  # what failed refers to itself, and would keep its memory

    def time(self, figures: PretrainFigures) -> None:
        """All in turn, ours twice so that the noise is seen; then counts, memory and parts."""
        log(f"{self.num_rounds} rounds of {self.num_steps} steps of {len(self.variants)} systems")
        ours = self.variants[0]
        timed = time_in_turn(
            [*self.variants, ours], self.num_rounds, self.num_steps, self.num_warmup
        )
        *timed, again = timed
        figures.ratios = ratios_of({of.name: of for of in timed})
        figures.ratios[f"ratio_to_{AGAIN}"] = ratio(again, timed[0])
        flops = flops_per_token(self.config, self.pool.vocab_size, self.length, "joint").matmul
        for variant, found in zip(self.variants, timed, strict=True):
            system = System(
                found,
                variant.pool.name,
                self.batch_size * self.length,
                variant.tokens(),
                flops,
                variant.first_seconds,
                variant.recorded_seconds,
                step_peak_bytes(variant),
                *_count(variant),
                variant.num_cached,
            )
            figures.systems.append(system)
        figures.on_device = profile_steps(ours.run, self.device)
        for visible in self.variants:  # ours where its operators can be seen, at most one
            if visible.name in self.models and not visible.is_fast:
                figures.largest = big_tensors(record(partial(visible.run, 1)), _LARGE_ELEMENTS)
                model = self.models[visible.name]
                figures.parts = step_parts(visible, model, max(3, self.num_steps))
        figures.conditions["how"] = self.how
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


def _count(variant: Variant) -> tuple[int | None, int | None, float | None, float | None]:
    """Operators and views of a step, which a compiled one hides; on a GPU what is started there,
    and the calls that start it."""
    on_device = profile_steps(variant.run, variant.device)
    started = None if on_device is None else on_device.num_launches
    calls = None if on_device is None else on_device.num_host_calls
    if variant.is_fast:
        return None, None, started, calls
    found = record(lambda: variant.run(1))
    return found.working, found.free.total(), started, calls


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
