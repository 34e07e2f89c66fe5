"""A stage of several processes: whatever stands there already, all exchange as often."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from electrify.stage.folder import Stage
from electrify.stage.run import run_stage
from model.train.processes import Ranks, run_together


@dataclass(frozen=True)
class Recorded(Ranks):
    """Notes what it would exchange; the others' flags are `others`."""

    others: bool = False
    exchanges: list[str] = field(default_factory=list)

    def any_of(self, flag: bool) -> bool:
        self.exchanges.append("any_of")
        return flag or self.others

    def wait(self) -> None:
        self.exchanges.append("wait")


@pytest.mark.parametrize("state", ["nothing", "whole but for its name", "done"])
def test_all_processes_exchange_as_often(state: str, tmp_path: Path):
    stage = Stage("pretrain", tmp_path / "pretrain", {"seed": 1})
    calls = []

    def work(folder: Path) -> dict[str, int]:
        calls.append(folder)
        (folder / "weights").write_text("w")
        return {}

    if state != "nothing":
        run_stage(stage, work)
    if state == "whole but for its name":  # killed between the manifest and the rename
        stage.folder.rename(stage.partial)
    calls.clear()
    first = Recorded(0, 2)
    ran = run_together(stage, work, first)
    assert stage.folder.exists()
    assert ran == (state != "done")
    worked = bool(calls)
    assert worked == (state == "nothing")
    second = Recorded(1, 2, others=worked)
    run_together(stage, lambda folder: {}, second)
    assert first.exchanges == second.exchanges
