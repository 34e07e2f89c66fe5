"""The report of one run, or of several side by side: a page, its top in Markdown, cards."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import curves, noise, stages
from benchmarks.report.errors import add_errors
from benchmarks.report.published import CUT_FRACTION, add_published, published_lines
from benchmarks.report.scores import (
    Encoder,
    add_scores,
    card_lines,
    degenerate_text,
    difference_table,
    encoder_table,
    encoders_of,
    labels_of,
    notes,
    score_records,
)
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder, has_stages, read_run, told_apart
from benchmarks.results.table import (
    Part,
    add_parts,
    markdown_parts,
    markdown_text,
    write_page,
)
from benchmarks.statistics.comparison import Against, between, resolve_baseline, within
from benchmarks.statistics.scores import scores_of
from electrify.page.page import Page
from electrify.page.plots import tick_text
from electrify.system.outcome import UserError
from electrify.system.progress import duration

_SUBTITLE = "electrify: an ELECTRA encoder from raw text to scores"
COMPARISON = "comparison"  # folder in the first of several runs
_OUTCOMES = ("better", "worse", "cannot tell apart")
_MAX_WARNINGS = 4
_FEW_SEEDS = 3


def read_runs(folders: Sequence[Path]) -> list[RunFolder]:
    """Raises `ValueError` for a folder that is no run, or that is named twice."""
    if not folders:
        raise UserError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    return told_apart([read_run(folder) for folder in folders])


def report(
    runs: Sequence[RunFolder],
    output: Path | None = None,
    data_dirs: Sequence[Path] = (),
    with_texts: bool = True,
    baseline: str | None = None,
) -> Path:
    """Write report.html and report.md of finished or unfinished runs.

    They go into the folder `output`, by default the run's; of several runs, by default, into
    `comparison/` of the first, so that its own page stays. Returns the HTML file. The worst
    examples are quoted from `data_dirs`, those of the evaluation, unless `with_texts` is False.
    `baseline` names what scores are compared with (`resolve_baseline`).
    """
    folder = runs[0].folder
    target = output or (folder / COMPARISON if runs[1:] else folder)
    if target.exists() and not target.is_dir():
        raise UserError(f"output {target} is a file; give a folder")
    compared_with = resolve_baseline(baseline, runs)
    one = runs[0] if len(runs) == 1 else None
    compared = within(one, compared_with) if one else between(runs, compared_with)
    summary = Summary(runs, encoders_of(runs), compared)
    title = ", ".join(run.name for run in runs)
    page = Page(title, _SUBTITLE)
    summary.add_to(page)
    if not one:
        difference_table(compared, "Differences in points").add_to(page)
        curves.add_score_against_flops(page, runs)
        with page.fold("Pretraining side by side", is_section=True):
            stages.add_side_by_side(page, runs)
    for run in runs:
        sections = _sections(run, within(run, compared_with), data_dirs, with_texts)
        for heading, add in sections.items():
            with page.fold(heading if one else f"{run.name}: {heading}", is_section=True):
                add(page, run)
    blocks = [f"# {markdown_text(title)}", _SUBTITLE, *summary.markdown()]
    blocks += noise.noise_blocks(one) if one else []
    return write_page(target, "report", page, blocks)


def scores_for_programs(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """A record for each task, encoder and baseline, as in scores.csv; None where there is no
    number."""

    def known(value: object) -> object:
        return None if isinstance(value, float) and math.isnan(value) else value

    return [
        {"run": run.name} | {name: known(value) for name, value in record.items()}
        for run in runs
        for record in score_records(scores_of(run))
    ]


def _sections(
    run: RunFolder, compared: Sequence[Against], data_dirs: Sequence[Path], with_texts: bool
) -> dict[str, Callable[[Page, RunFolder], None]]:
    """Everything behind the first screen, by heading."""

    def scores(page: Page, run: RunFolder) -> None:
        if has_stages(run):
            stages.missing(page, run, "evaluate", "Scores")
        add_scores(page, run, compared)

    sections: dict[str, Callable[[Page, RunFolder], None]] = {
        "Scores in full": scores,
        "Published scores": add_published,
        "What the scores cost": curves.add_score_cost,
        "Learning curves": curves.add_curves,
        "Common errors": lambda page, run: add_errors(page, run, data_dirs, with_texts),
        "Probes": noise.add_noise,
    }
    if has_stages(run):
        sections |= {
            "The model": stages.add_model,
            "Pretraining": stages.add_pretraining,
            "Vocabulary": stages.add_vocabulary,
            "Corpus": stages.add_corpus,
        }
    return sections | {"Cost, versions and config": stages.add_stages}


def card_sections(folder: Path) -> dict[str, list[str]]:
    """For a model card: headings and lines of Markdown, of what is known of a run's own export."""
    run = read_run(folder)
    sections = {
        "Scores of the encoder": card_lines(run, within(run, None)),
        "Published scores": published_lines(run),
        "Scores with fewer examples to learn from": curves.low_shot_lines(run),
        "Cost of fine-tuning": curves.cost_lines(run),
        "Robustness and differences between groups": noise.noise_card_lines(run),
    }
    return {heading: lines for heading, lines in sections.items() if lines}


# The top.


