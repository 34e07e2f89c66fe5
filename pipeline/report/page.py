"""`report.json` and `report.html` of the corpus stage: what came in, what went, and why."""

from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from electrify.page.page import Page
from electrify.stage.folder import write_json
from pipeline.report.counts import Rows, Tally, report_json, sum_by

_MAX_ROWS = 200  # of a table; report.json has them all
Report = Mapping[str, Any]  # as `report_json` makes it


def write_report(tally: Tally, folder: Path) -> None:
    """Write both; the same tally makes the same bytes."""
    report = report_json(tally)
    write_json(folder / "report.json", report)
    _page(report).write(folder / "report.html")


def _page(report: Report) -> Page:
    page = Page("Corpus", "What came in, what was removed, and why")
    _result(page, report)
    for title, add in {
        "Sources": _sources,
        "Lengths": _lengths,
        "Statistics and limits": _statistics,
        "Removed documents by source": _removed,
        "Benchmark texts": _contamination,
        "Files": _faults,
    }.items():
        with page.fold(title, is_section=True):
            add(page, report)
    return page


def _result(page: Page, report: Report) -> None:
    """The verdict, what went by reason, and the rows left after each reason."""
    totals, num_languages = report["totals"], len({r["language"] for r in report["sources"]})
    num_rows = totals["documents_in"] + totals["malformed"]
    kept, characters = totals["documents_kept"], totals["characters_kept"]
    page.verdict(
        f"{kept:,} documents are kept of {num_rows:,} rows ({_percent(kept, num_rows)}), and "
        f"{_percent(characters, totals['characters_in'])} of the characters."
    )
    figures = {"documents": kept, "characters": characters, "languages": num_languages}
    page.key_figures([(f"{number:,}", name) for name, number in figures.items()])
    page.table(
        ("what went", "rows", "of all rows", "characters", "of all characters", "for example"),
        [
            (
                name,
                rows,
                _percent(rows, num_rows),
                lost,
                _percent(lost, totals["characters_in"]),
                report["examples"].get(key, ""),
            )
            for name, key, rows, lost in losses(report)
        ],
    )


def losses(report: Report) -> list[tuple[str, str, int | None, int]]:
    """(name, reason or rule, rows, characters) of what went, most characters first: documents by
    reason, then what rules took from documents that stay, less what they added (a mask may be
    longer than what it hides)."""
    totals, removed = report["totals"], report["removed"]
    rows, characters = (sum_by(removed, "reason", name) for name in ("documents", "characters"))
    lost: list[tuple[str, str, int | None, int]] = [(n, n, rows[n], characters[n]) for n in rows]
    faults = sum_by(report["malformed"], "reason", "documents")
    lost += [(f"not read: {reason}", reason, n, 0) for reason, n in faults.items()]
    changes = [
        (f"{rule}, of documents that stay", rule, rows, lost)
        for rule, rows, lost in map(dict.values, report["altered"])
    ]
    rest = totals["characters_in"] - totals["characters_kept"] - sum(characters.values())
    rest -= sum(row["characters"] for row in report["altered"])
    by_characters = [sorted(of, key=lambda loss: -loss[3]) for of in (lost, changes)]
    return [*chain(*by_characters), ("masks and white space, removed less added", "", None, rest)]


def _percent(part: int | None, whole: int) -> str | None:
    return None if part is None else f"{100 * part / max(1, whole):.1f} %"


def _sources(page: Page, report: Report) -> None:
    headers = ("language", "source", "documents in", "kept", "characters in", "kept")
    _table(page, headers, report["sources"], "characters_kept")


def _lengths(page: Page, report: Report) -> None:
    page.paragraph("Documents by number of characters, as they were read and as they were kept.")
    rows = [(f"{row['characters']:,} or more", *[*row.values()][1:]) for row in report["lengths"]]
    page.table(("characters", "documents in", "kept"), rows)


def _statistics(page: Page, report: Report) -> None:
    page.paragraph(
        "Quantiles of each statistic that a limit may be set on, of a sample of the documents as "
        "they were cleaned, before any limit. Limits are in clean.quality, and those of a "
        "language in clean.language.LANGUAGE.quality."
    )
    rows = report["statistics"]
    for key, of_key in groupby(rows, key=lambda row: (row["language"], row["profile"])):
        limits = [*of_key]
        page.heading("{}, profile {}".format(*key), level=3)
        quantiles = (f"{float(fraction):.0%}" for fraction in limits[0]["quantiles"])
        page.table(
            ("limit", "now", "breaks it", "documents", *quantiles),
            [
                (
                    row["limit"],
                    None if row["now"] is None else f"{row['now']:g}",
                    None if row["broken"] is None else f"{row['broken']:.1%}",
                    row["documents"],
                    *(f"{value:.3g}" for value in row["quantiles"].values()),
                )
                for row in limits
            ],
        )


def _removed(page: Page, report: Report) -> None:
    headers = ("reason", "language", "source", "documents", "characters")
    _table(page, headers, report["removed"], "documents")


def _contamination(page: Page, report: Report) -> None:
    known, rows = report["benchmarks"], report["contamination"]
    if known:
        headers = ("task", "texts", "too short to be looked for")
        page.table(headers, [tuple(row.values()) for row in known])
    if not rows:
        page.paragraph("None was found." if known else "None was looked for.")
        return
    _table(page, ("task", "what", "language", "number"), rows)
    page.paragraph(
        "Found: sentence, a whole text letter by letter; near, one with small edits; ngram, a "
        "stretch of a long one. A document that holds texts of several tasks counts for each."
    )


def _faults(page: Page, report: Report) -> None:
    files, num_malformed = report["files"], report["totals"]["malformed"]
    num_empty = sum(not file["documents"] + file["malformed"] for file in files)
    page.paragraph(
        f"{len(files):,} files read, {num_empty:,} of them without a document; "
        f"{num_malformed:,} rows could not be read."
    )
    _table(page, ("file", "documents", "rows not read"), files, "malformed")
    if num_malformed:
        faults = sum_by(report["malformed"], "reason", "documents")
        page.table(("fault", "rows"), list(faults.items()))
        page.text_samples("First faults", [("", fault) for fault in report["faults"]])


def _table(page: Page, headers: Sequence[str], rows: Rows, largest: str = "") -> None:
    """The rows of a table, those with the largest value of a column first, as far as they fit."""
    ordered = sorted(rows, key=lambda row: -row[largest]) if largest else rows
    page.table(headers, [tuple(row.values()) for row in ordered[:_MAX_ROWS]])
    if len(rows) > _MAX_ROWS:
        page.paragraph(f"The first {_MAX_ROWS} of {len(rows):,} rows; report.json has all.")
