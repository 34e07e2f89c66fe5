"""How fast a step of pretraining is, beside what a user of `transformers` would write."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
import pydantic.dataclasses
import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.system.machine import git_commit, keep_freed_memory
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import log
from model.compiled import WARM_UPS, FastStep
from model.data import noise_key
from model.devices.device import describe, precision_of, resolve_device, synchronize
from model.log import MetricsWindow
from model.networks.batch import Batch, Noise, SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.optim import make_optimizer
from model.pretrain import Update
from tools.throughput.report import Report, Row

OURS = "electrify"  # as `electrify pretrain` runs on the device
AGAIN = "electrify, again"
PEER, COMPILED_PEER = "peer_hf_eager", "peer_hf_compiled"
_PACKAGES = ("torch", "transformers", "numpy")
_SEED = 0
BERT_SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)
BERT_VOCAB_SIZE = 30_522
_FIRST_WORD = 999  # where the words of BERT's vocabulary begin, after special and unused pieces
_POOL = 16  # batches that are made before any clock runs, then used round and round
# of no paper: for trying the command out
_TINY = SIZE_PRESETS["small"] | {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "embedding_size": 16,
    "generator_hidden_fraction": 0.5,
}
_TINY_LENGTH = 32
# sequences a step, each of the size's length: what fits beside the peers
_BATCH_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"cuda": 4, "cpu": 4},
    "small": {"cuda": 128, "cpu": 16},
    "base": {"cuda": 64, "cpu": 2},
    "large": {"cuda": 16, "cpu": 1},
    "modern-small": {"cuda": 128, "cpu": 16},
    "modern-base": {"cuda": 32, "cpu": 1},
}
_SizeName = Literal["tiny", "small", "base", "large", "modern-small", "modern-base"]
_ROUNDS = {"cuda": (8, 20, 10), "cpu": (5, 2, 1)}  # rounds, steps in each, steps of warm-up
_MEANING = """
Medians over rounds. Text follows Zipf's law in full sequences. Times as fast: the median over
rounds of the ratio within the round, by the clock. peer_hf: the step that a user of transformers
writes, as it is and under torch.compile, on the same weights and text. Electrify, again: the noise
of this run.
"""


@pydantic.dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured; None is the device's own choice."""

    peer: Annotated[bool, "measure the step of a user of transformers, too"] = False
    device: Annotated[Literal["auto", "cpu", "cuda"], "where"] = "auto"
    precision: Annotated[Literal["auto", "fp32", "bf16", "fp16"], "of products"] = "auto"
    size: Annotated[_SizeName, "tiny is of no paper"] = "small"
    batch_size: Annotated[PositiveInt | None, "sequences a step"] = None
    rounds: Annotated[PositiveInt | None, "of all systems in turn"] = None
    steps: Annotated[PositiveInt | None, "of each system in a round"] = None
    dropout: Annotated[float | None, "of both networks"] = None
    vocab_size: Annotated[PositiveInt, "pieces"] = BERT_VOCAB_SIZE

    def config(self) -> PretrainConfig:
        """The paper's values of the size."""
        preset = _TINY if self.size == "tiny" else SIZE_PRESETS[self.size] | {"size": self.size}
        chosen: dict[str, object] = {"device": self.device, "precision": self.precision}
        if self.dropout is not None:
            names = "hidden_dropout_prob", "attention_probs_dropout_prob"
            chosen |= dict.fromkeys(names, self.dropout)
        return PretrainConfig.model_validate(preset | chosen)


@dataclass(frozen=True)
class Pool:
    """Batches on the host; their draws are made anew for every step, as a run does."""

    input_ids: list[Tensor]  # each (B, L) int64
    token_type_ids: list[Tensor]
    slots: int
    vocab_size: int
    special: SpecialTokens

    def batch(self, step: int, device: torch.device) -> Batch:
        """The batch of a step as a run has it."""
        ids = self.input_ids[step % len(self.input_ids)]
        types = self.token_type_ids[step % len(self.input_ids)]
        number, length = ids.shape
        noise = Noise.draw(noise_key(0, step), number, length, self.slots)
        return Batch(ids, types, noise, torch.zeros(number, dtype=torch.int64)).to(device)


def zipf_pool(
    config: PretrainConfig, batch_size: int, length: int, vocab_size: int, special: SpecialTokens
) -> Pool:
    """Full pairs of segments, of words whose rank r comes 1 / r of the time."""
    rng = np.random.default_rng(_SEED)
    first = _FIRST_WORD if vocab_size > 2 * _FIRST_WORD else 0
    taken = {special.pad, special.cls, special.sep, special.mask}
    words = np.array([word for word in range(first, vocab_size) if word not in taken])
    chances = 1.0 / np.arange(1, len(words) + 1)
    ids_of, types_of = [], []
    for _ in range(_POOL):
        ids = rng.choice(words, (batch_size, length), p=chances / chances.sum())
        middles = rng.integers(4, length - 3, (batch_size, 1))
        column = np.arange(length)
        ids[:, 0] = special.cls
        ids[(column == middles) | (column == length - 1)] = special.sep
        ids_of.append(torch.from_numpy(ids))
        types_of.append(torch.from_numpy((column > middles).astype(np.int64)))
    return Pool(ids_of, types_of, config.num_masked(length), vocab_size, special)


