"""Alarms on a run that does not learn, raised once and ended once, from its records alone.

So a resumed run raises the same alarms, and none twice. A false alarm costs more trust than a late
one: a cause must last for several records, well after the start of a phase, and lie far outside
what healthy runs show.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import PretrainConfig

Record = Mapping[str, Any]

RECENT = 20  # records whose median is looked at
# No run is told from a broken one before so many steps of a phase, nor within twice the warmup.
GRACE_STEPS = 5000
# For the discriminator, of a short phase: one of 900 steps guesses for half of it, and healthy ones
# then reach an AUC of .63.
GRACE_FRACTION = 2 / 3
FEWEST = 5  # records behind the grace that a short phase is judged by
# Tiny runs of 2,900 to 4,800 steps that learnt end at an AUC of .61 or more and find 4.5 % or more.
# One whose rate was too high ends at .53 and 1 %; the demo, on hardly any text, at .55 to .57 and 3
# to 4 %.
GUESSING_AUC, FINDS_NOTHING_AUC = 0.55, 0.59
FINDS_NOTHING = 0.05  # of the replaced tokens
# Of the entropy of the replaced fraction, which is the loss of a constant answer. At an AUC of .59
# the right probabilities cost 98 % of it; the demo learns some of its few sentences by heart.
LITTLE_INFORMATION = 0.94
# Of the unigram entropy. A generator of two layers and width 32, which learns slowly, still costs
# 85 % of it after 5,000 steps; one that copies what it is shown and knows no more, as much.
NOT_LEARNING = 0.97

_DETECTS = ("electra", "electra-adversarial", "electra-two-stage")


@dataclass(frozen=True)
class RunFacts:
    config: PretrainConfig
    lengths_from: tuple[int, ...] = ()  # first steps of the phases of its curriculum
    unigram_entropy: float = math.inf  # of the training text, in nats
    num_epochs: float = math.nan  # passes over the text

    @property
    def phase_starts(self) -> list[int]:
        """Steps after which batches or losses are others."""
        return sorted({0, self.config.second_stage_step, *self.lengths_from})

    def phase_steps(self, start: int) -> int:
        later = (s for s in self.phase_starts if s > start)
        return min(later, default=self.config.num_steps) - start


def _guessing(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """Hardly any information about which tokens are replaced."""
    config = facts.config
    grace = min(GRACE_STEPS, int(GRACE_FRACTION * facts.phase_steps(start)))
    grace = max(grace, 2 * config.warmup_steps)
    judged = [record for record in records if record["step"] - start > grace]
    area, recall, loss, replaced = (
        _median(judged, name, FEWEST)
        for name in ("rtd_auc", "rtd_recall", "rtd_loss", "replaced_fraction")
    )
    if config.objective not in _DETECTS or area is None or loss is None or replaced is None:
        return None
    constant = _binary_entropy(replaced)
    finds = recall is not None and recall >= FINDS_NOTHING
    limit = GUESSING_AUC if finds else FINDS_NOTHING_AUC
    if area >= limit or loss < LITTLE_INFORMATION * constant:
        return None
    found = "" if recall is None else f", {100 * recall:.1f} % of the replaced tokens found"
    return (
        f"the discriminator hardly tells replaced tokens from others: AUC {area:.3f}{found}, RTD "
        f"loss {loss:.4f}, where a constant answer costs {constant:.4f} (medians of the last "
        f"{min(len(judged), RECENT)} records). Where it was better before, the rate is too high: "
        "start again from a checkpoint before with a lower pretrain.learning_rate (now "
        f"{config.learning_rate:g}) or longer warmup_steps (now {config.warmup_steps:,}). Where it "
        f"never was, train longer (num_steps is {config.num_steps:,}) or on more text (the run "
        f"passes {facts.num_epochs:.1f} times over its text); if both are ample, lower the rate, "
        "take a smaller generator, or check discriminator_weight (the paper's is 50)"
    )


def _not_learning(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """A masked language model that knows no more than how frequent each piece is."""
    objective = facts.config.objective
    reads = objective == "mlm" or start < facts.config.mlm_steps
    if objective == "electra-adversarial" and not reads:
        return None  # its generator is not trained to predict
    loss = _median(records, "language_loss" if reads else "generator_loss")
    constant = facts.unigram_entropy
    grace = max(GRACE_STEPS, 2 * facts.config.warmup_steps)
    if not records or records[-1]["step"] - start <= grace:
        return None
    if loss is None or loss < NOT_LEARNING * constant:
        return None
    return (
        f"the masked language model does not learn: loss {loss:.3f} over the last {RECENT} "
        f"records, where the frequencies of the pieces alone give {constant:.3f}. Lower "
        "pretrain.learning_rate or lengthen warmup_steps; if that does not help, look at the "
        "segmented sentences in vocab/report.html"
    )


def _median(records: Sequence[Record], name: str, fewest: int = RECENT // 2 + 1) -> float | None:
    """Of the last records; None unless so many of them have it."""
    values = [float(r[name]) for r in records[-RECENT:] if r.get(name) is not None]
    return median(values) if len(values) >= fewest else None


def _binary_entropy(share: float) -> float:
    parts = [p for p in (share, 1 - share) if p > 0]
    return -sum(p * math.log(p) for p in parts)


CAUSES = {"majority-class": _guessing, "not-learning": _not_learning}
CALM = 10  # records without a cause that end an alarm


@dataclass(frozen=True)
class Alarm:
    name: str
    state: Literal["raised", "over"]
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else f"{self.name}: over"

    def record(self) -> dict[str, str]:
        text = {"text": self.text} if self.text else {}
        return {"alarm": self.name, "state": self.state, **text}


class Alarms:
    """Follows a run's records of steps, of which `records` were written before this process."""

    def __init__(self, facts: RunFacts, records: Iterable[Record] = ()) -> None:
        self._facts = facts
        self._recent = deque[Record](maxlen=RECENT + CALM)
        self._open: set[str] = set()
        for record in records:
            if record["kind"] == "train":
                self._recent.append(record)
            elif record["kind"] == "alarm" and record["state"] == "raised":
                self._open.add(record["alarm"])
            elif record["kind"] == "alarm":
                self._open.discard(record["alarm"])

    def add(self, record: Record) -> list[Alarm]:
        """The alarms that a new record raises, or ends."""
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

    def _cause(
        self, cause: Callable[[Sequence[Record], RunFacts, int], str | None], num_left_out: int
    ) -> str | None:
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
