"""How a command ends: what stopped it, the next step, and its exit status."""

import difflib
import errno
import os
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from electrify.system.progress import Stopped, drop_unread, handle_stop_signals, log

_AGAIN = "the same command resumes"
_ADVICE = {
    errno.ENOSPC: f"make room there; {_AGAIN}",
    errno.EDQUOT: f"make room there, or have the quota raised; {_AGAIN}",
    errno.EACCES: f"give yourself the right to write or read there; {_AGAIN}",
    errno.EPERM: f"give yourself the right to change it; {_AGAIN}",
    errno.EROFS: "it is read-only: give the run an output_dir elsewhere, or mount it for writing",
    errno.EIO: f"the disk fails: look at it (dmesg); {_AGAIN}",
    errno.EMFILE: f"raise the limit of open files (ulimit -n); {_AGAIN}",
    errno.ENAMETOOLONG: "give the run a shorter output_dir or name",
    errno.ENOTDIR: "a file is where a folder is needed: give the run another output_dir",
    errno.EISDIR: "a folder is where a file is needed: give the run another output_dir",
}


# numbers of errors of a disk that is full or cannot be written
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class UserError(ValueError):
    """What the user can mend: the message says what is wrong, the value and the next step.

    An option stands in backticks, `overwrite` or `evaluate.seeds=[9]`: the command line writes
    flags.

    A `ValueError` of a library, or of a bug of ours, is none.
    """


class UsageError(UserError):
    """The options of a command are wrong: its exit status is 2."""


# exit statuses of a process that a signal stopped: our own, and Python's for one without a handler
STOPPED = frozenset(
    status
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for status in (128 + number, -number)
)


class _Interrupted(KeyboardInterrupt):
    """A signal in a stage that has no step to finish first; no `except Exception` swallows it."""


def status_of(
    verb: Callable[..., int],
    *arguments: object,
    debug: bool = False,
    in_words: Callable[[str], str] = str,
) -> int:
    """Run a verb with its arguments and return the exit status; `in_words` puts its error.

    0: done. 1: failed, with a line on stderr. 2: wrong options. 143, 130, 129: stopped by SIGTERM,
    Ctrl-C or SIGHUP, with a line that says how to resume. The trace of an error that the user
    cannot mend is saved in a file, which the line names. `debug` prints the trace of every error.
    """
    signals: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        raise _Interrupted

    try:
        with handle_stop_signals(interrupt):  # a stage that saves first has a handler of its own
            status = verb(*arguments)
            sys.stdout.flush()
            return (
                _stopped(signals) if signals else status
            )  # typer makes an interrupt a status of its own
    except Stopped as stopped:
        log(f"stopped: {stopped}; the same command resumes")
        return 128 + stopped.signal
    except KeyboardInterrupt:
        return _stopped(signals)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and drop_unread(sys.stdout.fileno()):
            return 0  # `| head` has what it wants
        if signals:  # Beam raises a RuntimeError in place of what interrupts its workers
            return _stopped(signals)
        if debug:
            traceback.print_exc()
        line = _line_of(error)
        if line is None:
            line = first_line(error)
            if not debug:
                line += f"\nThis is a fault of electrify. Its trace is in {_save_trace()}"
        print(f"error: {in_words(line)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _line_of(error: Exception) -> str | None:
    """What the user reads of an error that is no fault of the program; None for one that is."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno in _ADVICE:
        return f"{error}: {_ADVICE[error.errno]}"
    if isinstance(error, ModuleNotFoundError):
        return (
            f"{error}; install what this verb needs: pip install 'electrify[all]' "
            "(or one of [pipeline], [model], [benchmarks], [onnx])"
        )
    return None


def _save_trace() -> str:
    number, path = tempfile.mkstemp(prefix="electrify-error-", suffix=".txt")
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(f"{shlex.join(sys.argv)}\n\n{traceback.format_exc()}")
    return path


def _stopped(signals: Sequence[int]) -> int:
    log("stopped: finished stages and saved work are kept; the same command resumes")
    return 128 + (signals[0] if signals else signal.SIGINT)


def first_line(error: BaseException) -> str:
    """Of the message; where there is none, what kind of error it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question for up to three known names that are like an unknown one, whatever the case; empty
    where none is."""
    names = {each.lower(): each for each in known}
    matches = [names[key] for key in difflib.get_close_matches(name.lower(), names, 3, 0.5)]
    if not matches:
        return ""
    *others, last = matches
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
