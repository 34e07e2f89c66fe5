"""Train many tiny steps: memory and open files of the last quarter must be those of the second."""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.torture.demo import VERBS, arguments, start
from electrify.system.progress import Progress, log

MAX_GROWTH_FRACTION = 0.02  # of resident memory
SAMPLE_SECONDS = 1.0
_TINY = (
    "pretrain.num_hidden_layers=1",
    "pretrain.hidden_size=32",
    "pretrain.intermediate_size=64",
    "pretrain.num_attention_heads=1",
    "pretrain.embedding_size=32",
    "pretrain.batch_size=4",
    "encode.sequence_length=16",
    "pretrain.log_every_steps=100",
    "pretrain.valid_every_steps=1000",
    "pretrain.num_valid_batches=2",
    "pretrain.checkpoint_every_steps=500",
)


@dataclass
class SoakFigures:
    """Samples of the training process, one a second."""

    num_steps: int
    resident_mb: list[float] = field(default_factory=list)
    open_files: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def quarter(self, values: list[float] | list[int], number: int) -> float:
        """The median of one quarter of the run, from 0."""
        size = len(values) // 4
        return float(statistics.median(values[number * size : (number + 1) * size]))

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "num_steps": self.num_steps,
            "seconds": round(self.seconds, 1),
            "num_samples": len(self.resident_mb),
            "faults": self.faults,
            "resident_mb": [round(self.quarter(self.resident_mb, q), 1) for q in range(4)],
            "open_files": [self.quarter(self.open_files, q) for q in range(4)],
        }


def torture_by_soak(num_steps: int, work: Path) -> SoakFigures:
    """Pretrain `num_steps` tiny steps on the bundled sample in the folder `work`."""
    shutil.rmtree(work, ignore_errors=True)
    run, figures = work / "soak", SoakFigures(num_steps)
    steps = (f"pretrain.num_steps={num_steps}", "pretrain.warmup_steps=100")
    for stage in ("clean", "vocab", "shards"):
        _run(VERBS[stage], run, *_TINY, *steps)
    log(f"soak: {num_steps:,} steps")
    begin = time.monotonic()
    with Progress("soak", 0, "samples") as progress:

        def sample(pid: int) -> None:
            figures.resident_mb.append(_resident_mb(pid))
            figures.open_files.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
            progress.update(note=f"{figures.resident_mb[-1]:.0f} MB")

        _run("pretrain", run, *_TINY, *steps, each_second=sample)
    figures.seconds = time.monotonic() - begin
    figures.faults = _growth(figures)
    return figures


def _growth(figures: SoakFigures) -> list[str]:
    if len(figures.resident_mb) < 8:
        return [f"{len(figures.resident_mb)} samples say nothing: give it more steps"]
    found = []
    before, after = (figures.quarter(figures.resident_mb, quarter) for quarter in (1, 3))
    if after > before * (1 + MAX_GROWTH_FRACTION):
        found.append(f"memory grew from {before:.0f} MB in the second quarter to {after:.0f} MB")
    before, after = (figures.quarter(figures.open_files, quarter) for quarter in (1, 3))
    if after > before:
        found.append(f"open files grew from {before:.0f} in the second quarter to {after:.0f}")
    return found


def _run(
    verb: str, run: Path, *overrides: str, each_second: Callable[[int], None] | None = None
) -> None:
    output = run.with_name("soak.log")
    process = start(arguments(verb, run, *overrides), output)
    while process.poll() is None:
        if each_second is not None:
            try:
                each_second(process.pid)
            except (OSError, StopIteration):  # it ended meanwhile
                break
        time.sleep(SAMPLE_SECONDS)
    if process.wait() != 0:
        printed = output.read_text(encoding="utf-8", errors="replace")
        raise ValueError(f"{verb} failed: {printed[-2000:]}")


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
