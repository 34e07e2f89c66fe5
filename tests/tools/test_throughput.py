"""The benchmarks of speed at tiny sizes: each prints its systems and the ratio to the peer."""

import json
import sys
from pathlib import Path

import orjson
import pytest
import torch

from electrify.config.load import load_config
from tools.throughput import against
from tools.throughput.__main__ import main
from tools.throughput.cost import Cost, run_measured
from tools.throughput.texts import prepare, write_config


def measured(words: str, folder: Path) -> list[dict[str, object]]:
    """The rows of the table of a run."""
    assert main([*words.split(), "--json", str(folder / "found.json")]) == 0
    tables = json.loads((folder / "found.json").read_text())["tables"]
    return tables["systems"]


def test_pretraining_is_timed_beside_its_peer(monkeypatch, tmp_path):
    # the compiler takes a minute and more; what is called in its place is what it would compile
    monkeypatch.setattr(torch, "compile", lambda module: module)
    words = "pretrain --device cpu --size tiny --rounds 1 --steps 1 --peer"
    ours, *others = measured(words, tmp_path)
    assert ours["ours_is_times_as_fast"] is None
    assert len(others) == 3
    for row in others:
        ratio = row["ms_per_step"] / ours["ms_per_step"]
        assert row["ours_is_times_as_fast"] == pytest.approx(ratio)


def test_a_commit_and_this_checkout_take_turns(monkeypatch, tmp_path):
    turns: list[str] = []
    seconds_per_step = {"commit": iter([0.5, 0.25]), "this": iter([0.5, 0.5])}
    shortest, longest = against._STEPS

    def run(verb: str, config: Path, *words: str, **_: object) -> Cost:
        code, num_steps = config.parent.name, int(words[-1].partition("=")[2]) if words else 0
        if num_steps != longest:
            return Cost(1.0, 10.0)  # the start of a run
        turns.append(code)
        return Cost(2.0, 10.0 + (longest - shortest) * next(seconds_per_step[code]))

    monkeypatch.setattr("tools.throughput.turns.run_electrify", run)
    monkeypatch.setattr(against, "_check_out", lambda commit, folder: commit)
    words = f"pretrain --against HEAD --rounds 2 --megabytes 0.01 --work {tmp_path / 'work'}"
    commit, this = measured(words, tmp_path)
    assert turns == ["commit", "this", "this", "commit"]
    assert (commit["cpu_seconds"], commit["ratio_of_cpu_seconds"]) == (0.375, None)
    assert (this["cpu_seconds"], this["ratio_of_cpu_seconds"]) == (0.5, 1.5)


def test_texts_are_those_of_the_corpora_as_a_run_reads_them(tmp_path):
    folder = tmp_path / "data" / "corpora" / "ko"
    folder.mkdir(parents=True)
    rows = [{"text": f"글 {number}", "source": "a"} for number in range(100)]
    (folder / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (folder / "b.jsonl").write_text('{"text": "다른 글"}')
    (folder.parent / "de").mkdir()
    (folder.parent / "de" / "empty.jsonl").touch()
    prepared = prepare(tmp_path / "input", tmp_path / "data", ["ko/a", "de"], None)
    assert (prepared.num_documents, prepared.languages) == (100, ["ko"])
    config = load_config(write_config(prepared, tmp_path / "run"))
    (source,) = config.clean.sources
    lines = (tmp_path / "input" / "00" / "00000.jsonl").read_text().splitlines()
    assert source.path == str(tmp_path / "input" / "00" / "*.jsonl")
    assert [json.loads(line) for line in lines] == rows
    whole = prepare(tmp_path / "whole", tmp_path / "data", ["all"], None)
    assert whole.num_documents == 101
    half = prepare(tmp_path / "half", tmp_path / "data", ["ko"], whole.num_bytes / 2e6)
    assert 30 < half.num_documents < 70
    with pytest.raises(ValueError, match=r"no en/"):
        prepare(tmp_path / "input", tmp_path / "data", ["en"], None)


def test_costs_are_of_all_processes_also_of_those_left_behind(tmp_path):
    burn = "import time\nwhile time.process_time() < 0.7: pass\n"
    leave = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {burn!r}])"
    behind = run_measured([sys.executable, "-c", leave], tmp_path / "log")
    assert 0.69 < behind.cpu_seconds < 2
    with pytest.raises(ValueError, match=r"(?s)status 3.*last words"):
        run_measured([sys.executable, "-c", "print('last words'); exit(3)"], tmp_path / "log")
