"""A grid at work: what fails, what is stopped, and one small grid to its end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import benchmarks.ablate.run as ablate_jobs
from benchmarks.ablate.grid import Run, load_grid, plan_runs
from benchmarks.ablate.run import _link, ablate, execute, is_done
from electrify.check import check_run
from electrify.system.progress import Stopped
from tests.benchmarks.ablate.test_grid import TWO
from tests.benchmarks.test_report import make_run, run_config

SAVES = (
    "import signal, sys, time, pathlib\n"
    "def save(*_):\n"
    "    time.sleep(0.3); pathlib.Path(sys.argv[1]).write_text('saved'); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "pathlib.Path(sys.argv[1]).write_text('began')\n"
    "time.sleep(60)\n"
)


@pytest.fixture
def grid(tmp_path: Path):
    path = tmp_path / "grid.toml"
    path.write_text(TWO.replace("seeds = [4, 7]", "seeds = [0, 1]"))
    return load_grid(path)


def let_runs_be(monkeypatch: pytest.MonkeyPatch, scripts: dict[tuple[str, int], list[str]]):
    """Let each run be a script of Python with its arguments."""

    def start(grid, run, overwrite):
        return subprocess.Popen([sys.executable, "-c", *scripts[run.variant, run.seed]])

    monkeypatch.setattr(ablate_jobs, "start", start)


def test_every_run_ends_with_its_status_and_one_that_fails_stops_no_other(grid, monkeypatch):
    statuses = {("half", 0): 0, ("full", 0): 3, ("half", 1): 4, ("full", 1): 0}
    scripts = {key: [f"raise SystemExit({status})"] for key, status in statuses.items()}
    let_runs_be(monkeypatch, scripts)
    found = {(r.variant, r.seed): status for r, status in execute(grid, plan_runs(grid, []), False)}
    assert found == statuses


def test_a_stopped_grid_waits_until_what_runs_has_saved(grid, monkeypatch, tmp_path):
    marks = {(v, s): tmp_path / f"{v}-{s}" for v in ("half", "full") for s in (0, 1)}
    let_runs_be(monkeypatch, {key: [SAVES, str(mark)] for key, mark in marks.items()})

    def stop_once_it_runs():
        while not marks["half", 0].exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_once_it_runs).start()
    with pytest.raises(Stopped, match="4 runs are not finished"):
        list(execute(grid, plan_runs(grid, []), False))
    assert marks["half", 0].read_text() == "saved"
    assert not marks["full", 0].exists()  # was never started


def test_a_link_to_another_corpus_is_set_anew_and_a_folder_stays(tmp_path):
    """A variant whose vocabulary was edited must not go on reading the old one."""
    for name in ("first", "second", "run/shards"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("first", "second"):
        _link(tmp_path / name, tmp_path / "run" / "vocab")
        assert (tmp_path / "run" / "vocab").resolve() == tmp_path / name
    _link(tmp_path / "first", tmp_path / "run" / "shards")
    assert not (tmp_path / "run" / "shards").is_symlink()


def test_no_corpus_is_made_where_a_run_would_lack_something(grid, tmp_path):
    words = [f"output_dir='{tmp_path / 'demo'}'", f"evaluate.data_dir='{tmp_path}'"]
    words += ["evaluate.own_tasks=[]", "evaluate.tasks=['klue-ynat']"]
    with pytest.raises(ValueError, match="has no data of klue-ynat"):
        ablate(tmp_path / "grid.toml", words, [], False, check_run)
    assert not (tmp_path / "demo").exists()


def test_a_run_is_done_whatever_probes_its_config_names(tmp_path):
    config = run_config(make_run(tmp_path / "run"))
    for suites, done in (((), True), (("robustness",), True), (("klue",), False)):
        evaluate = config.evaluate.model_copy(update={"suites": suites})
        run = Run("full", 0, config.model_copy(update={"evaluate": evaluate}), ())
        assert is_done(run) == done
