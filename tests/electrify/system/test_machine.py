"""Threads a core that is ours, which sleep while they wait; and a busy machine is named."""

import os
import subprocess
import sys

import pytest

from electrify.overview import check_machine
from electrify.system import machine


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


def test_what_the_user_has_set_stays(ours, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    machine.prepare_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_cpus_of_a_system_that_says_nothing_of_cores_count_each():
    assert len({machine._core_of(cpu) for cpu in (10**6, 10**6 + 1)}) == 2


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
