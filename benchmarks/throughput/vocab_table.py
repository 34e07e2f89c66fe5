"""The figures of the vocabulary benchmark as tables."""

from benchmarks.pages.twin_page import TwinPage
from benchmarks.throughput.figures import machine
from benchmarks.throughput.table import STEP_HEADERS, add_goals, step_rows
from benchmarks.throughput.vocab_figures import OURS, PACKAGES, PEER, VocabFigures


def build_vocab_page(figures: VocabFigures) -> TwinPage:
    """Goals first, then what they were judged by."""
    document = TwinPage(
        "The vocabulary and the token shards, measured", "python -m benchmarks.throughput vocab"
    )
    _add_conditions(document, figures)
    add_goals(document, figures.goals)
    _add_training(document, figures)
    _add_encoding(document, figures)
    _add_kiwi(document, figures)
    _add_curve(document, figures)
    return document


def _add_conditions(document: TwinPage, figures: VocabFigures) -> None:
    about, corpus = machine(PACKAGES), figures.corpus
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    document.paragraph(
        f"{about['date']}, {about['cores']} cores of {about['processor']}, {about['system']}, "
        f"Python {about['python']}, {versions}."
    )
    document.paragraph(
        f"Korean: up to {corpus['korean_megabytes']:,.1f} MB; all languages: "
        f"{corpus['all_megabytes']:,.1f} MB in {corpus['all_documents']:,} documents. The raw "
        "corpora with NFC and whitespace made even, nothing else removed; smaller texts are "
        f"drawn evenly from all corpora. {corpus['vocab_size']:,} pieces. MB are 10^6 bytes of "
        "UTF-8 text. Costs are of a command with all its processes and their start; memory is the "
        "largest sum of proportional set sizes, sampled ten times a second."
    )
    for note in figures.notes:
        document.paragraph(note)


def _add_training(document: TwinPage, figures: VocabFigures) -> None:
    document.heading("Training on plain words")
    document.paragraph(
        f"{OURS}: words counted in Beam by a process of its own, then pieces learnt from the "
        f"counts, until tokenizer.json is written. {PEER}: `train_from_iterator` over the same "
        "files, 64 documents at a time, same size, alphabet and least frequency."
    )
    rows = [
        (
            of.text,
            of.step.megabytes,
            of.step.name,
            of.step.wall_seconds,
            of.step.cpu_seconds,
            of.step.mb_per_second,
            of.step.peak_mb,
            of.step.peak_rss_mb,
        )
        for of in figures.training
    ]
    headers = ("text", "MB", "", "wall s", "CPU s", "MB/s", "peak memory, MB", "peak, sum of RSS")
    document.table(headers, rows)


def _add_encoding(document: TwinPage, figures: VocabFigures) -> None:
    document.heading("Encoding")
    document.paragraph(
        "The library alone encodes texts that are in memory; what is measured against it reads "
        "documents, cuts them into sentences, encodes, and writes shards with checksums."
    )
    document.table(STEP_HEADERS, step_rows(figures.encoding))


def _add_kiwi(document: TwinPage, figures: VocabFigures) -> None:
    if not figures.kiwi:
        return
    document.heading("Training on morphemes")
    document.paragraph(
        "Kiwi sees each distinct word once, in the step that sums its counts; MB are those of the "
        "text the words come from."
    )
    document.table(STEP_HEADERS, step_rows(figures.kiwi))


def _add_curve(document: TwinPage, figures: VocabFigures) -> None:
    if not figures.curve:
        return
    document.heading("Fertility against span-alignment ceiling")
    document.paragraph(
        "Ceiling: the share of answers or entities that begin and end at borders of pieces; a span "
        "head cannot score above it in exact match. Fertility: pieces a word, as spaces part "
        "words. `nominal` is the default, with max_crossing 0.1."
    )
    rows = [
        (p.name, p.pieces, p.data, p.fertility, p.ceiling, p.starts, p.ends, p.spans)
        for p in figures.curve
    ]
    headers = (
        "vocabulary",
        "pieces",
        "data",
        "pieces a word",
        "ceiling",
        "starts",
        "ends",
        "spans",
    )
    document.table(headers, rows)
    series = {
        data: sorted((p.fertility, p.ceiling) for p in figures.curve if p.data == data)
        for data in dict.fromkeys(p.data for p in figures.curve)
    }
    document.line_plot("The trade", series, "pieces a word", "span-alignment ceiling")
