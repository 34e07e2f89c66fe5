"""The top of a report: the verdict, all scores in one table, differences, warnings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.report.noise import verdict_lines
from benchmarks.report.published import CUT_FRACTION
from benchmarks.report.scores import (
    Encoder,
    degenerate_text,
    difference_table,
    encoder_table,
    encoders_of,
    labels_of,
    notes,
)
from benchmarks.report.stages import open_alarms, unfinished_text
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Part, add_parts, markdown_parts, markdown_text
from benchmarks.statistics.comparison import Against
from benchmarks.statistics.scores import TaskScore, scores_of
from electrify.page.page import Page
from electrify.page.plots import tick_text
from electrify.system.progress import duration

_MAX_WARNINGS = 4
_FEW_SEEDS = 3


@dataclass(frozen=True)
class Summary:
    """Verdict, figures, scores, differences and warnings of one run, or of several side by side."""

    runs: Sequence[RunFolder]
    names: Sequence[str]
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
        """The same in blocks of Markdown, with a table of the differences."""
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
        probed = [
            line
            for run, name in zip(self.runs, self.names, strict=True)
            for line in verdict_lines(run, name)
        ]
        if self.encoders or probed:
            return [*map(self._sentence, self.encoders), *probed]
        run = self.runs[0]
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
        own, parts = encoder.of(self.compared), []
        for baseline in dict.fromkeys(a.baseline for a in own):
            better, undecided, worse = _outcomes([a for a in own if a.baseline == baseline])
            rest = [f"worse on {worse}"] * bool(worse)
            rest += [f"undecided on {undecided}"] * bool(undecided)
            note = f" ({', '.join(rest)})" if rest else ""
            parts.append(f"than {baseline} on {better} of {better + undecided + worse}{note}")
        return f"{encoder.name}: {text}." + (f" Better {', '.join(parts)}." if parts else "")

    def key_figures(self) -> list[tuple[str, str]]:
        """Tokens, hours, and the tasks on which the first encoder is better, undecided and
        worse."""
        summary, figures = self.runs[0].summary, []
        if summary and len(self.runs) == 1:
            figures += [
                (tick_text(summary["tokens"]), "tokens seen"),
                (duration(summary["seconds"]), f"pretraining on {summary['device']}"),
            ]
        if self.encoders and self.compared:
            baseline = self.compared[0].baseline
            own = self.encoders[0].of(self.compared)
            outcomes = _outcomes([a for a in own if a.baseline == baseline])
            if any(outcomes):
                label = f"tasks better / undecided / worse, against {baseline}"
                figures.append((" / ".join(map(str, outcomes)), label))
        return figures

    def warnings(self) -> list[str]:
        """At most four, the gravest first."""
        return list(self._all_warnings())[:_MAX_WARNINGS]

    def _all_warnings(self) -> Iterator[str]:
        scores = [score for encoder in self.encoders for score in encoder.scores.values()]
        yield from (unfinished_text(stage) for run in self.runs for stage in run.unfinished)
        if degenerate := [f"{s.label}, {text}" for s in scores if (text := degenerate_text(s))]:
            yield f"Degenerate fine-tunings: {'; '.join(degenerate)}."
        if doubts := [f"{s.label}: {note}" for s in scores for note in notes(s)]:
            yield f"{'; '.join(doubts)}."
        if lost := " ".join(self._lost_sentences()):
            yield lost
        if alarms := [text for run in self.runs for text in open_alarms(run)]:
            yield f"Alarms of the pretraining: {'; '.join(alarms)}."
        if touched := [score.label for score in scores if self._is_touched(score)]:
            yield f"Texts of these tasks stand in the corpus (Leakage): {', '.join(touched)}."
        if cut := [s.label for s in scores if s.first.truncated_fraction > CUT_FRACTION]:
            yield (
                f"More than {100 * CUT_FRACTION:g} % of the reported rows are longer than the "
                f"model takes: {', '.join(cut)}."
            )
        if scores and min(s.pretrained.num_seeds for s in scores) < _FEW_SEEDS:
            yield "Fewer than three seeds hardly show how much a seed changes a score."

    def _is_touched(self, score: TaskScore) -> bool:
        """Whether a row of the task stands in the corpus of the run's own encoder."""
        return any(
            split.touched
            for run in self.runs
            if run.leakage and any(score is own for own in scores_of(run)) and not score.encoder
            for task in run.leakage.tasks
            if task.task == score.first.task
            for split in task.splits
        )

    def _lost_sentences(self) -> Iterator[str]:
        """The tasks on which an encoder is worse than a baseline, and where this is undecided."""
        of_baselines = [a for a in self.compared if a.baseline in BASELINES.values()]
        for outcome, text in (
            ("worse", "Worse than a baseline"),
            ("cannot tell apart", "Better or worse than a baseline: not decided"),
        ):
            lost: dict[str, list[str]] = {}
            for a, label in zip(of_baselines, labels_of(of_baselines), strict=True):
                if a.comparison.outcome == outcome:
                    lost.setdefault(a.baseline, []).append(label)
            if lost:
                parts = (f"{', '.join(tasks)} (against {name})" for name, tasks in lost.items())
                yield f"{text} on {'; '.join(parts)}."

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


def _outcomes(compared: Sequence[Against]) -> tuple[int, int, int]:
    """How many are better, undecided and worse; what cannot be compared is none of them."""
    counts = Counter(a.comparison.outcome for a in compared)
    return counts["better"], counts["cannot tell apart"], counts["worse"]


def summary_of(
    runs: Sequence[RunFolder], names: Sequence[str], compared: Sequence[Against]
) -> Summary:
    """The summary of all encoders of the runs."""
    return Summary(runs, names, encoders_of(runs, names), compared)
