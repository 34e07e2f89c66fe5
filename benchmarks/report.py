"""The report of one run, or of several together, as a page and as Markdown; model cards."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.noise import effects as noise
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder, has_stages, read_scores, with_distinct_names
from benchmarks.results.table import add_parts, write_page
from benchmarks.sections import curves, stages
from benchmarks.sections.errors import add_errors
from benchmarks.sections.scores import (
    EncoderScores,
    add_scores,
    card_lines,
    degenerate_text,
    difference_table,
    encoder_table,
    encoders_of,
    labels_of,
    notes,
    protocol_rows,
    score_records,
)
from benchmarks.statistics.comparison import ComparedScore, compare_in_run, compare_runs
from benchmarks.statistics.scores import scores_of
from electrify.page.page import Page
from electrify.system.outcome import UserError

COMPARISON = "comparison"  # folder in the first of several runs
_OUTCOMES = ("better", "worse", "no significant difference")
_MAX_WARNINGS = 4
_FEW_SEEDS = 3
_CUT_FRACTION = 0.05  # of the reported rows, beyond which cutting them is named


def read_runs(folders: Sequence[Path]) -> list[RunFolder]:
    """Raises `ValueError` for a folder that is no run and has no scores, or that is named twice."""
    if not folders:
        raise UserError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    return with_distinct_names([read_scores(folder) for folder in folders])


def report(
    runs: Sequence[RunFolder],
    output: Path | None = None,
    data_dirs: Sequence[Path] = (),
    with_texts: bool = True,
) -> Path:
    """Write report.html and report.md of finished or unfinished runs.

    They go into the folder `output`, by default the run's; of several runs, by default, into
    `comparison/` of the first, so that its own page stays. Returns the HTML file. The worst
    examples are quoted from `data_dirs`, those of the evaluation, unless `with_texts` is False.
    """
    folder = runs[0].folder
    target = output or (folder / COMPARISON if runs[1:] else folder)
    if target.exists() and not target.is_dir():
        raise UserError(f"output {target} is a file; give a folder")
    one = runs[0] if len(runs) == 1 else None
    compared = compare_in_run(one) if one else compare_runs(runs)
    title = ", ".join(run.name for run in runs)
    page = Page(title, "electrify: an ELECTRA encoder from raw text to scores")
    summary = Summary(runs, encoders_of(runs), compared)
    summary.add_to(page)
    if not one:
        with page.fold("Pretraining of all runs", is_section=True):
            stages.add_side_by_side(page, runs)
    for run in runs:
        prefix = "" if one else f"{run.name}: "
        own = () if one else compare_in_run(run)  # of one run they stand above
        _add_sections(page, prefix, run, own, data_dirs, with_texts)
    return write_page(target, "report", page)


def _add_sections(
    page: Page,
    prefix: str,
    run: RunFolder,
    compared: Sequence[ComparedScore],
    data_dirs: Sequence[Path],
    with_texts: bool,
) -> None:
    """Everything behind the first screen."""

    def section(title: str) -> Any:
        return page.fold(prefix + title, is_section=True)

    with section("Scores in full"):
        if has_stages(run):
            stages.missing(page, run, "evaluate", "Scores")
        add_scores(page, run, compared)
    with section("Learning curves"):
        curves.add_curves(page, run)
    with section("Common errors"):
        add_errors(page, run, data_dirs, with_texts)
    with section("Robustness and fairness"):
        noise.add_noise(page, run)
    if has_stages(run):
        with section("The model"):
            stages.add_model(page, run)
        with section("Pretraining"):
            stages.add_pretraining(page, run)
        with section("Corpus and vocabulary"):
            stages.add_corpus(page, run)
    with section("Cost, versions and config"):
        stages.add_stages(page, run)


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


def card_sections(folder: Path) -> dict[str, list[str]]:
    """For a model card: headings and lines of Markdown, of what is known of a run's own export."""
    run = read_scores(folder)
    sections = {
        "Scores of the encoder": card_lines(run, compare_in_run(run)),
        "Scores with fewer examples to learn from": curves.low_shot_lines(run),
        "Robustness and differences between groups": noise.noise_card_lines(run),
    }
    return {heading: lines for heading, lines in sections.items() if lines}


