"""How good a vocabulary is, as numbers and as segmentations to look at, and the page of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from electrify.page.page import Page
from vocab.segment import surface
from vocab.tokenizer import is_special, pieces_of


def report_page(report: Mapping[str, Any], title: str) -> Page:
    page = Page(title, "What the pieces of the vocabulary are, and how long words become")
    languages = report["languages"]
    fertility = ", ".join(
        f"{figures['pieces_per_word']:.2f} in {name}" for name, figures in languages.items()
    )
    page.verdict(f"{report['vocab_size']:,} pieces; pieces a word: {fertility}.")
    rows = [{"language": language} | figures for language, figures in languages.items()]
    _table(page, rows, "Over a sample of documents; a word is what stands between spaces.")
    for title, name in (("Sources", "sources"), ("Beside other vocabularies", "compared")):
        if report.get(name):
            with page.fold(title, is_section=True):
                _table(page, report[name])
    with page.fold("Pieces and segmentations", is_section=True):
        page.text_samples("Longest pieces", [("", "  ".join(report["longest_pieces"]))])
        segmented = [(s["language"], " ".join(s["pieces"])) for s in report["samples"]]
        page.text_samples("Segmentations", segmented)
    return page


def _table(page: Page, rows: Sequence[Mapping[str, Any]], caption: str = "") -> None:
    named = [{name.replace("_", " "): value for name, value in row.items()} for row in rows]
    page.records(named, caption)


NUM_LONGEST = 40


class SampleText(NamedTuple):
    language: str
    source: str
    text: str


def vocab_report(
    tokenizers: Mapping[str, Any],
    samples: Sequence[SampleText],
    sentences: Iterable[tuple[str, str]],
) -> dict[str, Any]:
    """Figures of the first tokenizer by language and source, and of all by language; its longest
    pieces, and segmentations of `sentences`, which are (language, text) pairs."""
    tokenizer, *_ = tokenizers.values()
    pieces = pieces_of(tokenizer)
    texts = [SampleText(sample.language, "", sample.text) for sample in samples]
    by_language = {name: sample_report(each, texts) for name, each in tokenizers.items()}
    figures = sample_report(tokenizer, samples)
    return {
        "vocab_size": len(pieces),
        "languages": {
            language: row for (language, _), row in next(iter(by_language.values())).items()
        },
        "sources": [
            {"language": language, "source": source} | row
            for (language, source), row in figures.items()
        ],
        "compared": [
            {"tokenizer": name, "pieces": tokenizers[name].get_vocab_size(), "language": language}
            | {key: row[key] for key in ("pieces_per_word", "unk_piece_fraction")}
            for name, rows in by_language.items()
            for (language, _), row in rows.items()
            if len(tokenizers) > 1
        ],
        "longest_pieces": longest(pieces),
        "samples": [
            {"language": language, "text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for language, text in sentences
        ],
    }


def sample_report(
    tokenizer: Any, samples: Iterable[SampleText]
) -> dict[tuple[str, str], dict[str, float]]:
    """Fertility and [UNK] of documents by language and source; words as spaces part them."""
    sums_by_source: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    model = json.loads(tokenizer.to_str())["model"]  # of others it need not be a WordPiece
    unknown = model.get("unk_id", tokenizer.token_to_id(model.get("unk_token") or ""))
    for sample in samples:
        ids = tokenizer.encode(sample.text, add_special_tokens=False).ids
        sums_by_source[sample.language, sample.source].update(
            num_words=len(sample.text.split()),
            num_pieces=len(ids),
            num_unknown_pieces=ids.count(unknown),
            bytes=len(sample.text.encode("utf-8", "replace")),
        )
    return {
        key: {name: sums[name] for name in ("num_words", "num_pieces", "num_unknown_pieces")}
        | {
            "pieces_per_word": _ratio(sums["num_pieces"], sums["num_words"]),
            "bytes_per_piece": _ratio(sums["bytes"], sums["num_pieces"]),
            "unk_piece_fraction": _ratio(sums["num_unknown_pieces"], sums["num_pieces"]),
        }
        for key, sums in sorted(sums_by_source.items())
    }


def longest(pieces: Iterable[str]) -> list[str]:
    """The longest pieces, a check against boilerplate that was learnt by heart."""
    lengths = {piece: len(surface(piece)) for piece in pieces if not is_special(piece)}
    return nsmallest(NUM_LONGEST, lengths, key=lambda piece: (-lengths[piece], piece))


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
