"""A command ends with a status and a line with the next step, whatever stops it."""

import errno
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from electrify.system.outcome import UserError, nearest, panics_as_errors, status_of
from electrify.system.progress import Progress, Stopped, stop_on_signal


def fail(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Stopped("saved step 7"), 143),
        (Stopped("saved step 7", signal.SIGHUP), 129),
        (KeyboardInterrupt(), 130),
        (UserError("no such key"), 1),
        (ModuleNotFoundError("No module named 'x'"), 1),
        (OSError(errno.ENOSPC, "No space left on device", "out/demo/clean.partial/a"), 1),
        (PermissionError(errno.EACCES, "Permission denied", "out/demo"), 1),
        (OSError(errno.EROFS, "Read-only file system", "out/demo"), 1),
    ],
)
def test_statuses(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]):
    assert status_of(lambda: fail(error)) == status
    assert ("error: " in capsys.readouterr().err) == (status == 1)


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), OSError("of no number"), KeyError(1), ValueError("numpy's")]
)
@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_the_program_keeps_its_trace(error, debug, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert status_of(fail, error, debug=debug) == 1
    said = capsys.readouterr().err
    (traces := list(tmp_path.iterdir())) and said.index(str(traces[0]))
    shown = said if debug else traces[0].read_text()
    assert "in fail" in shown
    assert type(error).__name__ in shown
    assert ("Traceback" in said) == debug


@pytest.mark.parametrize(
    ("name", "known", "proposal"),
    [
        ("Klue", ("klue", "glue", "squad"), "; did you mean klue or glue?"),
        ("klue-ynet", ("klue-ynat", "squad"), "; did you mean klue-ynat?"),
        ("xyz", ("klue", "glue"), ""),
    ],
)
def test_names_are_proposed_only_where_they_are_alike(name, known, proposal):
    assert nearest(name, known) == proposal


STOPS = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def signals_as_a_terminal_leaves_them():
    """Whatever the suite itself was started by (`nohup`, a script's background)."""
    previous = [signal.signal(number, signal.SIG_DFL) for number, _ in STOPS]
    yield
    for (number, _), handler in zip(STOPS, previous, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "status"), STOPS)
@pytest.mark.parametrize("caught", [Exception, BaseException])  # swallowed; or replaced, as by Beam
def test_a_signal_is_its_status_whatever_is_made_of_it(number, status, caught, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("electrify.system.outcome.log", said.append)

    def saving() -> int:
        with stop_on_signal("saving first") as stop:
            os.kill(os.getpid(), number)
            while not stop:
                time.sleep(0.01)
        raise Stopped("saved step 7", stop.signal)

    def verb() -> int:
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except caught as error:
            raise RuntimeError("while running a step") from error
        return 2

    for work in (verb, saving):
        said.clear()
        assert status_of(work) == status
        assert signal.getsignal(number) is signal.SIG_DFL
        assert "the same command" in " ".join(said)


def test_what_nohup_ignores_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def verb() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        return 0

    assert status_of(verb) == 0


def test_a_terminal_that_is_closed_ends_no_work(tmp_path: Path):
    """Its hang-up is a request to save; what cannot be written there any more is dropped."""
    program = (
        "import fcntl, os, pathlib, sys, termios, time\n"
        "from electrify.system.outcome import status_of\n"
        "from electrify.system.progress import Stopped, log, setup_logging, stop_on_signal\n"
        "def verb():\n"
        "    with stop_on_signal('saving first') as stop:\n"
        "        os.write(2, b'ready')\n"
        "        while not stop:\n"
        "            time.sleep(0.01); log('at work')\n"
        "    raise Stopped('saved', stop.signal)\n"
        "fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"  # the terminal is that of this session
        "setup_logging()\n"
        "status = status_of(verb)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(status))\n"
    )
    terminal, inner = pty.openpty()
    words = [sys.executable, "-c", program, str(tmp_path / "status")]
    with subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, start_new_session=True):
        os.close(inner)
        assert os.read(terminal, 5) == b"ready"
        os.close(terminal)
    assert (tmp_path / "status").read_text() == "129"


def test_a_reader_that_leaves_is_no_error():
    """As in `electrify ls | head -1`."""
    words = [sys.executable, "-m", "electrify", "ls"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert b"rror" not in process.stderr.read()
    assert process.returncode == 0


class PanicException(BaseException):
    """As pyo3 names it."""


def test_a_panic_is_an_error_and_an_interrupt_stays_one():
    with pytest.raises(ValueError, match="of rust"), panics_as_errors():
        raise PanicException("of rust")
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt


def test_a_log_without_a_terminal_has_lines_of_progress(caplog, monkeypatch):
    monkeypatch.setattr("electrify.system.progress.LOG_SECONDS", 0.0)
    with caplog.at_level("INFO"), Progress("encode", 200, "documents", initial=50) as progress:
        progress.update(50, note="loss 1.5")
    assert progress.done == 100
    assert all("encode: 100/200 documents (50 %), " in line for line in caplog.messages[-2:])
    assert caplog.messages[-1].endswith("left, loss 1.5")
