"""Alarms on how a run goes, raised once and ended once, from its records alone.

So a resumed run raises the same ones, and none twice.

A false alarm costs more trust than a late one: a cause must last for several records, well after
the start of a phase, and lie far outside what healthy runs show.
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
JUMP = 3  # records in a row that a jump must last: one may be a hard batch, or a busy machine
BASE = 50  # records before a jump that it is set against, at least RECENT
# No run is told from a broken one before so many steps of a phase, nor within twice the warmup.
GRACE_STEPS = 5000
# For the discriminator, of a short phase: one of 900 steps guesses for half of it, and healthy ones
# then reach an AUC of .63.
GRACE_FRACTION = 2 / 3
FEWEST = 5  # records behind the grace that a short phase is judged by
# The loss rises again where the generator has left its first, easily told samples behind: in
# configs/ko-tiny.toml, by 40 % from step 100 to 350. Jumps count from this many steps on.
JUMP_GRACE_STEPS = 1000
# Tiny runs of 2,900 to 4,800 steps that learnt end at an AUC of .61 or more and find 4.5 % or more.
# One whose rate was too high ends at .53 and 1 %; the demo, on
# hardly any text, at .55 to .57 and 3 to 4 %.
GUESSING_AUC, FINDS_NOTHING_AUC = 0.55, 0.59
FINDS_NOTHING = 0.05  # of the replaced tokens
# Of the entropy of the replaced fraction, which is the loss of a constant answer. At an AUC of .59
# the right probabilities cost 98 % of it; the demo learns some of its few sentences by heart.
LITTLE_INFORMATION = 0.94
# Of the chosen positions. 15 % show the original to the generator; the one of ko-tiny hits 25 %.
TOO_GOOD_HITS = 0.9
# Of the unigram entropy. A generator of two layers and width 32, which learns slowly, still costs
# 85 % of it after 5,000 steps; one that copies what it is shown and knows no more, as much.
NOT_LEARNING = 0.97
NORM_JUMP = 30.0  # times the median; norms of single steps of a healthy tiny run reach 7 times
LOSS_JUMP = 1.3  # times the median; ko-tiny's losses of single steps reach 1.05 times
SLOW = 0.2  # of the median speed; on a machine that others use too, a quarter of it was seen
SLOW_SECONDS = 60.0  # that it must last: less is not worth a word

# Of the main network's last states on held-out text. Untrained networks have a mean share of .31
# and differ in 66 of 128 directions; small masked language models .57 and 36; a discriminator that
# a task on sentences gained nothing from had .97 and 2.9.
COLLAPSED_SHARE, COLLAPSED_RATIO = 0.75, 4.0
COLLAPSED_VALIDATIONS = 3  # in a row

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


def _collapsed(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """States that are nearly the same whatever the text, in the last validations."""
    last = records[-COLLAPSED_VALIDATIONS:]
    shares, ratios = (_values(last, name) for name in ("mean_state_share", "participation_ratio"))
    if len(shares) < COLLAPSED_VALIDATIONS or not _settled(records, facts, start, 0):
        return None
    share, ratio = min(shares), max(ratios)
    if share < COLLAPSED_SHARE or ratio > COLLAPSED_RATIO:
        return None
    return (
        f"the last layer's states hardly depend on the text: {100 * share:.0f} % of their energy "
        f"is one vector, and texts differ in {ratio:.1f} directions. A task on sentences will gain "
        "nothing from this layer. If the run is not at its beginning, lower "
        f"pretrain.learning_rate (now {facts.config.learning_rate:g}), train longer (num_steps is "
        f"{facts.config.num_steps:,}) or on more text ({facts.num_epochs:.1f} passes over it); "
        "objective = 'mlm' learns more from few tokens"
    )


Cause = Callable[[Sequence[Record], RunFacts, int], str | None]  # records of a phase, its start


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


def _too_good(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """Samples that are nearly all originals leave the discriminator nothing to find."""
    hits = _median(records, "sample_hit_fraction")
    if hits is None or hits <= TOO_GOOD_HITS:
        return None
    return (
        f"the generator puts the original back at {100 * hits:.0f} % of the chosen positions, so "
        "hardly a token is replaced. Look for repeated or generated text in the corpus; else take "
        "a smaller pretrain.generator_hidden_fraction, a larger mask_fraction, a "
        "sampling_temperature above 1, or disallow_correct"
    )


def _not_learning(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """A masked language model that knows no more than how frequent each piece is."""
    objective = facts.config.objective
    reads = objective == "mlm" or start < facts.config.mlm_steps
    if objective == "electra-adversarial" and not reads:
        return None  # its generator is not trained to predict
    loss = _median(records, "language_loss" if reads else "generator_loss")
    constant = facts.unigram_entropy
    if loss is None or loss < NOT_LEARNING * constant:
        return None
    if not _settled(records, facts, start, GRACE_STEPS):
        return None
    return (
        f"the masked language model does not learn: loss {loss:.3f} over the last {RECENT} "
        f"records, where the frequencies of the pieces alone give {constant:.3f}. Lower "
        "pretrain.learning_rate or lengthen warmup_steps; if that does not help, look at the "
        "segmented sentences in vocab/report.html"
    )


def _exploding(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """Gradients far larger than before, several times in a row."""
    found = _jump(records, "gradient_norm")
    if found is None or not _settled(records, facts, start, JUMP_GRACE_STEPS):
        return None
    least, before = found
    if least <= max(NORM_JUMP * before, facts.config.max_gradient_norm):
        return None
    return (
        f"the gradient norm is above {least:.3g} for {JUMP} records, where it was {before:.3g}: "
        "the run is about to diverge. Watch the loss; if it does not come back, start again from a "
        "checkpoint before with a lower pretrain.learning_rate"
    )


def _loss_jump(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    if not _settled(records, facts, start, JUMP_GRACE_STEPS):
        return None
    for name in ("generator_loss", "discriminator_loss", "language_loss"):
        if name == "generator_loss" and facts.config.objective == "electra-adversarial":
            continue  # the adversary is not trained to predict
        found = _jump(records, name)
        if found is not None and found[0] > LOSS_JUMP * found[1]:
            return (
                f"{name} jumped from {found[1]:.4f} to over {found[0]:.4f} and stayed there for "
                f"{JUMP} records. If it does not come back within some hundred steps, start again "
                "from a checkpoint before with a lower pretrain.learning_rate"
            )
    return None


def _slow(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """Far fewer tokens a second than before: data or device do not keep up."""
    speeds = _values(records, "tokens_per_second")
    if len(speeds) < RECENT + JUMP:
        return None
    usual, now = median(speeds[:-JUMP]), max(speeds[-JUMP:])
    if now >= SLOW * usual:
        return None
    end = float(records[-1]["seconds"])
    before = [r for r in records if (r.get("tokens_per_second") or usual) >= SLOW * usual]
    if not before or end - float(before[-1]["seconds"]) < SLOW_SECONDS:
        return None
    return (
        f"{now:,.0f} tokens a second at most over the last {JUMP} records, where {usual:,.0f} are "
        "usual: look for other work on this machine, for a slow disk or network under the shards, "
        "and for a device that throttles"
    )


def _same_batch(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    prints = [record.get("data_fingerprint") for record in records[-JUMP:]]
    if len(prints) < JUMP or prints[0] is None or len(set(prints)) > 1:
        return None
    return (
        f"the last {JUMP} records saw the very same batch: the shards hold hardly more than one "
        "batch (shards/index.json), or the loader does not move on, which is a fault to be reported"
    )


# by the kind of record that they look at
CAUSES: dict[str, dict[str, Cause]] = {
    "train": {
        "majority-class": _guessing,
        "generator-too-good": _too_good,
        "not-learning": _not_learning,
        "gradient-norm": _exploding,
        "loss-jump": _loss_jump,
        "slow-data": _slow,
        "same-batch": _same_batch,
    },
    "valid": {"collapsed-states": _collapsed},
}


def _settled(records: Sequence[Record], facts: RunFacts, start: int, grace: int) -> bool:
    """Whether a run may be judged: `grace` steps into a phase, and past twice its warmup."""
    return bool(records) and records[-1]["step"] - start > max(grace, 2 * facts.config.warmup_steps)


def _values(records: Sequence[Record], name: str) -> list[float]:
    return [float(r[name]) for r in records if r.get(name) is not None]


def _median(records: Sequence[Record], name: str, fewest: int = RECENT // 2 + 1) -> float | None:
    """Of the last records; None unless so many of them have it."""
    values = _values(records[-RECENT:], name)
    return median(values) if len(values) >= fewest else None


def _jump(records: Sequence[Record], name: str) -> tuple[float, float] | None:
    """The least of the last values, and the median of those before."""
    before, now = _values(records[-BASE - JUMP : -JUMP], name), _values(records[-JUMP:], name)
    if len(before) < RECENT or len(now) < JUMP:
        return None
    return min(now), median(before)


def _binary_entropy(share: float) -> float:
    parts = [p for p in (share, 1 - share) if p > 0]
    return -sum(p * math.log(p) for p in parts)


CALM = {"train": 10, "valid": 1}  # records without a cause that end an alarm
HISTORY = 200  # records kept, more than any cause looks back


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
    """Follows a run's records, of which `records` were written before this process."""

    def __init__(self, facts: RunFacts, records: Iterable[Record] = ()) -> None:
        self._facts = facts
        self._recent = {kind: deque[Record](maxlen=HISTORY) for kind in CAUSES}
        self._open: set[str] = set()
        for record in records:
            if record["kind"] in CAUSES:
                self._recent[record["kind"]].append(record)
            elif record["kind"] == "alarm" and record["state"] == "raised":
                self._open.add(record["alarm"])
            elif record["kind"] == "alarm":
                self._open.discard(record["alarm"])

    def add(self, record: Record) -> list[Alarm]:
        """What a new record sets off, or ends."""
        kind = record["kind"]
        if kind not in CAUSES:
            return []
        self._recent[kind].append(record)
        alarms = []
        for name, cause in CAUSES[kind].items():
            text = self._cause(kind, cause, 0)
            if text and name not in self._open:
                self._open.add(name)
                alarms.append(Alarm(name, "raised", text))
            elif name in self._open and not any(
                self._cause(kind, cause, n) for n in range(CALM[kind])
            ):
                self._open.remove(name)
                alarms.append(Alarm(name, "over"))
        return alarms

    def _cause(self, kind: str, cause: Cause, num_left_out: int) -> str | None:
        """The cause as it was `num_left_out` records ago, seen in its own phase alone."""
        recent = self._recent[kind]
        records = list(recent)[: len(recent) - num_left_out]
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
