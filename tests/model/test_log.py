"""The record of a run goes on after a stop as if there had been none, on disk and on the boards."""

import math
from pathlib import Path

import pytest
import torch

from electrify.stage import trackers
from model import log as watch
from model.data import StepData, open_shards
from model.devices.processes import ALONE
from model.flops import Cost
from model.log import RunLog
from tests.model.conftest import make_config, write_tiny_shards
from tests.model.trained import records_of


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds."""
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)


def log_of(folder: Path, step: int) -> RunLog:
    config = make_config(folder, num_steps=60, warmup_steps=10)
    if not (folder / "shards").exists():
        write_tiny_shards(folder / "shards")
    data = StepData(config, open_shards(folder / "shards"), 0, 1)
    return RunLog(config, folder, step, data, torch.device("cpu"), ALONE)


def write_steps(log: RunLog, first: int, last: int) -> None:
    for step in range(first, last + 1):
        guess = {"rtd_auc": 0.5 if step <= 50 else 0.9, "rtd_loss": 0.5, "replaced_fraction": 0.14}
        figures = {"loss": 1 / step, "ko/rtd_auc": step / 100, **guess}
        log._seconds = 30.0 * step
        log.write("train", step, figures)
        if step % 10 == 0:
            log.write("valid", step, {"loss": 2 / step})


@pytest.mark.parametrize("stopped", [5, 40, 43, 45, 62])
def test_a_resumed_file_is_that_of_one_run(tmp_path, stopped):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    write_steps(log_of(whole, 0), 1, 70)
    write_steps(log_of(parts, 0), 1, stopped + 6)
    with (parts / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # killed while writing
    resumed = log_of(parts, stopped)
    assert resumed.cost()["seconds"] == 30 * stopped
    assert all(record["step"] <= stopped for record in records_of(parts))
    write_steps(resumed, stopped + 1, 70)
    assert (parts / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_figures_are_written_for_programs(tmp_path):
    figures = {
        "loss": 1.23456789012,
        "rtd_auc": math.nan,
        "learning_rate": 1.5e-7,
        "flops_paper": 1.25e19,
        "ko/rtd_auc": 0.75,
        "zh-Hant/rtd_auc": math.inf,
    }
    log_of(tmp_path, 0).write("valid", 4, figures)
    assert records_of(tmp_path) == [
        {
            "kind": "valid",
            "step": 4,
            "tokens": 4 * 4 * 32,
            "seconds": 0.0,
            "loss": 1.2345679,
            "rtd_auc": None,
            "learning_rate": 1.5e-7,
            "flops_paper": 1.25e19,
            "languages": {"ko": {"rtd_auc": 0.75}, "zh-Hant": {"rtd_auc": None}},
        }
    ]


class Board:
    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log(self, figures: dict[str, float], step: int) -> None:
        self.logged.append((step, figures))


def test_boards_get_what_the_file_gets(tmp_path):
    log, board = log_of(tmp_path, 0), Board()
    log._boards._trackers["a board"] = board
    write_steps(log, 1, 60)
    assert [step for step, of in board.logged if "train/loss" in of] == list(range(1, 61))
    assert board.logged[0][1] == {
        "train/loss": 1,
        "train/ko/rtd_auc": 0.01,
        "train/rtd_auc": 0.5,
        "train/rtd_loss": 0.5,
        "train/replaced_fraction": 0.14,
    }


def test_speed_counts_training_alone(tmp_path, monkeypatch):
    """Between `pause` and `start` the clock runs for nobody."""
    clock = [100.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    log = log_of(tmp_path, 0)
    monkeypatch.setattr(log, "_cost_until", lambda step: Cost(1, 1e9, 2e9) * 1000 * step)
    log._peak = 1e12
    clock[0] += 2
    log.pause(1)
    assert log._speed(waited_seconds=0.5) == pytest.approx(
        {
            "tokens_per_second": 500,
            "mfu": 0.5,
            "data_wait_fraction": 0.25,
            "flops_matmul": 1e12,
            "flops_paper": 2e12,
        }
    )
    clock[0] += 60  # validation
    log.start()
    clock[0] += 4
    log.pause(2)
    assert log._speed(0.0)["tokens_per_second"] == pytest.approx(250)
    assert log.cost()["seconds"] == pytest.approx(6)
