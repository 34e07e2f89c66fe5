"""`electrify clean` in one process that tells what each pass costs: python -m ... CONFIG JSON.

Seconds are those of the processor inside the pass's function; what is left of the process is Beam,
the start and the report. Memory is the largest resident set of the process while the pass runs.
"""

import functools
import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pipeline.clean
import pipeline.shuffle
from electrify.config.load import load_config
from electrify.stage.folder import write_json
from electrify.system.memory import peak_since_restart_mb, restart_peak
from electrify.system.progress import setup_logging

PASSES = {"clean": "_clean", "compare": "_compare", "sketch": "_sketch", "write": "_write"}


@dataclass
class Meter:
    """What a pass took; bytes are those that came to it through a shuffle."""

    calls: int = 0
    cpu_seconds: float = 0.0
    shuffled_bytes: int = 0
    largest_bytes: int = 0  # of one key
    peak_mb: int = 0

    def run(self, work: Callable[[], Any]) -> Any:
        restart_peak()
        started = time.process_time()
        try:
            return work()
        finally:
            self.cpu_seconds += time.process_time() - started
            self.peak_mb = max(self.peak_mb, peak_since_restart_mb())


meters: dict[str, Meter] = {}


def _metered_pass(name: str, run: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
    """The same pass, metered while it makes its elements."""

    @functools.wraps(run)
    def metered(*arguments: Any) -> Iterator[Any]:
        meter = meters.setdefault(name, Meter())
        meter.calls += 1
        yield from meter.run(lambda: [*run(*arguments)])

    return metered


def _metered_find(
    shard: tuple[int, Iterable[tuple[int, pipeline.shuffle.Packed]]],
    find: pipeline.shuffle.Find,
    work: Any,
) -> Any:
    function = find.func if isinstance(find, functools.partial) else find
    meter = meters.setdefault(getattr(function, "__name__", "find").strip("_"), Meter())
    pairs = [(group, pipeline.shuffle.unpack(packed, work)) for group, packed in shard[1]]
    size = sum(len(packed) for _, packed in pairs)
    meter.calls += 1
    meter.shuffled_bytes += size
    meter.largest_bytes = max(meter.largest_bytes, size)
    return meter.run(lambda: find(pairs))


def run(config: str, output: str) -> None:
    """Clean, and write the meters into a file."""
    setup_logging()
    for name, function in PASSES.items():
        metered = _metered_pass(name, getattr(pipeline.clean, function))
        setattr(pipeline.clean, function, metered)
    pipeline.shuffle._find = _metered_find
    options = ["--direct_running_mode=in_memory"]
    pipeline.clean.clean(load_config(Path(config)), options, overwrite=False)
    write_json(Path(output), {name: asdict(meter) for name, meter in meters.items()})


if __name__ == "__main__":  # Beam finds the functions by the module's name, which is not this one
    importlib.import_module("benchmarks.throughput.corpus.scale_clean").run(*sys.argv[1:])
