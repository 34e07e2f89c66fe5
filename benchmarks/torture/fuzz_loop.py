"""The process that fuzzes readers one after the other: mutate, read, judge, again.

An input that goes a new way (another outcome, or an error from another line) becomes one to mutate
further. What the process is reading stands in a mapped file, so that who watches it knows what
killed it.
"""

import contextlib
import itertools
import json
import logging
import mmap
import random
import resource
import shutil
import signal
import struct
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from benchmarks.torture.fuzz_target import Reader
from benchmarks.torture.mutate import MAX_BYTES, mutated, mutated_json, mutated_line

SECONDS = 5.0  # that one execution may take; nearly all take under a millisecond
MEMORY_BYTES = 1 << 30  # that reading may take beside what the process has
CURRENT = "current"
CURRENT_BYTES = 1 << 20
HEAD = struct.Struct("<qqq")  # number of the target, of the execution, bytes of the input
_MAX_POOL = 400
_SHOWN = 400  # bytes of an input in a fault


class _TooSlow(BaseException):
    """No `except Exception` of a reader swallows it."""


@dataclass
class Found:
    """What came of the executions of one target."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: dict[str, dict[str, Any]] = field(default_factory=dict)  # by place and sort
    ways: int = 0  # that the inputs went, told apart by outcome or by the line of the error
    seconds: float = 0.0
    slowest: float = 0.0

    def add_fault(self, key: str, what: str, number: int, data: bytes) -> None:
        """Count a fault; the shortest input that makes it is kept."""
        known = self.faults.setdefault(key, {"count": 0, "bytes": len(data) + 1})
        known["count"] += 1
        if len(data) < known["bytes"]:
            shown = repr(data[:_SHOWN]) + ("..." if len(data) > _SHOWN else "")
            known |= {"what": what, "execution": number, "bytes": len(data), "input": shown}


@dataclass(frozen=True)
class Work:
    """Executions `first` ... `stop` - 1 of a target."""

    target: str
    first: int
    stop: int


def found_path(folder: Path, work: Work) -> Path:
    """Where it stands what was found once the work is done."""
    return folder / f"{work.target}-{work.first}.json"


def run_targets(works: Sequence[Work], seed: int, folder: Path) -> None:
    """Do the work in turn; one process for all, for most of the time of many would be imports."""
    from benchmarks.torture.fuzz_targets import TARGETS

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with (folder / CURRENT).open("r+b") as file, mmap.mmap(file.fileno(), CURRENT_BYTES) as shared:
        for index, work in enumerate(works):
            shared[: HEAD.size] = HEAD.pack(index, work.first, 0)
            _limit_memory(None)
            inputs = folder / f"{work.target}-inputs"
            inputs.mkdir(exist_ok=True)
            reader = TARGETS[work.target].make(inputs)
            for data in reader.seeds:
                _warm_up(reader, data)
            _limit_memory(MEMORY_BYTES)
            rng = random.Random(f"{seed} {work.target} {work.first}")
            found = _loop(reader, index, range(work.first, work.stop), rng, shared)
            found_path(folder, work).write_text(json.dumps(found.__dict__), encoding="utf-8")
            shutil.rmtree(inputs)


def _warm_up(reader: Reader, data: bytes) -> None:
    """What is imported and built at first use is no affair of the limits."""
    with contextlib.suppress(*reader.errors):
        reader.read(data)


def _limit_memory(beside: int | None) -> None:
    """At most so many bytes beside what the process has; none: no limit."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = most if beside is None else pages * resource.getpagesize() + beside
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def _loop(
    reader: Reader, index: int, numbers: range, rng: random.Random, shared: mmap.mmap
) -> Found:
    found, pool, ways = Found(), list(reader.seeds), set[object]()
    begin = time.perf_counter()
    # the sound inputs first, each as it is
    inputs = itertools.chain(reader.seeds if numbers.start == 0 else (), iter(lambda: None, 0))
    for number, given in zip(numbers, inputs, strict=False):
        data = _input(reader, pool, rng) if given is None else given
        _note(shared, index, number, data)
        start = time.perf_counter()
        way = _execute(reader, data, number, found)
        found.slowest = max(found.slowest, time.perf_counter() - start)
        if way not in ways:
            ways.add(way)
            if len(data) <= MAX_BYTES:
                pool.append(data)
                if len(pool) > _MAX_POOL:
                    del pool[rng.randrange(len(reader.seeds), len(pool))]
    found.seconds, found.ways = time.perf_counter() - begin, len(ways)
    return found


def _input(reader: Reader, pool: list[bytes], rng: random.Random) -> bytes:
    # what is found goes ever further astray: half of the time from a sound input
    data = rng.choice(reader.seeds if rng.random() < 0.5 else pool)
    if reader.form != "bytes" and rng.random() < 0.5:
        change = mutated_json if reader.form == "json" else mutated_line
        try:
            return change(data, rng)
        except (ValueError, RecursionError):  # it has been made something else
            pass
    return mutated(data, rng.choice(pool), rng, reader.words)


def _note(shared: mmap.mmap, index: int, number: int, data: bytes) -> None:
    kept = data[: CURRENT_BYTES - HEAD.size]
    shared[: HEAD.size + len(kept)] = HEAD.pack(index, number, len(kept)) + kept


def _execute(reader: Reader, data: bytes, number: int, found: Found) -> object:
    """Read one input; the way that it went."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        way: object = reader.read(data)
        signal.setitimer(signal.ITIMER_REAL, 0)
        found.outcomes["read"] += 1
        return way
    except reader.errors as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        place = _place(error.__traceback__)
        if isinstance(error, UnicodeError):
            found.add_fault(f"{place} {type(error).__name__}", repr(error), number, data)
        elif reader.named not in str(error):
            found.add_fault(f"{place} unnamed", f"not named: {error}"[:_SHOWN], number, data)
        found.outcomes["refused"] += 1
        return place
    except _TooSlow as error:
        place = _place(error.__traceback__)
        found.add_fault(f"{place} slow", f"more than {SECONDS} s", number, data)
    except Exception as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        place = _place(error.__traceback__)
        found.add_fault(f"{place} {type(error).__name__}", repr(error)[:_SHOWN], number, data)
    except BaseException as error:  # pyo3's panics are no Exception
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        place = _place(error.__traceback__)
        found.add_fault(f"{place} {type(error).__name__}", repr(error)[:_SHOWN], number, data)
    found.outcomes["fault"] += 1
    return place


def _place(trace: TracebackType | None) -> str:
    """The innermost lines of ours: file:line of the last two."""
    lines = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if "site-packages" not in code.co_filename and "/torture/" not in code.co_filename:
            lines.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " < ".join(lines[:-3:-1])
