"""The vocabulary report as a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from electrify.page import Page

_WORD_COLUMNS = (
    "num_words", "num_distinct_words", "pieces_per_word", "characters_per_piece",
    "unk_word_fraction",
)  # fmt: skip
_COMPARED = (
    "tokenizer", "pieces", "data", "pieces_per_word", "unk_piece_fraction", "num_spans",
    "span_ceiling", "start_ceiling", "end_ceiling",
)  # fmt: skip


def report_page(report: Mapping[str, Any], title: str) -> Page:
    """The report as a page."""
    page = Page(title, f"{report['vocab_size']} WordPiece pieces")
    page.heading("Languages")
    rows = [
        [lang, *(of[name] for name in _WORD_COLUMNS)] for lang, of in report["languages"].items()
    ]
    page.table(["language", *_WORD_COLUMNS], rows, "Weighted by count; marks alone are no words.")
    if report.get("sources"):
        page.heading("Sources")
        _table(page, report["sources"], list(report["sources"][0]))
        page.paragraph("Over a sample of documents; here a word is what stands between spaces.")
    if report.get("compared"):
        page.heading("Beside other vocabularies")
        page.paragraph(
            "Span ceiling: the share of answers or entities that begin and end at borders of "
            "pieces; a span head cannot score above it in exact match."
        )
        _table(page, report["compared"], _COMPARED)
    if "borders" in report:
        _borders(page, report["borders"])
    page.heading("Pieces")
    total = report["vocab_size"]
    scripts = [[name, n, f"{100 * n / total:.1f} %"] for name, n in report["scripts"].items()]
    page.table(["script", "pieces", "share"], scripts)
    page.text_samples("Longest pieces", [("", "  ".join(report["longest_pieces"]))])
    segmented = [(s["language"], " ".join(s["pieces"])) for s in report["samples"]]
    page.text_samples("Segmentations", segmented)
    return page


def _borders(page: Page, found: Mapping[str, Any]) -> None:
    page.heading("Korean particles and endings")
    page.paragraph(
        "Over all words of several parts (stem, particle, ending): borders where a piece starts, "
        "and words in which all borders are such."
    )
    names = ("num_distinct_words", "boundary_fraction", "aligned_fraction")
    page.table(list(names), [[found[name] for name in names]])
    page.text_samples("Crossed most often", [("", "  ".join(found["most_frequent_crossed"]))])


def _table(page: Page, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    page.table(list(columns), [[row.get(name, "") for name in columns] for row in rows])
