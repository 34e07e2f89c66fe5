"""`report.json` and `report.html` of the corpus stage: what came in, what went, and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electrify.page.page import Page
from electrify.stage.folder import write_json
from pipeline.report.counts import RULE, Rows, Tally, report_json, sum_by

_MAX_ROWS = 200  # of a table; report.json has them all
_MAX_LANGUAGE_PLOTS = 24
_MAX_PLOTTED = 12  # sources
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
        "Languages": _languages,
        "Lengths": _lengths,
        "Removed documents by source": _removed,
        "Kept documents that a rule changed": _altered,
        "Sets of duplicates": _clusters,
        "Benchmark texts": _contamination,
        "Files": _faults,
        "Samples": _samples,
    }.items():
        with page.fold(title, is_section=True):
            add(page, report)
    return page


def _result(page: Page, report: Report) -> None:
    """The verdict, what went by reason, and the rows left after each reason."""
    totals = report["totals"]
    num_rows = totals["documents_in"] + totals["malformed"]
    kept, characters = totals["documents_kept"], totals["characters_kept"]
    page.verdict(
        f"{kept:,} documents are kept of {num_rows:,} rows ({_share(kept, num_rows)}), and "
        f"{_share(characters, totals['characters_in'])} of the characters."
    )
    page.key_figures(
        [
            (f"{kept:,}", "documents"),
            (f"{characters:,}", "characters"),
            (f"{len(report['languages']):,}", "languages"),
        ]
    )
    page.table(
        ("what went", "rows", "of all rows", "characters", "of all characters"),
        [
            (name, rows, _share(rows, num_rows), lost, _share(lost, totals["characters_in"]))
            for name, rows, lost in losses(report)
        ],
    )
    sources = sorted(report["sources"], key=lambda row: -row["characters_in"])[:_MAX_PLOTTED]
    page.bar_plot(
        "Characters by source, the largest first",
        [row["source"] for row in sources],
        {name: [row[f"characters_{name}"] for row in sources] for name in ("in", "kept")},
        "characters",
    )


def losses(report: Report) -> list[tuple[str, int | None, int]]:
    """(reason, rows, characters) of what went, most characters first; at last what rules took from
    documents that stayed, less what they added (a mask may be longer than what it hides)."""
    totals, removed = report["totals"], report["removed"]
    rows, characters = (sum_by(removed, "reason", name) for name in ("documents", "characters"))
    lost: list[tuple[str, int | None, int]] = [(n, rows[n], characters[n]) for n in rows]
    lost.sort(key=lambda loss: -loss[2])
    faults = sum_by(report["malformed"], "reason", "documents")
    lost += [(f"not read: {reason}", n, 0) for reason, n in faults.items()]
    rest = totals["characters_in"] - totals["characters_kept"] - sum(characters.values())
    return [*lost, ("changes to documents that stay, removed less added", None, rest)]


def _share(part: int | None, whole: int) -> str | None:
    return None if part is None else f"{100 * part / max(1, whole):.1f} %"


def _sources(page: Page, report: Report) -> None:
    rows = sorted(report["sources"], key=lambda row: -row["characters_kept"])
    headers = ("language", "source", "documents in", "kept", "characters in", "kept")
    _table(page, headers, _values(rows))


def _languages(page: Page, report: Report) -> None:
    rows = report["languages"]
    labels = [row["language"] for row in rows]
    for what in ("documents", "characters"):
        series = {name: [row[f"{what}_{name}"] for row in rows] for name in ("in", "kept")}
        page.bar_plot(f"{what.capitalize()} by language", labels, series, what)
    headers = ("language", "documents in", "kept", "characters in", "kept", "characters kept, %")
    percents = [round(100 * r["characters_kept"] / max(1, r["characters_in"]), 1) for r in rows]
    page.table(headers, [(*r.values(), p) for r, p in zip(rows, percents, strict=True)])


def _lengths(page: Page, report: Report) -> None:
    page.paragraph(
        "Documents by number of characters, as they were read and as they were kept; each bar "
        "reaches from its label to the next."
    )
    rows = report["lengths"]
    named = sorted({row["language"] for row in rows})
    _length_plot(page, "All languages", rows)
    if 1 < len(named) <= _MAX_LANGUAGE_PLOTS:
        for language in named:
            _length_plot(page, language, [row for row in rows if row["language"] == language])


def _length_plot(page: Page, title: str, rows: Rows) -> None:
    sizes = sorted({row["characters"] for row in rows})
    if not sizes:
        return
    buckets = [2**p for p in range(sizes[0].bit_length() - 1, sizes[-1].bit_length())]
    series = {
        name: [
            sum(row[f"documents_{name}"] for row in rows if row["characters"] == bucket)
            for bucket in buckets
        ]
        for name in ("in", "kept")
    }
    page.bar_plot(title, [f"{bucket:,}" for bucket in buckets], series, "documents")


def _removed(page: Page, report: Report) -> None:
    rows = sorted(report["removed"], key=lambda row: -row["documents"])
    if rows:
        _table(page, ("reason", "language", "source", "documents", "characters"), _values(rows))
    else:
        page.paragraph("None.")


def _altered(page: Page, report: Report) -> None:
    pieces = sum_by(report["altered_by_source"], "rule", "pieces")
    page.table(
        ("rule", "documents", "changes"),
        [(rule, n, pieces.get(rule)) for rule, n in report["altered"].items()],
    )
    if rows := sorted(report["altered_by_source"], key=lambda row: -row["documents"]):
        page.heading("By source", level=3)
        _table(page, ("rule", "language", "source", "documents", "changes"), _values(rows))


def _clusters(page: Page, report: Report) -> None:
    rows = report["clusters"]
    if not rows:
        page.paragraph("None.")
        return
    labels, series = cluster_ranges(rows)
    page.bar_plot("Sets by number of documents", labels, series, "sets")
    table = []
    for kind in series:
        sizes = [(row["documents"], row["clusters"]) for row in rows if row["kind"] == kind]
        num_documents = sum(size * num for size, num in sizes)
        table.append((kind, sum(num for _, num in sizes), num_documents, sizes[-1][0]))
    page.table(("kind", "sets", "documents", "largest"), table)


def cluster_ranges(rows: Rows) -> tuple[list[str], dict[str, list[int]]]:
    """Labels such as "4-7" and, for each kind, the clusters of so many documents."""
    sums: Counter[tuple[str, int]] = Counter()
    for row in rows:
        sums[row["kind"], row["documents"].bit_length() - 1] += row["clusters"]
    last = max((bits for _, bits in sums), default=0)
    powers = range(1, last + 1)
    labels = ["2-3" if p == 1 else f"{2**p:,}-{2 ** (p + 1) - 1:,}" for p in powers]
    kinds = sorted({kind for kind, _ in sums})
    return labels, {kind: [sums[kind, p] for p in powers] for kind in kinds}


def _contamination(page: Page, report: Report) -> None:
    known = report["benchmarks"]
    if known:
        page.table(("task", "texts", "too short to be looked for"), _values(known))
    rows = report["contamination"]
    if not rows:
        page.paragraph("None was found." if known else "None was looked for.")
        return
    kinds = sorted({row["kind"] for row in rows}, key=lambda kind: ("_" in kind, kind))
    tasks = sorted({(row["task"], row["language"]) for row in rows})
    counts = {(row["task"], row["language"], row["kind"]): row["count"] for row in rows}
    _table(
        page,
        ("task", "language", *(kind.replace("_", " ") for kind in kinds)),
        [(*task, *(counts.get((*task, kind), 0) for kind in kinds)) for task in tasks],
    )
    page.paragraph(
        "Found: sentence, a whole text letter by letter; near, one with small edits; ngram, a "
        "stretch of a long one. A document that holds texts of several tasks counts for each."
    )


def _faults(page: Page, report: Report) -> None:
    empty = [file["path"] for file in report["files"] if not file["documents"] + file["malformed"]]
    num_malformed = report["totals"]["malformed"]
    page.paragraph(
        f"{len(report['files']):,} files read, {len(empty):,} of them without a document; "
        f"{num_malformed:,} rows could not be read."
    )
    files = sorted(report["files"], key=lambda file: -file["malformed"])
    rows = [(file["path"], file["documents"], file["malformed"]) for file in files]
    _table(page, ("file", "documents", "rows not read"), rows)
    if empty:
        page.text_samples("Files without a document", [("", path) for path in empty[:_MAX_ROWS]])
    if num_malformed:
        faults = sum_by(report["malformed"], "reason", "documents")
        page.table(("fault", "rows"), list(faults.items()))
        examples = [("", example) for example in report["malformed_examples"]]
        page.text_samples("First faults", examples)


def _samples(page: Page, report: Report) -> None:
    samples = report["samples"]
    rules = sorted(name for name in samples if name.startswith(RULE))
    reasons = sorted(samples.keys() - {*rules, "kept"})
    page.paragraph("Chosen by a hash of where the document stood, sources and languages in turn.")
    for name in (*(["kept"] if "kept" in samples else []), *reasons, *rules):
        if rules and name == rules[0]:
            page.paragraph(
                "Before and after, round the first change that a rule made in a document."
            )
        shown = [
            (" · ".join(filter(None, (language, source, label))), text)
            for label, language, source, text in samples[name]
        ]
        page.text_samples(name.removeprefix(RULE), shown)


def _values(rows: Rows) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows]


def _table(page: Page, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """The first rows of a table, and how many more there are."""
    page.table(headers, rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        page.paragraph(f"The first {_MAX_ROWS} of {len(rows):,} rows; report.json has all.")
