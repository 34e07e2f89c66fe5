"""What one step puts on a GPU, by the profiler: kernels, how long each runs, calls of the host."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

# what kernels are for, by their names; the first that fits
_KINDS = (
    ("attention", r"flash|fmha|sdpa|attention|softmax_warp"),
    ("matrix products", r"gemm|nvjet|cutlass|cublas|xmma|splitk|wgmma"),
    ("optimizer and norms of gradients", r"multi_tensor|adam|foreach|lpnorm"),
    ("fused by the compiler", r"^triton_"),
    ("sorting and scattering", r"sort|radix|scatter|index|gather|embedding|cub::"),
    ("copies and fills", r"memcpy|memset|copy|fill"),
)
OTHER = "others"
# calls of the host that start work on the device
_STARTS = re.compile(r"^cu(da)?(LaunchKernel|GraphLaunch|Memcpy\w*Async|Memset\w*Async)")


@dataclass(frozen=True)
class Kernel:
    """All runs in a step of the kernels of one name."""

    name: str
    count: float  # a step
    seconds: float  # a step

    @property
    def kind(self) -> str:
        """What it is for, as far as its name tells."""
        return kind_of(self.name)


@dataclass(frozen=True)
class OnDevice:
    """A step as the device saw it."""

    kernels: list[Kernel] = field(default_factory=list)  # copies too; the longest first
    num_host_calls: float = 0.0  # a step, that started kernels, copies or graphs

    @property
    def num_launches(self) -> float:
        """Kernels and copies of a step, whoever started them."""
        return sum(kernel.count for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        """The device's time in them; without gaps, but twice where two run at once."""
        return sum(kernel.seconds for kernel in self.kernels)

    def by_kind(self) -> list[Kernel]:
        """One row a kind, the longest first."""
        kinds = {kernel.kind for kernel in self.kernels}
        rows = [_sum(kind, (k for k in self.kernels if k.kind == kind)) for kind in kinds]
        return sorted(rows, key=lambda row: -row.seconds)


def _sum(name: str, kernels: Iterable[Kernel]) -> Kernel:
    found = list(kernels)
    return Kernel(name, sum(k.count for k in found), sum(k.seconds for k in found))


def kind_of(name: str) -> str:
    """Of a kernel."""
    return next((kind for kind, of in _KINDS if re.search(of, name.lower())), OTHER)


def profile_steps(
    run: Callable[[int], object], device: torch.device, num_steps: int = 3
) -> OnDevice | None:
    """`run` so many steps under the profiler; None without a GPU."""
    if device.type != "cuda":
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        run(num_steps)
        torch.cuda.synchronize(device)
    return summed(profiler.events() or (), num_steps)


def summed(events: Iterable[Any], num_steps: int) -> OnDevice:
    """The profiler's events as figures of a step."""
    found: dict[str, list[float]] = {}
    num_calls = 0
    for event in events:
        if "CUDA" in str(event.device_type):
            if not event.is_user_annotation:  # a range of names is no launch
                found.setdefault(event.name, []).append(event.time_range.elapsed_us() / 1e6)
        elif _STARTS.match(event.name):
            num_calls += 1
    kernels = [
        Kernel(name, len(seconds) / num_steps, sum(seconds) / num_steps)
        for name, seconds in found.items()
    ]
    kernels.sort(key=lambda kernel: -kernel.seconds)
    return OnDevice(kernels, num_calls / num_steps)
