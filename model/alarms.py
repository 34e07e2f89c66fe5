"""Alarms say that a run does not learn.

One is raised once, from the run's records alone, so a resumed run raises the same alarms. A false
alarm costs more trust than a late one: a cause must last for several records, well after the start
of a phase, and lie far outside what healthy runs show.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import PretrainConfig
from model.optim import LEAST_SCALE
from model.plan import phases_of

Record = Mapping[str, Any]

RECENT = 20  # records whose median is looked at
# No run is told from a broken one before so many steps of a phase, nor within twice the warmup.
GRACE_STEPS = 5000
# For the discriminator, of a short phase: one of 900 steps guesses for half of it, and healthy ones
# then reach an AUC of .63.
GRACE_FRACTION = 2 / 3
FEWEST = 5  # records behind the grace that a short phase is judged by
# Tiny runs of 2,900 to 4,800 steps that learnt end at an AUC of .61 or more. One whose rate was too
# high ends at .53; the demo, on hardly any text, at .55 to .57.
GUESSING_AUC = 0.59
# Of the entropy of the replaced fraction, which is the loss of a constant answer. At an AUC of .59
# the right probabilities cost 98 % of it; the demo learns some of its few sentences by heart.
LITTLE_INFORMATION = 0.94
# Of the unigram entropy. A generator of two layers and width 32, which learns slowly, still costs
# 85 % of it after 5,000 steps; one that copies its input and knows no more, as much.
NOT_LEARNING = 0.97

_DETECTS = ("electra", "electra-adversarial", "electra-two-stage")


class Alarms:
    """Follows a run's records of steps, of which `records` were written before this process.

    The training text has a unigram entropy in nats, and the run passes `num_epochs` times over it.
    """

    def __init__(
        self,
        config: PretrainConfig,
        unigram_entropy: float = math.inf,
        num_epochs: float = math.nan,
        records: Iterable[Record] = (),
    ) -> None:
        self._config, self._entropy, self._num_epochs = config, unigram_entropy, num_epochs
        # steps after which batches or losses are others
        starts = {phase.first_step for phase in phases_of(config)}
        self._phase_starts = sorted({*starts, config.second_stage_step})
        self._recent = deque[Record](maxlen=RECENT)
        self._states: dict[str, str] = {}  # of the alarms that were raised
        for record in records:
            if record["kind"] == "train":
                self._recent.append(record)
            elif record["kind"] == "alarm":
                self._states[record["alarm"]] = record["state"]

    def add(self, record: Record) -> list[tuple[str, str]]:
        """Names and texts of the alarms that a new record raises; of one that it ends no text."""
        if record["kind"] != "train":
            return []
        self._recent.append(record)
        start = max(s for s in self._phase_starts if s < record["step"] or s == 0)
        phase = [r for r in self._recent if r["step"] > start]
        alarms = []
        for name, text in (
            ("majority-class", self._guessing(phase, start)),
            ("not-learning", self._not_learning(phase, start)),
        ):
            state = self._states.get(name)
            if (text and state is None) or (not text and state == "raised"):
                self._states[name] = "raised" if text else "over"
                alarms.append((name, text))
        return alarms

    def _guessing(self, records: Sequence[Record], start: int) -> str:
        """Hardly any information about which tokens are replaced."""
        config = self._config
        end = min((s for s in self._phase_starts if s > start), default=config.num_steps)
        grace = min(GRACE_STEPS, int(GRACE_FRACTION * (end - start)))
        grace = max(grace, 2 * config.warmup_steps)
        judged = [record for record in records if record["step"] - start > grace]
        area, loss, replaced = (
            _median(judged, name, FEWEST) for name in ("rtd_auc", "rtd_loss", "replaced_fraction")
        )
        if config.objective not in _DETECTS or area is None or loss is None or replaced is None:
            return ""
        constant = -sum(p * math.log(p) for p in (replaced, 1 - replaced) if p > 0)
        if area >= GUESSING_AUC or loss < LITTLE_INFORMATION * constant:
            return ""
        return (
            f"the discriminator hardly tells replaced tokens from others: AUC {area:.3f}, RTD "
            f"loss {loss:.4f}, where a constant answer costs {constant:.4f} (medians of the last "
            f"{min(len(judged), RECENT)} records). Where it was better before, the rate is too "
            "high: start again from a checkpoint before with a lower pretrain.learning_rate (now "
            f"{config.learning_rate:g}) or longer warmup_steps (now {config.warmup_steps:,}). "
            f"Where it never was, train longer (num_steps is {config.num_steps:,}) or on more text "
            f"(the run passes {self._num_epochs:.1f} times over its text); if both are ample, "
            "lower the rate, take a smaller generator, or check discriminator_weight (the paper's "
            "is 50)"
        )

    def _not_learning(self, records: Sequence[Record], start: int) -> str:
        """A masked language model that knows no more than how frequent each piece is."""
        config, constant = self._config, self._entropy
        reads = config.objective == "mlm" or start < config.mlm_steps
        loss = _median(records, "language_loss" if reads else "generator_loss")
        grace = max(GRACE_STEPS, 2 * config.warmup_steps)
        # the generator of electra-adversarial is not trained to predict
        if (config.objective == "electra-adversarial" and not reads) or loss is None:
            return ""
        if records[-1]["step"] - start <= grace or loss < NOT_LEARNING * constant:
            return ""
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


def broken_state(
    gradient_norm: float, step: int, config: PretrainConfig, newest: Path | None = None
) -> str:
    """What to say of a run that is to stop before a state with nan or inf is saved; `newest` is its
    last checkpoint. The same command would come to the same end."""
    what = ": the weights are, or are about to be, no numbers any more, and nothing of it is saved"
    if config.precision == "fp16":
        what = (
            f" at a loss scale below {LEAST_SCALE:g}, and its update is skipped like those before"
        )
    precision = f", or take precision = 'fp32' (now {config.precision!r})"
    start = f" or from {newest} (pretrain.initial_model)" if newest else ""
    return (
        f"the gradient norm became {gradient_norm} by step {step:,}{what}. Lower "
        f"pretrain.learning_rate (now {config.learning_rate:g}) or lengthen warmup_steps (now "
        f"{config.warmup_steps:,}){precision * (config.precision != 'fp32')}, and train in another "
        f"output_dir from the start{start}"
    )


def unigram_entropy(ids: NDArray[np.integer[Any]], special_ids: Iterable[int]) -> float:
    """Entropy of the pieces' frequencies in a sample of text, special tokens left out, in nats.

    With the first-order correction for the sample's size, (distinct - 1) / (2 n) (Miller 1955).
    """
    counts = np.bincount(ids.ravel().astype(np.int64))
    counts = np.delete(counts, [i for i in special_ids if i < len(counts)])
    counts = counts[counts > 0]
    fractions = counts / counts.sum()
    correction = (len(counts) - 1) / (2 * counts.sum())
    return float(-(fractions * np.log(fractions)).sum() + correction)
