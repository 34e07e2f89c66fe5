"""Jobs in several processes give what they give in one, and end when asked to."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from benchmarks.evaluate import evaluate
from benchmarks.finetune.parallel import in_processes
from benchmarks.results.predictions import read_predictions
from benchmarks.results.results import read_results
from electrify.system.progress import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def last_for_ever(report):
    while True:
        report(1)
        time.sleep(0.01)


def begin(folder, number, report):
    (folder / str(number)).touch()
    last_for_ever(report)


def die(report):
    os._exit(1)


def meet(folder, number, report):
    """What this process may use, once as many are here as there are calls."""
    # a signal to the whole group, as of a closed terminal, must leave the parent time to save
    assert all(signal.getsignal(of) is signal.SIG_IGN for of in SIGNALS)
    (folder / str(number)).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    report(10 + number)
    return number, os.environ["CUDA_VISIBLE_DEVICES"], torch.get_num_threads()


def test_each_process_has_a_gpu_and_its_share_of_the_cores(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("benchmarks.finetune.parallel.num_cores", lambda: 7)
    rows = {}
    calls = [(tmp_path, number) for number in range(2)]
    found = dict(in_processes(meet, calls, 2, rows.__setitem__))
    assert {index: number for index, (number, *_) in found.items()} == {0: 0, 1: 1}
    assert rows == {0: 10, 1: 11}
    assert sorted(of for _, *of in found.values()) == [["2", 3], ["5", 3]]


@pytest.mark.slow
def test_a_stop_ends_every_process_and_begins_no_call_that_waits(tmp_path):
    def stop_when_both_run(index, num_rows):
        if len(list(tmp_path.iterdir())) == 2:
            raise Stopped("enough")

    calls = [(tmp_path, number) for number in range(6)]
    with pytest.raises(Stopped):
        list(in_processes(begin, calls, 2, stop_when_both_run))
    while multiprocessing.active_children():
        time.sleep(0.05)
    assert len(list(tmp_path.iterdir())) == 2


PROGRAM = """
import sys
from pathlib import Path
from benchmarks.finetune.parallel import in_processes
from tests.benchmarks.finetune.test_parallel import begin, leave

if __name__ == "__main__":
    calls = [(Path(sys.argv[1]), 0), (Path(sys.argv[1]), 1)]
    list(in_processes(leave if sys.argv[2] == "idle" else begin, calls, 2, lambda *of: None))
"""


def leave(folder, number, report):
    """One process has nothing to do any more, the other goes on."""
    (folder / str(number)).touch()
    if number:
        last_for_ever(report)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["idle", "busy"])
def test_no_process_outlives_a_parent_that_is_killed(work, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "at"), work]
    (tmp_path / "at").mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    parent = subprocess.Popen(command, env=environment, start_new_session=True)
    while len(list((tmp_path / "at").iterdir())) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    workers = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


@pytest.mark.slow
def test_a_process_killed_by_the_system_is_reported():
    with pytest.raises(ValueError, match=r"lower evaluate\.num_processes \(now 2\)"):
        list(in_processes(die, [(), ()], 2, lambda index, num_rows: None))


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_number_of_processes(make_config, model_folder, tmp_path):
    found = []
    for num_processes in (1, 2):
        config = make_config(seeds=[0, 1], num_epochs=2, num_processes=num_processes)
        config = config.model_copy(update={"output_dir": str(tmp_path / str(num_processes))})
        evaluate(config, str(model_folder), overwrite=False)
        (folder,) = (tmp_path / str(num_processes)).glob("evaluate-*")
        assert {r.seed for r in read_results(folder / "results.jsonl")} == {0, 1}
        found.append([probabilities(folder, seed) for seed in (0, 1)])
    assert found[0][0] != pytest.approx(found[0][1], abs=1e-4)  # another seed, another model
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-4)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-4)


def probabilities(folder, seed):
    path = folder / "predictions" / "klue-ynat" / f"pretrained-{seed}.jsonl"
    return [p for line in read_predictions(path)[1] for p in line["probabilities"]]
