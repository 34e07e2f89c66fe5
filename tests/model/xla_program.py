"""Started by test_xla.py: a process that does what it is told on XLA's CPU backend.

Its environment says how many devices there are.
"""

import json
import os
import pickle
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from electrify.config.run import RunConfig
from model.devices.device import describe, num_devices, resolve_device
from model.pretrain import Trainer

READS = "aten::_local_scalar_dense"


@dataclass(frozen=True)
class Run:
    """One training."""

    config: RunConfig
    folder: Path
    goes_on_from: Path | None = None  # a checkpoint
    killed_at: int | None = None  # before this step, with the whole process


def compilations() -> int:
    """Programs that XLA has compiled so far."""
    from torch_xla.debug import metrics

    found = metrics.metric_data("CompileTime")
    return found[0] if found else 0


def reads() -> int:
    """Numbers that the host has read, each of which waits for the device."""
    from torch_xla.debug import metrics

    return metrics.counter_value(READS) or 0


def fallbacks() -> list[str]:
    """Operators that torch computed on the host, since XLA lacks them."""
    from torch_xla.debug import metrics

    return [name for name in metrics.counter_names() if name.startswith("aten::") and name != READS]


class Watched(Trainer):
    """Notes how much was compiled and read when."""

    kill_at: int | None = None
    notes: list[tuple[str, int, int]]

    def _begin_stage(self, step: int) -> None:
        if step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.note(f"before step {step}")
        super()._begin_stage(step)

    def _validate(self, step: int) -> None:
        self.note(f"before validation {step}")
        super()._validate(step)
        self.note(f"after validation {step}")

    def _save(self, step: int) -> None:
        super()._save(step)
        self.note(f"after saving {step}")

    def note(self, when: str) -> None:
        self.notes.append((when, compilations(), reads()))


def train(run: Run) -> dict[str, object]:
    """One training and what was noted; numbers are those since its beginning."""
    run.folder.mkdir(parents=True, exist_ok=True)
    if run.goes_on_from:
        shutil.copytree(run.goes_on_from, run.folder / run.goes_on_from.name)
    compiled, read = compilations(), reads()
    trainer = Watched(run.config)
    trainer.kill_at, trainer.notes = run.killed_at, []
    trainer.run(run.folder)
    notes = [(when, a - compiled, b - read) for when, a, b in trainer.notes]
    return {"notes": notes, "fallbacks": fallbacks()}


def main() -> None:
    runs: list[Run] = pickle.loads(Path(sys.argv[1]).read_bytes())
    device = resolve_device("xla")  # before the first backward pass, of any device: torch counts
    found: dict[str, object] = {"device": describe(device), "devices": num_devices(device)}
    path = Path(f"{sys.argv[1]}.json")
    path.write_text(json.dumps(found | {"runs": [train(run) for run in runs]}))


if __name__ == "__main__":
    main()
