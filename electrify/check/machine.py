"""`electrify doctor`: this machine, and what is installed."""

import os
import shutil
import sys

from electrify.stage.provenance import unmet_requirements, versions
from electrify.system.machine import load_warning, num_cores

_EXTRAS = ("pipeline", "model", "benchmarks")  # what `electrify run CONFIG` needs


def check_machine() -> tuple[list[str], bool]:
    """Facts about this machine and what is installed; False if something needed is missing."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        f"python {sys.version.split()[0]}, {os.cpu_count()} cores ({num_cores()} for this process),"
        f" {memory:.0f} GiB memory, {shutil.disk_usage('.').free / 2**30:.0f} GiB free here"
    ]
    if crowded := load_warning():
        lines.append(f"NOTE: {crowded}")
    sound = True
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        lines.append("PROBLEM: Python 3.11 or 3.12 is needed")
        sound = False
    for extra in _EXTRAS:
        unmet = unmet_requirements(extra)
        # an extra that is not installed may not be wanted; a library of another version is a fault
        sound &= all(line.endswith("is missing") for line in unmet)
        fix = f"{', '.join(unmet)}: pip install 'electrify[{extra}]'" if unmet else "ok"
        lines.append(f"[{extra}] {fix}")
    lines += [f"  {name} {number}" for name, number in versions().items()]
    return lines, sound
