"""Two runs of one config are the same, but for what clocks and the place say."""

import json
from pathlib import Path

import pytest

from benchmarks.results.results import MEASURED
from benchmarks.torture.compare import differences
from benchmarks.torture.demo import STAGES
from electrify.stage.folder import Stage
from electrify.stage.plan import TIMINGS
from electrify.stage.run import run_stage

VOLATILE = ("metrics.jsonl", "summary.json", "results.jsonl")


def finished_run(folder: Path, **changed: object) -> Path:
    record = dict.fromkeys([*TIMINGS, *MEASURED, "loss", "train_flops"], 1.0) | changed

    def work(partial: Path) -> dict[str, int]:
        for name in VOLATILE:
            (partial / name).write_text(json.dumps({"inner": [record]}), encoding="utf-8")
        return {}

    for stage in STAGES:
        run_stage(Stage(stage, folder / stage, {}, volatile=VOLATILE), work)
    return folder


def test_figures_of_the_machine_may_differ(tmp_path):
    later = dict.fromkeys([*TIMINGS, *MEASURED], 2.0)
    assert differences(finished_run(tmp_path / "a"), finished_run(tmp_path / "b", **later)) == []


@pytest.mark.parametrize("name", ["loss", "train_flops"])
def test_figures_of_the_run_may_not(tmp_path, name):
    found = differences(finished_run(tmp_path / "a"), finished_run(tmp_path / "b", **{name: 2.0}))
    assert [line.partition(",")[0] for line in found] == [
        "pretrain/metrics.jsonl",
        "evaluate/results.jsonl",
        "pretrain/summary.json",
    ]
