"""The report's section on what a model gets wrong: classes, groups of examples, single examples."""

from collections.abc import Sequence

from benchmarks.pages.twin_page import TwinPage
from benchmarks.statistics.errors import ClassScore, TaskErrors, Wrong
from benchmarks.tasks.mistakes import NOTHING

_MAX_MATRIX = 12  # labels of a matrix that a phone still shows; of more, the largest confusions
_MAX_CONFUSIONS = 20
_MIN_TELLING = 20  # gold units, or examples, from which on a class or group is called the weakest


def add_errors(document: TwinPage, errors: Sequence[TaskErrors]) -> None:
    """A table of the weak places, and all about each task folded away."""
    shown = [entry for entry in errors if entry.num_seeds]
    if not shown:
        document.paragraph("No predictions to look into yet. Run: electrify evaluate CONFIG")
        _add_notes(document, errors)
        return
    document.table(
        ["task", "weakest class (F1)", "most frequent confusion", "weakest group (score)"],
        [
            (entry.label, _weakest_class(entry), _main_confusion(entry), _weakest_group(entry))
            for entry in shown
        ],
        f"Where each model is weak; classes and groups of {_MIN_TELLING} or more",
    )
    if not any(wrong.texts for entry in shown for wrong in entry.worst):
        document.paragraph(
            "Texts are not quoted, and groups that ask for them are missing unless --data-dir "
            "named the data: electrify report RUN --data-dir DATA"
        )
    _add_notes(document, errors)
    for entry in shown:
        seeds = f"{entry.num_seeds} {'seed' if entry.num_seeds == 1 else 'seeds'}"
        with document.fold(f"{entry.label}: {entry.num_examples:,} examples, {seeds}"):
            _add_task(document, entry)


def _add_notes(document: TwinPage, errors: Sequence[TaskErrors]) -> None:
    for entry in errors:
        if entry.notes:
            document.paragraph(f"{entry.label}: {'; '.join(entry.notes)}.")


def _add_task(document: TwinPage, entry: TaskErrors) -> None:
    if entry.classes:
        _add_classes(document, entry)
    if any(gold != predicted for gold, predicted in entry.confusions):
        _add_confusions(document, entry)
    if entry.groups:
        _add_groups(document, entry)
    if entry.worst:
        _add_worst(document, entry)
    else:
        document.paragraph("No example is wrong in most seeds.")


def _add_classes(document: TwinPage, entry: TaskErrors) -> None:
    several = entry.num_seeds > 1
    headers = ["label", "gold", "predicted", "precision", "recall", "F1"]
    headers += ["F1, lowest to highest seed"] * several + ["F1 untrained"]
    rows = [
        (
            _name(score.label, entry),
            score.num_gold,
            _rounded(score.num_predicted),
            score.precision,
            score.recall,
            score.f1,
            *([_range(score.lowest_f1, score.highest_f1)] * several),
            score.untrained_f1,
        )
        for score in entry.classes
    ]
    what = "medians over seeds; predicted is the mean" if several else "one seed"
    document.table(headers, rows, f"By label, of {entry.units}: {what}")


def _add_confusions(document: TwinPage, entry: TaskErrors) -> None:
    order = [score.label for score in entry.classes]
    labels = [label for label in [*order, NOTHING] if _occurs(label, entry)]
    what = f"{entry.units}, all seeds together" if entry.num_seeds > 1 else entry.units
    if len(labels) <= _MAX_MATRIX:
        counts = [
            [entry.confusions.get((gold, predicted), 0) for predicted in labels] for gold in labels
        ]
        names = [_name(label, entry) for label in labels]
        document.matrix(
            names,
            names,
            counts,
            "gold, predicted",
            f"Confusions ({what}); shaded by the share of the row",
        )
        return
    totals = {
        label: sum(n for pair, n in entry.confusions.items() if pair[0] == label)
        for label in labels
    }
    rows = [
        (_name(gold, entry), _name(predicted, entry), count, f"{100 * count / totals[gold]:.1f} %")
        for (gold, predicted), count in _largest(entry)[:_MAX_CONFUSIONS]
    ]
    document.table(
        ["gold", "predicted", "count", "of the gold label"],
        rows,
        f"The largest of {len(_largest(entry))} confusions ({what})",
    )


