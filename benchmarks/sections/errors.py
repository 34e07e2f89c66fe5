"""What an encoder gets wrong, from the files of predictions: confusions of labels, and the worst
examples. Texts are added where the data files are at hand."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import Result, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import TaskScore, scores_of
from benchmarks.tasks.load import SPLIT_EVAL, dir_of, read_splits, rows_digest, split_by_group
from benchmarks.tasks.task import Example, Prediction, Predictions, Task
from electrify.page.page import Page
from electrify.system.outcome import UserError

_NUM_WORST = 10
_MAX_TEXT = 600  # characters of a text shown
_MAX_CONFUSIONS = 20


@dataclass(frozen=True, eq=False)
class TaskErrors:
    """The predictions of one task by each seed, all of the same examples."""

    label: str
    task: Task
    predictions: Sequence[Predictions]
    examples: Sequence[Example] | None = None
    notes: Sequence[str] = ()  # what is missing, and why

    def confusions(self) -> Counter[tuple[str, str]]:
        """How often each (gold, predicted) label occurs, in all seeds together."""
        predictions = [p for of_seed in self.predictions for p in of_seed]
        return Counter(pair for p in predictions for pair in self.task.label_pairs(p))

    def worst(self) -> list[tuple[int, float]]:
        """(position, mean error over seeds) of the examples with the largest, in file order."""
        errors = [
            statistics.fmean(self.task.error(p) for p in predictions)
            for predictions in zip(*self.predictions, strict=True)
        ]
        positions = sorted(range(len(errors)), key=lambda position: -errors[position])
        return [(n, errors[n]) for n in positions[:_NUM_WORST] if errors[n] > 0]


def errors_of(
    run: RunFolder, data_dirs: Sequence[Path], with_texts: bool = True
) -> list[TaskErrors]:
    """Every task of every evaluation of a run.

    Texts are read from the files of `data_dirs`, unless `with_texts` is False. `ValueError` for a
    damaged file of predictions.
    """
    found = []
    for score in scores_of(run):
        if (task := task_of(score.first)) is None:
            continue
        predictions, notes = _predictions(run, score)
        examples: list[Example] | None = None
        if not predictions:
            notes.append("no predictions to look into")
        elif data_dirs and with_texts:
            try:
                examples = _examples(task, score.first, data_dirs)
            except ValueError as error:
                notes.append(f"no texts: {error}")
        found.append(TaskErrors(score.label, task, predictions, examples, notes))
    return found


def _predictions(run: RunFolder, score: TaskScore) -> tuple[list[list[Prediction]], list[str]]:
    """Those of each seed of the encoder that gave numbers, and notes on the others."""
    predictions, notes = [], []
    results = [result for result in score.results if result.role == "pretrained"]
    for result in sorted(results, key=lambda result: result.seed):
        own = predictions_of_result(run.stage_folder(score.stage), result)
        if own is None:
            notes.append(f"seed {result.seed}: its predictions are not there")
        elif any(p["prediction"] is None for p in own):
            notes.append(f"seed {result.seed}: its training failed; it is left out")
        else:
            predictions.append(own)
    return predictions, notes


def _examples(task: Task, result: Result, data_dirs: Sequence[Path]) -> list[Example]:
    """The example of each prediction, by their order (ids may be lost on the hub), from the files
    of `data_dirs` that the result was made from; `ValueError` where these are not there or have
    changed since."""
    data_dir = dir_of(task, data_dirs)
    rows = read_splits(task, data_dir, (task.reported,))[task.reported]
    digest = rows_digest(rows)
    if SPLIT_EVAL in result.split:  # a part of it was learnt from
        rows = split_by_group(task, rows)[1]
    if digest != result.data_sha256.get(task.reported) or len(rows) != result.num_examples:
        raise UserError(
            f"{result.task}: the {task.reported} rows below {data_dir} are not those that it was "
            "scored on; they have changed since, or another version of electrify scored it"
        )
    return list(rows)


def add_errors(
    page: Page, run: RunFolder, data_dirs: Sequence[Path] = (), with_texts: bool = True
) -> None:
    """Confusions and the worst examples of each task, folded away; as `errors_of`."""
    tasks = errors_of(run, data_dirs, with_texts)
    for errors in tasks:
        if errors.notes:
            page.paragraph(f"{errors.label}: {'; '.join(errors.notes)}.")
    with_predictions = [errors for errors in tasks if errors.predictions]
    if not with_predictions:
        page.paragraph("No predictions to look into yet. Run: electrify evaluate CONFIG")
    elif all(errors.examples is None for errors in with_predictions):
        page.paragraph(
            "Texts are not quoted unless the data are named: electrify report RUN --data-dir DATA"
        )
    for errors in with_predictions:
        num_examples, num_seeds = len(errors.predictions[0]), len(errors.predictions)
        seeds = f"{num_seeds} {'seed' if num_seeds == 1 else 'seeds'}"
        with page.fold(f"{errors.label}: {num_examples:,} examples, {seeds}"):
            _add_confusions(page, errors)
            _add_worst(page, errors, with_texts)


def _add_confusions(page: Page, errors: TaskErrors) -> None:
    counts, names = errors.confusions(), errors.task.label_names
    totals = Counter[str]()
    for (gold, _), count in counts.items():
        totals[gold] += count
    wrong = Counter({pair: count for pair, count in counts.items() if pair[0] != pair[1]})
    rows = [
        {
            "gold": names.get(gold, gold) or "(none)",
            "predicted": names.get(predicted, predicted) or "(none)",
            "count": count,
            "of the gold label": f"{100 * count / totals[gold]:.1f} %",
        }
        for (gold, predicted), count in wrong.most_common(_MAX_CONFUSIONS)
    ]
    page.records(rows, f"The largest of {len(wrong)} confusions, all seeds together")


def _add_worst(page: Page, errors: TaskErrors, with_texts: bool) -> None:
    worst = errors.worst()
    if not worst:
        page.paragraph("No example is wrong.")
        return
    page.heading(f"The worst {len(worst)}", level=4)
    for position, error in worst:
        by_error = sorted((run[position] for run in errors.predictions), key=errors.task.error)
        prediction = by_error[len(by_error) // 2]  # of the seed in the middle
        texts = errors.examples[position].texts if errors.examples else ()
        samples = [("text" if len(texts) == 1 else f"text {n}", x) for n, x in enumerate(texts, 1)]
        # a gold value that is no label may be a piece of the text
        is_quoted = with_texts or prediction["gold"] in errors.task.labels
        samples += [(side, _said(prediction[side], is_quoted)) for side in ("gold", "prediction")]
        shown = [(side, x if len(x) <= _MAX_TEXT else x[:_MAX_TEXT] + " …") for side, x in samples]
        page.text_samples(f"{prediction['id']}, error {error:.2f}", shown)


def _said(value: Any, is_quoted: bool) -> str:
    if not is_quoted:
        return "(not quoted)"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
