"""This machine: how many cores are ours, how threads wait on them, who else is there, and whether
the CPU multiplies bf16 faster than fp32.

A CPU without units for bf16 emulates it: a product then takes many times as long as one of fp32.
"""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from electrify.system.progress import log, warn

Precision = Literal["fp32", "bf16"]
_CPUINFO = Path("/proc/cpuinfo")
_BF16_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")  # x86, x86, arm
_NO_UNITS = "no units for bf16"
_ROUNDS = 10
_LOADED = 1.5  # load average a core from which other programs slow ours, whose own share is about 1


def prepare_threads() -> None:
    """Let OpenMP threads sleep while they wait, a thread a core; what the user has set stays.

    OpenMP reads this when torch is imported, so call it before. By default libgomp's threads spin
    for 3 ms, and libiomp's for 200 ms, before they sleep: beside another program, which needs
    the core that they hold, a training step takes several times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # libiomp's KMP_BLOCKTIME follows it
    os.environ.setdefault("OMP_NUM_THREADS", str(num_cores()))


def prepare_imports() -> None:
    """Let no process that we start take a file of the working directory for a package of ours.

    `python -m`, by which Beam starts its workers, looks there first. A checkout that is not
    installed, which is found there alone, stays as it is.
    """
    if Path.cwd() != Path(__file__).parents[2]:
        os.environ.setdefault("PYTHONSAFEPATH", "1")


def num_cores() -> int:
    """Cores that this process may use; two hyper-threads of one core count once."""
    return len({_core_of(cpu) for cpu in _cpus()})


def num_cpus() -> int:
    """Hyper-threads that this process may use."""
    return len(_cpus())


def _cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _core_of(cpu: int) -> str:
    """All hyper-threads of a core have the same answer."""
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "core_cpus_list").read_text()
    except OSError:  # a system that does not say it
        return str(cpu)


def load_warning() -> str | None:
    """What to tell the user where other programs keep this machine busy."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < _LOADED * cores:
        return None
    return (
        f"the load average is {load:.1f} on {cores} cores: other programs slow this one down, and "
        "speeds measured now say little"
    )


def cpu_name() -> str:
    """As `AMD EPYC 9B14`; the architecture where the system does not tell."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def bf16_flag() -> str | None:
    """The flag by which the CPU says that it has units for bf16; None where there is none.

    Systems other than Linux do not tell.
    """
    flags = (_cpuinfo("flags") or _cpuinfo("Features")).split()  # x86, arm
    return next((flag for flag in _BF16_FLAGS if flag in flags), None)


def _cpuinfo(field: str) -> str:
    """A field of the first core; empty where the system has none."""
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.is_file() else []
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in fields if name.strip() == field), "")


@dataclass(frozen=True)
class CpuBf16:
    """What bf16 is worth on this CPU."""

    flag: str | None
    speedup: float  # seconds of a product in fp32 over those in bf16

    @classmethod
    def measured(cls, fp32: Any, bf16: Any) -> Self:
        """By the square of one matrix in both types.

        The least time of several counts: other work on the machine only adds to it.
        """
        seconds = [[_seconds(matrix) for matrix in (fp32, bf16)] for _ in range(_ROUNDS)]
        least = [min(times) for times in zip(*seconds, strict=True)]
        return cls(bf16_flag(), least[0] / least[1])

    @property
    def auto(self) -> Precision:
        """What `precision = "auto"` is. Both must speak for bf16: the flag is the same each time,
        and the time tells where the flag is there and torch does not use it. With units for bf16 a
        product takes half of the time or less, without them several times as long, so that a busy
        machine does not change the answer."""
        return "bf16" if self.flag is not None and self.speedup > 1 else "fp32"

    def report(self, key: str, asked: str, taken: str) -> None:
        """Log what was `taken`, and why; warn where bf16 is slower than fp32."""
        ratio = f"a product in bf16 takes {1 / self.speedup:.3g} times as long as in fp32"
        cpu = f"{cpu_name()}, {self.flag or _NO_UNITS}"
        if taken == "bf16" and self.speedup < 1:
            then = f"Set {key} = 'auto'" if asked == "bf16" else "This run was begun in bf16"
            warn(f"{key}: {ratio} on this CPU ({cpu}). {then}; a run begun in fp32 is faster here")
        else:
            log(f"{key}: {taken} ({cpu}; {ratio})")


def describe_precision(key: str, asked: str) -> str:
    """What will be computed in on a CPU, before anything is measured."""
    flag = bf16_flag()
    what = f"{key} = {asked!r} on this CPU ({cpu_name()}, {flag or _NO_UNITS}): "
    if asked == "auto":
        return what + ("bf16 if a product timed at the start is faster" if flag else "fp32")
    if asked == "bf16" and flag is None:
        return what + "emulated, several times slower than fp32; auto takes fp32"
    return what + asked


def _seconds(matrix: Any) -> float:
    start = time.perf_counter()
    matrix @ matrix
    return time.perf_counter() - start