def _add_groups(document: TwinPage, entry: TaskErrors) -> None:
    has_intervals = any(group.low is not None for group in entry.groups)
    headers = ["by", "group", "examples", entry.metric]
    headers += ["95 % interval"] * has_intervals + ["untrained"]
    rows = [
        (
            "" if place and entry.groups[place - 1].way == group.way else group.way,
            group.group,
            group.num_examples,
            group.score,
            *([_range(group.low, group.high)] * has_intervals),
            group.untrained,
        )
        for place, group in enumerate(entry.groups)
    ]
    what = "mean over seeds" if entry.num_seeds > 1 else "one seed"
    document.table(headers, rows, f"By group of examples: {what}")


def _add_worst(document: TwinPage, entry: TaskErrors) -> None:
    with document.fold(f"The worst {len(entry.worst)}"):
        document.paragraph(
            "Examples that most seeds have wrong, the surest first: probabilities are medians "
            "over seeds; of what has no probability, those with most parts wrong."
        )
        for wrong in entry.worst:
            document.text_samples(_title(wrong, entry), _samples(wrong), compact=True)


def _title(wrong: Wrong, entry: TaskErrors) -> str:
    if wrong.num_seeds is None or entry.num_seeds == 1:
        return wrong.id
    return f"{wrong.id}, wrong in {wrong.num_seeds} of {entry.num_seeds} seeds"


def _samples(wrong: Wrong) -> list[tuple[str, str]]:
    failure = wrong.failure
    said = [
        ("gold", failure.gold),
        ("predicted", failure.prediction),
        ("sure of", failure.certainty),
    ]
    return [*wrong.texts, *said]


def _weakest_class(entry: TaskErrors) -> str | None:
    found = [score for score in entry.classes if score.num_gold >= _MIN_TELLING]
    if len(found) < 2:
        return None
    weakest: ClassScore = min(found, key=lambda score: score.f1)
    return f"{_name(weakest.label, entry)}: {weakest.f1:.3f} (n {weakest.num_gold:,})"


def _main_confusion(entry: TaskErrors) -> str | None:
    largest = _largest(entry)
    if not largest:
        return None
    (gold, predicted), count = largest[0]
    share = count / sum(n for pair, n in entry.confusions.items() if pair[0] == gold)
    return f"{_name(gold, entry)} as {_name(predicted, entry)}: {100 * share:.0f} %"


def _weakest_group(entry: TaskErrors) -> str | None:
    found = [
        (group.score, group)
        for group in entry.groups
        if group.num_examples >= _MIN_TELLING and group.score is not None
    ]
    if not found:
        return None
    pick = min if entry.higher_is_better else max
    score, weakest = pick(found, key=lambda pair: pair[0])
    return f"{weakest.way} {weakest.group}: {score:.3f} (n {weakest.num_examples:,})"


def _largest(entry: TaskErrors) -> list[tuple[tuple[str, str], int]]:
    """(gold, predicted) that differ, the most frequent first."""
    wrong = [item for item in entry.confusions.items() if item[0][0] != item[0][1]]
    return sorted(wrong, key=lambda item: (-item[1], item[0]))


def _occurs(label: str, entry: TaskErrors) -> bool:
    return any(label in pair for pair in entry.confusions)


def _name(label: str, entry: TaskErrors) -> str:
    return entry.label_names.get(label, label) if label != NOTHING else "(none)"


def _range(lowest: float | None, highest: float | None) -> str | None:
    return None if lowest is None or highest is None else f"{lowest:.3f} to {highest:.3f}"


def _rounded(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 1)
