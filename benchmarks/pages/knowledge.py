"""What a network knows: probes by layer, where its discriminator is sure, both over checkpoints."""

from collections.abc import Iterator, Sequence

from benchmarks.pages.markdown import Record, record_lines, with_interval
from benchmarks.results.results import percent
from benchmarks.results.run_folder import Json
from electrify.page.page import Page

MODEL, UNTRAINED = "model", "untrained"  # networks of the record; the others are steps
_ALL, _PART, _BAND = "all", "part of speech", "occurrences"
_NUM_LINES = 6
_HOW_PROBES = (
    "A probe is logistic regression on frozen states: of a piece for part of speech, of the mean "
    "over the sentence's pieces for the rest. The control task gives every type (piece, number of "
    "words, last word) a random label. Selectivity is the accuracy less that on the control task. "
    "Labels are equally frequent. Layer 0 is the embeddings. Intervals are over seeds. The best "
    "layer is chosen on the examples that it is scored on."
)
_HOW_CERTAINTY = (
    "15 % of the pieces are replaced by samples of the {sampled_by}. The same positions are judged "
    "with their own piece and with the other one. Part of speech and occurrences are those of the "
    "piece that stood there first. Intervals are over sentences."
)


def add_knowledge(page: Page, record: Json) -> None:
    """Each figure with a sentence, then the tables."""
    of_model = _probes(record, MODEL)
    page.line_plot(
        "Selectivity of probes by layer, percent",
        {name: [_point(row, "selectivity") for row in rows] for name, rows in of_model.items()},
        "layer",
        "selectivity, percent",
        bands={
            name: [band for row in rows if (band := _band(row, "selectivity"))]
            for name, rows in of_model.items()
        },
    )
    page.paragraph(_probe_sentence(record))
    for grouping in (_PART, _BAND):
        if rows := _sure(record, MODEL, grouping):
            page.bar_plot(
                f"Certainty by {grouping}: mean P(replaced), percent",
                [row["group"] for row in rows],
                {
                    "of original pieces": [100 * row["of_originals"] for row in rows],
                    "of replaced pieces": [100 * row["of_replacements"] for row in rows],
                },
                "mean P(replaced), percent",
            )
            page.paragraph(_certainty_sentence(rows))
    if steps := _steps(record):
        _add_checkpoints(page, record, steps)
    page.paragraph(_HOW_PROBES)
    if record["certainty"]:
        page.paragraph(_HOW_CERTAINTY.format(**record))
    with page.fold("Every probe, and every group of pieces"):
        for title, table in _tables(record):
            page.records(table, title)


def knowledge_lines(record: Json) -> list[str]:
    """Blocks of Markdown: a sentence for each figure, and every table."""
    blocks = [_probe_sentence(record), _HOW_PROBES]
    of_groups = [_sure(record, MODEL, grouping) for grouping in (_PART, _BAND)]
    blocks += [_certainty_sentence(rows) for rows in of_groups if rows]
    if record["certainty"]:
        blocks.append(_HOW_CERTAINTY.format(**record))
    if steps := _steps(record):
        blocks.append(_growth_sentence(record, steps))
    for title, table in _tables(record):
        blocks += [f"## {title}", "\n".join(record_lines(table))]
    return blocks


def _add_checkpoints(page: Page, record: Json, steps: Sequence[str]) -> None:
    best = {name: _best(rows)["layer"] for name, rows in _probes(record, MODEL).items()}
    page.line_plot(
        "Selectivity over pretraining, each in the layer that is best at the end",
        {
            name: [
                (0.0 if step == UNTRAINED else float(step), 100 * row["selectivity"]["value"])
                for step in (UNTRAINED, *steps)
                for row in _probes(record, step)[name]
                if row["layer"] == layer
            ]
            for name, layer in best.items()
        },
        "pretraining steps",
        "selectivity, percent",
    )
    groups = [row["group"] for row in _sure(record, MODEL, _PART)][:_NUM_LINES]
    lines = {
        group: [
            (float(step), 100 * row["auc"]["value"])
            for step in steps
            for row in _sure(record, step, _PART)
            if row["group"] == group
        ]
        for group in groups
    }
    if any(lines.values()):
        page.line_plot(
            "Certainty over pretraining: AUC of replaced against original pieces",
            lines,
            "pretraining steps",
            "AUC, percent",
        )
    page.paragraph(_growth_sentence(record, steps))


def _probe_sentence(record: Json) -> str:
    untrained = _probes(record, UNTRAINED)
    parts = []
    for name, rows in _probes(record, MODEL).items():
        best, floor = (_best(of)["selectivity"]["value"] for of in (rows, untrained[name]))
        parts.append(
            f"{name} {percent(best, 1)} in layer {_best(rows)['layer']} (random initialisation "
            f"{percent(floor, 1)} in its best layer)"
        )
    return f"The highest measured selectivity: {', '.join(parts)}."


