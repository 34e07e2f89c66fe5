"""This machine: its cores and memory, whether its CPU multiplies bf16 fast, what is installed.

A CPU without units for bf16 emulates it: a product then takes many times as long as one of fp32.
Memory is in MB of 10^6 bytes.
"""

import codecs
import ctypes
import io
import os
import platform
import re
import resource
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

Precision = Literal["fp32", "bf16", "fp16"]
_CPUINFO = Path("/proc/cpuinfo")
_BF16_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")  # x86, x86, arm


def use_utf8() -> None:
    """Let names of files be UTF-8 in every locale, and what a terminal cannot show be escapes.

    Python takes the encoding of names from the locale when it starts: where that is another one,
    the command begins again in UTF-8 mode (PEP 540). The terminal keeps its encoding.
    """
    is_first = "ELECTRIFY_UTF8" not in os.environ  # an option of Python may forbid it again
    if is_first and codecs.lookup(sys.getfilesystemencoding()).name != "utf-8":
        encoding = f"{sys.stdout.encoding}:backslashreplace"
        os.environ |= {"ELECTRIFY_UTF8": "1", "PYTHONUTF8": "1", "PYTHONIOENCODING": encoding}
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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


def num_ranks() -> int:
    """Processes that `torchrun` started together with this one; 1 without it.

    `torchrun` gives each its LOCAL_RANK. Some hosts export WORLD_SIZE alone, which starts nothing.
    """
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


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
    except OSError:  # a system that does not tell
        return str(cpu)


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
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.is_file() else []
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in fields if name.strip() == field), "")


def gpu_precision(capability: tuple[int, int]) -> Precision:
    """That of matrix products on a GPU: bf16 where it has units for it. Older ones (V100, T4) only
    emulate it."""
    return "bf16" if capability >= (8, 0) else "fp32"


def cpu_precision() -> Precision:
    """That of matrix products on this CPU: bf16 where it has units for it."""
    return "bf16" if bf16_flag() else "fp32"


def describe_precision(key: str, asked: str) -> str:
    """What is computed in on this CPU, and why; `asked` may be "auto"."""
    flag = bf16_flag()
    taken = cpu_precision() if asked == "auto" else asked
    line = f"{key}: {taken} on this CPU ({cpu_name()}, {flag or 'no units for bf16'})"
    if taken == "bf16" and flag is None:
        line += ": emulated, several times slower than fp32"
    return line


# --- memory -------------------------------------------------------------------------------------

_remembered_mb = 0  # marks that were set back since, here and in child processes


def peak_memory_mb() -> int:
    """Of this process and its children, whichever is larger, since their start."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    peaks = (resource.getrusage(kind).ru_maxrss * unit // 10**6 for kind in kinds)
    return max(_remembered_mb, *peaks)


def remember_peak_of(process: int | None) -> None:
    """Let `peak_memory_mb` count a process that runs now, and that this one will not wait for;
    nothing where the system (not Linux) does not tell its peak."""
    global _remembered_mb
    with suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        if match := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE):
            _remembered_mb = max(_remembered_mb, int(match[1]) * 1024 // 10**6)


# malloc.h of glibc, which alone has these calls; elsewhere the functions below do nothing
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -3, -4, -8
_TOP_PAD_BYTES = 64 << 20
_KEPT_BYTES = 16 << 20  # at the top of the heap, for the next batch of texts
_MAPPED_BYTES = 4 << 20  # a bigger block is a mapping of its own and goes when it is freed


def keep_freed_memory() -> bool:
    """Keep freed blocks for the next request, in this process; whether the C library can.

    Training on a CPU frees and asks for the same tensors each step. By default glibc gives large
    blocks back to the system, which must then clear every page again: half of the time of a small
    model's step on two cores (1.7 -> 5.6 steps a second, measured). Resident memory stays at its
    peak. The environment's own settings (MALLOC_*) are overridden.
    """
    return _set_malloc(
        (_M_MMAP_MAX, 0),  # no mapping of its own for a large block
        (_M_TRIM_THRESHOLD, -1),  # nothing is given back
        (_M_TOP_PAD, _TOP_PAD_BYTES),
        (_M_ARENA_MAX, 1),  # the backward pass, in a thread of its own, finds the same blocks
    )


@cache
def keep_little_memory() -> None:
    """Once a process, early: one heap for all threads, and Arrow's columns in it too.

    Allocators keep what is freed, and each process keeps its own: by default both thresholds grow
    up to 32 and 64 MB. Peak for 273 MB of text in one process: 580 MB in place of 830.
    """
    if _set_malloc(
        (_M_ARENA_MAX, 1),
        (_M_TRIM_THRESHOLD, _KEPT_BYTES),
        (_M_MMAP_THRESHOLD, _MAPPED_BYTES),
    ):
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


def return_freed_memory() -> None:
    """Give freed pages back to the system; about a millisecond for each 100 MB of heap."""
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    if libc := _glibc():
        libc.malloc_trim(0)


def _set_malloc(*settings: tuple[int, int]) -> bool:
    """Make each setting, whatever the others; whether the C library took all."""
    libc = _glibc()
    accepted = [libc.mallopt(*setting) for setting in settings] if libc else [0]
    return all(accepted)


@cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


# --- what is installed --------------------------------------------------------------------------

# beside the versions of these, results depend on no library
_VERSIONED = (
    *("electrify", "apache-beam", "datasets", "ftfy", "kiwipiepy", "numpy", "orjson", "py3langid"),
    *("pyarrow", "pycld2", "scikit-learn", "scipy", "tokenizers", "torch", "transformers"),
)


@cache  # to parse the metadata of all takes a tenth of a second
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that shape results, where installed."""
    numbers = {"python": sys.version.split()[0]}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def unmet_requirements(extra: str) -> list[str]:
    """What an extra of `pyproject.toml`, which names no other one, asks for and this Python lacks,
    or has in another version."""
    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(line) for line in requires("electrify") or ()]
    except PackageNotFoundError:
        return ["electrify itself is not installed"]
    unmet = []
    for one in requirements:
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        needed = f"{one.name}{one.specifier}"
        try:
            installed = version(one.name)
        except PackageNotFoundError:
            unmet.append(f"{needed} is missing")
        else:
            if not one.specifier.contains(installed, prereleases=True):
                unmet.append(f"{needed} is needed, {installed} is installed")
    return unmet


@cache
def git_commit() -> str | None:
    """The commit of the code, with '+' if it has uncommitted changes; None outside a checkout of
    it, or without git. As of the first call: this process has imported that code."""

    def git(*arguments: str) -> str:
        root = str(Path(__file__).parent.parent)
        command = ["git", "--no-optional-locks", "-C", root, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    # installed into an environment within another project's checkout, it is not of that commit
    commit = git("rev-parse", "--short=12", "HEAD") if git("ls-files", "--", __file__) else ""
    return commit + ("+" if git("status", "--porcelain") else "") if commit else None


def unusable_gpu(torch_version: str, cuda_version: str | None) -> str | None:
    """Why a torch that sees no GPU, built for this CUDA, cannot use the one of this machine; None
    if there is none, or torch is built without CUDA."""
    if cuda_version is None or not Path("/dev/nvidiactl").exists():
        return None
    return (
        f"an NVIDIA GPU is here, but torch {torch_version} cannot use it: it needs a driver of "
        f"CUDA {cuda_version} or later (nvidia-smi prints yours)"
    )
