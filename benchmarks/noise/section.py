"""What robustness and fairness measured: a section of a page and of a model card, a line of the
verdict."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from benchmarks.noise.fairness import Gap
from benchmarks.noise.perturb import KINDS
from benchmarks.noise.robustness import Condition
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Part, Record, Table, add_parts, read_csv
from benchmarks.statistics.comparison import ALPHA
from electrify.config.fields import NOISE_SUITES
from electrify.page.page import Page
from electrify.storage.files import read_toml

_OWN = "pretrained"
_TEXTS = read_toml(Path(__file__).with_name("measures.toml"))
_MEASURES = _TEXTS["measures"]
Lines = tuple[list[Condition], list[Gap]]


@cache
def noise_of(run: RunFolder) -> dict[str, Lines]:
    """The lines of both tables by encoder; "" is the run's own, a suite not scored is empty."""

    def folder(suite: str, label: str) -> Path:
        return run.noise.get(f"{suite}-{label}" if label else suite, Path("none"))

    labels = dict.fromkeys(stage.partition("-")[2] for stage in run.noise)
    return {
        label: (
            read_csv(folder("robustness", label) / "robustness.csv", Condition),
            read_csv(folder("fairness", label) / "fairness.csv", Gap),
        )
        for label in labels
    }


def verdict_lines(run: RunFolder) -> list[str]:
    """A line for each encoder: how many drops and gaps are shown, the worst, and what is open."""
    lines = []
    for label, (conditions, gaps) in noise_of(run).items():
        parts = []
        if own := [c for c in conditions if c.encoder == _OWN]:
            worse = [c for c in own if c.is_worse]
            undecided = [c for c in own if not (c.is_found or c.changes_nothing)]
            tasks = ", ".join(dict.fromkeys(c.task for c in own))
            text = (
                f"{len(worse)} of {len(own)} perturbations are shown to lower the score ({tasks})"
            )
            text += f", most {_largest(worse)}" if worse else ""
            if undecided:
                text += f"; {len(undecided)} are undecided, the largest drop {_largest(undecided)}"
            parts.append(text)
        if own_gaps := [gap for gap in gaps if gap.encoder == _OWN]:
            shown = sorted((g for g in own_gaps if g.is_found), key=lambda gap: gap.p_corrected)
            text = f"{len(shown)} of {len(own_gaps)} gaps between groups are shown after correction"
            names = [f"{gap.measure}, {gap.axis}: {gap.group}" for gap in shown[:3]]
            parts.append(f"{text} ({'; '.join(names)}{' …' * (len(shown) > 3)})" if names else text)
        if parts:
            lines.append(f"{label or run.name}, noise and groups: {'; '.join(parts)}.")
    return lines


def _largest(conditions: Sequence[Condition]) -> str:
    worst = max(conditions, key=lambda condition: condition.drop)
    p = "" if worst.is_found else f" (p = {worst.p_corrected:.3f})"
    return (
        f"{worst.kind} at {worst.strength:g} on {worst.task}, by {100 * worst.drop:.1f} points{p}"
    )


def add_noise(page: Page, run: RunFolder) -> None:
    if not noise_of(run):
        page.paragraph(
            "Not looked at. Run: electrify evaluate CONFIG --suite robustness --suite fairness"
        )
    for label, lines in noise_of(run).items():
        if label:
            page.heading(label, level=3)
        add_parts(page, _parts(*lines))


def noise_card_lines(run: RunFolder) -> list[str]:
    """For the model card of the run's own encoder; none where it was exported again since."""
    export = run.manifests.get("export", {}).get("digest")
    inputs = [run.manifests[stage]["inputs"] for stage in NOISE_SUITES if stage in run.noise]
    if any(digests.get("export") != export for digests in inputs) or "" not in noise_of(run):
        return []
    page = Page("")
    add_parts(page, _parts(*noise_of(run)[""]))
    return page.markdown().splitlines()[1:]


def _parts(conditions: Sequence[Condition], gaps: Sequence[Gap]) -> Iterator[Part]:
    """What each suite does, its curves and tables, and what each measure does not show."""
    if own := [c for c in conditions if c.encoder == _OWN]:
        yield _TEXTS["robustness"].format(rows=own[0].num_rows, seeds=own[0].seeds, alpha=ALPHA)
        yield partial(_plot_drops, own)
        yield Table.of([_drop_row(c) for c in conditions], "Drops in points")
        kinds = [KINDS[name] for name in dict.fromkeys(c.kind for c in own)]
        rows = [
            {"kind": k.name, "what changes": k.places, "why the label should stay": k.keeps_label}
            for k in kinds
        ]
        yield Table.of(rows, "Kinds of perturbations")
    if own_gaps := [gap for gap in gaps if gap.encoder == _OWN]:
        yield _TEXTS["fairness"].format(tests=len(own_gaps), alpha=ALPHA)
        measures = dict.fromkeys(gap.measure for gap in own_gaps)
        rows = [
            {"measure": name, "shows": measure["shows"], "does not show": measure["not_shows"]}
            for name, measure in _MEASURES.items()
            if name in measures
        ]
        yield Table.of(rows, "What each measure says")
        shown = [_gap_row(gap) for gap in own_gaps if gap.is_found]
        yield Table.of(shown, "Gaps that are shown") if shown else _TEXTS["no_gap"]


def _plot_drops(own: Sequence[Condition], page: Page) -> None:
    for task in dict.fromkeys(c.task for c in own):
        curves: dict[str, list[tuple[float, float]]] = {}
        for c in own:
            if c.task == task:
                curves.setdefault(c.kind, [(0.0, 0.0)]).append((c.strength, 100 * c.drop))
        series = {kind: points for kind, points in curves.items() if len(points) > 2}
        title = f"{task}: drop by strength"
        page.line_plot(title, series, "chance of each place to change", "drop in points")


def _drop_row(c: Condition) -> Record:
    return {
        "task": c.task,
        "encoder": BASELINES.get(c.encoder, "encoder"),
        "kind": c.kind,
        "strength": f"{c.strength:g}",
        "clean": f"{100 * c.clean:.1f}",
        "drop": _interval(c.drop, c.drop_low, c.drop_high) + "*" * c.is_found,
        "flips %": None if c.flips != c.flips else f"{100 * c.flips:.0f}",
    }


def _gap_row(gap: Gap) -> Record:
    """Fractions in points, log probabilities in nats."""
    unit = _MEASURES[gap.measure]["unit"]
    factor, digits = (1, 2) if unit == "nats" else (100, 1)
    return {
        "measure": gap.measure,
        "task": gap.task,
        "axis": gap.axis,
        "group": gap.group,
        "against": gap.against,
        "rows, templates": gap.num_items,
        "words": gap.num_words or None,
        "group's mean": f"{factor * gap.value:.{digits}f}",
        "the other": f"{factor * gap.other:.{digits}f}",
        "gap": _interval(gap.gap, gap.low, gap.high, factor, digits) + "*" * gap.is_found,
        "in": unit,
    }


def _interval(value: float, low: float, high: float, factor: int = 100, digits: int = 1) -> str:
    low_text, high_text = (f"{factor * side:.{digits}f}" for side in (low, high))
    return f"{factor * value:+.{digits}f} ({low_text} to {high_text})"
