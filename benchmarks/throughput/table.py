"""The figures as tables: Markdown for the terminal, a page and Markdown for the report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.pages.twin_page import TwinPage
from benchmarks.throughput.figures import Figures, Goal, Step, machine

if TYPE_CHECKING:
    from benchmarks.throughput.recall import BandRecall

STEP_HEADERS = (
    "",
    "documents",
    "MB",
    "CPU s",
    "MB / CPU s",
    "documents / CPU s",
    "wall s",
    "MB/s",
    "peak memory, MB",
    "peak, sum of RSS",
    "",
)


def build_page(figures: Figures) -> TwinPage:
    """Goals first, then what they were judged by."""
    document = TwinPage("The corpus stage, measured", "python -m benchmarks.throughput corpus")
    _add_conditions(document, figures)
    add_goals(document, figures.goals)
    _add_near(document, figures)
    _add_recall(document, figures)
    _add_precision(document, figures)
    _add_steps(document, figures)
    _add_scale(document, figures)
    return document


def _add_conditions(document: TwinPage, figures: Figures) -> None:
    about, corpus = machine(), figures.corpus
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    document.paragraph(
        f"{about['date']}, {about['cores']} cores of {about['processor']}, {about['system']}, "
        f"Python {about['python']}, {versions}."
    )
    document.paragraph(
        f"{corpus['documents']:,} documents, {corpus['megabytes']:,.1f} MB of text in "
        f"{', '.join(corpus['languages'])}; of them {corpus['planted_exact']:,} planted exact and "
        f"{corpus['planted_near']:,} planted near copies, seed {corpus['seed']}. MB are 10^6 bytes "
        "of UTF-8 text. CPU seconds are those of all processes with their start; memory is the "
        "largest sum of proportional set sizes, sampled ten times a second."
    )
    document.paragraph(f"Profiles of the quality rules: {corpus['profiles']}.")
    for note in figures.notes:
        document.paragraph(note)


def add_goals(document: TwinPage, goals: Sequence[Goal]) -> None:
    """A table of goals and what was measured."""
    document.heading("Goals")
    said = {True: "met", False: "not met", None: "not measured"}
    rows = [(goal.name, goal.wanted, goal.value, said[goal.met]) for goal in goals]
    document.table(("goal", "wanted", "measured", ""), rows)


def _add_near(document: TwinPage, figures: Figures) -> None:
    document.heading("Near-duplicate removal alone, on the same documents")
    document.paragraph(
        "All runs read the same files and write what is left and what was removed; no other part "
        "of the graph is on, so that exact copies are found by MinHash too. electrify: defaults of "
        "[clean.near_dedup], words are runs of letters and digits. What the peer is set to, and "
        "what a comparison with it says, stands below."
    )
    document.table(STEP_HEADERS, step_rows(figures.near))
    rows = [
        (peer.name, peer.meaning, ", ".join(f"{n} {s:.1f}" for n, s in peer.step_seconds.items()))
        for peer in figures.peers
    ]
    if rows:
        document.table(("peer", "how it is set, and what a comparison says", "wall s"), rows)


def _add_recall(document: TwinPage, figures: Figures) -> None:
    document.heading("Planted pairs that were found")
    document.paragraph(
        "A planted copy has the stated Jaccard of word 5-grams, or up to 0.02 more. Found: in the "
        "end one document stands for both. In brackets: share of pairs of which not both are left, "
        "whatever stands for them. Below the similarity of the config, 0.7 by default, electrify "
        "means to keep both."
    )
    systems = list(dict.fromkeys(band.system for band in figures.recall))
    keys = sorted({(band.kind, band.band) for band in figures.recall})
    by_key = {(b.system, b.kind, b.band): b for b in figures.recall}
    rows = [
        (
            kind,
            band,
            by_key[systems[0], kind, band].pairs,
            *(_found(by_key.get((system, kind, band))) for system in systems),
        )
        for kind, band in keys
    ]
    document.table(("changed", "Jaccard", "pairs", *systems), rows)
    document.paragraph(
        "The whole graph compares cleaned texts, and cleaning changes how alike two texts are. "
        "The same pairs by the Jaccard of their cleaned texts, from the stated number to the "
        "next; pairs of which a rule took a text do not count."
    )
    cleaned = [(b.band, b.pairs, _found(b)) for b in figures.cleaned_recall]
    document.table(("Jaccard from", "pairs", "electrify, whole graph"), cleaned)


def _found(band: "BandRecall | None") -> str | None:
    if band is None or not band.pairs:
        return None
    return f"{band.together / band.pairs:.3f} ({band.resolved / band.pairs:.3f})"


def _add_precision(document: TwinPage, figures: Figures) -> None:
    document.heading("What was removed, against what was kept")
    document.paragraph(
        "True Jaccard of word 5-grams between each removed document and the one that was kept for "
        "it, natural duplicates included: shares of the removals."
    )
    rows = [
        (p.system, p.removals, p.number, p.at_least_50, p.at_least_70, p.at_least_80)
        for p in figures.precision
    ]
    document.table(("", "removals", "number", "≥ 0.5", "≥ 0.7", "≥ 0.8"), rows)


def _add_steps(document: TwinPage, figures: Figures) -> None:
    document.heading("The whole graph and its steps")
    document.paragraph(
        "The whole graph has every rule, exact, line and near deduplication on, no Kiwi and no "
        "decontamination. A step is the difference between a run with it and a run that only reads "
        "and writes; its memory is that of its run."
    )
    document.table(STEP_HEADERS, step_rows([*figures.whole, *figures.steps]))


def _add_scale(document: TwinPage, figures: Figures) -> None:
    if not figures.scale:
        return
    document.heading("Cost by size, all languages")
    start = figures.start_cpu_seconds or 0.0
    document.paragraph(
        "The whole graph on documents drawn evenly from all corpora, and on all of them, without "
        f"planted copies. Starting costs {start:.1f} CPU s, which the cost of a document leaves "
        "out."
    )
    rows = [
        (
            s.name,
            s.documents,
            s.cpu_seconds,
            1000 * (s.cpu_seconds - start) / s.documents,
            s.mb_per_cpu_second,
            s.wall_seconds,
            s.mb_per_second,
            s.peak_mb,
        )
        for s in figures.scale
    ]
    headers = (
        "size",
        "documents",
        "CPU s",
        "CPU ms / document",
        "MB / CPU s",
        "wall s",
        "MB/s",
        "peak memory, MB",
    )
    document.table(headers, rows)


def step_rows(steps: Sequence[Step]) -> list[tuple[object, ...]]:
    """Rows under STEP_HEADERS."""
    return [
        (
            s.name,
            s.documents or None,
            s.megabytes or None,
            s.cpu_seconds,
            s.mb_per_cpu_second,
            s.documents_per_cpu_second or None,
            s.wall_seconds,
            s.mb_per_second,
            s.peak_mb,
            s.peak_rss_mb,
            s.note,
        )
        for s in steps
    ]
