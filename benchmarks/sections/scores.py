"""Tables of scores: encoders by tasks, every score in full, the differences between them; for a
page, a model card, CSV and a terminal."""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results.results import (
    BASELINES,
    Result,
    differing,
    encoder_label,
    largest_part,
    percent,
    task_of,
)
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Part, Record, Table
from benchmarks.statistics.comparison import (
    ALPHA,
    ComparedScore,
    against_baselines,
    compare_in_run,
    verdict_sentence,
)
from benchmarks.statistics.scores import (
    Sample,
    TaskScore,
    encoder_name,
    overall,
    scores_of,
    task_scores,
)
from benchmarks.statistics.uncertainty import p_text
from benchmarks.training.recipe import departures
from electrify.config.evaluate import SearchOptions
from electrify.page.page import Page
from electrify.stage.folder import write_text
from electrify.stage.plan import START
from electrify.storage.files import read_toml
from electrify.system.progress import duration

TEXTS = read_toml(Path(__file__).with_name("texts.toml"))
SCORES = "scores.csv"  # beside the results

# columns of a table for readers
_SCORE = ("task", "metric", "encoder", "score ± sd", "95 % interval", "seeds")
_PAGE = (*_SCORE, "split", "rows scored", "learnt from", "cut")
_TERMINAL = ("task", "metric", "encoder", "score ± sd", "seeds", "remarks")
_CARD = (*_SCORE, "split")


# One row a task and encoder.


def _records(scores: Sequence[TaskScore], columns: Sequence[str]) -> list[Record]:
    records: list[Record] = []
    for score in scores:
        first = score.first
        for name, sample in score.samples.items():
            degenerate = sample.num_degenerate
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


def terminal_lines(results: Sequence[Result], folder: Path) -> list[str]:
    """For a terminal: the table, what looks wrong, and a sentence for each difference.

    Scores are those that learnt from the largest part of the training split. `folder` holds their
    predictions.
    """
    results = largest_part(results)
    scores = task_scores("evaluate", results, folder)  # of one encoder
    lines = Table.of(_records(scores, _TERMINAL)).terminal()
    lines += [f"warning: {score.first.task}: {note}" for score in scores for note in notes(score)]
    compared = against_baselines(scores)
    lines += [f"{a.score.first.title}: {verdict_sentence(a)}" for a in compared]
    if weak := [score.first.title for score in scores if _is_weak(score)]:
        lines.append(
            f"{', '.join(weak)}: degenerate, or below a baseline. Another learning rate may suit "
            "this encoder: the same command with --search tries four on held-out training rows"
        )
    if not compared and folder.name == "evaluate":
        lines.append("no baseline is scored: evaluate.random_init_control = true adds one")
    for (name, model), mean in overall(results).items():
        label = encoder_label(model, results[0].model_path, results[0].model_name)
        lines.append(f"{name}, {label}: {percent(mean)}")
    return lines


def beside_lines(run: RunFolder, stage: str) -> Iterator[str]:
    """For a terminal: the run's own encoder against that of another stage of scores, task by task,
    after what keeps the two from being compared."""
    name = encoder_name(stage)
    own = "adapted" if name == START else run.name
    others = {score.first.task: score for score in scores_of(run) if score.stage == stage}
    for against in compare_in_run(run):
        if against.baseline != name:
            continue
        score, other = against.score, others[against.score.first.task]
        if different := protocol_differences(score.first, other.first):
            alike = f"{own} and {name} are not fine-tuned alike"
            yield f"warning: {score.first.title}: {alike}: {'; '.join(different)}"
        texts = f"{own} {score.pretrained.text()} against {name} {other.pretrained.text()}"
        yield f"{score.first.title}: {texts}: {verdict_sentence(against)}"


def _is_weak(score: TaskScore) -> bool:
    """Whether a search may help: the encoder has a degenerate seed or a lower mean than TF-IDF, and
    there was no search."""
    own, baseline = score.pretrained, score.by_role["bag-of-words"]
    if not own.values or score.first.search:
        return False
    gain = own.mean - baseline.mean if baseline.values else 0.0
    return own.num_degenerate > 0 or gain < 0


