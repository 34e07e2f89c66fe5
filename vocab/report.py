"""How good a vocabulary is, as numbers and as segmentations to look at, and the page of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from electrify.page.page import Page
from vocab.pretokenize import CUT
from vocab.segment import Segmenter, surface
from vocab.tokenizer import is_special, pieces_of
from vocab.words import Batches, rows_by_language


def report_page(report: Mapping[str, Any], title: str) -> Page:
    page = Page(title, "What the pieces of the vocabulary are, and how long words become")
    languages = report["languages"]
    fertility = ", ".join(
        f"{figures['pieces_per_word']:.2f} in {name}" for name, figures in languages.items()
    )
    page.verdict(f"{report['vocab_size']:,} pieces; pieces a word: {fertility}.")
    rows = [{"language": language} | figures for language, figures in languages.items()]
    _table(page, rows, "Weighted by count; marks alone are left out.")
    if report.get("sources"):
        with page.fold("Sources", is_section=True):
            _table(page, report["sources"])
            page.paragraph("Over a sample of documents; here a word is what stands between spaces.")
    if report.get("compared"):
        with page.fold("Beside other vocabularies", is_section=True):
            _table(page, report["compared"])
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
    tokenizer: Any, batches: Batches, sentences: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Measure a tokenizer on counts of words; `sentences` are (language, text) pairs."""
    pieces = pieces_of(tokenizer)
    return {
        "vocab_size": len(pieces),
        "languages": word_figures(pieces, batches),
        "longest_pieces": longest(pieces),
        "samples": [
            {"language": language, "text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for language, text in sentences
        ],
    }


def word_figures(pieces: Sequence[str], batches: Batches) -> dict[str, dict[str, float | int]]:
    """Fertility and [UNK] of each language over distinct words, each weighted by its count.

    A word is what stands between whitespace and punctuation, at most `MAX_WORD_CHARACTERS` of it.
    Marks alone are not counted.
    """
    segmenter = Segmenter(pieces)
    sums_by_language: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for batch in batches():
        is_word = np.array([any(map(str.isalnum, word)) for word in batch.words], bool)
        for language, every in rows_by_language(batch).items():
            if not len(rows := every[is_word[every]]):
                continue
            words, counts = [batch.words[row] for row in rows], batch.counts[rows]
            segments = segmenter.segment(words)
            unknown = segments.ids == segmenter.unknown_id
            lengths = np.array([len(word) - word.count(CUT) for word in words], np.int64)
            sums_by_language[language].update(
                words=int(counts.sum()),
                distinct=len(words),
                pieces=int(counts[segments.word].sum()),
                characters=int((counts * lengths).sum()),
                unknown=int(counts[segments.word[unknown]].sum()),  # one for a word
            )
    return {
        language: {
            "num_words": sums["words"],
            "num_distinct_words": sums["distinct"],
            "pieces_per_word": _ratio(sums["pieces"], sums["words"]),
            "characters_per_piece": _ratio(sums["characters"], sums["pieces"]),
            "unk_word_fraction": _ratio(sums["unknown"], sums["words"]),
        }
        for language, sums in sorted(sums_by_language.items())
    }


def sample_report(tokenizer: Any, samples: Iterable[SampleText]) -> list[dict[str, Any]]:
    """Fertility and [UNK] of whole documents by language and source; words as spaces part them."""
    sums_by_source: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    unknown = unknown_id(tokenizer)
    for sample in samples:
        encoding = tokenizer.encode(sample.text, add_special_tokens=False)
        sums = sums_by_source[sample.language, sample.source]
        sums["words"] += len(sample.text.split())
        sums["pieces"] += len(encoding.ids)
        sums["unknown"] += encoding.ids.count(unknown)
        sums["bytes"] += len(sample.text.encode("utf-8", "replace"))
    return [
        {
            "language": language,
            "source": source,
            "num_words": sums["words"],
            "num_pieces": sums["pieces"],
            "num_unknown_pieces": sums["unknown"],
            "pieces_per_word": _ratio(sums["pieces"], sums["words"]),
            "bytes_per_piece": _ratio(sums["bytes"], sums["pieces"]),
            "unk_piece_fraction": _ratio(sums["unknown"], sums["pieces"]),
        }
        for (language, source), sums in sorted(sums_by_source.items())
    ]


def unknown_id(tokenizer: Any) -> int | None:
    """The id of what has no piece, also of a tokenizer that is no WordPiece; None if all has."""
    model = json.loads(tokenizer.to_str())["model"]
    if model["type"] == "Unigram":
        index: int | None = model["unk_id"]
        return index
    token = model.get("unk_token")
    return None if token is None else tokenizer.token_to_id(token)


def compare(tokenizers: Mapping[str, Any], samples: Sequence[SampleText]) -> list[dict[str, Any]]:
    """One row a tokenizer and language: pieces per word and [UNK] of the samples."""
    by_language = [SampleText(sample.language, "", sample.text) for sample in samples]
    return [
        {
            "tokenizer": name,
            "pieces": tokenizer.get_vocab_size(),
            **{n: row[n] for n in ("language", "pieces_per_word", "unk_piece_fraction")},
        }
        for name, tokenizer in tokenizers.items()
        for row in sample_report(tokenizer, by_language)
    ]


def longest(pieces: Iterable[str]) -> list[str]:
    """The longest pieces, a check against boilerplate that was learnt by heart."""
    lengths = {piece: len(surface(piece)) for piece in pieces if not is_special(piece)}
    return nsmallest(NUM_LONGEST, lengths, key=lambda piece: (-lengths[piece], piece))


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
