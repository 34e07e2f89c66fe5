"""How well planted mistakes are found: tables, a plot, and the same in Markdown."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.metrics.statistics import holm
from benchmarks.pages.markdown import Record, record_lines, with_interval
from benchmarks.results.run_folder import Json
from electrify.page.page import Page

_ALL = "all"
_LEVEL = 0.05
_KINDS = {
    "particle-form": "wrong form of a particle",
    "particle-choice": "에 for 에서 and back",
    "missing-space": "missing space",
    "added-space": "space before a particle",
    "homophone": "sounds alike",
    "keyboard": "neighbour on the keyboard",
    "exchanged-word": "another word of its kind",
}
_HOW = (
    "One mistake is planted in each right sentence. A word is as suspicious as its most suspicious "
    "piece. AUC: chance that a mistake is more suspicious than another word of its sentence. "
    "Paired: than the same word in the right sentence. Recall and precision: at the threshold "
    "above which stand 1 % or 5 % of the words of right sentences. In parentheses: 95 % intervals "
    "over sentences, each alone. All in percent; guessing has an AUC of 50."
)


def add_proofreading(page: Page, record: Json) -> None:
    """The verdict, a plot and every table."""
    page.paragraph(_verdict(record))
    found = _by_detector(record, "auc")
    page.bar_plot(
        "AUC by kind of mistake, percent; 50 is guessing",
        [_KINDS[kind] for kind in _kinds(record)],
        {name: [100 * row["value"] for row in rows] for name, rows in found.items()},
        "AUC, percent",
        {
            name: [50 * ((row["high"] or 0) - (row["low"] or 0)) for row in rows]
            for name, rows in found.items()
        },
    )
    page.paragraph(_HOW)
    for title, rows in _tables(record):
        page.records(rows, title)


def proofreading_lines(record: Json) -> list[str]:
    """Blocks of Markdown: the verdict and every table."""
    blocks = [_verdict(record), _HOW]
    for title, rows in _tables(record):
        blocks += [f"## {title}", "\n".join(record_lines(rows))]
    return blocks


def _verdict(record: Json) -> str:
    """On which kinds the first detector is better than each other one, corrected by Holm."""
    first, *others = record["detectors"]
    if not others:
        return f"Only {first} was measured."
    gaps = [row for other in others for row in _rows(record, f"{first} - {other}", "auc")]
    p_values = [1.0 if row["p"] is None else float(row["p"]) for row in gaps]
    sure = [row for row, p in zip(gaps, holm(p_values), strict=True) if p <= _LEVEL]
    sentences = []
    for other in others:
        of_other = [row for row in sure if row["detector"] == f"{first} - {other}"]
        better, worse = (
            [_KINDS[row["kind"]] for row in of_other if (row["value"] > 0) == is_better]
            for is_better in (True, False)
        )
        sentences.append(
            f"Beside {other}, {first} is shown to have a higher AUC on {len(better)} of "
            f"{len(_kinds(record))} kinds ({', '.join(better) or 'none'}) and a lower one on "
            f"{len(worse)} ({', '.join(worse) or 'none'})."
        )
    return " ".join([*sentences, f"Corrected for {len(gaps)} differences (Holm)."])


def _tables(record: Json) -> Iterator[tuple[str, list[Record]]]:
    for metric, title in (
        ("auc", "AUC against the other words of the sentence"),
        ("paired", "Paired with the same word in the right sentence"),
        ("recall at 1%", "Recall where 1 % of right words are flagged"),
        ("precision at 1%", "Precision where 1 % of right words are flagged"),
        ("recall at 5%", "Recall where 5 % of right words are flagged"),
        ("precision at 5%", "Precision where 5 % of right words are flagged"),
    ):
        yield title, _table(record, _by_detector(record, metric))
    first, *others = record["detectors"]
    if others:
        gaps = {
            f"{first} - {other}": _rows(record, f"{first} - {other}", "auc") for other in others
        }
        yield "Differences in AUC", _table(record, gaps)
    rules = [row for row in record["rows"] if row["rule"] != _ALL and " - " not in row["detector"]]
    of_rules = dict.fromkeys((row["kind"], row["rule"]) for row in rules)
    yield (
        "AUC by rule, where a rule has 20 sentences or more",
        [
            {"kind": _KINDS[kind], "rule": rule}
            | _cells(
                [
                    row
                    for row in rules
                    if (row["kind"], row["rule"], row["metric"]) == (kind, rule, "auc")
                ]
            )
            for kind, rule in of_rules
        ],
    )


def _table(record: Json, columns: Mapping[str, Sequence[Json]]) -> list[Record]:
    """A line a kind, a column a detector."""
    by_kind = zip(*columns.values(), strict=True)
    return [
        {"kind": _KINDS[kind]} | _cells(rows)
        for kind, rows in zip(_kinds(record), by_kind, strict=True)
    ]


def _cells(rows: Sequence[Json]) -> dict[str, object]:
    return {"sentences": rows[0]["num_sentences"]} | {
        row["detector"]: with_interval(row) for row in rows
    }


def _by_detector(record: Json, metric: str) -> dict[str, list[Json]]:
    return {name: _rows(record, name, metric) for name in record["detectors"]}


def _rows(record: Json, detector: str, metric: str) -> list[Json]:
    """One a kind, of all its rules together."""
    wanted = detector, metric, _ALL
    return [r for r in record["rows"] if (r["detector"], r["metric"], r["rule"]) == wanted]


def _kinds(record: Json) -> list[str]:
    return list(dict.fromkeys(row["kind"] for row in record["rows"]))
