"""Threads a core that is ours, a busy machine is named, and what bf16 is worth on a CPU."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from electrify.check.overview import check_machine
from electrify.system import machine
from electrify.system.machine import CpuBf16, cpu_name


@pytest.fixture
def ours(monkeypatch):
    """A process that may use CPUs 0, 1, 2 and 5; 0 and 1 are of one core, 2 and 3 of another."""
    cores = {0: "0-1", 1: "0-1", 2: "2-3", 5: "4-5"}
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(cores))
    monkeypatch.setattr(machine, "_core_of", cores.__getitem__)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)


def test_a_thread_for_each_core_that_is_ours(ours):
    machine.prepare_threads()
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    os.environ["OMP_NUM_THREADS"] = "7"  # what the user has set stays
    machine.prepare_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_the_library_of_torch_obeys(tmp_path):
    """OpenMP itself prints what it has read; torch has as many threads."""
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from electrify.system.machine import prepare_threads; prepare_threads()\n"
        "import torch; print(torch.get_num_threads())\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"OMP_DISPLAY_ENV": "verbose"},
    )
    assert done.stdout.split() == ["1"]
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr


@pytest.mark.parametrize(("load", "cores", "named"), [(3.5, 2, True), (2.2, 2, False), (20, 64, 0)])
def test_a_load_well_above_the_cores_is_named(load, cores, named, monkeypatch):
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: cores)
    warning = machine.load_warning()
    assert (warning is not None) == named
    lines, _ = check_machine()
    assert any("load average" in line for line in lines) == named


X86 = "processor : 0\nmodel name : AMD EPYC 9B14\nflags : fpu avx2 {}\n\nprocessor : 1\nflags : no"
ARM = "processor : 0\nBogoMIPS : 243.75\nFeatures : fp asimd {}\nCPU part : 0xd40\n"


class Matrix:
    """Its square takes the next of some seconds on a clock of its own."""

    clock = 0.0

    def __init__(self, seconds: Iterator[float]) -> None:
        self.seconds = seconds

    def __matmul__(self, other: "Matrix") -> "Matrix":
        Matrix.clock += next(self.seconds)
        return self


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_bf16_flag) -> Path:
    monkeypatch.setattr(machine, "bf16_flag", real_bf16_flag)
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        (X86.format("avx512f avx512_bf16"), "avx512_bf16"),
        (X86.format("avx512_bf16 amx_bf16 amx_tile"), "amx_bf16"),
        (X86.format("avx512f avx512_vnni"), None),  # units for other types only
        (ARM.format("bf16 i8mm"), "bf16"),
        (ARM.format("asimddp"), None),
        ("", None),
    ],
)
def test_the_flag_is_that_of_the_first_core(cpuinfo: Path, text: str, flag: str | None):
    cpuinfo.write_text(text)
    assert machine.bf16_flag() == flag
    assert cpu_name()
    if "EPYC" in text:
        assert cpu_name() == "AMD EPYC 9B14"


@pytest.mark.parametrize("ratio", [0.07, 8.0])
def test_the_speedup_is_the_ratio_of_least_times(monkeypatch: pytest.MonkeyPatch, ratio: float):
    """A busy machine adds to most products, but not to all of them."""
    monkeypatch.setattr(machine.time, "perf_counter", lambda: Matrix.clock)

    def busy(least: float) -> Iterator[float]:
        return iter([least * factor for factor in (30.0, 1.0, 4.0, 1.1, 2.0) * 2])

    found = CpuBf16.measured(Matrix(busy(1.0)), Matrix(busy(1 / ratio)))
    assert found.speedup == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("flag", "speedup", "auto"),
    [
        ("avx512_bf16", 2.1, "bf16"),
        ("avx512_bf16", 0.1, "fp32"),  # as with ONEDNN_MAX_CPU_ISA=AVX2
        (None, 0.07, "fp32"),
        (None, 1.3, "fp32"),
    ],
)
def test_auto_is_bf16_where_flag_and_time_say_so(flag: str | None, speedup: float, auto: str):
    assert CpuBf16(flag, speedup).auto == auto


def test_emulated_bf16_warns_with_the_ratio(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO"):
        CpuBf16(None, 1 / 14).report("pretrain.precision", "bf16", "bf16")
        CpuBf16(None, 1 / 14).report("pretrain.precision", "auto", "fp32")
        CpuBf16("amx_bf16", 4.0).report("pretrain.precision", "auto", "bf16")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]
    for part, message in (("14 times", 0), ("'auto'", 0), ("amx_bf16", 2), ("0.25 times", 2)):
        assert part in caplog.messages[message]
