"""A command ends with a status and a line that says how to go on, whatever stops it."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from electrify.outcome import status_of
from electrify.progress import Stopped


def fail(error: BaseException) -> int:
    raise error


def test_the_verb_s_own_status_is_kept():
    assert [status_of(lambda n=n: n) for n in (0, 1, 2)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Stopped("saved step 7"), 0),
        (KeyboardInterrupt(), 130),
        (ValueError("no such key"), 1),
        (ModuleNotFoundError("No module named 'x'"), 1),
        (OSError(errno.ENOSPC, "No space left on device", "out/demo/clean.partial/a"), 1),
        (PermissionError(errno.EACCES, "Permission denied", "out/demo"), 1),
        (OSError(errno.EROFS, "Read-only file system", "out/demo"), 1),
    ],
)
def test_statuses(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]):
    assert status_of(lambda: fail(error)) == status
    assert ("error: " in capsys.readouterr().err) == (status == 1)


def test_an_error_of_the_system_names_the_file_and_what_to_do(capsys: pytest.CaptureFixture[str]):
    status_of(lambda: fail(PermissionError(errno.EACCES, "Permission denied", "out/demo/vocab")))
    message = capsys.readouterr().err
    assert "'out/demo/vocab'" in message
    assert "right to write" in message


@pytest.mark.parametrize("error", [RuntimeError("a fault"), OSError("of no number"), KeyError(1)])
def test_a_fault_of_the_program_keeps_its_trace(error: Exception):
    with pytest.raises(type(error)):
        status_of(lambda: fail(error))


def test_sigterm_is_status_0_even_where_exceptions_are_swallowed():
    def swallow() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except Exception:
            return 3
        return 2

    before = signal.getsignal(signal.SIGTERM)
    assert status_of(swallow) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_is_status_0_even_where_another_error_is_raised_for_it():
    def replace_it() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except BaseException as error:
            raise RuntimeError("while running a step") from error
        return 2

    assert status_of(replace_it) == 0


def test_a_beam_stage_that_gets_sigterm_leaves_with_0_and_runs_again(tmp_path: Path):
    output = tmp_path / "run"
    words = [sys.executable, "-m", "electrify", "clean", "configs/demo.toml"]
    words += ["--set", f"output_dir='{output}'"]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while not (output / "clean.partial").exists():
        assert time.monotonic() < deadline, "the stage did not begin"
        time.sleep(0.02)
    time.sleep(0.5)  # into the graph
    first.terminate()
    printed, _ = first.communicate(timeout=60)
    assert first.returncode == 0, printed
    assert "the same command starts the unfinished stage again" in printed
    assert not (output / "clean").exists()
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert (output / "clean" / "manifest.json").exists()
    assert not (output / "clean.partial").exists()


def test_a_reader_that_leaves_is_no_error():
    """As in `electrify validate CONFIG | head -1`."""
    words = [sys.executable, "-m", "electrify", "validate", "configs/demo.toml"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_another_broken_pipe_is_raised():
    def verb() -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        status_of(verb)