def write_scores(results: Sequence[Result], folder: Path) -> None:
    """scores.csv: a row a task, encoder and part of the training rows."""
    records: list[Record] = []
    for fraction in dict.fromkeys(result.train_fraction for result in results):
        subset = [result for result in results if result.train_fraction == fraction]
        records += score_records(task_scores(folder.name, subset))
    write_text(folder / SCORES, Table.of(records).csv())


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
        for score in scores
        for name, sample in score.samples.items()
    ]


def card_lines(run: RunFolder, compared: Sequence[ComparedScore]) -> list[str]:
    """For a model card: the run's own encoder with its baselines and the differences to them."""
    scores = [score for score in scores_of(run) if score.pretrained.values and not score.encoder]
    if not scores:
        return []
    own = [a for a in compared if any(a.score is score for score in scores)]
    tables = Table.of(_records(scores, _CARD)), difference_table(own)
    return [*(line for table in tables for line in (*table.markdown(), "")), TEXTS["card"]]


# Differences.


def labels_of(compared: Sequence[ComparedScore]) -> list[str]:
    """The task of each, and its encoder where there are several."""
    several = len({a.score.stage for a in compared}) > 1
    return [a.score.label if several else a.score.first.title for a in compared]


def difference_table(compared: Sequence[ComparedScore]) -> Table:
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
    return Table.of(records, "Differences in points")


# Encoders by tasks.


@dataclass(frozen=True)
class EncoderScores:
    """One encoder's scores by task, by the name that it has on the page."""

    name: str
    run: RunFolder
    scores: Mapping[str, TaskScore]

    def mean(self, role: str = "pretrained") -> Sample | None:
        """Over its tasks, as `mean_over_tasks`; of the encoder or of a baseline."""
        return mean_over_tasks([score.by_role[role] for score in self.scores.values()])

    def comparisons(self, compared: Sequence[ComparedScore]) -> list[ComparedScore]:
        return [a for a in compared if any(a.score is score for score in self.scores.values())]


def encoders_of(runs: Sequence[RunFolder]) -> list[EncoderScores]:
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
            encoders.append(EncoderScores(name, run, scores))
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


def encoder_table(encoders: Sequence[EncoderScores]) -> list[Part]:
    """Our encoders and their baselines by tasks, in percent; a note, and what keeps encoders of
    several runs from being compared."""
    if not encoders:
        return []
    tasks = list(dict.fromkeys(task for e in encoders for task in e.scores))
    rows = {e.name: {t: s.pretrained for t, s in e.scores.items()} for e in encoders}
    rows |= {
        f"{e.name}, {name}" if encoders[1:] else name: samples
        for role, name in BASELINES.items()
        for e in encoders
        if (samples := {t: s.by_role[role] for t, s in e.scores.items() if s.by_role[role].values})
    }
    headers = {task: _header(encoders, task) for task in tasks}
    records: list[Record] = []
    for name, samples in rows.items():
        record: dict[str, object] = {"encoder": name}
        for task, header in headers.items():
            record[header] = _score_text(samples.get(task))
        if len(tasks) > 1:
            is_whole = len(samples) == len(tasks)
            mean = mean_over_tasks(list(samples.values())) if is_whole else None
            record[f"mean of {len(tasks)} tasks"] = _score_text(mean)
        records.append(record)
    seeds = {s.num_seeds for samples in rows.values() for s in samples.values()}
    means = "one seed" if seeds == {1} else f"mean of {_range(seeds)} seeds ± standard deviation"
    note = TEXTS["encoders"].format(means=means)
    differences = Table.of(protocol_rows(encoders), "Rows and recipes that differ")
    return [Table.of(records), note, differences]


def _header(encoders: Sequence[EncoderScores], task: str) -> str:
    """'YNAT, macro f1, 300 rows'."""
    records = [e.scores[task].first for e in encoders if task in e.scores]
    metrics = " or ".join(dict.fromkeys(record.metric.replace("_", " ") for record in records))
    return f"{records[0].title}, {metrics}, {_range({r.num_examples for r in records})} rows"


