"""Every table of scores: one row a task and encoder, its columns cut for a page, Markdown, a model
card, CSV and a terminal; and the differences between them."""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report.published import TEXTS, PublishedScore, differences_to, published_tables
from benchmarks.results.results import BASELINES, Result, encoder_label, largest_part, percent
from benchmarks.results.run_folder import Json, RunFolder
from benchmarks.results.table import Record, Table
from benchmarks.statistics.comparison import METHOD, Against, against_baselines, verdict_sentence
from benchmarks.statistics.scores import (
    Sample,
    TaskScore,
    encoder_name,
    overall,
    scores_of,
    task_scores,
)
from benchmarks.statistics.uncertainty import NUM_RESAMPLES, p_text
from electrify.page.page import Cell, Page
from electrify.stage.folder import write_text
from electrify.system.progress import duration

SCORES = "scores.csv"  # beside the results
_DASH = Cell("–")
_NUM_PUBLISHED = 2  # models of each published table, those nearest to ours


# of a table for readers: each form names the columns that it has
_SCORE = ("task", "metric", "encoder", "score ± sd", "95 % interval", "seeds")
_PAGE = (*_SCORE, "split", "rows scored", "learnt from", "cut")
_TERMINAL = ("task", "metric", "encoder", "score ± sd", "seeds", "remarks")
_CARD = ("task", "split", "metric", "score ± sd", "95 % interval", "seeds")


def _rows(scores: Sequence[TaskScore]) -> Iterator[tuple[TaskScore, str, Sample]]:
    """The rows of every table: each encoder's by its name, then those of its baselines, task by
    task."""
    for score in scores:
        for name, sample in score.samples.items():
            yield score, name, sample


def _records(scores: Sequence[TaskScore], columns: Sequence[str]) -> list[Record]:
    records: list[Record] = []
    for score, name, sample in _rows(scores):
        first, degenerate = score.first, sample.num_degenerate
        remarks = [f"{degenerate} degenerate"] * bool(degenerate)
        remarks += [f"{first.examples} rows of {first.split}"] * ("-" in first.split)
        record = {
            "task": score.label,
            "metric": first.metric,
            "encoder": name,
            "score ± sd": sample.text(),
            "95 % interval": sample.estimate.text(),
            "seeds": sample.num_seeds,
            "split": first.split,
            "rows scored": first.examples,
            "learnt from": first.num_train_examples,
            "cut": f"{100 * first.truncated_fraction:.1f} %",
            "remarks": ", ".join(remarks),
        }
        records.append({column: record[column] for column in columns})
    return records


def terminal_lines(results: Sequence[Result], place: Path) -> list[str]:
    """For a terminal: the table, what looks wrong, and a sentence for each difference.

    Scores are those that learnt from the largest part of the training split. `place` holds their
    predictions.
    """
    results = largest_part(results)
    scores = task_scores("evaluate", results, place)  # of one encoder
    lines = Table.of(_records(scores, _TERMINAL)).terminal()
    lines += [f"warning: {score.first.task}: {note}" for score in scores for note in notes(score)]
    compared = against_baselines(scores)
    lines += [f"{a.score.first.title}: {verdict_sentence(a)}" for a in compared]
    if weak := [score.first.title for score in scores if _is_weak(score)]:
        lines.append(
            f"{', '.join(weak)}: degenerate, or below a baseline. Another learning rate may suit "
            "this encoder: the same command with --search tries four on held-out training rows"
        )
    if not compared:
        lines.append("nothing to compare with: random initialisation is not scored")
    for (name, model), mean in overall(results).items():
        lines.append(f"{name}, {encoder_label(model, results[0].model_path)}: {percent(mean)}")
    return lines


def _is_weak(score: TaskScore) -> bool:
    """Whether a search may help: the encoder has a degenerate seed or a lower mean than TF-IDF, and
    there was no search."""
    own, baseline = score.pretrained, score.by_role["bag-of-words"]
    if not own.values or score.first.search:
        return False
    gain = own.mean - baseline.mean if baseline.values else 0.0
    return own.num_degenerate > 0 or (gain if score.first.higher_is_better else -gain) < 0


def write_scores(results: Sequence[Result], place: Path) -> None:
    """scores.csv: a row a task, encoder and part of the training rows."""
    records: list[Record] = []
    for fraction in dict.fromkeys(result.train_fraction for result in results):
        part = [result for result in results if result.train_fraction == fraction]
        records += score_records(task_scores(place.name, part))
    write_text(place / SCORES, Table.of(records).csv())


