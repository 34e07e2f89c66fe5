"""Hostile input: every reader fed with mutated files; it gives a result or a named error.

Each target runs in a process of its own under limits of time and memory. One that is killed (a
segmentation fault, an abort, a hang inside C) is a fault with its input, and its target goes on
behind it.
"""

import json
import multiprocessing
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.torture.fuzz_loop import CURRENT, CURRENT_BYTES, FOUND, HEAD, run_target
from electrify.progress import Progress

_HUNG_SECONDS = 120.0  # without a new execution: something in C does not come back
_SHOWN = 400
_POLL_SECONDS = 0.5
_MAX_DEATHS = 5  # of one target, before it is given up
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108 (a folder in it, made by tempfile)


@dataclass
class FuzzFigures:
    """Executions by target, what came of them, and the faults."""

    targets: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def executions(self) -> int:
        """Of all targets."""
        return sum(target["executions"] for target in self.targets.values())

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "executions": self.executions, "seconds": round(self.seconds, 1),
            "targets": self.targets, "faults": self.faults,
        }  # fmt: skip


def torture_by_fuzz(executions: int, seed: int, names: Sequence[str] = ()) -> FuzzFigures:
    """Spread the executions over the named targets (none: all); `ValueError` for an unknown one."""
    shares = _shares(names)
    total, figures, begin = sum(shares.values()), FuzzFigures(), time.monotonic()
    memory_disk = str(_MEMORY_DISK) if _MEMORY_DISK.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="electrify-fuzz-", dir=memory_disk) as scratch,
        Progress("fuzz", len(shares), "targets") as progress,
    ):
        for name, share in shares.items():
            count = max(1, round(executions * share / total))
            _fuzz_target(name, count, seed, Path(scratch) / name, figures)
            progress.update(note=name)
    figures.seconds = time.monotonic() - begin
    return figures


def _shares(names: Sequence[str]) -> dict[str, float]:
    from benchmarks.torture.fuzz_targets import TARGETS

    if unknown := [name for name in names if name not in TARGETS]:
        raise ValueError(f"no target {unknown[0]!r} (known: {', '.join(TARGETS)})")
    return {name: TARGETS[name].share for name in names or TARGETS}


def _fuzz_target(name: str, count: int, seed: int, folder: Path, figures: FuzzFigures) -> None:
    folder.mkdir()
    outcomes: Counter[str] = Counter()
    first = deaths = ways = 0
    seconds = slowest = 0.0
    while first < count and deaths < _MAX_DEATHS:
        (folder / FOUND).unlink(missing_ok=True)
        with (folder / CURRENT).open("wb") as file:
            file.truncate(CURRENT_BYTES)
        death = _run(name, first, count, seed, folder)
        if death is None:
            found = json.loads((folder / FOUND).read_text(encoding="utf-8"))
            outcomes.update(found["outcomes"])
            ways, seconds = ways + found["ways"], seconds + found["seconds"]
            slowest = max(slowest, found["slowest"])
            figures.faults += [_described(name, key, v) for key, v in found["faults"].items()]
            first = count
        else:
            number, data = _current(folder)
            figures.faults.append(f"{name}: execution {number}: {death}: {data[:_SHOWN]!r}")
            outcomes["killed"] += 1
            outcomes["before a death"] += number - first
            first, deaths = number + 1, deaths + 1
    figures.targets[name] = {
        "executions": sum(outcomes.values()), "outcomes": dict(outcomes), "ways": ways,
        "seconds": round(seconds, 2), "slowest_seconds": round(slowest, 3),
    }  # fmt: skip


def _run(name: str, first: int, stop: int, seed: int, folder: Path) -> str | None:
    """What ended the process, in words; None if it came to its end."""
    process = multiprocessing.get_context("spawn").Process(
        target=run_target, args=(name, first, stop, seed, folder)
    )
    process.start()
    last, since = -1, time.monotonic()
    while process.is_alive():
        process.join(_POLL_SECONDS)
        number, _ = _current(folder)
        if number != last:
            last, since = number, time.monotonic()
        elif process.is_alive() and time.monotonic() - since > _HUNG_SECONDS:
            process.kill()
            process.join()
            return f"no end after {_HUNG_SECONDS:.0f} s"
    if process.exitcode == 0:
        return None
    code = process.exitcode or 0
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _current(folder: Path) -> tuple[int, bytes]:
    with (folder / CURRENT).open("rb") as file:
        number, length = HEAD.unpack(file.read(HEAD.size))
        return number, file.read(min(length, _SHOWN))


def _described(name: str, key: str, fault: dict[str, Any]) -> str:
    return (
        f"{name}: {key} ({fault['count']} times): {fault['what']} at execution "
        f"{fault['execution']}, {fault['bytes']} bytes: {fault['input']}"
    )
