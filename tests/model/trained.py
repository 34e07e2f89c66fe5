"""What a run leaves, to be compared with what another one left."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from model.checkpoint import MODEL, OPTIMIZER, checkpoints

# figures of the metrics that depend on the machine, not on the run
TIMINGS = frozenset({"seconds", "tokens_per_second", "mfu", "data_wait_fraction"})


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

    def check_same(self, wanted: "Trained") -> None:
        """All but clock times, to the bit."""
        own, others = (
            [{k: v for k, v in record.items() if k not in TIMINGS} for record in of.records]
            for of in (self, wanted)
        )
        assert own == others
        assert self.tensors.keys() == wanted.tensors.keys()
        assert [n for n, of in self.tensors.items() if not torch.equal(of, wanted.tensors[n])] == []

    def check_equal(
        self,
        wanted: "Trained",
        figures: float = 1e-5,
        weights: float = 1e-5,
        absolute: float | None = None,
    ) -> None:
        """All but clock times, to a relative and an absolute difference, by default as large."""
        assert len(self.records) == len(wanted.records)
        for record, other in zip(self.records, wanted.records, strict=True):
            assert record.keys() == other.keys()
            for name in record.keys() - TIMINGS:
                # a rank statistic: near ties change places
                is_rank = name == "rtd_auc"
                least = figures if absolute is None else absolute
                same = record[name] == other[name] or math.isclose(
                    record[name],
                    other[name],
                    rel_tol=2e-3 if is_rank else figures,
                    abs_tol=2e-3 if is_rank else least,
                )
                assert same, (other["kind"], other["step"], name, record[name], other[name])
        for name in self.tensors.keys() | wanted.tensors.keys():
            # of what has no gradient yet XLA has moments, all 0, and the CPU none
            own, its = self.tensors.get(name), wanted.tensors.get(name)
            own, its = own if own is not None else its * 0, its if its is not None else own * 0
            assert (own - its).abs().max().item() <= weights, name