def score_records(scores: Sequence[TaskScore]) -> list[Record]:
    """For programs: means over seeds in full, as fractions of 1."""
    return [
        {
            "task": score.first.task,
            "metric": sample.metric,
            "encoder": name,
            "train_fraction": score.first.train_fraction,
            "split": score.first.split,
            "examples": score.first.num_examples,
            "mean": sample.mean,
            "sd": sample.sd,
            "seeds": sample.num_seeds,
            "degenerate": sample.num_degenerate,
        }
        for score, name, sample in _rows(scores)
    ]


def card_lines(run: RunFolder, compared: Sequence[Against]) -> list[str]:
    """For a model card: the run's own encoder with its baselines and the differences to them."""
    scores = [score for score in scores_of(run) if score.pretrained.values and not score.encoder]
    if not scores:
        return []
    against = {(a.score.label, a.baseline): a.comparison for a in compared}
    records = []
    for score in scores:
        record = dict(_records([score], _CARD)[0])
        for role, name in BASELINES.items():
            found = against.get((score.label, name))
            gain = found.difference if found else None
            record[name] = score.by_role[role].text()
            record[f"difference to {name}, 95 %"] = gain.text() if gain else None
            record[f"than {name}"] = found.outcome if found else None
        records.append(record)
    return [*Table.of(records).markdown(), "", TEXTS["card"]]


def labels_of(compared: Sequence[Against]) -> list[str]:
    """The task of each, and its encoder where there are several."""
    several = len({a.score.stage for a in compared}) > 1
    return [a.score.label if several else a.score.first.title for a in compared]


def difference_table(compared: Sequence[Against], caption: str = "") -> Table:
    """Each difference with its own interval, the corrected p and the outcome."""
    has_runs = any(a.run for a in compared)
    records = []
    for a, label in zip(compared, labels_of(compared), strict=True):
        gain = a.comparison.difference
        is_known = gain is not None and not math.isnan(gain.value)
        records.append(
            {
                "task": label,
                **({"run": a.run} if has_runs else {}),
                "to": a.baseline,
                "difference": f"{100 * gain.value:+.2f}" if gain and is_known else None,
                "95 % interval, each alone": gain.text() if gain else None,
                "p, corrected": p_text(a.comparison.p_corrected),
                "outcome": a.comparison.verdict,
            }
        )
    return Table.of(records, caption)


# All encoders by tasks.


@dataclass(frozen=True)
class Encoder:
    """One encoder's scores by task, by the name that it has on the page."""

    name: str
    run: RunFolder
    scores: Mapping[str, TaskScore]

    def mean(self, role: str = "pretrained") -> Sample | None:
        """Over its tasks, as `mean_over_tasks`; of the encoder or of a baseline."""
        return mean_over_tasks([score.by_role[role] for score in self.scores.values()])

    def of(self, compared: Sequence[Against]) -> list[Against]:
        return [a for a in compared if any(a.score is score for score in self.scores.values())]

    @property
    def summary(self) -> Json:
        """Of its pretraining; empty where that is not known."""
        is_own = not next(iter(self.scores.values())).encoder
        return self.run.summary if is_own else {}

    def records_of(self, task: str) -> list[Result]:
        """Those of the encoder itself, not of its baselines."""
        return [r for r in self.scores[task].results if r.role == "pretrained"]


def encoders_of(runs: Sequence[RunFolder]) -> list[Encoder]:
    """Every scored encoder: each run's own under the run's name, then the others of the run."""
    encoders = []
    for run in runs:
        by_stage: dict[str, dict[str, TaskScore]] = {}
        for score in scores_of(run):
            if score.pretrained.values:
                by_stage.setdefault(score.stage, {})[score.first.task] = score
        for stage, scores in by_stage.items():
            other = encoder_name(stage)
            is_alone = not other or len(by_stage) == 1
            name = run.name if is_alone else other if len(runs) == 1 else f"{run.name}, {other}"
            encoders.append(Encoder(name, run, scores))
    return encoders


def mean_over_tasks(samples: Sequence[Sample]) -> Sample | None:
    """The mean over tasks, seed by seed where all have the same seeds; None of fewer than two tasks
    or where one has no score."""
    if len(samples) < 2 or not all(sample.values for sample in samples):
        return None
    seeds = samples[0].values.keys()
    if any(sample.values.keys() != seeds for sample in samples):
        return Sample({0: statistics.fmean(sample.mean for sample in samples)})
    return Sample({seed: statistics.fmean(s.values[seed] for s in samples) for seed in seeds})


