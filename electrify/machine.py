"""The cores of this machine: how many are ours, how threads wait on them, and who else is there."""

import os
from pathlib import Path

_LOADED = 1.5  # load average a core from which other programs slow ours, whose own share is about 1


def prepare_threads() -> None:
    """Let OpenMP threads sleep while they wait, a thread a core; what the user has set stays.

    OpenMP reads this when torch is imported, so call it before. By default libgomp's threads spin
    for 3 ms, and libiomp's for 200 ms, before they sleep: beside another program, which needs
    the core that they hold, a training step takes several times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # libiomp's KMP_BLOCKTIME follows it
    os.environ.setdefault("OMP_NUM_THREADS", str(num_cores()))


def num_cores() -> int:
    """Cores that this process may use; two hyper-threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_core_of(cpu) for cpu in os.sched_getaffinity(0)})


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
