"""`report.json` and `report.html` of the corpus stage: what came in, what went, and why."""

from pathlib import Path
from typing import Any

from electrify.artifacts import write_json
from electrify.page import Page
from pipeline.tally import Tally

_MAX_ROWS = 50  # of a table; report.json has them all


def write_report(tally: Tally, folder: Path) -> None:
    """Write both; the same tally makes the same bytes."""
    write_json(folder / "report.json", report_json(tally))
    _page(tally).write(folder / "report.html")


def report_json(tally: Tally) -> dict[str, Any]:
    """Counts by language and source, removed by reason, rules that changed texts, faults."""
    places = sorted({key[1:] for key in tally.counts if key[0] == "documents_in"})
    numbers = ("documents_in", "documents_kept", "characters_in", "characters_kept")
    return {
        "totals": {name: tally.total(name) for name in (*numbers, "removed", "malformed")},
        "sources": [
            {"language": language, "source": source}
            | {name: tally.counts[name, language, source] for name in numbers}
            for language, source in places
        ],
        "removed": _by_reason(tally, "removed"),
        "malformed": _by_reason(tally, "malformed"),
        "malformed_examples": tally.examples,
        "altered": tally.by("altered", 1),
        "files": tally.files,
    }


def _by_reason(tally: Tally, what: str) -> list[dict[str, Any]]:
    return [
        {"reason": key[1], "language": key[2], "source": key[3], "documents": n}
        for key, n in sorted(tally.counts.items())
        if key[0] == what
    ]


def _page(tally: Tally) -> Page:
    page = Page("Corpus", "What came in, what was removed, and why")
    _funnel(page, tally)
    _sources(page, tally)
    _removed(page, tally)
    _faults(page, tally)
    page.heading("Samples")
    for reason, found in sorted(tally.samples.items(), key=lambda item: item[0] != "kept"):
        page.text_samples(reason, found)
    return page


def _funnel(page: Page, tally: Tally) -> None:
    page.heading("From rows to documents")
    left = tally.total("documents_in") + tally.total("malformed")
    steps: list[tuple[str, int]] = [("rows read", left)]
    losses = [*tally.by("malformed", 1).items(), *tally.by("removed", 1).items()]
    # in the order in which a row meets them
    for reason, n in sorted(losses, key=lambda loss: loss[0] == "duplicate"):
        left -= n
        steps.append((f"after {reason}", left))
    page.bar_plot(
        "Rows left", [label for label, _ in steps], {"rows": [n for _, n in steps]}, "rows"
    )
    share = max(steps[0][1], 1)
    page.table(
        ("step", "rows", "share of rows, %"),
        [(label, n, round(100 * n / share, 2)) for label, n in steps],
    )


def _sources(page: Page, tally: Tally) -> None:
    page.heading("Sources")
    sources = report_json(tally)["sources"]
    sources.sort(key=lambda row: -row["characters_kept"])
    headers = ("language", "source", "documents in", "kept", "characters in", "kept")
    page.table(headers, [tuple(row.values()) for row in map(_source_row, sources[:_MAX_ROWS])])
    if len(sources) > _MAX_ROWS:
        page.paragraph(f"The {_MAX_ROWS} largest of {len(sources):,}; report.json has all.")


def _source_row(row: dict[str, Any]) -> dict[str, Any]:
    names = ("language", "source", "documents_in", "documents_kept")
    return {name: row[name] for name in (*names, "characters_in", "characters_kept")}


def _removed(page: Page, tally: Tally) -> None:
    page.heading("Removed documents")
    rows = sorted(_by_reason(tally, "removed"), key=lambda row: -row["documents"])
    if rows:
        headers = ("reason", "language", "source", "documents")
        page.table(headers, [tuple(row.values()) for row in rows[:_MAX_ROWS]])
    else:
        page.paragraph("None.")
    page.heading("Documents that a rule changed")
    page.table(("rule", "documents"), list(tally.by("altered", 1).items()))


def _faults(page: Page, tally: Tally) -> None:
    page.heading("Files")
    empty = [file["path"] for file in tally.files if not file["documents"] + file["malformed"]]
    num_malformed = tally.total("malformed")
    page.paragraph(
        f"{len(tally.files):,} files read, {len(empty):,} of them without a document; "
        f"{num_malformed:,} rows could not be read."
    )
    if empty:
        page.text_samples("Files without a document", [("", path) for path in empty[:_MAX_ROWS]])
    if num_malformed:
        page.table(("fault", "rows"), list(tally.by("malformed", 1).items()))
        page.text_samples("First faults", [("", example) for example in tally.examples])