@dataclass(frozen=True)
class Summary:
    """Verdict, figures, scores, differences and warnings of one run, or of several side by side."""

    runs: Sequence[RunFolder]
    encoders: Sequence[Encoder]
    compared: Sequence[Against]

    def add_to(self, page: Page) -> None:
        """Append it to a page, with a plot of the differences."""
        for text in self.verdicts():
            page.verdict(text)
        if figures := self.key_figures():
            page.key_figures(figures)
        add_parts(page, self._scores())
        self._plot_differences(page)
        add_parts(page, self._marked_warnings())

    def markdown(self) -> list[str]:
        blocks = markdown_parts(self.verdicts())
        if figures := self.key_figures():
            blocks.append(" · ".join(markdown_text(f"{a} {b}") for a, b in figures))
        differences = difference_table(self.compared)
        parts = [*self._scores(), differences, *self._marked_warnings()]
        return blocks + markdown_parts(parts)

    def _scores(self) -> list[Part]:
        return list(encoder_table(self.encoders, self.compared)) if self.encoders else []

    def _marked_warnings(self) -> list[str]:
        return [f"⚠ {text}" for text in self.warnings()]

    def verdicts(self) -> list[str]:
        """A sentence for each encoder: its mean, and on how many tasks it is better than what; then
        what noise and groups of people change."""
        probed = [line for run in self.runs for line in noise.verdict_lines(run)]
        if self.encoders or probed:
            return [*map(self._sentence, self.encoders), *probed]
        run = self.runs[0]
        if not has_stages(run):
            text = f"{run.name} has no scores yet: the command that began it resumes it"
            return [] if run.probes else [text]
        if run.summary:
            return [f"{run.name} is pretrained and not scored yet. Run: electrify evaluate CONFIG"]
        return [f"{run.name} is not pretrained yet. Run: electrify pretrain CONFIG"]

    def _sentence(self, encoder: Encoder) -> str:
        mean, random = encoder.mean(), encoder.mean("random-init")
        if mean is None:
            scores = encoder.scores.values()
            text = ", ".join(f"{s.first.title} {s.pretrained.text(1)}" for s in scores)
        else:
            text = f"{mean.text(1)} over {len(encoder.scores)} tasks"
            if random is not None:
                gain = 100 * (mean.mean - random.mean)
                text += f", {gain:+.1f} over {BASELINES['random-init']}"
        own, parts = [a for a in encoder.of(self.compared) if a.comparison.difference], []
        for baseline in dict.fromkeys(a.baseline for a in own):
            # what cannot be compared is none of them
            counts = Counter(a.comparison.outcome for a in own if a.baseline == baseline)
            better, worse, undecided = (counts[name] for name in _OUTCOMES)
            rest = [f"worse on {worse}"] * bool(worse)
            rest += [f"undecided on {undecided}"] * bool(undecided)
            note = f" ({', '.join(rest)})" if rest else ""
            parts.append(f"than {baseline} on {better} of {better + undecided + worse}{note}")
        return f"{encoder.name}: {text}." + (f" Better {', '.join(parts)}." if parts else "")

    def key_figures(self) -> list[tuple[str, str]]:
        """Tokens and hours of one run; none of several."""
        summary = self.runs[0].summary
        if not summary or len(self.runs) > 1:
            return []
        return [
            (tick_text(summary["tokens"]), "tokens seen"),
            (duration(summary["seconds"]), f"pretraining on {summary['device']}"),
        ]

    def warnings(self) -> list[str]:
        """At most four, the gravest first."""
        return list(self._all_warnings())[:_MAX_WARNINGS]

    def _all_warnings(self) -> Iterator[str]:
        name = "{}: ".format if self.runs[1:] else "".format  # of the run that is meant
        scores = {
            name(encoder.run.name) + score.label: score
            for encoder in self.encoders
            for score in encoder.scores.values()
        }
        for run in self.runs:
            yield from (name(run.name) + stages.unfinished_text(run, of) for of in run.unfinished)
        if degenerate := [f"{n}, {x}" for n, s in scores.items() if (x := degenerate_text(s))]:
            yield f"Degenerate fine-tunings: {'; '.join(degenerate)}."
        if doubts := [f"{n}: {note}" for n, s in scores.items() for note in notes(s)]:
            yield f"{'; '.join(doubts)}."
        labelled = zip(self.compared, labels_of(self.compared), strict=True)
        against = [(f"{name(a.run)}{label} (against {a.baseline})", a) for a, label in labelled]
        if worse := [
            text
            for text, a in against
            if a.comparison.outcome == "worse" and a.baseline in BASELINES.values()
        ]:
            yield f"Worse than a baseline on {'; '.join(worse)}."
        if alarms := [name(run.name) + of for run in self.runs for of in stages.open_alarms(run)]:
            yield f"Alarms of the pretraining: {'; '.join(alarms)}."
        if cut := [n for n, s in scores.items() if s.first.truncated_fraction > CUT_FRACTION]:
            yield (
                f"More than {100 * CUT_FRACTION:g} % of the reported rows are longer than the "
                f"model takes: {', '.join(cut)}."
            )
        if scores and min(s.pretrained.num_seeds for s in scores.values()) < _FEW_SEEDS:
            yield "Fewer than three seeds hardly show how much a seed changes a score."

    def _plot_differences(self, page: Page) -> None:
        rows: dict[str, dict[str, tuple[float, float, float]]] = {}
        for a, task in zip(self.compared, labels_of(self.compared), strict=True):
            if gain := a.comparison.difference:
                label = f"{task}, {a.run}" if a.run else task
                mark = 100 * gain.value, 100 * gain.low, 100 * gain.high
                rows.setdefault(label, {})[f"against {a.baseline}"] = mark
        if rows:
            label = "points better (right) or worse (left)"
            page.forest_plot("Differences, each with its own 95 % interval", rows, label)