def _range(counts: Collection[int]) -> str:
    """'60 to 140', or the one count that all have."""
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def _score_text(sample: Sample | None) -> str | None:
    return sample.text(1) if sample and sample.values else None


# Whether two scores of ours may be compared: the same rows, the same recipe.


def protocol_rows(encoders: Sequence[EncoderScores]) -> list[Record]:
    """What differs from the first encoder that was scored on a task."""
    rows: list[Record] = []
    first: dict[str, tuple[str, Result]] = {}
    for encoder in encoders:
        for task, score in encoder.scores.items():
            other, result = first.setdefault(task, (encoder.name, score.first))
            if differences := protocol_differences(score.first, result):
                about = {"task": score.first.title, "encoder": encoder.name, "from": other}
                rows.append({**about, "what differs": "; ".join(differences)})
    return rows


def protocol_of(result: Result) -> Mapping[str, Any]:
    """The recipe of a fine-tuning, and each setting that is not the recipe's own.

    A recipe has its own rates for each size of a network: an encoder of size small and one of size
    base follow one recipe. What a search chose is free; how many trials it had is not.
    """
    settings = result.hyper_parameters
    protocol = {"recipe": settings.get("recipe"), **departures(task_of(result), settings)}
    if result.search:
        for name in SearchOptions.model_fields:
            protocol.pop(name, None)
        protocol["trials of the search"] = result.search.get("num_trials", "not known")
    protocol |= {"selection": result.selection}
    return protocol | {"fraction of the training rows": result.train_fraction}


def protocol_differences(result: Result, other: Result) -> list[str]:
    """What keeps the two from being compared, each in words; empty where nothing does."""
    if field := differing(result, other):
        if field != "data sha256":
            return [f"another {field}"]
        splits = [n for n, d in result.data_sha256.items() if other.data_sha256.get(n) != d]
        return [f"other rows of {', '.join(splits) or 'a split'} (by their digest)"]
    first, second = protocol_of(result), protocol_of(other)
    return [
        f"{name.replace('_', ' ')} {_setting(first, name)} and {_setting(second, name)}"
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _setting(protocol: Mapping[str, Any], name: str) -> str:
    return str(protocol[name]) if name in protocol else "of the recipe"


# The section of a page.


def add_scores(page: Page, run: RunFolder, compared: Sequence[ComparedScore]) -> None:
    scores = scores_of(run)
    if not scores:
        return
    page.paragraph(TEXTS["scores"])
    page.records(_records(scores, _PAGE))
    difference_table(compared).add_to(page)
    has_search = any(result.search for score in scores for result in score.results)
    how = "with the best options of its own among the same trials" if has_search else "alike"
    page.paragraph(TEXTS["method"].format(how=how, alpha=ALPHA))
    for score in scores:
        if score.note:
            page.paragraph(f"{score.label}: intervals over seeds alone, {score.note}.")
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
    return list(dict.fromkeys(note for result in score.results for note in result.notes))


def _seed_rows(score: TaskScore) -> list[Record]:
    # fine-tunings that ran side by side stand in the order they finished
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
            "commit": result.git_commit,
        }
        for result in sorted(score.results, key=lambda result: (result.role, result.seed))
    ]


def _add_settings(page: Page, scores: Sequence[TaskScore]) -> None:
    settings = {score.label: dict(score.first.hyper_parameters) for score in scores}
    for score in scores:
        settings[score.label]["version of the task"] = score.first.task_version
    names = dict.fromkeys(
        n for x in settings.values() for n, value in x.items() if value is not None
    )
    rows = [[name, *(x.get(name) for x in settings.values())] for name in names]
    Table(["", *settings], rows, "Settings by task").add_to(page)
    for score in scores:
        for encoder, search in {r.encoder: r.search for r in score.results if r.search}.items():
            page.paragraph(
                f"{score.label}, {encoder}: {search['best']}, {percent(search['value'])} on "
                f"{search['num_held_out']:,} held-out rows of the training split."
            )
