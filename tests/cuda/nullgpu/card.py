"""Build the null GPU, give a process its card, and read what it counted."""

import ctypes
import os
import shutil
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parent
LIBRARY = "libcuda.so.1"
# name; capability; multiprocessors; GB
CARDS = {"T4": "Tesla T4;75;40;15.8", "H100": "NVIDIA H100 80GB HBM3;90;132;80"}
CARDS["B200"] = "NVIDIA B200;100;148;180"
_INCLUDES = ("nvidia/cu13/include", "triton/backends/nvidia/include")


def what_is_missing() -> str | None:
    """Why the null GPU cannot be built here; None if it can."""
    if shutil.which("g++") is None:
        return "the null GPU needs g++"
    missing = [name for name in _INCLUDES if not (_packages() / name).is_dir()]
    return f"the null GPU needs torch for CUDA 13, which brings {missing[0]}" if missing else None


def build(folder: Path) -> None:
    """Compile the library into an existing folder, in some four seconds."""
    subprocess.run(
        [
            *("g++", "-O0", "-fPIC", "-shared", "-std=c++17", "-fvisibility=hidden", "-w"),
            *(f"-I{_packages() / name}" for name in _INCLUDES),
            *map(str, sorted(SOURCES.glob("*.cpp"))),
            *(f"-Wl,-soname,{LIBRARY}", "-o", str(folder / LIBRARY), "-ldl", "-lpthread"),
        ],
        check=True,
    )


def environment(folder: Path, card: str = "H100") -> dict[str, str]:
    """The variables of a process that sees such a card, with the library of this folder."""
    return os.environ | {
        "LD_PRELOAD": str(folder / LIBRARY),
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "NULLGPU": CARDS[card],
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "KINETO_DISABLED": "1",  # torch's profiler asks a driver for more
    }


def is_null_gpu() -> bool:
    """Whether this process sees the null GPU."""
    return "NULLGPU" in os.environ


def reset_counts() -> None:
    ctypes.CDLL(LIBRARY).nullgpu_reset()


def counts(kernels: bool = False) -> Counter[str]:
    """How often the host called CUDA since the reset, or started each kernel, by name."""
    out = ctypes.create_string_buffer(1 << 20)
    ctypes.CDLL(LIBRARY).nullgpu_dump(out, len(out), int(kernels))
    lines = (line.split("\t", 1) for line in out.value.decode().splitlines())
    return Counter({name: int(number) for number, name in lines})


def waits(of: Counter[str]) -> int:
    """How often the host waited for the GPU."""
    return sum(
        number
        for name, number in of.items()
        if name.startswith(("sync:", "query:")) or name.endswith("the host waits")
    )


def _packages() -> Path:
    return Path(sysconfig.get_paths()["purelib"])
