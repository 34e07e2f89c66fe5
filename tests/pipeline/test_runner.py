"""Which runner, and how many workers, from config, options and size."""

import errno
import logging
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from electrify.system import machine
from pipeline import runner
from pipeline.runner import make_pipeline, run_pipeline, watch

BIG = 10_000_000_000


def _num_workers(pipeline):
    assert type(pipeline.runner) is FnApiRunner
    return pipeline.options.view_as(DirectOptions).direct_num_workers


def _run(function, *arguments, values=(1, 2, 3), options=("--direct_num_workers=2",)):
    """Run a pipeline that calls the function with each value."""
    pipeline = make_pipeline("local", list(options), 0)
    _ = pipeline | beam.Create(values) | beam.Reshuffle() | beam.Map(function, *arguments)
    run_pipeline(pipeline)


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    monkeypatch.setattr(runner, "num_cpus", lambda: 4)


@pytest.mark.parametrize(
    ("options", "input_bytes", "num_workers"),
    [
        ([], 14_000_000, 1),  # a second a megabyte
        ([], 16_000_000, 4),
        (["--", "--direct_num_workers=1"], BIG, 1),
        (["--direct_num_workers", "3"], 1000, 3),
        (["--direct_num_workers=0"], 1000, 4),
        (["--direct_running_mode=in_memory"], BIG, 1),
        (["--direct_running_mode=multi_processing"], 1000, 4),
        (["--runner=DirectRunner"], 1000, 1),
        (["--runner=FnApiRunner", "--direct_num_workers=2"], 1000, 2),
    ],
)
def test_number_of_runner(options, input_bytes, num_workers):
    assert _num_workers(make_pipeline("local", options, input_bytes, 1.0)) == num_workers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--direct_running_mode=multi_threading"], "multi_threading loses data"),
        (["--direct_num_workers=-1"], "--direct_num_workers=-1: give 1 or more"),
        (["--direct_num_worker=4", "--runner=local"], "not know these options: --direct_num"),
        (["--runner=NoRunner"], "'NoRunner' is no Beam runner; did you mean FnApiRunner, "),
        (["--runner=none.Runner"], "cannot start the runner 'none.Runner': No module named"),
    ],
)
def test_refused_options(options, message, capsys):
    with pytest.raises(ValueError, match=message):
        make_pipeline("local", options, 1000)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "error",
    [
        *(KeyboardInterrupt(), KeyError("a")),
        OSError(errno.ENOSPC, "No space left on device", "a/documents.parquet"),
        OSError(errno.ENOSPC, "No space left on device"),  # Arrow names no file
    ],
)
def test_an_error_of_a_worker_keeps_its_kind_number_and_file(error):
    def fail(_):
        raise error

    with pytest.raises(type(error)) as raised:
        _run(fail, options=())
    for name in ("errno", "filename", "strerror"):
        assert getattr(raised.value, name, None) == getattr(error, name, None)


def test_what_a_cluster_says_becomes_a_line():
    class Failing:
        runner = FlinkRunner()

        def run(self):
            said = "ModuleNotFoundError: No module named 'vocab'"
            raise RuntimeError(f"Pipeline failed: Traceback\n  File\n{said}\n")

    with pytest.raises(ValueError, match=r"has no electrify.*install the wheel") as raised:
        run_pipeline(Failing())
    assert "\n" not in str(raised.value)


def test_a_worker_that_never_leaves_is_not_waited_for_without_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.5)

    def stay(number, folder):
        threading.Thread(target=time.sleep, args=(600,)).start()  # the process waits for it
        Path(folder, f"{number} {os.getpid()}").touch()

    _run(stay, str(tmp_path))
    numbers, processes = zip(*(path.name.split() for path in tmp_path.iterdir()), strict=True)
    assert sorted(numbers) == ["1", "2", "3"]
    for process in set(processes):
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


def test_ctrl_c_at_a_terminal_leaves_the_workers_to_this_process(tmp_path):
    def interrupt(number, folder):
        os.kill(os.getpid(), signal.SIGINT)  # a terminal sends it to all processes
        Path(folder, str(number)).touch()

    _run(interrupt, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of Beam's
def test_a_worker_that_is_killed_is_named_with_the_next_step():
    def end(_):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ValueError, match=r"worker process.*memory.*--direct_num_workers=1"):
        _run(end)


def test_the_memory_of_workers_counts(monkeypatch):
    monkeypatch.setattr(machine, "_remembered_mb", 0)

    def hold(_):
        np.ones(30_000_000)  # 240 MB

    _run(hold, values=(1,))
    assert machine._remembered_mb > 240


def test_a_worker_that_never_begins_ends_the_run(monkeypatch):
    def start(_):
        process = multiprocessing.get_context("spawn").Process(target=int)  # ends at once
        process.start()
        return process

    monkeypatch.setattr(runner, "start_worker", start)
    with pytest.raises(ValueError, match="a worker process of the local runner ended"):
        _run(print)


def test_workers_have_folder_and_environment_of_this_moment(tmp_path, monkeypatch):
    def say(name):
        Path(f"{name}-{os.environ['SAID']}").touch()  # in the working folder

    for number in ("1", "2"):  # the second time the process that forks is there already
        (tmp_path / number).mkdir()
        monkeypatch.chdir(tmp_path / number)
        monkeypatch.setenv("SAID", number)
        _run(say, values=("a", "b"))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert found == ["1/a-1", "1/b-1", "2/a-2", "2/b-2"]


def test_progress_is_what_files_say_and_an_error_of_the_storage_does_not_stop_it(caplog):
    caplog.set_level(logging.INFO, "electrify")
    answers = iter([OSError("no network"), {"r1", "other"}])

    def list_names():
        answer = next(answers, {"r1", "r2", "other"})
        if isinstance(answer, OSError):
            raise answer
        return answer

    with watch("reading", {"r1": 3.0, "r2": 4.0}, list_names, 0.01):
        time.sleep(0.1)
    assert "7/7 MB (100 %)" in caplog.text
    with watch("writing", {"w1": 20.0}, list_names, 0.01, done=lambda names: 4.0 * len(names)):
        time.sleep(0.1)
    assert "12/20 MB (60 %)" in caplog.text
