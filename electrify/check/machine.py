"""What `electrify doctor` says of this machine and of what is installed."""

import os
import shutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from electrify.system.machine import (
    load_warning,
    num_cores,
    unmet_requirements,
    unusable_gpu,
    versions,
)

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
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        lines.append("PROBLEM: Python 3.11, 3.12 or 3.13 is needed")
        sound = False
    for extra in _EXTRAS:
        unmet = unmet_requirements(extra)
        # an extra that is not installed may not be wanted; a library of another version is a fault
        sound &= all(line.endswith("is missing") for line in unmet)
        fix = f"{', '.join(unmet)}: pip install 'electrify[{extra}]'" if unmet else "ok"
        lines.append(f"[{extra}] {fix}")
    lines += [f"  {name} {number}" for name, number in versions().items()]
    gpus, is_usable = check_gpus()
    return lines + gpus, sound and is_usable


def check_gpus() -> tuple[list[str], bool]:
    """A line for each GPU that torch sees; False if there is one that it cannot use."""
    if find_spec("torch") is None:
        has_card = Path("/dev/nvidiactl").exists()
        return ["GPU: NVIDIA, but torch is not installed"] if has_card else [], True
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        if problem := unusable_gpu(torch.__version__, torch.version.cuda):
            return [f"PROBLEM: {problem}"], False
        return ["GPU: none that torch can use"], True
    built_for = torch.cuda.get_arch_list()
    lines, is_usable = [], True
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        free = torch.cuda.mem_get_info(number)[0] / 2**30
        line = (
            f"GPU {number}: {card.name}, capability {card.major}.{card.minor}, {free:.0f} of "
            f"{card.total_memory / 2**30:.0f} GiB free, CUDA {torch.version.cuda}"
        )
        if all(int(arch.rpartition("_")[2]) > 10 * card.major + card.minor for arch in built_for):
            line = f"PROBLEM: {line}: this torch is built for {', '.join(built_for)} alone"
            is_usable = False
        elif card.major < 8:
            line += "; no units for bf16, so precision is fp32 (pretrain.precision may be fp16)"
        lines.append(line)
    return lines, is_usable
