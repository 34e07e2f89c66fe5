"""What `electrify doctor` finds out by training.

`--train CONFIG` says where the time of a run's steps goes on this machine. `--gpu` asks of the
user's own card: does it compute what the CPU computes, and does a CUDA graph repeat it?
"""

import copy
import math
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir
from electrify.storage.files import read_toml
from electrify.system.machine import Precision, keep_freed_memory, load_warning
from electrify.system.outcome import UserError
from electrify.system.progress import log
from model.batch import Batch, Noise, SpecialTokens
from model.data import Loader, StepData, open_shards
from model.devices.device import (
    DTYPES,
    describe,
    place_model,
    precision_of,
    resolve_device,
    synchronize,
)
from model.electra import ElectraPretrainer
from model.flops import peak_flops, run_flops
from model.masking import num_slots
from model.metrics import MetricsWindow
from model.objectives import make_pretrainer
from model.optim import make_optimizers
from model.pretrain import make_model
from model.step import WARM_UPS, FastStep, Step

SECONDS = 60.0  # that `doctor --train` takes, about
_PROFILED_STEPS = 2
_OPTIMIZER = "optimizer"
_OPTIMIZER_STEP = "Optimizer.step#"  # torch's region of the profile; in a CUDA graph there is none
_HOST = "the host: launches and waiting"
_REST = "other operators"
_TABLES = read_toml(Path(__file__).with_name("doctor.toml"))


@dataclass(frozen=True)
class StepTime:
    """Of one step, in the mean over the timed ones, in seconds."""

    total: float
    waited: float  # for the loader
    num_tokens: float  # positions, padding included
    flops: float  # of the matrix products
    parts: Mapping[str, float]  # by kind of work, waiting for the loader not included


def describe_step_time(config: RunConfig) -> Iterator[str]:
    """Lines of `doctor --train`: speed, the share of each kind of work, and what to do.

    Takes real steps for `SECONDS`, on the run's shards, and keeps nothing of them. Raises
    `UserError` where the run has no shards yet, or the device is XLA, which torch does not profile.
    """
    device = resolve_device(config.pretrain.device)
    if device.type == "xla":
        raise UserError('doctor --train with device = "xla": not possible; use "cpu" or "cuda"')
    if device.type == "cpu":
        keep_freed_memory()
    precision = precision_of(config.pretrain, device)
    step = measure(config, device, SECONDS)
    yield (
        f"a step: {1000 * step.total:,.1f} ms, {step.num_tokens / step.total:,.0f} tokens/s, "
        f"{step.flops / step.total / 1e12:.3g} TFLOP/s in {precision} on {describe(device)}"
    )
    reached = step.flops / step.total / product_speed(device, precision)
    line = f"  {reached:.0%} of what one large matrix product reaches here"
    peak = peak_flops(describe(device), precision)
    yield line if math.isnan(peak) else f"{line}; MFU {step.flops / step.total / peak:.1%}"
    shares = {"waiting for the loader": step.waited} | dict(step.parts)
    for name, part in sorted(shares.items(), key=lambda item: -item[1]):
        if part >= 0.005 * step.total:
            yield f"  {part / step.total:5.1%}  {name}"
    yield from _advice(step, precision, device)


def measure(config: RunConfig, device: torch.device, seconds: float) -> StepTime:
    """Warm up, time steps for half of `seconds` (at least one), and profile two more.

    They are of the run's last phase and stage, where most of its time goes.
    """
    options = config.pretrain
    shards = open_shards(output_dir(config) / "shards")
    data = StepData(config, shards, 0, 1)
    model = place_model(make_model(config, shards, data.last), device)
    optimizers = make_optimizers(model, options)
    run = FastStep(model, optimizers, options, device, MetricsWindow(data.last.languages, device))
    first = max(data.phases[-1].first_step, options.second_stage_step)
    first = min(first, options.num_steps - 1)

    def read(step: int) -> list[Batch]:  # the steps from `first` on, round and round
        return data.micro_batches(first + (step - first) % (options.num_steps - first))

    with Loader(read, device, first, sys.maxsize) as loader:

        def take(num_steps: int) -> None:
            for _ in range(num_steps):
                run(loader.take(), Step(first, config.seed))
                synchronize(device)

        log("warming up")
        take(WARM_UPS + 1 if run.is_recorded else 1)  # the last one is recorded
        loader.waited_seconds()
        log(f"timing steps for {seconds / 2:.0f} s")
        num_steps, start = 0, time.perf_counter()
        while num_steps == 0 or time.perf_counter() - start < seconds / 2:
            take(1)
            num_steps += 1
        total = time.perf_counter() - start
        waited = loader.waited_seconds() / num_steps
        log(f"profiling {_PROFILED_STEPS} steps")
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else it says that it starts, without a GPU
        on_gpu = [ProfilerActivity.CUDA] if device.type == "cuda" else []
        with profile(activities=[ProfilerActivity.CPU, *on_gpu]) as profiled:
            take(_PROFILED_STEPS)
    own = total / num_steps - waited
    one = run_flops(options, data.last.vocab_size, first + 1)
    before = run_flops(options, data.last.vocab_size, first)
    return StepTime(
        total / num_steps,
        waited,
        one.positions - before.positions,
        one.matmul - before.matmul,
        _parts(profiled, device, own),
    )


