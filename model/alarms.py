"""Alarms on how a run goes, raised once and ended once, from its records alone.

So a resumed run raises the same ones, and none twice.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from electrify.config_pretrain import PretrainConfig
from model.alarm_causes import CAUSES, Cause, Record, RunFacts

CALM = 10  # records without a cause that end an alarm
HISTORY = 200  # records kept, more than any cause looks back


@dataclass(frozen=True)
class Alarm:
    """An alarm, or the end of one."""

    name: str
    state: Literal["raised", "over"]
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else f"{self.name}: over"

    def record(self) -> dict[str, str]:
        """Its fields in `metrics.jsonl`."""
        text = {"text": self.text} if self.text else {}
        return {"alarm": self.name, "state": self.state, **text}


class Alarms:
    """Follows a run's records, of which `records` were written before this process."""

    def __init__(self, facts: RunFacts, records: Iterable[Record] = ()) -> None:
        self._facts = facts
        self._recent: deque[Record] = deque(maxlen=HISTORY)
        self._open: set[str] = set()
        for record in records:
            if record["kind"] == "train":
                self._recent.append(record)
            elif record["kind"] == "alarm" and record["state"] == "raised":
                self._open.add(record["alarm"])
            elif record["kind"] == "alarm":
                self._open.discard(record["alarm"])

    def add(self, record: Record) -> list[Alarm]:
        """What a new record sets off, or ends; records of validation set off nothing."""
        if record["kind"] != "train":
            return []
        self._recent.append(record)
        alarms = []
        for name, cause in CAUSES.items():
            text = self._cause(cause, 0)
            if text and name not in self._open:
                self._open.add(name)
                alarms.append(Alarm(name, "raised", text))
            elif name in self._open and not any(self._cause(cause, n) for n in range(CALM)):
                self._open.remove(name)
                alarms.append(Alarm(name, "over"))
        return alarms

    def _cause(self, cause: Cause, num_left_out: int) -> str | None:
        """The cause as it was `num_left_out` records ago, seen in its own phase alone."""
        records = list(self._recent)[: len(self._recent) - num_left_out]
        if not records:
            return None
        starts = self._facts.phase_starts
        start = max(s for s in starts if s < records[-1]["step"] or s == min(starts))
        return cause([r for r in records if r["step"] > start], self._facts, start)


def broken_state(gradient_norm: float, step: int, config: PretrainConfig) -> str:
    """What to say of a run that is to stop before a state with nan or inf is saved."""
    return (
        f"the gradient norm became {gradient_norm} by step {step:,}: the weights are, or are "
        "about to be, no numbers any more, and nothing of it is saved. Lower "
        "pretrain.learning_rate (now "
        f"{config.learning_rate:g}) or lengthen warmup_steps (now {config.warmup_steps:,}), or "
        f"try precision = 'fp32' (now {config.precision!r}); the run goes on from its last good "
        "checkpoint"
    )


def unigram_entropy(ids: NDArray[np.integer[Any]], special_ids: Iterable[int]) -> float:
    """Entropy of the pieces' frequencies in a sample of text, special tokens left out, in nats.

    With the first-order correction for the sample's size, (distinct - 1) / (2 n) (Miller 1955).
    """
    counts = np.bincount(ids.ravel().astype(np.int64))
    counts = np.delete(counts, [i for i in special_ids if i < len(counts)])
    counts = counts[counts > 0]
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum() + (len(counts) - 1) / (2 * counts.sum()))
