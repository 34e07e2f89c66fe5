"""Progress of work that other processes do, seen by the names of files that they leave.

A part that is done leaves its marker file. On the way it may leave others, named `share_name`.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from electrify.system.progress import Progress

POLL_SECONDS = 0.5
Phase = tuple[str, Mapping[str, float]]  # label, amount of work by the name of its marker file
List = Callable[[], Collection[str]]


def share_name(marker: str, share: float) -> str:
    """The name of a file that says which share of a part, from 0 to 1, is done."""
    return f"{marker}.{int(1000 * share):04d}"


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
                progress.update(round(_amount_done(amounts, there)) - progress.done)
                if is_last or there.issuperset(amounts):
                    break
                stop.wait(poll_seconds)


def _amount_done(amounts: Mapping[str, float], names: Iterable[str]) -> float:
    shares = dict.fromkeys(amounts, 0.0)
    for name in names:
        marker, _, thousandths = name.rpartition(".")
        if name in shares:
            shares[name] = 1.0
        elif marker in shares and thousandths.isdigit():
            shares[marker] = max(shares[marker], int(thousandths) / 1000)
    return sum(amount * shares[name] for name, amount in amounts.items())


def _listed(list_names: List) -> set[str]:
    """None where the folder cannot be listed now: a bar that stands is no reason to stop."""
    try:
        return set(list_names())
    except Exception:  # every file system has error types of its own
        return set()
