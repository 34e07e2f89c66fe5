"""Training, and what it leaves, to be compared with what another run left."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from electrify.config.run import RunConfig
from model.checkpoint import MODEL, OPTIMIZER, checkpoints
from model.compiled import FastStep
from model.pretrain import Trainer

# figures of the metrics that depend on the machine, not on the run
TIMINGS = frozenset({"seconds", "tokens_per_second", "mfu", "data_wait_fraction"})


def train(
    config: RunConfig,
    folder: Path,
    stop_after: int | None = None,
    monkeypatch: pytest.MonkeyPatch | None = None,
) -> None:
    """Of a run, or until it is killed before a step: nothing is saved then."""
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(config)
    if monkeypatch is None:
        trainer.run(folder)
        return
    original = FastStep.__call__

    def stopping(*arguments: Any) -> Any:
        if arguments[-1] == stop_after:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FastStep, "__call__", stopping)
        with pytest.raises(KeyboardInterrupt):
            trainer.run(folder)


def records_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    records: list[dict[str, Any]]
    tensors: dict[str, torch.Tensor]  # weights and moments

    @classmethod
    def read(cls, folder: Path) -> "Trained":
        last = checkpoints(folder)[-1]
        tensors = load_file(last / MODEL) | load_file(last / OPTIMIZER)
        copies = {name: tensor.clone() for name, tensor in tensors.items()}  # not the mapped files
        return cls(records_of(folder), copies)

    def figures(self) -> list[dict[str, Any]]:
        """The records but for clock times."""
        return [{k: v for k, v in of.items() if k not in TIMINGS} for of in self.records]

    def check_same(self, wanted: "Trained") -> None:
        """All but clock times, to the bit."""
        assert self.figures() == wanted.figures()
        assert self.tensors.keys() == wanted.tensors.keys()
        assert [n for n, of in self.tensors.items() if not torch.equal(of, wanted.tensors[n])] == []

    def check_equal(self, wanted: "Trained", absolute: float = 1e-5) -> None:
        """All but clock times, to 1e-5 or, of a figure that is smaller, an absolute difference."""
        for found, expected in zip(self.figures(), wanted.figures(), strict=True):
            assert found.pop("kind") == expected.pop("kind")
            # a rank statistic: near ties change places; null where nothing is replaced
            areas = [of.pop("rtd_auc", None) or 0.0 for of in (found, expected)]
            assert areas[0] == pytest.approx(areas[1], rel=2e-3)
            assert found == pytest.approx(expected, rel=1e-5, abs=absolute)
        for name in self.tensors.keys() | wanted.tensors.keys():
            # of what has no gradient yet XLA has moments, all 0, and the CPU none
            own, its = self.tensors.get(name), wanted.tensors.get(name)
            own, its = own if own is not None else its * 0, its if its is not None else own * 0
            assert (own - its).abs().max().item() <= 1e-5, name