# The top.


@dataclass(frozen=True)
class Summary:
    """Verdict, figures, scores, differences and warnings of one run, or of several."""

    runs: Sequence[RunFolder]
    encoders: Sequence[EncoderScores]
    compared: Sequence[ComparedScore]

    def add_to(self, page: Page) -> None:
        for text in self.verdicts():
            page.verdict(text)
        add_parts(page, encoder_table(self.encoders))
        difference_table(self.compared).add_to(page)
        add_parts(page, [f"⚠ {text}" for text in self.warnings()])

    def verdicts(self) -> list[str]:
        """The mean of each encoder, and on how many tasks it is better than what; then what noise
        and groups of people change."""
        of_noise = [line for run in self.runs for line in noise.verdict_lines(run)]
        if self.encoders or of_noise:
            return [*([self._sentence()] if self.encoders else []), *of_noise]
        run = self.runs[0]
        if not has_stages(run):
            text = f"{run.name} has no scores yet: the command that began it resumes it"
            return [] if run.noise else [text]
        if "pretrain" in run.manifests:
            return [f"{run.name} is pretrained and not scored yet. Run: electrify evaluate CONFIG"]
        return [f"{run.name} is not pretrained yet. Run: electrify pretrain CONFIG"]

    def _sentence(self) -> str:
        """Scores encoder by encoder, then outcomes, each with the encoders that have it."""
        scores = "; ".join(f"{e.name}: {self._scores(e)}" for e in self.encoders)
        by_outcome: dict[str, list[str]] = {}
        for encoder in self.encoders:
            if outcome := self._outcomes(encoder):
                by_outcome.setdefault(outcome, []).append(encoder.name)
        texts = [
            f"{', '.join(names)}: better {outcome}" if self.encoders[1:] else f"Better {outcome}"
            for outcome, names in by_outcome.items()
        ]
        return " ".join(f"{text}." for text in (scores, *texts))

    def _scores(self, encoder: EncoderScores) -> str:
        mean, random = encoder.mean(), encoder.mean("random-init")
        if mean is None:
            scores = encoder.scores.values()
            return ", ".join(f"{s.first.title} {s.pretrained.text(1)}" for s in scores)
        text = f"{mean.text(1)} over {len(encoder.scores)} tasks"
        if random is not None:
            gain = 100 * (mean.mean - random.mean)
            text += f", {gain:+.1f} over {BASELINES['random-init']}"
        return text

    def _outcomes(self, encoder: EncoderScores) -> str:
        compared = encoder.comparisons(self.compared)
        own, parts = [a for a in compared if a.comparison.difference], []
        for baseline in dict.fromkeys(a.baseline for a in own):
            # what cannot be compared is none of them
            counts = Counter(a.comparison.outcome for a in own if a.baseline == baseline)
            better, worse, undecided = (counts[name] for name in _OUTCOMES)
            rest = [f"worse on {worse}"] * bool(worse)
            rest += [f"undecided on {undecided}"] * bool(undecided)
            note = f" ({', '.join(rest)})" if rest else ""
            parts.append(f"than {baseline} on {better} of {better + undecided + worse}{note}")
        return ", ".join(parts)

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
        if unlike := dict.fromkeys(str(row["task"]) for row in protocol_rows(self.encoders)):
            yield f"Encoders were not fine-tuned alike on {', '.join(unlike)}: see what differs."
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
        if cut := [n for n, s in scores.items() if s.first.truncated_fraction > _CUT_FRACTION]:
            yield (
                f"More than {100 * _CUT_FRACTION:g} % of the reported rows are longer than the "
                f"model takes: {', '.join(cut)}."
            )
        if scores and min(s.pretrained.num_seeds for s in scores.values()) < _FEW_SEEDS:
            yield "Fewer than three seeds hardly show how much a seed changes a score."