def _parts(profiled: profile, device: torch.device, seconds: float) -> dict[str, float]:
    """Seconds of a step by kind of work. `seconds` is a whole step, unprofiled: operators of the
    CPU have their shares of it, since a profile slows them down; beside a GPU's kernels the rest
    is the host's."""
    parts: defaultdict[str, float] = defaultdict(float)
    on_gpu = device.type == "cuda"
    for event in profiled.events() or ():  # type: ignore[no-untyped-call]
        is_region = event.name.startswith(_OPTIMIZER_STEP)
        if on_gpu == (event.device_type == DeviceType.CUDA) and not is_region:
            used = event.device_time_total if on_gpu else event.self_cpu_time_total
            parts[_kind(event)] += used / 1e6 / _PROFILED_STEPS
    busy = sum(parts.values())
    if on_gpu:
        return {**parts, _HOST: max(0.0, seconds - busy)}
    return {name: seconds * part / busy for name, part in parts.items()}


def _kind(event: Any) -> str:
    """Of an operator or a kernel; what an optimizer calls is its own."""
    above = event.cpu_parent
    while above is not None:
        if above.name.startswith(_OPTIMIZER_STEP):
            return _OPTIMIZER
        above = above.cpu_parent
    for kind, names in _TABLES["kinds"].items():
        if re.search(names, event.name, re.IGNORECASE):
            return str(kind)
    return _REST


def product_speed(device: torch.device, precision: Precision) -> float:
    """FLOP/s of one large matrix product: the fastest of ten."""
    size = 8192 if device.type == "cuda" else 2048
    matrix = torch.randn(size, size, device=device, dtype=DTYPES[precision])
    fastest = math.inf
    for _ in range(10):
        synchronize(device)
        start = time.perf_counter()
        matrix @ matrix
        synchronize(device)
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * size**3 / fastest


def _advice(step: StepTime, precision: Precision, device: torch.device) -> Iterator[str]:
    """What keeps the steps from being faster, and what changes it."""
    if crowded := load_warning():
        yield f"NOTE: {crowded}"
    if step.waited > 0.05 * step.total:
        yield (
            "bottleneck: the loader, which reads shards and draws masks in one thread: is their "
            "disk slow, or are all cores busy?"
        )
        return
    if precision == "fp32" and device.type == "cuda":
        yield (
            "bf16 is not used: pretrain.precision is fp32, or this GPU has no units for it; it may "
            "be fp16 then"
        )
    largest = max(step.parts, key=lambda name: step.parts[name])
    advice = _TABLES["advice"].get(largest, "which is what a fast step should be spent on")
    yield f"bottleneck: {largest}; {advice}"


# --- the GPU --------------------------------------------------------------------------------------

