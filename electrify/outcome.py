"""How a command ends: what stopped it in a line that says how to go on, and its exit status."""

import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from electrify.progress import Stopped, log

_AGAIN = "the same command goes on"
_ADVICE = {
    errno.ENOSPC: f"make room there; {_AGAIN}",
    errno.EDQUOT: f"make room there, or have the quota raised; {_AGAIN}",
    errno.EACCES: f"give yourself the right to write or read there; {_AGAIN}",
    errno.EPERM: f"give yourself the right to change it; {_AGAIN}",
    errno.EROFS: "it is read-only: give the run an output_dir elsewhere, or mount it for writing",
    errno.EIO: f"the disk fails: look at it (dmesg); {_AGAIN}",
    errno.EMFILE: f"raise the limit of open files (ulimit -n); {_AGAIN}",
    errno.ENAMETOOLONG: "give the run a shorter output_dir or name",
    errno.ENOTDIR: "a file stands where a folder is needed: give the run another output_dir",
    errno.EISDIR: "a folder stands where a file is needed: give the run another output_dir",
}


class _Terminated(KeyboardInterrupt):
    """SIGTERM in a stage that has no step to finish first; no `except Exception` swallows it."""


def status_of(verb: Callable[[], int]) -> int:
    """Run a verb; 0: done, or stopped on request; 1: refused, with the reason on stderr; 130:
    interrupted. What is no user's affair is raised."""
    terminated: list[int] = []  # signals that came
    try:
        with _sigterm_stops(terminated):
            status = verb()
            sys.stdout.flush()
            return status
    except Stopped as stopped:
        log(f"stopped: {stopped}; the same command continues")
        return 0
    except _Terminated:
        return _stopped()
    except KeyboardInterrupt:
        log("interrupted; the same command starts the unfinished stage again")
        return 130
    except ValueError as error:
        return _refused(str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_left():
            return 0  # of `| head`, which has what it wants
        if error.errno not in _ADVICE:
            raise
        return _refused(f"{error}: {_ADVICE[error.errno]}")
    except ModuleNotFoundError as error:
        return _refused(
            f"{error}; install what this verb needs: pip install -e '.[all]' "
            "(or one of [pipeline], [model], [benchmarks])"
        )
    except Exception:
        if terminated:  # Beam raises a RuntimeError in place of what interrupts its workers
            return _stopped()
        raise


def _reader_left() -> bool:
    """Whether nobody reads what is printed; nothing more is then."""
    place = sys.stdout.fileno()
    poll = select.poll()
    poll.register(place, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), place)  # what is still to be written goes there
    return True


def _stopped() -> int:
    log("stopped: what is finished is kept; the same command starts the unfinished stage again")
    return 0


def _refused(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


@contextmanager
def _sigterm_stops(terminated: list[int]) -> Iterator[None]:
    """Let SIGTERM raise `_Terminated`; a stage that saves first has a handler of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        terminated.append(number)
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