def _certainty_sentence(rows: Sequence[Json]) -> str:
    """The highest and the lowest AUC."""
    ranked = sorted(rows, key=lambda row: float(row["auc"]["value"]))
    worst, best = ranked[0], ranked[-1]
    return (
        f"By {worst['grouping']}, the AUC of replaced against original pieces is highest for "
        f"{best['group']} ({with_interval(best['auc'])}) and lowest for {worst['group']} "
        f"({with_interval(worst['auc'])})."
    )


def _growth_sentence(record: Json, steps: Sequence[str]) -> str:
    probes = []
    for name in _probes(record, MODEL):
        ends = (_best(_probes(record, steps[end])[name])["selectivity"] for end in (0, -1))
        probes.append(f"{name} from {' to '.join(percent(of['value'], 1) for of in ends)}")
    text = (
        f"From step {int(steps[0]):,} to {int(steps[-1]):,}, selectivity in the best layer goes: "
        f"{', '.join(probes)}."
    )
    judged = [(step, row) for step in steps for row in _sure(record, step, _ALL)]
    if len(judged) > 1:
        of_ends = (
            f"{with_interval(row['auc'])} at step {int(s):,}" for s, row in (judged[0], judged[-1])
        )
        text += f" The AUC of replaced pieces goes from {' to '.join(of_ends)}."
    return text


def _tables(record: Json) -> Iterator[tuple[str, list[Record]]]:
    untrained = _probes(record, UNTRAINED)
    yield (
        "Probes by layer, percent",
        [
            {
                "property": name,
                "examples": row["num_examples"],
                "labels": row["num_labels"],
                "layer": str(row["layer"]),
                "accuracy": with_interval(row["accuracy"]),
                "control": with_interval(row["control"]),
                "selectivity": with_interval(row["selectivity"]),
                "untrained accuracy": with_interval(twin["accuracy"]),
                "untrained selectivity": with_interval(twin["selectivity"]),
            }
            for name, rows in _probes(record, MODEL).items()
            for row, twin in zip(rows, untrained[name], strict=True)
        ],
    )
    if record["certainty"]:
        yield (
            "Certainty, percent",
            [
                {
                    "by": row["grouping"],
                    "group": row["group"],
                    "pieces": row["num_pieces"],
                    "P(replaced) of originals": percent(row["of_originals"], 1),
                    "of replacements": percent(row["of_replacements"], 1),
                    "AUC": with_interval(row["auc"]),
                }
                for row in record["certainty"]
                if row["network"] == MODEL
            ],
        )
    if steps := _steps(record):
        yield (
            "Selectivity over pretraining, in the best layer of each step, percent",
            [
                {"step": f"{int(step):,}" if step.isdecimal() else "0 (untrained)"}
                | {
                    name: f"{with_interval(_best(rows)['selectivity'])} in {_best(rows)['layer']}"
                    for name, rows in _probes(record, step).items()
                }
                for step in (UNTRAINED, *steps)
            ],
        )
        judged = [step for step in steps if _sure(record, step, _ALL)]
        groups = [
            (g, row["group"]) for g in (_ALL, _PART, _BAND) for row in _sure(record, MODEL, g)
        ]
        if judged:
            yield (
                "AUC of replaced against original pieces over pretraining, percent",
                [
                    {"by": grouping, "group": group}
                    | {
                        f"{int(step):,}": next(
                            (
                                percent(row["auc"]["value"], 1)
                                for row in _sure(record, step, grouping)
                                if row["group"] == group
                            ),
                            None,
                        )
                        for step in judged
                    }
                    for grouping, group in groups
                ],
            )


def _probes(record: Json, network: str) -> dict[str, list[Json]]:
    """Rows by property, layer after layer."""
    found: dict[str, list[Json]] = {}
    for row in record["probes"]:
        if row["network"] == network:
            found.setdefault(row["name"], []).append(row)
    return found


def _sure(record: Json, network: str, grouping: str) -> list[Json]:
    wanted = network, grouping
    return [row for row in record["certainty"] if (row["network"], row["grouping"]) == wanted]


def _steps(record: Json) -> list[str]:
    names = dict.fromkeys(row["network"] for row in record["probes"])
    return sorted((name for name in names if name.isdecimal()), key=int)


def _best(rows: Sequence[Json]) -> Json:
    return max(rows, key=lambda row: float(row["selectivity"]["value"]))


def _point(row: Json, what: str) -> tuple[float, float]:
    return float(row["layer"]), 100 * float(row[what]["value"])


def _band(row: Json, what: str) -> tuple[float, float, float] | None:
    low, high = row[what]["low"], row[what]["high"]
    return None if low is None else (float(row["layer"]), 100 * low, 100 * high)
