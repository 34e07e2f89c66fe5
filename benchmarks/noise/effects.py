"""What robustness and fairness find: a table, a section of page and model card, a verdict."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, read_csv, write_csv
from benchmarks.statistics.comparison import ALPHA, holm
from benchmarks.statistics.uncertainty import Interval
from electrify.page.page import Page
from electrify.storage.files import read_toml

_OWN = "pretrained"
_TEXTS = read_toml(Path(__file__).with_name("texts.toml"))


class Effect(BaseModel):
    """A mean less what it stands against, with its interval and p.

    Of robustness `axis` and `group` are kind and strength, `value` the score of the clean rows and
    `other` that of the same rows perturbed; `items` and `flips`, the fraction of them whose
    prediction is another one, are of the rows that the perturbation changed. Of fairness they are
    axis and group of people; `items` are pairs of templates.
    """

    model_config = ConfigDict(frozen=True)

    measure: str
    task: str
    encoder: str  # "pretrained", "random-init" or "bag-of-words"
    axis: str
    group: str
    against: str
    items: int
    seeds: int
    value: float
    other: float
    difference: float
    low: float
    high: float
    p_corrected: float
    flips: float = math.nan

    @classmethod
    def from_interval(cls, mean: Interval, value: float, other: float, **names: Any) -> Self:
        """The effect whose difference has this interval; its p is not yet corrected."""
        interval = {"difference": mean.value, "low": mean.low, "high": mean.high}
        return cls(value=value, other=other, p_corrected=mean.p, **interval, **names)

    @property
    def is_shown(self) -> bool:
        return self.p_corrected <= ALPHA

    @property
    def interval(self) -> str:
        """In points; a star if the effect is shown."""
        points = f"{100 * self.difference:+.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"
        return points + "*" * self.is_shown


def write_effects(path: Path, effects: Iterable[Effect]) -> None:
    """Write the table of a suite, in place of one before; p is corrected over the effects of each
    encoder (Holm)."""
    path.unlink(missing_ok=True)
    effects = list(effects)
    corrected: list[Effect] = []
    for encoder in dict.fromkeys(effect.encoder for effect in effects):
        family = [effect for effect in effects if effect.encoder == encoder]
        p_values = holm([effect.p_corrected for effect in family])
        pairs = zip(family, p_values, strict=True)
        corrected += [effect.model_copy(update={"p_corrected": p}) for effect, p in pairs]
    write_csv(path, corrected)


@cache
def _effects(run: RunFolder) -> dict[tuple[str, str], list[Effect]]:
    """By the encoder's name ("" is the run's own) and suite, the table of each that was scored."""
    tables = {}
    for stage, folder in run.noise.items():
        suite, _, label = stage.partition("-")
        if effects := read_csv(folder / f"{suite}.csv", Effect):
            tables[label, suite] = effects
    return tables


def verdict_lines(run: RunFolder) -> list[str]:
    """A line for each encoder and suite: how many effects are shown, the largest, what is open."""
    lines = []
    for (label, suite), effects in _effects(run).items():
        own = [effect for effect in effects if effect.encoder == _OWN]
        shown = [effect for effect in own if effect.is_shown]
        # with and without it every sample of rows has the same score
        undecided = [e for e in own if not e.is_shown and (e.low, e.high) != (0, 0)]
        text = f"{label or run.name}, {suite}: {len(shown)} of {len(own)} effects are shown"
        if shown:
            most = max(shown, key=lambda effect: abs(effect.difference))
            text += f", the largest {most.axis}, {most.group} on {most.task}: {most.interval}"
        text += f"; {len(undecided)} are undecided" if undecided else ""
        lines.append(f"{text}.")
    return lines


def add_noise(page: Page, run: RunFolder) -> None:
    if not _effects(run):
        page.paragraph(
            "Not looked at. Run: electrify evaluate CONFIG --suite robustness --suite fairness"
        )
    for (label, suite), effects in _effects(run).items():
        page.heading(f"{label} {suite}".strip(), level=3)
        _add_effects(page, suite, effects)


def noise_card_lines(run: RunFolder) -> list[str]:
    """For the model card of the run's own encoder; none where it was exported again since."""
    export, page = run.manifests.get("export", {}).get("digest"), Page("")
    for (label, suite), effects in _effects(run).items():
        if not label and run.manifests[suite]["inputs"].get("export") == export:
            _add_effects(page, suite, effects)
    return page.markdown().splitlines()[1:]


def _add_effects(page: Page, suite: str, effects: Sequence[Effect]) -> None:
    """What the suite does, and its table: of fairness the gaps that are shown."""
    own, seeds = [e for e in effects if e.encoder == _OWN], max(e.seeds for e in effects)
    page.paragraph(_TEXTS[suite].format(tests=len(own), seeds=seeds, alpha=ALPHA))
    is_whole = suite == "robustness"
    shown = effects if is_whole else [effect for effect in own if effect.is_shown]
    page.records(list(map(_row, shown)), "Drops" if is_whole else "Gaps that are shown")
    if not shown:
        page.paragraph(_TEXTS["no_gap"])


def _row(effect: Effect) -> Record:
    names = ("measure", "task", "axis", "group", "against", "items")
    return {name: getattr(effect, name) for name in names} | {
        "encoder": BASELINES.get(effect.encoder, "encoder"),
        "value": f"{100 * effect.value:.1f}",
        "other": f"{100 * effect.other:.1f}",
        "difference": effect.interval,
        "flips %": None if math.isnan(effect.flips) else f"{100 * effect.flips:.0f}",
    }
