"""How a command ends: what stopped it in a line that says how to go on, and its exit status."""

import difflib
import errno
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from electrify.system.progress import Stopped, drop_unread, handle_stop_signals, log

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


# exit statuses of a process that a signal stopped: our own, and Python's for one without a handler
STOPPED = frozenset(
    status
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for status in (128 + number, -number)
)


class _Interrupted(KeyboardInterrupt):
    """A signal in a stage that has no step to finish first; no `except Exception` swallows it."""


def status_of(verb: Callable[[], int]) -> int:
    """Run a verb and return the exit status; what is no user's affair is raised.

    0: done. 1: refused, with the reason on stderr. 143, 130, 129: stopped by SIGTERM, Ctrl-C or
    SIGHUP, with a line that says how to go on.
    """
    came: list[int] = []  # signals

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise _Interrupted

    try:
        with handle_stop_signals(interrupt):  # a stage that saves first has a handler of its own
            status = verb()
            sys.stdout.flush()
            return status
    except Stopped as stopped:
        log(f"stopped: {stopped}; the same command continues")
        return 128 + stopped.signal
    except KeyboardInterrupt:
        return _stopped(came)
    except ValueError as error:
        return _refused(str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and drop_unread(sys.stdout.fileno()):
            return 0  # `| head` has what it wants
        if error.errno not in _ADVICE:
            raise
        return _refused(f"{error}: {_ADVICE[error.errno]}")
    except ModuleNotFoundError as error:
        return _refused(
            f"{error}; install what this verb needs: pip install -e '.[all]' "
            "(or one of [pipeline], [model], [benchmarks], [onnx])"
        )
    except Exception:
        if came:  # Beam raises a RuntimeError in place of what interrupts its workers
            return _stopped(came)
        raise


def _stopped(came: Sequence[int]) -> int:
    log("stopped: what is finished is kept; the same command starts the unfinished stage again")
    return 128 + (came[0] if came else signal.SIGINT)


def _refused(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


def first_line(error: BaseException) -> str:
    """Of the message; where there is none, what kind of error it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question for the three known names that are most like an unknown one, whatever the case."""
    names = {each.lower(): each for each in known}
    *others, last = (names[n] for n in difflib.get_close_matches(name.lower(), names, 3, 0.0))
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Let a panic of a library written in Rust be a `ValueError`.

    It is pyo3's PanicException, a BaseException that no module exports.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from None
