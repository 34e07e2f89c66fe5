"""What robustness and fairness measure: a line of their tables, a section of a page and of a model
card, a line of the verdict."""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from benchmarks.noise.perturb import KINDS
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Part, Record, Table, add_parts, read_csv, write_csv
from benchmarks.statistics.comparison import ALPHA, holm
from electrify.config.fields import NOISE_SUITES
from electrify.page.page import Page
from electrify.storage.files import read_toml
from electrify.system.progress import warn

_OWN = "pretrained"
_TEXTS = read_toml(Path(__file__).with_name("measures.toml"))
_NATS = "log P"  # of a measure in nats; others are in points


class Effect(BaseModel):
    """A mean less what it stands against, with its interval and p.

    Of robustness `axis` and `group` are kind and strength, `value` the score of the clean rows and
    `other` that of the same rows perturbed; `items` and `flips`, the fraction of them whose
    prediction is another one, are of the rows that the perturbation changed. Of fairness they are
    axis and group of people; `items` are rows, or pairs of templates with `words` of the group.
    """

    model_config = ConfigDict(frozen=True)

    measure: str
    task: str  # of the pretrained networks the language of the templates
    encoder: str  # "pretrained", "random-init" or "bag-of-words"
    axis: str
    group: str
    against: str
    items: int
    words: int = 0
    seeds: int
    value: float
    other: float
    difference: float
    low: float
    high: float
    p_corrected: float
    flips: float = math.nan

    @property
    def is_shown(self) -> bool:
        return self.p_corrected <= ALPHA


def write_effects(path: Path, effects: Sequence[Effect]) -> None:
    """The table of a suite; p, that of each alone so far, is corrected over each encoder (Holm)."""
    corrected: list[Effect] = []
    for encoder in dict.fromkeys(effect.encoder for effect in effects):
        family = [effect for effect in effects if effect.encoder == encoder]
        p_values = holm([effect.p_corrected for effect in family])
        pairs = zip(family, p_values, strict=True)
        corrected += [effect.model_copy(update={"p_corrected": p}) for effect, p in pairs]
    write_csv(path, corrected)


@cache
def effects_of(run: RunFolder) -> dict[tuple[str, str], list[Effect]]:
    """The table of each suite that was scored, by the encoder's name ("" is the run's own)."""
    tables = {}
    for stage, folder in run.noise.items():
        suite, _, label = stage.partition("-")
        try:
            tables[label, suite] = read_csv(folder / f"{suite}.csv", Effect)
        except ValueError:
            warn(f"{folder} is of an earlier version and left out: evaluate with --overwrite")
    return {key: effects for key, effects in tables.items() if effects}


def verdict_lines(run: RunFolder) -> list[str]:
    """A line for each encoder and suite: how many effects are shown, the largest, what is open."""
    lines = []
    for (label, suite), effects in effects_of(run).items():
        own = [effect for effect in effects if effect.encoder == _OWN]
        shown = sorted((e for e in own if e.is_shown), key=lambda e: -abs(e.difference))
        # with and without it every sample of rows has the same score
        undecided = [e for e in own if not e.is_shown and (e.low, e.high) != (0, 0)]
        text = f"{label or run.name}, {suite}: {len(shown)} of {len(own)} effects are shown"
        text += f", the largest {_described(shown[0])}" if shown else ""
        text += f"; {len(undecided)} are undecided" if undecided else ""
        lines.append(f"{text}.")
    return lines


def _described(effect: Effect) -> str:
    return f"{effect.axis}, {effect.group} on {effect.task}: {_interval(effect)}"


def add_noise(page: Page, run: RunFolder) -> None:
    if not effects_of(run):
        page.paragraph(
            "Not looked at. Run: electrify evaluate CONFIG --suite robustness --suite fairness"
        )
    for (label, suite), effects in effects_of(run).items():
        page.heading(f"{label} {suite}".strip(), level=3)
        add_parts(page, _parts(suite, effects))


def noise_card_lines(run: RunFolder) -> list[str]:
    """For the model card of the run's own encoder; none where it was exported again since."""
    export = run.manifests.get("export", {}).get("digest")
    inputs = [run.manifests[stage]["inputs"] for stage in NOISE_SUITES if stage in run.noise]
    if any(digests.get("export") != export for digests in inputs):
        return []
    page = Page("")
    for (label, suite), effects in effects_of(run).items():
        add_parts(page, _parts(suite, effects) if not label else ())
    return page.markdown().splitlines()[1:]


def _parts(suite: str, effects: Sequence[Effect]) -> Iterator[Part]:
    """What the suite does, its curves, its table, and what each measure shows and does not show."""
    own = [effect for effect in effects if effect.encoder == _OWN]
    yield _TEXTS[suite].format(tests=len(own), seeds=max(e.seeds for e in effects), alpha=ALPHA)
    if suite == "robustness":
        yield partial(_plot_drops, own)
        yield Table.of([_row(effect) for effect in effects], "Drops")
        kinds = [KINDS[name] for name in dict.fromkeys(effect.axis for effect in own)]
        rows: list[Record] = [
            {"kind": k.name, "what changes": k.places, "why the label should stay": k.keeps_label}
            for k in kinds
        ]
        yield Table.of(rows, "Kinds of perturbations")
        return
    measures = dict.fromkeys(effect.measure for effect in own)
    rows = [
        {"measure": name, "shows": text["shows"], "does not show": text["not_shows"]}
        for name, text in _TEXTS["measures"].items()
        if name in measures
    ]
    yield Table.of(rows, "What each measure says")
    shown = [_row(effect) for effect in own if effect.is_shown]
    yield Table.of(shown, "Gaps that are shown") if shown else _TEXTS["no_gap"]


def _plot_drops(own: Sequence[Effect], page: Page) -> None:
    for task in dict.fromkeys(effect.task for effect in own):
        curves: dict[str, list[tuple[float, float]]] = {}
        for e in own:
            if e.task == task:
                point = float(e.group), 100 * e.difference
                curves.setdefault(e.axis, [(0.0, 0.0)]).append(point)
        series = {kind: points for kind, points in curves.items() if len(points) > 2}
        title = f"{task}: drop by strength"
        page.line_plot(title, series, "chance of each place to change", "drop in points")


def _row(effect: Effect) -> Record:
    """Fractions in points, log probabilities in nats."""
    factor, digits = (1, 2) if effect.measure.startswith(_NATS) else (100, 1)
    return {
        "measure": effect.measure,
        "task": effect.task,
        "encoder": BASELINES.get(effect.encoder, "encoder"),
        "axis": effect.axis,
        "group": effect.group,
        "against": effect.against,
        "items": effect.items,
        "words": effect.words or None,
        "value": f"{factor * effect.value:.{digits}f}",
        "other": f"{factor * effect.other:.{digits}f}",
        "difference": _interval(effect),
        "flips %": None if math.isnan(effect.flips) else f"{100 * effect.flips:.0f}",
    }


def _interval(effect: Effect) -> str:
    factor, digits = (1, 2) if effect.measure.startswith(_NATS) else (100, 1)
    low, high = (f"{factor * side:.{digits}f}" for side in (effect.low, effect.high))
    star = "*" * effect.is_shown
    return f"{factor * effect.difference:+.{digits}f} ({low} to {high}){star}"
