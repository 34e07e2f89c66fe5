"""The inference benchmark: a row a length and system, ratios of medians, sizes of the files."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.throughput.__main__ import main


@pytest.fixture
def arguments(model_folder: Path) -> list[str]:
    short = ["--lengths", "4,8", "--threads", "1", "--rounds", "2", "--variants", "int8"]
    return ["inference", "--model", str(model_folder), *short]


def test_every_length_and_system_is_measured(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = ["오늘 국회 새 증시 큰 경찰 첫 여행 다시 외교"] * 10
    monkeypatch.setattr("benchmarks.throughput.inference.sample", lambda: text)
    threads = torch.get_num_threads()
    assert main([*arguments, "--peer", "--json", str(tmp_path / "found.json")]) == 0
    assert torch.get_num_threads() == threads
    rows = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["tables"]["threads-1"]
    systems = ["torch, eager", "ONNX, fp32", "ONNX, int8"]
    assert [(row["length"], row["system"]) for row in rows] == [
        (length, system) for length in (4, 8) for system in systems
    ]
    for peer, _, int8 in (rows[:3], rows[3:]):
        ratio = peer["milliseconds"] / int8["milliseconds"]
        assert int8["times_as_fast_as_torch"] == pytest.approx(ratio)
    assert rows[2]["megabytes"] < rows[1]["megabytes"]
    assert "| 4 | ONNX, int8 |" in capsys.readouterr().out


def test_what_cannot_be_measured_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--lengths", "64"]) == 1
    assert "--lengths 64: the model has 32 positions" in capsys.readouterr().err
    assert main([*arguments, "--variants", "int4"]) == 1
    assert "did you mean int8" in capsys.readouterr().err
