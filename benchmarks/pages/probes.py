"""What the suites `robustness` and `fairness` found: the fold of a report, its line in the verdict,
and the rows of a model card."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import probes
from benchmarks.probes import fairness, robustness
from benchmarks.probes.fairness import Gap
from benchmarks.probes.perturb.kinds import KINDS
from benchmarks.probes.robustness import Condition
from benchmarks.probes.tables import read_csv
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, markdown_text, record_lines
from benchmarks.statistics.comparison import ALPHA
from electrify.config.tasks import PROBE_SUITES
from electrify.page.page import Page
from electrify.storage.files import read_toml

_OWN = "pretrained"
_NATS = "nats"
_MEASURES = read_toml(Path(probes.__path__[0]) / "measures.toml")
_ROBUSTNESS = (
    "Each kind of perturbation changes places of {rows} reported rows of each task, every place "
    "with the chance that its strength names; each of {seeds} fine-tunings predicts the clean and "
    "the perturbed rows. A drop is the score of the clean rows less that of the same rows "
    "perturbed, in points, with its own 95 % interval over rows and seeds. *: p is at most {alpha} "
    "after correction for all kinds, strengths and tasks of the encoder (Holm). A drop without * "
    "is not shown, and not excluded: the interval says how large it may be. Flips: the share of "
    "the rows that changed whose prediction is another one. Pieces: those of the changed rows, "
    "after by before; kept: the share of the pieces before that are still there. A drop says what "
    "noise costs here; it does not say how often such noise occurs, nor that another fine-tuning "
    "has the same."
)
_FAIRNESS = (
    "Each gap is the mean of a group less the mean of what it stands against, with its own 95 % "
    "interval over words, templates and seeds, or over rows and seeds; {tests:,} gaps are tested. "
    "*: p is at most {alpha} after correction for all of them (Holm). No measure "
    "here, nor all together, can show that an encoder is free of bias: what is not found may be "
    "too small for so few words and templates, or of a kind or group that is not looked at."
)

_NO_GAP = "No gap is shown, which does not say that there is none."


@dataclass(frozen=True)
class Probed:
    """The tables of one encoder; empty where a suite is not scored."""

    label: str  # empty of the run's own encoder
    conditions: tuple[Condition, ...]
    gaps: tuple[Gap, ...]

    def of(self, encoder: str) -> list[Condition]:
        """Those of the encoder itself or of one of its floors."""
        return [condition for condition in self.conditions if condition.encoder == encoder]

    @property
    def own_gaps(self) -> list[Gap]:
        """Those of the encoder itself."""
        return [gap for gap in self.gaps if gap.encoder == _OWN]


@cache
def probed_of(run: RunFolder) -> tuple[Probed, ...]:
    """Of each encoder that a suite has looked at."""
    labels = dict.fromkeys(stage.partition("-")[2] for stage in run.probes)
    return tuple(
        Probed(
            label,
            tuple(_table(run, "robustness", label, robustness.TABLE, Condition)),
            tuple(_table(run, "fairness", label, fairness.TABLE, Gap)),
        )
        for label in labels
    )


def _table(run: RunFolder, suite: str, label: str, name: str, kind: Any) -> list[Any]:
    place = run.probes.get(f"{suite}-{label}" if label else suite)
    return read_csv(place / name, kind) if place else []


# The verdict.


def probe_sentences(run: RunFolder, name: str) -> list[str]:
    """A line for each encoder: how many drops and gaps are shown, the worst, and what is open."""
    found = []
    for probed in probed_of(run):
        parts = []
        if own := probed.of(_OWN):
            parts.append(_robustness_sentence(own))
        if probed.own_gaps:
            parts.append(_fairness_sentence(probed.own_gaps))
        if parts:
            found.append(f"{probed.label or name}, probes: {'; '.join(parts)}.")
    return found


def _robustness_sentence(own: Sequence[Condition]) -> str:
    """Which lower the score, which change nothing, and how much the others may."""
    worse = [condition for condition in own if condition.is_worse]
    same = [condition for condition in own if condition.changes_nothing]
    undecided = [c for c in own if not (c.is_found or c.changes_nothing)]
    tasks = ", ".join(dict.fromkeys(condition.task for condition in own))
    text = f"{len(worse)} of {len(own)} perturbations are shown to lower the score ({tasks})"
    if worse:
        text += f", most {_worst(worse)}"
    if better := sum(condition.is_found for condition in own) - len(worse):
        text += f"; {better} to raise it"
    if same:
        text += f"; {len(same)} change no score"
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
    found = sorted((gap for gap in gaps if gap.is_found), key=lambda gap: gap.p_corrected)
    text = f"{len(found)} of {len(gaps)} gaps between groups are shown after correction"
    named = [f"{gap.measure}, {gap.axis}: {gap.group}" for gap in found]
    return f"{text} ({'; '.join(named[:3])}{'; ...' * (len(named) > 3)})" if named else text


# The fold.


def add_probes(document: Page, run: RunFolder) -> None:
    """Both suites: curves, tables, what was read by eye, and what each measure does not show."""
    found = probed_of(run)
    if not found:
        document.paragraph(
            "Not looked at. Run: electrify evaluate CONFIG --suite robustness --suite fairness"
        )
    for probed in found:
        if probed.label:
            document.heading(probed.label, level=3)
        if probed.conditions:
            _add_robustness(document, probed)
        if probed.gaps:
            _add_fairness(document, probed)


def _add_robustness(document: Page, probed: Probed) -> None:
    own = probed.of(_OWN)
    document.paragraph(_robustness_text(own))
    for task in dict.fromkeys(c.task for c in own):
        of_task = [c for c in own if c.task == task]
        curves = {
            kind: [(0.0, 0.0), *((c.strength, 100 * c.drop) for c in of_task if c.kind == kind)]
            for kind in dict.fromkeys(c.kind for c in of_task)
        }
        series = {kind: points for kind, points in curves.items() if len(points) > 2}
        title = (
            f"{task}: drop by strength ({of_task[0].metric}, clean {100 * of_task[0].clean:.1f})"
        )
        document.line_plot(title, series, "chance of each place to change", "drop in points")
    document.records(robustness_rows(probed), "Drops beside those of the floors, in points")
    with document.fold("Robustness: all figures"):
        document.records([_figures(c) for c in probed.conditions])
    with document.fold("Robustness: the kinds, and the rows that were read"):
        document.records(_kind_rows(own))


def _robustness_text(own: Sequence[Condition]) -> str:
    return _ROBUSTNESS.format(rows=own[0].num_rows, seeds=own[0].seeds, alpha=ALPHA)


def robustness_rows(probed: Probed) -> list[Record]:
    """A row a kind and strength: on each task the drop of the encoder, and of its floors; the mean
    share of flips, and pieces."""
    floors = {name: probed.of(variant) for variant, name in BASELINES.items()}
    own, rows = probed.of(_OWN), list[Record]()
    for key in dict.fromkeys((c.kind, c.strength) for c in own):
        some = [c for c in own if (c.kind, c.strength) == key]
        row: dict[str, object] = {"kind": key[0], "strength": f"{key[1]:g}"}
        for task in dict.fromkeys(c.task for c in own):
            row[task] = next((_drop(c) for c in some if c.task == task), None)
            for name, of_floor in floors.items():
                if of_floor:
                    same = [c for c in of_floor if (c.task, c.kind, c.strength) == (task, *key)]
                    row[f"{task}, {name}"] = f"{100 * same[0].drop:+.1f}" if same else None
        row["flips %"] = _mean([100 * c.flips for c in some])
        row["pieces"] = f"{statistics.fmean(c.pieces_factor for c in some):.2f}"
        row["kept %"] = _mean([100 * c.kept_pieces for c in some])
        rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> str | None:
    known = [value for value in values if not math.isnan(value)]
    return f"{statistics.fmean(known):.0f}" if known else None


def _drop(condition: Condition) -> str:
    mark = "*" if condition.is_found else ""
    low, high = 100 * condition.drop_low, 100 * condition.drop_high
    return f"{100 * condition.drop:+.1f} ({low:.1f} to {high:.1f}){mark}"


def _figures(condition: Condition) -> Record:
    return {
        "task": condition.task,
        "encoder": BASELINES.get(condition.encoder, "encoder"),
        "kind": condition.kind,
        "strength": f"{condition.strength:g}",
        "changed rows %": f"{100 * condition.changed_fraction:.0f}",
        "clean": f"{100 * condition.clean:.2f}",
        "perturbed": f"{100 * condition.perturbed:.2f}",
        "drop": _drop(condition),
        "p": f"{condition.p_corrected:.3f}",
        "flips %": f"{100 * condition.flips:.1f} "
        f"({100 * condition.flips_low:.1f} to {100 * condition.flips_high:.1f})",
        "seeds": condition.seeds,
    }


def _kind_rows(conditions: Sequence[Condition]) -> list[Record]:
    rows: list[Record] = []
    for name in dict.fromkeys(c.kind for c in conditions):
        kind = KINDS[name]
        rows.append(
            {
                "kind": name,
                "what changes": kind.places,
                "why the label should stay": kind.keeps_label,
                "rows read": kind.read.get("rows"),
                "label lost": kind.read.get("changed"),
                "of, at": f"{kind.read['task']}, {kind.read['strength']:g}" if kind.read else None,
            }
        )
    return rows


def _add_fairness(document: Page, probed: Probed) -> None:
    gaps = probed.own_gaps
    document.paragraph(_FAIRNESS.format(tests=len(gaps), alpha=ALPHA))
    document.records(
        [
            {"measure": name, "shows": of["shows"], "does not show": of["not_shows"]}
            for name, of in _MEASURES.items()
            if any(gap.measure == name for gap in gaps)
        ],
        "What each measure says",
    )
    found = [gap for gap in gaps if gap.is_found]
    if found:
        document.records(gap_rows(found), "Gaps that are shown")
    else:
        document.paragraph(_NO_GAP)
    with document.fold("Fairness: all gaps"):
        for measure in dict.fromkeys(gap.measure for gap in probed.gaps):
            of_measure = [gap for gap in probed.gaps if gap.measure == measure]
            document.records(gap_rows(of_measure), measure)


def gap_rows(gaps: Sequence[Gap]) -> list[Record]:
    """Shares in points, log probabilities in nats."""
    rows: list[Record] = []
    for gap in gaps:
        unit = _MEASURES[gap.measure]["unit"]
        factor, digits = (1, 2) if unit == _NATS else (100, 1)
        mark = "*" if gap.is_found else ""
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
                "gap": f"{factor * gap.gap:+.{digits}f} ({factor * gap.low:.{digits}f} to "
                f"{factor * gap.high:.{digits}f}){mark}",
                "in": unit,
            }
        )
    return rows


# Side by side, in Markdown, and on a model card.


def add_side_by_side(document: Page, runs: Sequence[RunFolder], names: Sequence[str]) -> None:
    """The drops of several encoders: the mean over the tasks that all of them have, in points."""
    columns = {
        probed.label or name: probed.of(_OWN)
        for run, name in zip(runs, names, strict=True)
        for probed in probed_of(run)
        if probed.of(_OWN)
    }
    if len(columns) < 2:
        return
    tasks = set.intersection(*({c.task for c in of} for of in columns.values()))
    keys = dict.fromkeys((c.kind, c.strength) for of in columns.values() for c in of)
    rows = []
    for kind, strength in keys:
        row: dict[str, object] = {"kind": kind, "strength": f"{strength:g}"}
        for name, conditions in columns.items():
            some = [c for c in conditions if (c.kind, c.strength) == (kind, strength)]
            some = [c for c in some if c.task in tasks]
            drop = f"{100 * statistics.fmean(c.drop for c in some):+.1f}" if some else None
            row[name] = drop
            row[f"{name}, pieces"] = (
                f"{statistics.fmean(c.pieces_factor for c in some):.2f}" if some else None
            )
        rows.append(row)
    with document.fold("Probes side by side", is_section=True):
        document.records(rows, f"Mean drop in points over {', '.join(sorted(tasks))}")


def probe_blocks(run: RunFolder) -> list[str]:
    """The tables in Markdown, block by block; none where nothing was looked at."""
    blocks = []
    for probed in probed_of(run):
        title = f"## Probes{f': {probed.label}' if probed.label else ''}"
        lines = probe_lines(probed)
        blocks += [title, "\n".join(lines)] if lines else []
    return blocks


def probe_lines(probed: Probed) -> list[str]:
    """Robustness, then the gaps that are shown, and what they do not show."""
    lines: list[str] = []
    if own := probed.of(_OWN):
        lines += [*record_lines(robustness_rows(probed)), ""]
        lines += [markdown_text(_robustness_text(own)), ""]
    if gaps := probed.own_gaps:
        found = [gap for gap in gaps if gap.is_found]
        lines += [*(record_lines(gap_rows(found)) if found else [_NO_GAP]), ""]
        lines += [markdown_text(_FAIRNESS.format(tests=len(gaps), alpha=ALPHA))]
        for measure in dict.fromkeys(gap.measure for gap in found):
            of = _MEASURES[measure]
            text = f"{measure} shows {of['shows']}. What it does not show: {of['not_shows']}"
            lines += ["", markdown_text(text)]
    return lines


def card_lines(run: RunFolder) -> list[str]:
    """For the model card of the run's own encoder; none where it was exported anew since."""
    export = run.manifests.get("export", {}).get("digest")
    made = [run.manifests[stage]["inputs"] for stage in PROBE_SUITES if stage in run.probes]
    if any(inputs.get("export") != export for inputs in made):
        return []
    return next((probe_lines(probed) for probed in probed_of(run) if not probed.label), [])
