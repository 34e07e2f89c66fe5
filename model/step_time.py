"""Where the time of a run's steps goes on this machine: `electrify doctor --train CONFIG`."""

import math
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir
from electrify.system.machine import Precision, keep_freed_memory, load_warning
from electrify.system.outcome import UserError
from electrify.system.progress import log
from model.batch import Batch
from model.devices.device import (
    DTYPES,
    describe,
    place_model,
    precision_of,
    resolve_device,
    synchronize,
)
from model.flops import peak_flops, run_flops
from model.pretrain import make_model
from model.train.data import Loader, StepData, open_shards
from model.train.metrics import MetricsWindow
from model.train.optim import make_optimizers
from model.train.step import WARM_UPS, FastStep, Step

SECONDS = 60.0  # that `doctor --train` takes, about
_PROFILED_STEPS = 2
_OPTIMIZER = "optimizer"
_OPTIMIZER_STEP = "Optimizer.step#"  # torch's region of the profile; in a CUDA graph there is none
_HOST = "the host: launches and waiting"
# a kind of work, and the operators of the CPU and kernels of a GPU that do it; the first that fits
_KINDS = (
    ("attention", r"attention|flash|fmha|sdp"),
    ("matrix products", r"gemm|::(add|b|badd)?mm$|linear|matmul|cutlass|nvjet|xmma|splitk"),
    (_OPTIMIZER, r"_foreach_|multi_tensor|adam"),
    ("dropout and sampling", r"dropout|bernoulli|uniform|exponential|multinomial|random|philox"),
    ("embeddings, gathers, sorts", r"embedding|index|gather|scatter|sort|topk"),
    ("copies", r"copy|memcpy|memset|::cat$|clone|CatArray"),
    ("normalisation and softmax", r"norm|softmax"),
)
_REST = "other operators"
_ADVICE = {
    _OPTIMIZER: "a larger pretrain.batch_size makes fewer updates of the same text",
    "attention": "a curriculum that begins with shorter sequences, or local attention, makes less",
    "dropout and sampling": "with enough text, hidden_dropout_prob = 0 and "
    "attention_probs_dropout_prob = 0 leave it out",
    _REST: 'pretrain.compile = "on" fuses them, where a C++ compiler is at hand',
    _HOST: 'pretrain.compile and pretrain.cuda_graph = "auto", and larger batches, launch less',
}


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
        f"{step.flops / step.total / 1e12:.2f} TFLOP/s in {precision} on {describe(device)}"
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
    shards = open_shards(output_dir(config) / "shards", ["train"])
    data = StepData(config, shards, 0, 1)
    model = place_model(make_model(config, shards, data.last), device)
    optimizers = make_optimizers(model, options)
    run = FastStep(model, optimizers, options, device, MetricsWindow(data.last.languages, device))
    first = max(data.phases[-1].first_step, options.mlm_steps, options.generator_steps)
    first = min(first, options.num_steps - 1)

    def read(step: int) -> list[Batch]:  # the steps from `first` on, round and round
        return data.micro_batches(first + (step - first) % (options.num_steps - first))

    with Loader(read, device, first, sys.maxsize) as loader:

        def take(num_steps: int) -> None:
            for number in islice(numbers, num_steps):
                run(loader.take(number), Step(first, config.seed))
                synchronize(device)

        numbers = count(first)
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
        with profile(activities=_activities(device)) as profiled:
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


def _activities(device: torch.device) -> list[ProfilerActivity]:
    on_gpu = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    return [ProfilerActivity.CPU, *on_gpu]


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
    fitting = (kind for kind, names in _KINDS if re.search(names, event.name, re.IGNORECASE))
    return next(fitting, _REST)


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
    advice = _ADVICE.get(largest, "which is what a fast step should be spent on")
    yield f"bottleneck: {largest}; {advice}"
