"""Where a run's records go, and the alarms that they set off.

All get the same records: the file `metrics.jsonl`, TensorBoard where it is installed, and the
trackers that `[pretrain]` names (`electrify.stage.trackers`).

An alarm says that a run does not learn. It is raised once, from the run's records alone, so a
resumed run raises the same alarms. A false alarm costs more trust than a late one: a cause must
last for several records, well after the start of a phase, and lie far outside what healthy runs
show.
"""

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import write_text
from electrify.stage.plan import METRICS
from electrify.stage.trackers import Trackers
from electrify.storage.files import parse_json
from electrify.system.progress import log, warn
from model.plan import phases_of
from model.train.optim import LEAST_SCALE

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


@dataclass(frozen=True)
class RunFacts:
    config: PretrainConfig
    unigram_entropy: float = math.inf  # of the training text, in nats
    num_epochs: float = math.nan  # passes over the text

    @property
    def phase_starts(self) -> list[int]:
        """Steps after which batches or losses are others."""
        lengths_from = (phase.first_step for phase in phases_of(self.config))
        return sorted({*lengths_from, self.config.second_stage_step})


def _guessing(records: Sequence[Record], facts: RunFacts, start: int) -> str | None:
    """Hardly any information about which tokens are replaced."""
    config = facts.config
    end = min((s for s in facts.phase_starts if s > start), default=config.num_steps)
    grace = min(GRACE_STEPS, int(GRACE_FRACTION * (end - start)))
    grace = max(grace, 2 * config.warmup_steps)
    judged = [record for record in records if record["step"] - start > grace]
    area, loss, replaced = (
        _median(judged, name, FEWEST) for name in ("rtd_auc", "rtd_loss", "replaced_fraction")
    )
    if config.objective not in _DETECTS or area is None or loss is None or replaced is None:
        return None
    constant = -sum(p * math.log(p) for p in (replaced, 1 - replaced) if p > 0)
    if area >= GUESSING_AUC or loss < LITTLE_INFORMATION * constant:
        return None
    return (
        f"the discriminator hardly tells replaced tokens from others: AUC {area:.3f}, RTD "
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


CAUSES = {"majority-class": _guessing, "not-learning": _not_learning}


class Alarms:
    """Follows a run's records of steps, of which `records` were written before this process."""

    def __init__(self, facts: RunFacts, records: Iterable[Record] = ()) -> None:
        self._facts = facts
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
        start = max(s for s in self._facts.phase_starts if s < record["step"] or s == 0)
        phase = [r for r in self._recent if r["step"] > start]
        alarms = []
        for name, cause in CAUSES.items():
            text, state = cause(phase, self._facts, start) or "", self._states.get(name)
            if (text and state is None) or (not text and state == "raised"):
                self._states[name] = "raised" if text else "over"
                alarms.append((name, text))
        return alarms


def broken_state(gradient_norm: float, step: int, config: PretrainConfig) -> str:
    """What to say of a run that is to stop before a state with nan or inf is saved."""
    what = ": the weights are, or are about to be, no numbers any more, and nothing of it is saved"
    if config.precision == "fp16":  # which skips updates, so the weights are sound
        what = (
            f" at a loss scale below {LEAST_SCALE:g}, and its update is skipped like those before"
        )
    return (
        f"the gradient norm became {gradient_norm} by step {step:,}{what}. Lower "
        f"pretrain.learning_rate (now {config.learning_rate:g}) or lengthen warmup_steps (now "
        f"{config.warmup_steps:,}), or try precision = 'fp32' (now {config.precision!r}); the same "
        "command resumes from the last good checkpoint"
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


Place = Mapping[str, float]  # step, tokens, seconds


def nested(figures: Mapping[str, float]) -> dict[str, Any]:
    """Figures as they are written: eight digits, null for what is undefined, languages apart."""
    record: dict[str, Any] = {}
    languages: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        language, _, own = name.rpartition("/")
        target = languages.setdefault(language, {}) if language else record
        if isinstance(value, int):
            target[own] = value
        else:
            target[own] = float(f"{value:.8g}") if math.isfinite(value) else None
    return record | ({"languages": languages} if languages else {})


def _read_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Lines and their records, without one cut off by a kill."""
    # as bytes: text would also be cut at U+2028 inside of a string
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            record = parse_json(line, path)
            float(record["step"]), float(record["seconds"])
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        yield line, record


class TensorBoard:
    """TensorBoard's events in `folder/tensorboard`; a resumed run hides those after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def alert(self, step: int, title: str, text: str) -> None:
        self._writer.add_text(f"alarm/{title}", text, step)

    def close(self) -> None:
        self._writer.close()


class RunTrackers:
    """`metrics.jsonl` and the boards of one run. The records raise and end alarms, which go to all
    of them and into the log. A run that resumes after `step` writes later records again."""

    def __init__(self, folder: Path, step: int, facts: RunFacts, config: RunConfig) -> None:
        self._path = folder / METRICS
        kept = [(line, r) for line, r in _read_lines(self._path) if float(r["step"]) <= step]
        write_text(self._path, "".join(f"{line.decode()}\n" for line, _ in kept))
        records = [record for _, record in kept]
        self.seconds_before = max((float(r["seconds"]) for r in records), default=0.0)
        self._alarms = Alarms(facts, records)
        options = config.model_dump(mode="json")
        self._boards = Trackers(folder, config.pretrain, "pretrain", options)
        with suppress(ImportError):
            self._boards.add("TensorBoard", TensorBoard(folder, step))

    def write(self, kind: str, place: Place, figures: Mapping[str, float]) -> None:
        """Append a record, undefined figures as null, and the alarms that it sets off. A figure
        named `ko/rtd_auc` is of one language."""
        record = {"kind": kind, **place, **nested(figures)}
        self._append(record)
        step = int(place["step"])
        self._boards.log(step, {f"{kind}/{name}": value for name, value in figures.items()})
        for name, text in self._alarms.add(record):
            alarm = {"alarm": name, "state": "over"}
            if text:
                alarm = {"alarm": name, "state": "raised", "text": text}
                self._boards.alert(step, name, f"{name}: {text}")
            (warn if text else log)(f"step {step:,}: {name}: {text or 'over'}")
            self._append({"kind": "alarm", **place, **alarm})

    def close(self) -> None:
        self._boards.close()

    def _append(self, record: Record) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