_ROWS, _LENGTH, _VOCAB_SIZE = 4, 32, 200
_TINY: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "embedding_size": 32,
    "generator_hidden_fraction": 0.5,
    "sequence_length": _LENGTH,
    "max_position_embeddings": _LENGTH,
    "num_steps": 100,
    "warmup_steps": 2,
    "learning_rate": 1e-3,
}
_ARCHITECTURES: dict[str, dict[str, Any]] = {
    "electra": {},
    "modern": {"architecture": "modern", "optimizer": "muon", "layer_norm_eps": 1e-5},
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_NUM_STEPS = WARM_UPS + 2  # so that two of a recording are replays
# rounding, in bf16 and in Muon's products in bf16, stays below it; a frozen number makes 1e-1
_LIMIT = 1e-2


@dataclass(frozen=True)
class Agreement:
    """The largest relative difference between two trainings."""

    what: str
    difference: float

    @property
    def agrees(self) -> bool:
        return self.difference <= _LIMIT  # False for nan

    def __str__(self) -> str:
        words = f"{self.what}: largest difference {self.difference:.1e}, limit {_LIMIT:.0e}"
        return words if self.agrees else f"PROBLEM: {words}"


def compare_gpu() -> Iterator[Agreement]:
    """CUDA against the CPU, and a replay against the step as written, for each architecture.

    `UserError` where torch sees no GPU.
    """
    if not torch.cuda.is_available():
        raise UserError("--gpu: torch sees no CUDA device here; call it where `doctor` lists one")
    device = resolve_device("cuda")
    for name, options in _ARCHITECTURES.items():
        model = _network(options | _NO_DROPOUT | {"precision": "fp32"})
        torch.set_float32_matmul_precision("highest")  # products in fp32, not in TF32
        cpu = _trained(model, torch.device("cpu"), 3)
        cuda = _trained(model, device, 3, cuda_graph="off")
        resolve_device("cuda")  # which allows TF32 again
        what = f"{describe(device)} against the CPU, {name}"
        yield Agreement(what, _difference(cuda, cpu))
        model = _network(options)
        precision = precision_of(model.config, device)
        written = _trained(model, device, _NUM_STEPS, cuda_graph="off")
        replayed = _trained(model, device, _NUM_STEPS, cuda_graph="on")
        what = f"a CUDA graph against the step as written, {name}, {precision}"
        yield Agreement(what, _difference(replayed, written))


def _network(options: dict[str, Any]) -> ElectraPretrainer:
    preset = SIZE_PRESETS["small"] | {"device": "cuda", "compile": "off"}
    config = PretrainConfig.model_validate(preset | _TINY | options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make_pretrainer(config, _VOCAB_SIZE, SpecialTokens(0, 2, 3, 4), None)
        for parameter in model.parameters():
            if parameter.dim() == 1:  # a step of Adam beside a bias of zero would be all of it
                parameter.data += torch.normal(0.0, 0.3, parameter.shape)
    return model


def _trained(
    model: ElectraPretrainer, device: torch.device, num_steps: int, **options: object
) -> dict[str, Tensor]:
    """A copy of the network after so many steps: its weights, and the norms of all gradients."""
    model = copy.deepcopy(model).to(device)
    model.config = model.config.model_copy(update={"device": device.type, **options})
    optimizers = make_optimizers(model, model.config)
    step = FastStep(model, optimizers, model.config, device, MetricsWindow(["text"], device))
    norms = []
    for number in range(num_steps):
        _, norm = step([_batch(model.config, number).to(device)], Step(number, seed=5))
        norms.append(norm.cpu().clone())
    # the gradient of a key's bias is 0 but for rounding, which Adam makes a step of
    weights = {n: p.detach().cpu() for n, p in model.named_parameters() if "key.bias" not in n}
    return weights | {"gradients": torch.stack(norms)}


def _batch(config: PretrainConfig, seed: int) -> Batch:
    """Rows of random tokens, each with padding of its own length."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, _VOCAB_SIZE, (_ROWS, _LENGTH), generator=rng)
    ends = torch.randint(_LENGTH // 2, _LENGTH + 1, (_ROWS, 1), generator=rng)
    places = torch.arange(_LENGTH)
    ids = ids.masked_fill(places == ends - 1, 3).masked_fill(places >= ends, 0)
    ids[:, 0] = 2
    noise = Noise.draw(seed, _ROWS, _LENGTH, num_slots(config, _LENGTH))
    languages = torch.zeros(_ROWS, dtype=torch.int64)
    return Batch(ids, torch.zeros_like(ids), noise, languages, packed=False)


def _difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest norm of a difference beside the norm of what it is a difference of."""
    pairs = ((one[name].double(), value.double()) for name, value in other.items())
    relative = [((a - b).norm() / b.norm().clamp(min=1e-3)) for a, b in pairs]
    return float(torch.stack(relative).max())
