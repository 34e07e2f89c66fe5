"""A board: encoders by tasks on one static page, from records of anyone.

Two encoders are ranked against each other on a task only where both were scored on the same rows by
the same recipe (`protocol`). Of others the page names what differs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.report import curves
from benchmarks.report.published import TEXTS, protocol_differences, protocol_of
from benchmarks.report.scores import (
    Encoder,
    add_seeds,
    encoder_table,
    encoders_of,
    mean_over_tasks,
    score_table,
)
from benchmarks.results.results import RESULTS, percent, task_of
from benchmarks.results.run_folder import read_scores, told_apart
from benchmarks.statistics.comparison import Rank, rank_over_tasks, rank_samples
from benchmarks.statistics.scores import Sample, TaskScore
from electrify.page.page import Cell, Choices, Page
from electrify.page.plots import tick_text
from electrify.stage.folder import digest_of
from electrify.system.outcome import UserError
from electrify.system.progress import duration, warn

BOARD = "board.html"
_SIZES = ((20e6, "up to 20 M"), (80e6, "20 M to 80 M"), (200e6, "80 M to 200 M"))
_COSTS = (
    Cell("parameters"),
    Cell("tokens", "pretraining"),
    Cell("FLOPs", "pretraining"),
    Cell("cost", "pretraining"),
    Cell("cost", "fine-tuning, all seeds"),
)
_DASH = Cell("–")


def write_board(places: Sequence[Path], output: Path | None = None) -> Path:
    """Write `board.html` into the folder `output`, by default the one around the first place.

    A place is a run's folder, a folder with `results.jsonl`, or such a file; one without records is
    left out with a warning. Returns the page. Raises `ValueError` where nothing is left, for a
    record or a file of predictions that is damaged, and for a value that is not that of its
    predictions.
    """
    encoders = _encoders(places)
    if not encoders:
        raise UserError(
            f"no records in {', '.join(map(str, places)) or 'no folder'}; give folders with "
            "results.jsonl, as electrify evaluate writes them: electrify report --board out/*"
        )
    target = output or places[0].resolve().parent
    if target.exists() and not target.is_dir():
        raise UserError(f"output {target} is a file; give a folder")
    target.mkdir(parents=True, exist_ok=True)
    board_page(encoders).write(target / BOARD)
    return target / BOARD


def _encoders(places: Sequence[Path]) -> list[Encoder]:
    runs = []
    for place in dict.fromkeys(path.resolve() for path in places):
        if not place.exists():
            raise UserError(f"no folder {place}; give folders with results.jsonl, such as out/demo")
        if run := read_scores(place):
            runs.append(run)
        elif place.name != BOARD:  # an earlier board of the same places
            warn(f"{place} has no {RESULTS} with scores; it is left out of the board")
    encoders = [encoder for run in told_apart(runs) for encoder in encoders_of([run])]
    names = [encoder.name for encoder in encoders]
    return [  # two runs may have scored another encoder under one name
        replace(encoder, name=f"{encoder.run.name}, {encoder.name}")
        if names.count(encoder.name) > 1
        else encoder
        for encoder in encoders
    ]


# Who is ranked against whom.


@dataclass(frozen=True)
class Standings:
    """Ranks on each task, by the name of the encoder, those over all tasks, and why others have
    none. `classes` are the names of those that are comparable on a task, the largest first."""

    classes: Mapping[str, Sequence[Sequence[str]]]
    by_task: Mapping[str, Mapping[str, Rank]]
    overall: Mapping[str, Rank]
    overall_tasks: Sequence[str]
    reasons: Sequence[tuple[str, str, str]]  # task, encoder, why


def standings_of(encoders: Sequence[Encoder]) -> Standings:
    tasks = list(dict.fromkeys(task for encoder in encoders for task in encoder.scores))
    by_name = {encoder.name: encoder for encoder in encoders}
    classes: dict[str, list[list[str]]] = {}
    by_task: dict[str, dict[str, Rank]] = {}
    reasons: list[tuple[str, str, str]] = []
    for task in tasks:
        scored = [encoder for encoder in encoders if task in encoder.scores]
        groups = _comparable(scored, task, reasons)
        classes[task] = groups
        for group in filter(lambda names: len(names) > 1, groups):
            samples = _samples(by_name, group, task)
            better = by_name[group[0]].scores[task].first.higher_is_better
            ranks = rank_samples(samples, better, task)
            by_task.setdefault(task, {}).update(zip(group, ranks, strict=True))
    first = {task: groups[0] for task, groups in classes.items() if len(groups[0]) > 1}
    shared = [t for t, names in first.items() if by_name[names[0]].scores[t].first.higher_is_better]
    in_all = [name for name in by_name if shared and all(name in first[task] for task in shared)]
    overall: dict[str, Rank] = {}
    if len(in_all) > 1:
        ranks = rank_over_tasks({task: _samples(by_name, in_all, task) for task in shared})
        overall = dict(zip(in_all, ranks, strict=True))
    return Standings(classes, by_task, overall, shared, reasons)


def _samples(encoders: Mapping[str, Encoder], names: Sequence[str], task: str) -> list[Sample]:
    return [encoders[name].scores[task].pretrained for name in names]


def _comparable(
    scored: Sequence[Encoder], task: str, reasons: list[tuple[str, str, str]]
) -> list[list[str]]:
    """Names in classes of one protocol, the largest first; what differs is added to `reasons`."""
    classes: list[list[Encoder]] = []
    alone = []
    for encoder in scored:
        first, *others = encoder.records_of(task)
        if mixed := [d for other in others for d in protocol_differences(first, other)]:
            reasons.append((task, encoder.name, f"its own seeds differ: {mixed[0]}"))
            alone.append([encoder])
            continue
        of_class = (c for c in classes if not _differences(c[0], encoder, task))
        if (same := next(of_class, None)) is not None:
            same.append(encoder)
        else:
            classes.append([encoder])
    classes.sort(key=len, reverse=True)
    for encoder in (encoder for others in classes[1:] for encoder in others):
        what = "; ".join(_differences(classes[0][0], encoder, task))
        reasons.append((task, encoder.name, f"not comparable with {classes[0][0].name}: {what}"))
    return [[encoder.name for encoder in group] for group in (*classes, *alone)]


def _differences(first: Encoder, other: Encoder, task: str) -> list[str]:
    differences = protocol_differences(first.records_of(task)[0], other.records_of(task)[0])
    draws = [e.scores[task].pretrained.draws for e in (first, other)]
    if not differences and all(draws) and len({draw.ids for draw in draws if draw}) > 1:
        differences = ["the predictions are of other examples"]
    return differences


# The page.


def board_page(encoders: Sequence[Encoder]) -> Page:
    standings = standings_of(encoders)
    ranked = {name: rank.value for name, rank in standings.overall.items()}
    encoders = sorted(encoders, key=lambda encoder: ranked.get(encoder.name, len(encoders) + 1))
    page = Page("Board", "electrify: encoders by tasks, from their records")
    page.key_figures(
        [
            (str(len(encoders)), "encoders"),
            (str(len(standings.classes)), "tasks"),
            (str(sum(len(r) for r in standings.by_task.values())), "ranked scores"),
        ]
    )
    _add_table(page, encoders, standings)
    page.paragraph(TEXTS["board"])
    roles = {r.role for e in encoders for score in e.scores.values() for r in score.results}
    if roles - {"pretrained"}:
        page.paragraph(TEXTS["board_baselines"])
    for text in _method(encoders, standings):
        page.paragraph(text)
    rows = [
        {"task": t, "encoder": n, "why it is not ranked": why}
        for t, n, why in _unranked(encoders, standings)
    ]
    page.records(rows, "Not ranked")
    if known := [encoder.run for encoder in encoders if encoder.summary]:
        curves.add_score_against_flops(page, known)
    page.heading("Records")
    for encoder in encoders:
        with page.fold(encoder.name, is_section=True):
            _add_record(page, encoder)
    return page


def _add_table(page: Page, encoders: Sequence[Encoder], standings: Standings) -> None:
    """The table of all reports, with ranks in its cells and what a pretraining took beside."""
    table, _ = encoder_table(encoders, (), for_board=True)
    by_name = {encoder.name: encoder for encoder in encoders}
    scores = {task: score for e in encoders for task, score in e.scores.items()}
    rows: list[list[object]] = []
    for first, *cells in table.rows:
        name = str(first)
        ranks = [standings.by_task.get(task, {}).get(name) for task in scores]
        ranked = [_ranked(cell, rank) for cell, rank in zip(cells, ranks, strict=True)]
        overall = _overall_cell(by_name[name], standings) if name in by_name else _DASH
        rows.append([name, overall, *ranked, *_cost_cells(by_name.get(name))])
    about = f"mean of {len(standings.overall_tasks)} tasks"
    replace(
        table,
        headers=[table.headers[0], Cell("rank", about), *table.headers[1:], *_COSTS],
        rows=rows,
        grey=[str(name) for name, *_ in rows if name not in by_name],
        choices=Choices(
            ("size", {str(name): _size_of(str(name), encoders) for name, *_ in rows}),
            ("language of the tasks", ["", *map(_language, scores.values()), *[""] * len(_COSTS)]),
            {encoder.name: encoder.name for encoder in encoders},
        ),
    ).add_to(page)


def _num_parameters(encoder: Encoder) -> int | None:
    counts = (encoder.records_of(task)[0].num_parameters for task in encoder.scores)
    known = next(filter(None, counts), None)
    return known or encoder.summary.get("parameters", {}).get("discriminator")


def _size(encoder: Encoder) -> str:
    if (count := _num_parameters(encoder)) is None:
        return "not known"
    return next((name for limit, name in _SIZES if count <= limit), "over 200 M")


def _size_of(name: str, encoders: Sequence[Encoder]) -> str:
    """Of an encoder, or of the baseline that is named after it."""
    named = [e for e in encoders if f"{name}, ".startswith(f"{e.name}, ")]
    return _size(max(named, key=lambda encoder: len(encoder.name))) if named else ""


def _overall_cell(encoder: Encoder, standings: Standings) -> Cell:
    if (rank := standings.overall.get(encoder.name)) is None:
        return _DASH
    scores = [encoder.scores[task].pretrained for task in standings.overall_tasks]
    mean = mean_over_tasks(scores) or scores[0]
    return Cell(rank.text(), f"mean {percent(mean.mean, 1)}")


def _language(score: TaskScore) -> str:
    task = task_of(score.first)
    return (task.language if task else "") or "not known"


def _ranked(cell: object, rank: Rank | None) -> object:
    """'65.1 ± 0.4', and smaller below it the rank."""
    assert isinstance(cell, Cell)
    text = f"{cell.text} {cell.small}".strip()
    return replace(cell, text=text, small=f"rank {rank.text()}" if rank else "")


def _cost_cells(encoder: Encoder | None) -> list[Cell]:
    if encoder is None:
        return [_DASH] * len(_COSTS)
    summary = encoder.summary
    records = [record for task in encoder.scores for record in encoder.records_of(task)]
    seconds = sum(record.seconds for record in records)
    devices = dict.fromkeys(record.device for record in records if record.device)

    def figure(value: float | None) -> Cell:
        return _DASH if value is None else Cell(tick_text(value))

    cost = Cell(duration(summary["seconds"]), summary["device"]) if summary else _DASH
    return [
        figure(_num_parameters(encoder)),
        figure(summary.get("tokens")),
        figure(summary.get("flops_paper")),
        cost,
        Cell(duration(seconds), ", ".join(devices)) if seconds else _DASH,
    ]


def _unranked(encoders: Sequence[Encoder], standings: Standings) -> Iterator[tuple[str, str, str]]:
    """Every score without a rank and every encoder without one over all tasks, each with why."""
    titles = {t: s.first.title for e in encoders for t, s in e.scores.items()}
    for task, name, why in standings.reasons:
        yield titles[task], name, why
    told = {(task, name) for task, name, _ in standings.reasons}
    for task, groups in standings.classes.items():
        for (name,) in (group for group in groups if len(group) == 1):
            if (task, name) not in told:
                yield titles[task], name, "no other encoder is scored by this protocol"
    for encoder in encoders:
        lacks = [titles[t] for t in standings.overall_tasks if t not in encoder.scores]
        if lacks and standings.overall_tasks:
            yield "mean of tasks", encoder.name, f"not scored on {', '.join(lacks)}"


def _method(encoders: Sequence[Encoder], standings: Standings) -> Iterator[str]:
    """What the intervals of ranks are over, and what keeps them from being over more."""
    over: dict[str, list[str]] = {}
    titles = {t: s.first.title for e in encoders for t, s in e.scores.items()}
    for task, ranks in standings.by_task.items():
        for kind in dict.fromkeys(rank.over for rank in ranks.values()):
            over.setdefault(kind, []).append(titles[task])
    for kind, tasks in over.items():
        what = f"Intervals of ranks are over {kind}" if kind else "Ranks have no interval"
        yield f"{what}: {', '.join(tasks)}."
    for encoder in encoders:
        if any(stage.startswith("evaluate") for stage in encoder.run.unfinished):
            yield f"{encoder.name}: its evaluation is not finished; scores are those so far."
        notes = {s.note for s in encoder.scores.values() if s.note}
        if notes and any(over):
            yield f"{encoder.name}: {'; '.join(sorted(notes))}."


def _add_record(page: Page, encoder: Encoder) -> None:
    """Scores, seeds and settings as in a report, then rows, revisions and versions."""
    scores = list(encoder.scores.values())
    score_table(scores).add_to(page)
    add_seeds(page, scores)
    rows: list[dict[str, object]] = []
    made_with: dict[tuple[object, ...], None] = {}
    for score in scores:
        records = encoder.records_of(score.first.task)
        first = records[0]
        rows.append(
            {
                "task": score.first.title,
                "version": first.task_version,
                "seeds": ", ".join(str(record.seed) for record in records),
                "recipe": first.hyper_parameters.get("recipe"),
                "digest of the recipe": digest_of(protocol_of(first))[:12],
                "digests of the rows": _shortened(first.data_sha256),
                "commits of the data": _shortened(first.data_commits) or None,
                "predictions": score.note or "there, and they give these scores",
            }
        )
        for record in records:
            versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
            made_with[record.encoder, record.git_commit, versions] = None
    page.records(rows, "Seeds, recipe and rows; scores with equal digests are comparable")
    headers = ["encoder", "commit of electrify", "versions"]
    page.table(headers, list(made_with), "Made with")


def _shortened(digests: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {digest[:12]}" for name, digest in digests.items())
