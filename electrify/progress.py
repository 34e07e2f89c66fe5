"""Log lines and progress bars: one format, rank 0 only, readable on a terminal and in a file."""

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from tqdm import tqdm

_LOG = logging.getLogger("electrify")
LOG_SECONDS = 10.0  # between progress lines where there is no terminal


def is_main_process() -> bool:
    """True on rank 0 (`torchrun` sets RANK) and wherever there is one process."""
    return os.environ.get("RANK", "0") == "0"


def setup_logging() -> None:
    """Send `electrify` log lines to stderr, above any progress bar."""
    if _LOG.handlers:
        return
    handler = _TqdmHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    _LOG.addHandler(handler)
    # Beam says on the root logger, at import, that a Google client it does not need is absent
    logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
    _LOG.propagate = False
    _LOG.setLevel(logging.INFO if is_main_process() else logging.ERROR)


def log(message: str) -> None:
    """Write one line for the user."""
    _LOG.info(message)


def warn(message: str) -> None:
    """Write one line that the user should act on."""
    _LOG.warning("warning: %s", message)


class _TqdmHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


class Progress:
    """A bar on a terminal; elsewhere a line every `LOG_SECONDS` with share, rate and time left.

    `initial` counts work done before (a resumed run), so that the rate is that of this process.
    """

    def __init__(self, label: str, total: int | None, unit: str, initial: int = 0) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self.initial = initial
        self.note = ""
        self._start = self._last = time.monotonic()
        self._bar: tqdm[None] | None = None
        if is_main_process() and sys.stderr.isatty():
            self._bar = tqdm(
                total=total, initial=initial, desc=label, unit=f" {unit}", unit_scale=True,
                dynamic_ncols=True, file=sys.stderr,
            )  # fmt: skip

    def update(self, count: int = 1, note: str | None = None) -> None:
        """Add finished work; `note` is shown behind the bar."""
        self.done += count
        self.note = self.note if note is None else note
        if self._bar is not None:
            self._bar.set_postfix_str(self.note, refresh=False)
            self._bar.update(count)
        elif self.done != self.total and time.monotonic() - self._last >= LOG_SECONDS:
            self._last = time.monotonic()
            log(self.line())

    def line(self) -> str:
        """The state as one line of text."""
        seconds = time.monotonic() - self._start
        rate = (self.done - self.initial) / max(seconds, 1e-9)
        parts = [f"{self.label}: {self.done:,}"]
        if self.total:
            parts[0] += f"/{self.total:,} {self.unit} ({100 * self.done / self.total:.0f} %)"
            if rate > 0:
                parts.append(f"{duration((self.total - self.done) / rate)} left")
        else:
            parts[0] += f" {self.unit}"
        parts.insert(1, f"{rate:,.1f} {self.unit}/s")
        return ", ".join([*parts, *([self.note] if self.note else [])])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None and self.done > self.initial:
            log(self.line())


def duration(seconds: float) -> str:
    """Seconds as a person says them: '45 s', '12 min', '3 h 05 min'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class StopRequest:
    """Set once SIGTERM or Ctrl-C arrived: finish the step, save, leave."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn the first SIGTERM, SIGINT or, unless it is ignored (`nohup`), SIGHUP of a terminal that
    is closed into a request; a second SIGINT interrupts as usual."""
    stop = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True
        log("stopping: saving first (Ctrl-C again leaves at once)")

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Stopped(Exception):  # noqa: N818 (not an error: the work is saved)
    """Work was stopped on request after saving; the same command continues it."""
