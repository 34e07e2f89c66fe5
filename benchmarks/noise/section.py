"""What robustness and fairness measured: a section of a page and of a model card, a line of the
verdict."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import noise
from benchmarks.noise.fairness import Gap
from benchmarks.noise.perturb import KINDS
from benchmarks.noise.robustness import Condition
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Part, Table, add_parts, read_csv
from benchmarks.statistics.comparison import ALPHA
from electrify.config.fields import PROBE_SUITES
from electrify.page.page import Page
from electrify.storage.files import read_toml

_OWN = "pretrained"
_TEXTS = read_toml(Path(noise.__path__[0]) / "measures.toml")
_MEASURES = _TEXTS["measures"]


@dataclass(frozen=True)
class Noise:
    """The tables of one encoder; empty where a suite is not scored."""

    label: str  # empty of the run's own encoder
    conditions: tuple[Condition, ...]
    gaps: tuple[Gap, ...]

    @property
    def own(self) -> list[Condition]:
        """Those of the encoder itself, without its baselines."""
        return [condition for condition in self.conditions if condition.encoder == _OWN]

    @property
    def own_gaps(self) -> list[Gap]:
        return [gap for gap in self.gaps if gap.encoder == _OWN]


@cache
def noise_of(run: RunFolder) -> tuple[Noise, ...]:
    """Of each encoder that a suite was run on."""

    def table(suite: str, label: str, kind: Any) -> tuple[Any, ...]:
        place = run.probes.get(f"{suite}-{label}" if label else suite)
        return tuple(read_csv(place / f"{suite}.csv", kind)) if place else ()

    return tuple(
        Noise(
            label,
            table("robustness", label, Condition),
            table("fairness", label, Gap),
        )
        for label in dict.fromkeys(stage.partition("-")[2] for stage in run.probes)
    )


def verdict_lines(run: RunFolder) -> list[str]:
    """A line for each encoder: how many drops and gaps are shown, the worst, and what is open."""
    lines = []
    for encoder in noise_of(run):
        own, gaps = encoder.own, encoder.own_gaps
        parts = [_robustness_sentence(own)] * bool(own) + [_fairness_sentence(gaps)] * bool(gaps)
        if parts:
            lines.append(f"{encoder.label or run.name}, probes: {'; '.join(parts)}.")
    return lines


def _robustness_sentence(own: Sequence[Condition]) -> str:
    """How many lower the score and how many are undecided, and the worst of each."""
    tasks = ", ".join(dict.fromkeys(condition.task for condition in own))
    worse = [condition for condition in own if condition.is_worse]
    undecided = [c for c in own if not (c.is_found or c.changes_nothing)]
    text = f"{len(worse)} of {len(own)} perturbations are shown to lower the score ({tasks})"
    if worse:
        text += f", most {_worst(worse)}"
    if undecided:
        text += f"; {len(undecided)} are undecided, the largest drop among them {_worst(undecided)}"
    return text


def _worst(conditions: Sequence[Condition]) -> str:
    worst = max(conditions, key=lambda condition: condition.drop)
    p = "" if worst.is_found else f" (p = {worst.p_corrected:.3f})"
    return (
        f"{worst.kind} at {worst.strength:g} on {worst.task}, by {100 * worst.drop:.1f} points{p}"
    )


def _fairness_sentence(gaps: Sequence[Gap]) -> str:
    shown = sorted((gap for gap in gaps if gap.is_found), key=lambda gap: gap.p_corrected)
    text = f"{len(shown)} of {len(gaps)} gaps between groups are shown after correction"
    named = [f"{gap.measure}, {gap.axis}: {gap.group}" for gap in shown]
    return f"{text} ({'; '.join(named[:3])}{'; ...' * (len(named) > 3)})" if named else text


# Sections.


def add_noise(page: Page, run: RunFolder) -> None:
    if not noise_of(run):
        page.paragraph(
            "Not looked at. Run: electrify evaluate CONFIG --suite robustness --suite fairness"
        )
    for encoder in noise_of(run):
        if encoder.label:
            page.heading(encoder.label, level=3)
        add_parts(page, _parts(encoder))


def noise_card_lines(run: RunFolder) -> list[str]:
    """For the model card of the run's own encoder; none where it was exported anew since."""
    export = run.manifests.get("export", {}).get("digest")
    inputs = [run.manifests[stage]["inputs"] for stage in PROBE_SUITES if stage in run.probes]
    if any(of.get("export") != export for of in inputs):
        return []
    own = [part for encoder in noise_of(run) if not encoder.label for part in _parts(encoder)]
    page = Page("")
    add_parts(page, own)
    return page.markdown().splitlines()[1:] if own else []


