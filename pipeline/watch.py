"""Progress of work that other processes do, seen by the files that appear when a part is done."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from electrify.progress import Progress

POLL_SECONDS = 0.5
Phase = tuple[str, Mapping[str, float]]  # label, amount of work by the name of its marker file
List = Callable[[], Collection[str]]


@contextmanager
def watch(
    phases: Sequence[Phase], unit: str, list_names: List, poll_seconds: float = POLL_SECONDS
) -> Iterator[None]:
    """Show a bar for each phase, one after the other; the names are listed once a poll."""
    stop = threading.Event()
    arguments = (phases, unit, list_names, poll_seconds, stop)
    thread = threading.Thread(target=_follow, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _follow(
    phases: Sequence[Phase],
    unit: str,
    list_names: List,
    poll_seconds: float,
    stop: threading.Event,
) -> None:
    there: set[str] = set()
    for label, amounts in phases:
        total = sum(amounts.values())
        with Progress(label, round(total), unit) as progress:
            while True:
                is_last = stop.is_set()  # what is done by now is listed below
                if not there.issuperset(amounts):
                    there |= _listed(list_names)
                left = sum(amount for name, amount in amounts.items() if name not in there)
                progress.update(round(total - left) - progress.done)
                if is_last or there.issuperset(amounts):
                    break
                stop.wait(poll_seconds)


def _listed(list_names: List) -> set[str]:
    """None where the folder cannot be listed now: a bar that stands is no reason to stop."""
    try:
        return set(list_names())
    except Exception:  # every file system has error types of its own
        return set()