@dataclass
class System:
    """One system; `step` does a whole update, copy and draws included."""

    step: Callable[[int], None]
    device: torch.device
    fast_step: FastStep | None = None  # of ours
    num_steps: int = 0  # done
    wall: list[float] = field(default_factory=list)  # seconds a step, one figure a round

    def run(self, num_steps: int) -> None:
        """So many updates, without waiting for the device."""
        for _ in range(num_steps):
            self.step(self.num_steps)
            self.num_steps += 1

    def run_first(self) -> None:
        """The first update, which compiles and allocates; a step that can be is then recorded."""
        self.run(1)
        synchronize(self.device)
        if self.fast_step is not None and self.fast_step.is_recorded:
            self.run(WARM_UPS)  # the last of them records
            synchronize(self.device)

    def time_round(self, num_steps: int) -> None:
        """Note the seconds of a step in the mean over so many."""
        synchronize(self.device)
        start = time.perf_counter()
        self.run(num_steps)
        synchronize(self.device)
        self.wall.append((time.perf_counter() - start) / num_steps)


def make_model(config: PretrainConfig, pool: Pool) -> ElectraPretrainer:
    """Ours on the CPU, the same weights each time."""
    torch.manual_seed(_SEED)
    return ElectraPretrainer(config, pool.vocab_size, pool.special)


def make_ours(config: PretrainConfig, pool: Pool, device: torch.device) -> System:
    """Steps as a run takes them."""
    model = make_model(config, pool).to(device)
    optimizer, window = make_optimizer(model, config), MetricsWindow(["Zipf"], device)
    fast_step = Update(model, optimizer, config, window, _SEED)

    def step(number: int) -> None:
        fast_step([pool.batch(number, device)], number)

    return System(step, device, fast_step)


def make_peer(config: PretrainConfig, pool: Pool, device: torch.device, compiled: bool) -> System:
    """The peer: eager with batched AdamW, or compiled with fused AdamW."""
    # transformers takes seconds to import, and a run without the peer does not need it
    from tools.throughput.electra_peer import make_peer_optimizer, peer_of, peer_step

    peer = peer_of(make_model(config, pool)).to(device)
    optimizer = make_peer_optimizer(peer, config, fused=compiled)
    called: nn.Module = torch.compile(peer) if compiled else peer  # type: ignore[assignment]
    ids, types = pool.input_ids, pool.token_type_ids
    if device.type == "cuda":  # from other memory a copy would wait for the GPU
        ids, types = ([tensor.pin_memory() for tensor in tensors] for tensors in (ids, types))

    def step(number: int) -> None:
        place = number % len(ids)
        rows = ids[place].to(device, non_blocking=True)
        kinds = types[place].to(device, non_blocking=True)
        peer_step(called, optimizer, rows, kinds, config, pool.special, number)

    return System(step, device)


def measure(settings: Settings) -> Report:
    """First steps, then all systems in turn, ours a second time so that the noise is seen.

    Nothing is compiled before the first steps, so that these include all of it. `UserError` where
    one cannot run.
    """
    device, config = resolve_device(settings.device), settings.config()
    if device.type == "cpu":  # as `electrify pretrain` does; the peers gain by it, too
        keep_freed_memory()
    length = _TINY_LENGTH if settings.size == "tiny" else config.sequence_length
    batch_size = settings.batch_size or _BATCH_SIZES[settings.size][device.type]
    if settings.peer and config.architecture == "modern":
        raise UserError(f"--peer --size {settings.size}: transformers has no such ELECTRA")
    rounds, steps, warmup = _ROUNDS[device.type]
    rounds, steps = settings.rounds or rounds, settings.steps or steps
    conditions = {
        "size": settings.size,
        "batch_size": batch_size,
        "sequence_length": length,
        "vocab_size": settings.vocab_size,
        "dropout": config.hidden_dropout_prob,
        "device": describe(device),
        "precision": precision_of(config, device),
        "rounds": rounds,
        "steps_per_round": steps,
        "git_commit": git_commit(),
    }
    report = Report("A step of pretraining", _PACKAGES, conditions)
    pool = zipf_pool(config, batch_size, length, settings.vocab_size, BERT_SPECIAL)
    make: dict[str, Callable[[], System]] = {OURS: lambda: make_ours(config, pool, device)}
    if settings.peer:
        make[PEER] = lambda: make_peer(config, pool, device, compiled=False)
        make[COMPILED_PEER] = lambda: make_peer(config, pool, device, compiled=True)
    systems: dict[str, System] = {}
    for name in make:
        log(f"first step of {name}")
        systems[name] = make[name]()
        try:
            systems[name].run_first()
        except RuntimeError as error:  # out of memory, or a compiler that is not there
            raise UserError(
                f"{name}: {first_line(error)[:200]}: try a smaller --batch-size"
            ) from error
    step = systems[OURS].fast_step
    assert step is not None
    conditions["how"] = step.how()
    log(f"{rounds} rounds of {steps} steps of {len(systems)} systems")
    for system in systems.values():
        system.run(warmup)
    systems[AGAIN] = replace(systems[OURS], wall=[])
    for number in range(rounds):  # in alternating order, so that drift meets all of them alike
        turn = list(systems.values())
        for system in turn if number % 2 == 0 else reversed(turn):
            system.time_round(steps)
    ours, num_tokens = systems[OURS], batch_size * length
    rows: list[Row] = []
    for name, system in systems.items():
        seconds = statistics.median(system.wall)
        ratios = [a / b for a, b in zip(system.wall, ours.wall, strict=True)]
        row = {
            "system": name,
            "ms_per_step": 1000 * seconds,
            "tokens_per_second": num_tokens / seconds,
            "ours_is_times_as_fast": None if system is ours else statistics.median(ratios),
        }
        rows.append(row)
    report.add("systems", "Systems", _MEANING, rows)
    return report