def _parts(encoder: Noise) -> Iterator[Part]:
    """What each suite does, its curves and tables, and what each measure does not show."""
    if own := encoder.own:
        yield _TEXTS["robustness"].format(rows=own[0].num_rows, seeds=own[0].seeds, alpha=ALPHA)
        yield partial(_plot_drops, own)
        yield drop_table(encoder, "Drops beside those of the baselines, in points")
        yield partial(_add_kinds, own)
    if gaps := encoder.own_gaps:
        yield _TEXTS["fairness"].format(tests=len(gaps), alpha=ALPHA)
        rows = [
            {"measure": name, "shows": of["shows"], "does not show": of["not_shows"]}
            for name, of in _MEASURES.items()
            if any(gap.measure == name for gap in gaps)
        ]
        yield Table.of(rows, "What each measure says")
        shown = [gap for gap in gaps if gap.is_found]
        yield gap_table(shown, "Gaps that are shown") if shown else _TEXTS["no_gap"]


def _add_kinds(own: Sequence[Condition], page: Page) -> None:
    kinds = [KINDS[name] for name in dict.fromkeys(condition.kind for condition in own)]
    with page.fold("Robustness: the kinds"):
        page.table(
            ["kind", "what changes", "why the label should stay"],
            [(kind.name, kind.places, kind.keeps_label) for kind in kinds],
        )


def _plot_drops(own: Sequence[Condition], page: Page) -> None:
    for task in dict.fromkeys(c.task for c in own):
        of_task = [c for c in own if c.task == task]
        curves: dict[str, list[tuple[float, float]]] = {}
        for c in of_task:
            curves.setdefault(c.kind, [(0.0, 0.0)]).append((c.strength, 100 * c.drop))
        series = {kind: points for kind, points in curves.items() if len(points) > 2}
        clean = f"({of_task[0].metric}, clean {100 * of_task[0].clean:.1f})"
        title = f"{task}: drop by strength {clean}"
        page.line_plot(title, series, "chance of each place to change", "drop in points")


def drop_table(encoder: Noise, caption: str = "") -> Table:
    """A row a kind and strength: on each task the drop of the encoder, and of its baselines; the
    mean fraction of flips."""
    at = {(c.encoder, c.task, c.kind, c.strength): c for c in encoder.conditions}
    roles = {condition.encoder for condition in encoder.conditions}
    baselines = {role: name for role, name in BASELINES.items() if role in roles}
    own, rows = encoder.own, []
    for kind, strength in dict.fromkeys((c.kind, c.strength) for c in own):
        row: dict[str, object] = {"kind": kind, "strength": f"{strength:g}"}
        for task in dict.fromkeys(c.task for c in own):
            drop = at.get((_OWN, task, kind, strength))
            row[task] = drop and _drop(drop)
            for role, name in baselines.items():
                of_baseline = at.get((role, task, kind, strength))
                row[f"{task}, {name}"] = of_baseline and f"{100 * of_baseline.drop:+.1f}"
        some = [c for c in own if (c.kind, c.strength) == (kind, strength)]
        row["flips %"] = _mean([100 * c.flips for c in some])
        rows.append(row)
    return Table.of(rows, caption)


def _mean(values: Sequence[float]) -> str | None:
    known = [value for value in values if not math.isnan(value)]
    return f"{statistics.fmean(known):.0f}" if known else None


def _drop(condition: Condition) -> str:
    mark = "*" * condition.is_found
    return _interval(condition.drop, condition.drop_low, condition.drop_high) + mark


def _interval(value: float, low: float, high: float, factor: int = 100, digits: int = 1) -> str:
    low_text, high_text = (f"{factor * side:.{digits}f}" for side in (low, high))
    return f"{factor * value:+.{digits}f} ({low_text} to {high_text})"


def gap_table(gaps: Sequence[Gap], caption: str = "") -> Table:
    """Fractions in points, log probabilities in nats."""
    rows = []
    for gap in gaps:
        unit = _MEASURES[gap.measure]["unit"]
        factor, digits = (1, 2) if unit == "nats" else (100, 1)
        interval = _interval(gap.gap, gap.low, gap.high, factor, digits)
        rows.append(
            {
                "measure": gap.measure,
                "of": gap.task or None,
                "encoder": BASELINES.get(gap.encoder, "encoder"),
                "axis": gap.axis,
                "group": gap.group,
                "against": gap.against,
                "rows, templates": gap.num_items,
                "words": gap.num_words or None,
                "group's mean": f"{factor * gap.value:.{digits}f}",
                "the other": f"{factor * gap.other:.{digits}f}",
                "gap": interval + "*" * gap.is_found,
                "in": unit,
            }
        )
    return Table.of(rows, caption)