def encoder_table(
    encoders: Sequence[Encoder], compared: Sequence[Against], for_board: bool = False
) -> tuple[Table, str]:
    """Our encoders, their baselines and published models by tasks, in percent; and a note.

    A board has no published models, and no mean: it ranks those that are comparable.
    """
    first = {task: score for e in reversed(encoders) for task, score in e.scores.items()}
    tasks = list(dict.fromkeys(task for e in encoders for task in e.scores))
    rows = {e.name: {t: s.pretrained for t, s in e.scores.items()} for e in encoders}
    for role in BASELINES:
        rows |= _baseline_rows(encoders, role)
    decided, has_mean = _decided(encoders, compared), len(tasks) > 1 and not for_board
    cells: dict[str, list[Cell]] = {}
    for name, samples in rows.items():
        cells[name] = [_cell(samples.get(task), (name, task) in decided) for task in tasks]
        is_whole = len(samples) == len(tasks)
        mean = mean_over_tasks(list(samples.values())) if is_whole else None
        cells[name] += [_cell(mean)] * has_mean
    published = {} if for_board else _published_cells(first, tasks)
    for name, of_model in published.items():
        cells[name] = [*of_model, *[_DASH] * has_mean]

    def about(task: str) -> str:
        records = [e.scores[task].first for e in encoders if task in e.scores]
        metrics = dict.fromkeys(record.metric.replace("_", " ") for record in records)
        return f"{' or '.join(metrics)}, {_range({r.num_examples for r in records})} rows"

    headers = [Cell(""), *(Cell(first[task].first.title, about(task)) for task in tasks)]
    headers += [Cell("mean", f"{len(tasks)} tasks")] * has_mean
    seeds = {s.num_seeds for samples in rows.values() for s in samples.values()}
    note = TEXTS["encoders"].format(seeds=_range(seeds))
    note += TEXTS["encoders_published"] if published else ""
    return Table(headers, [[n, *of] for n, of in cells.items()], grey=list(published)), note


def _baseline_rows(encoders: Sequence[Encoder], role: str) -> dict[str, dict[str, Sample]]:
    """The samples of a baseline by row and task: a row for each encoder, or one for all where
    TF-IDF, which reads no encoder, scored alike beside each."""
    rows = {
        f"{e.name}, {BASELINES[role]}": {
            task: s.by_role[role] for task, s in e.scores.items() if s.by_role[role].values
        }
        for e in encoders
    }
    merged = {task: sample for samples in rows.values() for task, sample in samples.items()}
    is_alike = role == "bag-of-words" and all(
        _cell(sample) == _cell(merged[task]) for of in rows.values() for task, sample in of.items()
    )
    rows = {BASELINES[role]: merged} if len(encoders) == 1 or is_alike else rows
    return {name: samples for name, samples in rows.items() if samples}


def _range(counts: Collection[int]) -> str:
    """'60 to 140', or the one count that all have."""
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def _cell(sample: Sample | None, is_bold: bool = False) -> Cell:
    if sample is None or not sample.values:
        return _DASH
    sd = "" if sample.sd is None else f"± {percent(sample.sd, 1)}"
    return Cell(percent(sample.mean, 1), sd, is_bold)


def _decided(encoders: Sequence[Encoder], compared: Sequence[Against]) -> set[tuple[str, str]]:
    """(row, task) where an encoder is better than all it is compared with, or is worse than a
    baseline, which then is the better one."""
    decided = set()
    for encoder in encoders:
        for task, score in encoder.scores.items():
            of_task = [a for a in compared if a.score is score]
            worse = [a for a in of_task if a.comparison.outcome == "worse"]
            if {a.comparison.outcome for a in of_task} == {"better"}:
                decided.add((encoder.name, task))
            if worse and len(encoders) == 1:
                best = min(worse, key=lambda a: a.comparison.gain or 0.0)
                decided.add((best.baseline, task))
    return decided


