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
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from electrify.system import machine
from pipeline import runner
from pipeline.runner import make_pipeline, progress_name, run_pipeline, watch

BIG = 10_000_000_000


def _num_workers(pipeline):
    assert type(pipeline.runner) is FnApiRunner
    return pipeline.options.view_as(DirectOptions).direct_num_workers


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


def test_options_override_the_config():
    assert _num_workers(make_pipeline("FlinkRunner", ["--runner=local"], 1000)) == 1
    pipeline = make_pipeline("local", ["--runner=FlinkRunner", "--flink_master=host:8081"], BIG)
    assert type(pipeline.runner).__name__ == "FlinkRunner"
    assert pipeline.options.get_all_options()["flink_master"] == "host:8081"
    assert pipeline.options.view_as(StandardOptions).runner == "FlinkRunner"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--direct_running_mode=multi_threading"], "multi_threading loses data"),
        (["--direct_running_mode", "multi_threading", "--runner=DirectRunner"], "loses data"),
        (["--direct_num_workers=many"], "invalid int value: 'many'"),
        (["--direct_num_workers=-1"], "--direct_num_workers=-1: give 1 or more"),
        (["--runner=NoRunner"], "'NoRunner' is no Beam runner; did you mean FnApiRunner, "),
        (["--runner=none.Runner"], "cannot start the runner 'none.Runner': No module named"),
    ],
)
def test_refused_options(options, message, capsys):
    with pytest.raises(ValueError, match=message):
        make_pipeline("local", options, 1000)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_local_pipeline_runs_where_it_should(tmp_path, num_workers):
    def note(number, folder):
        Path(folder, f"{number} {os.getpid()}").touch()

    pipeline = make_pipeline("local", [f"--direct_num_workers={num_workers}"], 0)
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(note, str(tmp_path))
    run_pipeline(pipeline)
    numbers, processes = zip(*(path.name.split() for path in tmp_path.iterdir()), strict=True)
    assert sorted(numbers) == ["1", "2", "3"]
    assert (str(os.getpid()) in processes) == (num_workers == 1)


def test_an_interrupt_and_other_errors_keep_their_kind():
    for error, expected in ((KeyboardInterrupt(), KeyboardInterrupt), (KeyError("a"), KeyError)):

        def fail(_, error=error):
            raise error

        pipeline = make_pipeline("local", [], 0)
        _ = pipeline | beam.Create([1]) | beam.Map(fail)
        with pytest.raises(expected):
            run_pipeline(pipeline)


@pytest.mark.parametrize("path", ["a/documents.parquet", None])  # Arrow names no file
def test_what_the_system_refused_a_worker_keeps_its_number(path):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    pipeline = make_pipeline("local", [], 0)
    _ = pipeline | beam.Create([1]) | beam.Map(fail)
    with pytest.raises(OSError, match="No space left on device") as raised:
        run_pipeline(pipeline)
    assert raised.value.errno == errno.ENOSPC
    assert raised.value.filename == path


_TRACE = """Pipeline job-1 failed in state FAILED: java.lang.RuntimeException: Traceback
  File "worker.py", line 1, in process
{}
"""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "pipeline.runner.WorkerError: the worker on b has no rights [while running 'a']",
            "^the .*s$",
        ),
        ("ModuleNotFoundError: No module named 'pipeline'", "has no electrify.*install the wheel"),
        ("AttributeError: Can't get attribute 'x' on <module 'pipeline.a'", "has no electrify"),
        (
            "KeyError: 7 [while running 'a']",
            "FlinkRunner has given the job up: KeyError: 7.* goes on$",
        ),
        ("", "FlinkRunner has given the job up: Pipeline job-1 failed"),
    ],
)
def test_what_a_cluster_says_becomes_a_line(said, message):
    class Failing:
        runner = FlinkRunner()

        def run(self):
            raise RuntimeError(_TRACE.format(said))

    with pytest.raises(ValueError, match=message) as raised:
        run_pipeline(Failing())
    assert "\n" not in str(raised.value)


def test_a_worker_that_never_leaves_is_not_waited_for_without_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.5)

    def stay(number, folder):
        threading.Thread(target=time.sleep, args=(600,)).start()  # the process waits for it
        Path(folder, f"{number} {os.getpid()}").touch()

    pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(stay, str(tmp_path))
    run_pipeline(pipeline)
    numbers, processes = zip(*(path.name.split() for path in tmp_path.iterdir()), strict=True)
    assert sorted(numbers) == ["1", "2", "3"]
    for process in set(processes):
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


def test_ctrl_c_at_a_terminal_leaves_the_workers_to_this_process(tmp_path):
    def interrupt(number, folder):
        os.kill(os.getpid(), signal.SIGINT)  # a terminal sends it to all processes
        Path(folder, str(number)).touch()

    pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(interrupt, str(tmp_path))
    run_pipeline(pipeline)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of Beam's
def test_a_worker_that_is_killed_is_named_with_the_next_step():
    def end(_):
        os.kill(os.getpid(), signal.SIGKILL)

    pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(end)
    with pytest.raises(ValueError, match=r"worker process.*memory.*--direct_num_workers=1"):
        run_pipeline(pipeline)


def test_the_memory_of_workers_counts(monkeypatch):
    monkeypatch.setattr(machine, "_remembered_mb", 0)

    def hold(_):
        np.ones(60_000_000)  # 480 MB

    pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
    _ = pipeline | beam.Create([1, 2]) | beam.Reshuffle() | beam.Map(hold)
    run_pipeline(pipeline)
    assert machine._remembered_mb > 480


def test_a_worker_that_never_begins_ends_the_run(monkeypatch):
    def start(_):
        process = multiprocessing.get_context("spawn").Process(target=int)  # ends at once
        process.start()
        return process

    monkeypatch.setattr(runner, "start_worker", start)
    pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(print)
    with pytest.raises(ValueError, match="a worker process of the local runner ended"):
        run_pipeline(pipeline)


def test_workers_have_folder_and_environment_of_this_moment(tmp_path, monkeypatch):
    def say(name):
        Path(f"{name}-{os.environ['SAID']}").touch()  # in the working folder

    for number in ("1", "2"):  # the second time the process that forks is there already
        (tmp_path / number).mkdir()
        monkeypatch.chdir(tmp_path / number)
        monkeypatch.setenv("SAID", number)
        pipeline = make_pipeline("local", ["--direct_num_workers=2"], 0)
        _ = pipeline | beam.Create(["a", "b"]) | beam.Reshuffle() | beam.Map(say)
        run_pipeline(pipeline)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert found == ["1/a-1", "1/b-1", "2/a-2", "2/b-2"]


def test_a_phase_is_done_when_its_files_are_there_and_shares_count(tmp_path, caplog):
    caplog.set_level(logging.INFO, "electrify")
    names = {
        progress_name("w2", 0.5),
        progress_name("w2", 0.25),
        progress_name("w9", 1.0),
        "w3.tmp",
    }
    polls = 0

    def list_names():
        nonlocal polls
        polls += 1
        if polls == 1:  # no reason to stop
            raise OSError("no network")
        return names

    phases = [("reading", {"r1": 3.0, "r2": 4.0}), ("writing", {"w1": 5.0, "w2": 6.0, "w3": 9.0})]
    with watch(phases, "MB", list_names, 0.01):
        time.sleep(0.1)
        names |= {"r1", "r2", "w1"}
    assert "reading: 7/7 MB (100 %)" in caplog.text
    assert "writing: 8/20 MB (40 %)" in caplog.text
