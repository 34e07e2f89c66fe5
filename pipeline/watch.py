"""Progress of work that other processes do, seen by the files that appear when a part is done."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from electrify.progress import Progress

POLL_SECONDS = 0.5


@contextmanager
def watch(phases: Sequence[tuple[str, Mapping[Path, float]]], unit: str) -> Iterator[None]:
    """Show a bar for each phase, one after the other: (label, amount of work by marker file)."""
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(phases, unit, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _follow(
    phases: Sequence[tuple[str, Mapping[Path, float]]], unit: str, stop: threading.Event
) -> None:
    for label, amounts in phases:
        waiting = dict(amounts)
        total = sum(amounts.values())
        with Progress(label, round(total), unit) as progress:
            while waiting:
                finished = [path for path in waiting if path.exists()]
                for path in finished:
                    del waiting[path]
                left = sum(waiting.values())
                progress.update(round(total - left) - progress.done)
                if stop.is_set() and not finished:
                    break
                if waiting:
                    stop.wait(POLL_SECONDS)
