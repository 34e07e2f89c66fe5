"""Hostile input: every reader fed with mutated files; it gives a result or a named error.

A process of its own reads, under limits of time and memory. Where it is killed (a segmentation
fault, an abort, a hang inside C) that is a fault with its input, and another goes on behind it.
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

from benchmarks.torture.fuzz_loop import CURRENT, CURRENT_BYTES, HEAD, Work, found_path, run_targets
from electrify.system.progress import Progress

_HUNG_SECONDS = 120.0  # without a new execution: something in C does not come back
_SHOWN = 400
_POLL_SECONDS = 0.5
_MAX_DEATHS = 5  # of one target, before it is given up
_MEMORY_DISK = Path("/dev/shm")


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
            "executions": self.executions,
            "seconds": round(self.seconds, 1),
            "targets": self.targets,
            "faults": self.faults,
        }


def torture_by_fuzz(executions: int, seed: int, names: Sequence[str] = ()) -> FuzzFigures:
    """Spread the executions over the named targets (none: all); `ValueError` for an unknown one."""
    shares = _shares(names)
    total, figures, begin = sum(shares.values()), FuzzFigures(), time.monotonic()
    works = [
        Work(name, 0, max(1, round(executions * share / total))) for name, share in shares.items()
    ]
    memory_disk = str(_MEMORY_DISK) if _MEMORY_DISK.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="electrify-fuzz-", dir=memory_disk) as scratch,
        Progress("fuzz", executions, "executions") as progress,
    ):
        folder = Path(scratch)
        while works:
            works = _run(works, seed, folder, figures, progress)
    figures.seconds = time.monotonic() - begin
    return figures


def _shares(names: Sequence[str]) -> dict[str, float]:
    from benchmarks.torture.fuzz_targets import TARGETS

    if unknown := [name for name in names if name not in TARGETS]:
        raise ValueError(f"no target {unknown[0]!r} (known: {', '.join(TARGETS)})")
    return {name: TARGETS[name].share for name in names or TARGETS}


def _run(
    works: list[Work], seed: int, folder: Path, figures: FuzzFigures, progress: Progress
) -> list[Work]:
    """Let a process do the work until it ends; what is left to do."""
    with (folder / CURRENT).open("wb") as file:
        file.truncate(CURRENT_BYTES)
    process = multiprocessing.get_context("spawn").Process(
        target=run_targets, args=(works, seed, folder)
    )
    process.start()
    last, since, hung = (-1, -1), time.monotonic(), False
    done = 0
    while process.is_alive():
        process.join(_POLL_SECONDS)
        index, number, _ = _current(folder)
        if (index, number) != last:
            last, since = (index, number), time.monotonic()
            now = sum(w.stop - w.first for w in works[:index]) + number - works[index].first
            progress.update(now - done, note=works[index].target)
            done = now
        elif process.is_alive() and time.monotonic() - since > _HUNG_SECONDS:
            hung = True
            process.kill()
            process.join()
    index, number, data = _current(folder)
    finished = works if process.exitcode == 0 else works[:index]
    for work in finished:
        _add(figures, work, json.loads(found_path(folder, work).read_text(encoding="utf-8")))
    if process.exitcode == 0:
        return []
    return _after_death(figures, works[index:], number, data, _death(process.exitcode, hung))


def _after_death(
    figures: FuzzFigures, works: list[Work], number: int, data: bytes, death: str
) -> list[Work]:
    killed = works[0]
    figures.faults.append(f"{killed.target}: execution {number}: {death}: {data!r}")
    outcomes = Counter({"killed": 1, "read before": number - killed.first})
    _add(figures, killed, {"outcomes": outcomes, "ways": 0, "seconds": 0.0, "slowest": 0.0})
    deaths = figures.targets[killed.target]["outcomes"]["killed"]
    if number + 1 >= killed.stop or deaths >= _MAX_DEATHS:
        return works[1:]
    return [Work(killed.target, number + 1, killed.stop), *works[1:]]


def _death(exitcode: int | None, hung: bool) -> str:
    if hung:
        return f"no end after {_HUNG_SECONDS:.0f} s"
    code = exitcode or 0
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _add(figures: FuzzFigures, work: Work, found: dict[str, Any]) -> None:
    target = figures.targets.setdefault(
        work.target,
        {"executions": 0, "outcomes": {}, "ways": 0, "seconds": 0.0, "slowest_seconds": 0.0},
    )
    outcomes = Counter(target["outcomes"]) + Counter(found["outcomes"])
    target |= {
        "executions": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "ways": target["ways"] + found["ways"],
        "seconds": round(target["seconds"] + found["seconds"], 2),
        "slowest_seconds": max(target["slowest_seconds"], round(found["slowest"], 3)),
    }
    for key, fault in found.get("faults", {}).items():
        figures.faults.append(
            f"{work.target}: {key} ({fault['count']} times): {fault['what']} at execution "
            f"{fault['execution']}, {fault['bytes']} bytes: {fault['input']}"
        )


def _current(folder: Path) -> tuple[int, int, bytes]:
    with (folder / CURRENT).open("rb") as file:
        index, number, length = HEAD.unpack(file.read(HEAD.size))
        return index, number, file.read(min(length, _SHOWN))
