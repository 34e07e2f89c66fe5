"""Threads a core that is ours, and what bf16 is worth on a CPU."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from electrify.system import machine
from electrify.system.machine import cpu_name, return_freed_memory


def test_a_thread_for_each_core_that_is_ours(monkeypatch):
    """Of a process that may use CPUs 0, 1, 2 and 5; 0 and 1 are of one core, 2 and 3 of another."""
    cores = {0: "0-1", 1: "0-1", 2: "2-3", 5: "4-5"}
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(cores))
    monkeypatch.setattr(machine, "_core_of", cores.__getitem__)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    machine.prepare_threads()
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    os.environ["OMP_NUM_THREADS"] = "7"  # what the user has set stays
    machine.prepare_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"


X86 = "processor : 0\nmodel name : AMD EPYC 9B14\nflags : fpu avx2 {}\n\nprocessor : 1\nflags : no"
ARM = "processor : 0\nBogoMIPS : 243.75\nFeatures : fp asimd {}\nCPU part : 0xd40\n"


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
def test_the_flag_is_that_of_the_first_core(text, flag, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(text)
    assert machine.bf16_flag() == flag
    assert machine.cpu_precision() == ("bf16" if flag else "fp32")
    assert cpu_name()
    if "EPYC" in text:
        assert cpu_name() == "AMD EPYC 9B14"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_are_utf8_and_output_never_fails_in_any_locale(tmp_path: Path, locale: str):
    """In the C locale without UTF-8 mode Python reads names as ASCII, and cannot print Hangul."""
    (tmp_path / "한글.txt").touch()
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nfrom electrify.system.machine import use_utf8\nuse_utf8()\n"
        f"print(ascii(os.listdir({os.fspath(tmp_path)!r})))\nprint('나 \\U0001f600', sys.argv[1])\n"
    )
    off = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    asked = {"PYTHONIOENCODING": "cp949"} if locale != "C" else {}
    environment = os.environ | off | asked
    done = subprocess.run([sys.executable, script, "b"], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    names, said = done.stdout.splitlines()
    assert ascii("한글.txt").encode() in names
    assert said.endswith(rb"\U0001f600 b" if asked else b" b")
    assert said.startswith("나".encode("cp949") if asked else b"")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it tunes glibc alone")
def test_large_blocks_are_used_again():
    """Pages are touched anew by how much depends on their size."""
    program = (
        "import resource, sys\n"
        "from electrify.system.machine import keep_freed_memory\n"
        "assert sys.argv[1] != 'keep' or keep_freed_memory()\n"
        "for number in range(8):\n"
        "    if number == 3:\n"
        "        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    block = bytearray(b'1') * 80_000_000\n"
        "    del block\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )

    def faults(mode: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", program, mode], text=True))

    assert 5 * faults("keep") < faults("default")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_holes_in_the_heap_are_given_back():
    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6

    blocks = [bytes(4000 + i % 7) for i in range(20_000)]
    last = blocks[-1]  # at the top of the heap, so nothing below it goes back by itself
    before = resident_mb()
    del blocks[:-1]
    return_freed_memory()
    assert resident_mb() < before - 50
    assert last


def test_an_extra_names_what_it_lacks_and_what_is_too_old(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if name == "onnx":
            raise PackageNotFoundError(name)
        return {"torch": "2.4.0+cpu"}.get(name, "4.66")

    asked_for = ["tqdm>=4.66", 'torch>=2.9; extra == "model"', 'onnx>=1.20; extra == "onnx"']
    monkeypatch.setattr(machine, "version", version)
    monkeypatch.setattr(machine, "requires", lambda _: asked_for)
    too_old = "torch>=2.9 is needed, 2.4.0+cpu is installed"
    assert machine.unmet_requirements("model") == [too_old]
    assert machine.unmet_requirements("onnx") == ["onnx>=1.20 is missing"]
    assert machine.unmet_requirements("pipeline") == []
