"""Log lines and progress bars: one format, rank 0 only, readable on a terminal and in a file."""

import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from tqdm import tqdm

_LOG = logging.getLogger("electrify")
# Beam says on the root logger, at import, that a Google client it does not need is absent
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
LOG_SECONDS = 10.0  # between progress lines where there is no terminal
tqdm.monitor_interval = 0  # no thread of its own: bars look at the clock at every update


def is_main_process() -> bool:
    """True on rank 0 (`torchrun` sets RANK) and wherever there is one process."""
    return "LOCAL_RANK" not in os.environ or os.environ.get("RANK", "0") == "0"


def setup_logging(in_words: Callable[[str], str] = str) -> None:
    """Send `electrify` log lines to stderr, above any progress bar, as `in_words` puts them."""
    if _LOG.handlers:
        return
    handler = _TqdmHandler(in_words)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    _LOG.addHandler(handler)
    _LOG.propagate = False
    _LOG.setLevel(logging.INFO if is_main_process() else logging.ERROR)


def log(message: str) -> None:
    _LOG.info(message)


def warn(message: str) -> None:
    _LOG.warning("warning: %s", message)


class _TqdmHandler(logging.Handler):
    def __init__(self, in_words: Callable[[str], str]) -> None:
        super().__init__()
        self._in_words = in_words

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(self._in_words(self.format(record)), file=sys.stderr)
        except OSError:  # a closed terminal or pipe ends no work
            if not drop_unread(sys.stderr.fileno()):
                raise


def drop_unread(descriptor: int) -> bool:
    """Whether the reader of an output, a pipe or a terminal, is gone; later output is dropped."""
    poll = select.poll()
    poll.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return True


class _LogFile:
    """What tqdm writes to where there is no terminal: each state is a line of the log."""

    def write(self, text: str) -> None:
        # the blank before the unit is meant for "5 steps/s", not for "3 s/ steps"
        if line := text.strip("\r\n ").replace("s/ ", "s/"):
            log(line)

    def flush(self) -> None: ...


class Progress:
    """A bar on a terminal; elsewhere a line every `LOG_SECONDS`, and one at the end.

    `initial` counts work done before (a resumed run), so that the rate is that of this process.
    """

    def __init__(self, label: str, total: int | None, unit: str, initial: int = 0) -> None:
        self.done = self._initial = initial
        on_terminal = sys.stderr.isatty()
        self._file = None if on_terminal else _LogFile()
        line = "{desc}: {n:,.0f}{unit}, {rate_fmt}{postfix}"
        if total:
            # written out: tqdm forgets a total that was passed
            line = f"{{desc}}: {{n:,.0f}}/{total:,.0f}{{unit}} "
            line += "({percentage:.0f} %), {rate_fmt}, {remaining} left{postfix}"
        self._bar: tqdm[None] = tqdm(
            total=total,
            initial=initial,
            desc=label,
            unit=unit if on_terminal else f" {unit}",
            unit_scale=True,
            dynamic_ncols=on_terminal,
            smoothing=0.3 if on_terminal else 0,  # in a log the rate is the mean
            miniters=1,
            mininterval=0.1 if on_terminal else LOG_SECONDS,
            delay=0 if on_terminal else LOG_SECONDS,
            leave=on_terminal,
            position=None if on_terminal else 0,  # of several, none moves the cursor
            bar_format=None if on_terminal else line,
            file=self._file,
            disable=not is_main_process(),
        )

    def update(self, count: int = 1, note: str | None = None) -> None:
        """Add finished work; `note` is shown behind the bar."""
        self.done += count
        if note is not None:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file and is_main_process() and kind is None and self.done > self._initial:
            self._file.write(str(self._bar))
        self._bar.close()


def duration(seconds: float) -> str:
    """Seconds as a person says them: '45 s', '12 min', '3 h 05 min', '4 days 2 h'."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(minutes / 60)
    return f"{hours // 24:,} days {hours % 24} h"


class StopRequest:
    """Set once a signal asked to stop: finish the step, save, leave."""

    def __init__(self) -> None:
        self.requested = False
        self.signal = signal.SIGTERM  # that came; stays where another process of the run was asked

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def handle_stop_signals(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handle` on SIGTERM, Ctrl-C, and SIGHUP of a terminal that is closed.

    SIGHUP stays ignored where it is, as under `nohup`. Only a main thread can handle signals: in
    others nothing changes.
    """
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_signal(promise: str) -> Iterator[StopRequest]:
    """Turn the first signal that asks to stop into a request; a second Ctrl-C interrupts as usual.

    `promise` tells the user what happens before the work ends.
    """
    stop = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.requested:
            stop.requested, stop.signal = True, signal.Signals(number)
        log(f"stopping: {promise} (Ctrl-C again leaves at once)")

    with handle_stop_signals(handle):
        yield stop


class Stopped(Exception):  # noqa: N818 (not an error: the work is saved)
    """A signal stopped the work after saving; the same command resumes it."""

    def __init__(self, reason: str, number: signal.Signals = signal.SIGTERM) -> None:
        super().__init__(reason)
        self.signal = number