def _published_cells(first: Mapping[str, TaskScore], tasks: Sequence[str]) -> dict[str, list[Cell]]:
    """By model: of each published table those that share most tasks with ours, the nearest first by
    the mean over these."""
    cells: dict[str, list[Cell]] = {}
    for models in published_tables():
        rows: list[tuple[int, float, str, list[Cell]]] = []
        for model in models.keys() - cells.keys():
            shared = {
                score.task: score
                for score in models[model]
                if score.task in first and score.metric == first[score.task].first.metric
            }
            gaps = [score.value - first[t].pretrained.mean for t, score in shared.items()]
            if gaps:
                row = [_published_cell(first, shared.get(task)) for task in tasks]
                rows.append((-len(gaps), abs(statistics.fmean(gaps)), model, row))
        nearest = sorted(rows, key=lambda row: row[:3])[:_NUM_PUBLISHED]
        cells |= {model: row for _, _, model, row in nearest}
    return cells


def _published_cell(first: Mapping[str, TaskScore], score: PublishedScore | None) -> Cell:
    if score is None:
        return _DASH
    mark = "†" * bool(differences_to(first[score.task].first, score))
    return Cell(percent(score.value, 1) + mark)


# The section of a page.


def add_scores(page: Page, run: RunFolder, compared: Sequence[Against]) -> None:
    scores = scores_of(run)
    if not scores:
        return
    score_table(scores).add_to(page)
    difference_table(compared, "Differences in points").add_to(page)
    results = [result for score in scores for result in score.results]
    is_last = {result.selection for result in results} == {"last"}
    has_search = any(result.search for result in results)
    page.paragraph(
        TEXTS["baselines"].format(
            how=TEXTS["fine_tuned_by_search" if has_search else "fine_tuned_alike"],
            method=METHOD,
            selection=TEXTS["selected_last" if is_last else "selected_best"],
        )
    )
    add_seeds(page, scores)


def score_table(scores: Sequence[TaskScore]) -> Table:
    return Table.of(_records(scores, _PAGE), TEXTS["scores"])


def add_seeds(page: Page, scores: Sequence[TaskScore]) -> None:
    """What to be careful about, the score of each seed, and all settings."""
    for score in scores:
        for text in _cautions(score):
            page.paragraph(text)
    with page.fold("Each seed"):
        page.records([row for score in scores for row in _seed_rows(score)])
    with page.fold("How it was fine-tuned"):
        _add_settings(page, scores)


def degenerate_text(score: TaskScore) -> str:
    """'2 of 3 runs of bert degenerate'; empty if none is."""
    return ", ".join(
        f"{sample.num_degenerate} of {sample.num_seeds} runs of {name} degenerate"
        for name, sample in score.samples.items()
        if sample.num_degenerate
    )


def notes(score: TaskScore) -> list[str]:
    """What looks wrong although nothing failed, each once."""
    return list(dict.fromkeys(note for result in score.results for note in result.notes))


def _cautions(score: TaskScore) -> Iterator[str]:
    """What keeps a score from being worth what it seems."""
    if text := degenerate_text(score):
        yield f"Degenerate: {score.label}, {text}; what each did stands below."
    for note in notes(score):
        yield f"{score.label}: {note}."
    if score.note:
        yield f"{score.label}: intervals over seeds alone, {score.note}."
    for name, sample in score.samples.items():
        if undefined := sample.estimate.num_undefined:
            yield (
                f"{score.label}, {name}: of {NUM_RESAMPLES:,} resamples {undefined:,} have no "
                "score; they are left out of the interval."
            )


def _seed_rows(score: TaskScore) -> list[dict[str, object]]:
    # jobs that ran side by side stand in the order they finished
    return [
        {
            "task": score.label,
            "encoder": result.encoder,
            "seed": result.seed,
            "score": percent(result.value),
            "other metrics": ", ".join(
                f"{name} {percent(value)}"
                for name, value in result.metrics.items()
                if name != result.metric
            ),
            "time": duration(result.seconds),
            "degenerate": result.degenerate,
        }
        for result in sorted(score.results, key=lambda result: (result.role, result.seed))
    ]


def _add_settings(page: Page, scores: Sequence[TaskScore]) -> None:
    """Every setting by task, and what a search chose."""
    settings = {score.label: score.first.hyper_parameters for score in scores}
    of_tasks = settings.values()
    names = dict.fromkeys(n for of in of_tasks for n, value in of.items() if value is not None)
    rows = [[name, *(of.get(name) for of in of_tasks)] for name in names]
    Table(["", *settings], rows, "Settings by task").add_to(page)
    for score in scores:
        for encoder, search in {r.encoder: r.search for r in score.results if r.search}.items():
            page.paragraph(
                f"{score.label}, {encoder}: {search['best']}, {percent(search['value'])} on "
                f"{search['num_held_out']:,} held-out rows of the training split."
            )
