"""How good a vocabulary is, as numbers and as segmentations to look at, and the page of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from electrify.page.page import Page
from vocab.pretokenize import CUT
from vocab.segment import Segmenter, Segments, surface
from vocab.tokenizer import is_special, pieces_of
from vocab.words import Batches, WordBatch


def report_page(report: Mapping[str, Any], title: str) -> Page:
    page = Page(title, "What the pieces of the vocabulary are, and how long words become")
    languages = report["languages"]
    fertility = ", ".join(
        f"{of['pieces_per_word']:.2f} in {lang}" for lang, of in languages.items()
    )
    page.verdict(f"{report['vocab_size']:,} pieces; pieces a word: {fertility}.")
    rows = [{"language": language} | of for language, of in languages.items()]
    _table(page, rows, "Weighted by count; marks alone are left out.")
    if report.get("sources"):
        with page.fold("Sources", is_section=True):
            _table(page, report["sources"])
            page.paragraph("Over a sample of documents; here a word is what stands between spaces.")
    if report.get("compared"):
        with page.fold("Beside other vocabularies", is_section=True):
            _table(page, report["compared"])
    if "borders" in report:
        with page.fold("Korean particles and endings", is_section=True):
            figures = dict(report["borders"])
            crossed = "  ".join(figures.pop("most_frequent_crossed"))
            page.paragraph(
                "Over all words of several parts (stem, particle, ending): boundaries where a "
                "piece starts, and words in which all boundaries are such."
            )
            _table(page, [figures])
            page.text_samples("Crossed most often", [("", crossed)])
    with page.fold("Pieces and segmentations", is_section=True):
        page.text_samples("Longest pieces", [("", "  ".join(report["longest_pieces"]))])
        segmented = [(s["language"], " ".join(s["pieces"])) for s in report["samples"]]
        page.text_samples("Segmentations", segmented)
    return page


def _table(page: Page, rows: Sequence[Mapping[str, Any]], caption: str = "") -> None:
    named = [{name.replace("_", " "): value for name, value in row.items()} for row in rows]
    page.records(named, caption)


NUM_LONGEST = 40
NUM_CROSSED = 20  # boundaries named in the report


class SampleText(NamedTuple):
    language: str
    source: str
    text: str


def vocab_report(
    tokenizer: Any, batches: Batches, sentences: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Measure a tokenizer on counts of words; `sentences` are (language, text) pairs."""
    pieces = pieces_of(tokenizer)
    words = WordFigures(pieces)
    for batch in batches():
        words.add(batch)
    report: dict[str, Any] = {
        "vocab_size": len(pieces),
        "languages": words.languages(),
        "longest_pieces": longest(pieces),
        "samples": [
            {"language": language, "text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for language, text in sentences
        ],
    }
    if boundaries := words.boundaries():
        report["borders"] = boundaries
    return report


class WordFigures:
    """Fertility, [UNK] and boundaries over distinct words, each weighted by its count.

    A word is what stands between whitespace and punctuation, at most `MAX_WORD_CHARACTERS` of it.
    Marks alone are not counted.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._segmenter = Segmenter(pieces)
        self._sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._boundaries: Counter[str] = Counter()
        self._crossed: Counter[str] = Counter()

    def add(self, batch: WordBatch) -> None:
        for language in dict.fromkeys(batch.languages):
            rows = [
                row
                for row, word in enumerate(batch.words)
                if batch.languages[row] == language and any(map(str.isalnum, word))
            ]
            if rows:
                words = [batch.words[row] for row in rows]
                counts = batch.counts[rows]
                segments = self._segmenter.segment(words)
                self._add_words(language, words, counts, segments)
                self._add_boundaries(words, counts, segments)

    def _add_words(self, language: str, words: list[str], counts: Any, segments: Segments) -> None:
        unknown = segments.ids == self._segmenter.unknown_id
        lengths = np.array([len(word) - word.count(CUT) for word in words], np.int64)
        self._sums[language].update(
            words=int(counts.sum()),
            distinct=len(words),
            pieces=int(counts[segments.word].sum()),
            characters=int((counts * lengths).sum()),
            unknown=int(counts[segments.word[unknown]].sum()),  # one for a word
        )

    def _add_boundaries(self, words: list[str], counts: Any, segments: Segments) -> None:
        if not len(segments.cut):
            return
        _, crossed = segments.crossing()
        several = np.unique(segments.cut_word)
        broken = np.unique(segments.cut_word[crossed])
        self._boundaries["distinct"] += len(several)
        self._boundaries["words"] += int(counts[several].sum())
        self._boundaries["broken"] += int(counts[broken].sum())
        self._boundaries["all"] += int(counts[segments.cut_word].sum())
        self._boundaries["crossed"] += int(counts[segments.cut_word[crossed]].sum())
        for row in broken.tolist():
            self._crossed[words[row].replace(CUT, "|")] += int(counts[row])
        if len(self._crossed) > 100_000:
            self._crossed = Counter(dict(self._crossed.most_common(10_000)))

    def languages(self) -> dict[str, dict[str, float | int]]:
        return {
            language: {
                "num_words": of["words"],
                "num_distinct_words": of["distinct"],
                "pieces_per_word": _share(of["pieces"], of["words"]),
                "characters_per_piece": _share(of["characters"], of["pieces"]),
                "unk_word_fraction": _share(of["unknown"], of["words"]),
            }
            for language, of in sorted(self._sums.items())
        }

    def boundaries(self) -> dict[str, Any] | None:
        """How far pieces respect the boundaries that training saw; None where it saw none."""
        of = self._boundaries
        if not of:
            return None
        worst = nsmallest(NUM_CROSSED, self._crossed, key=lambda w: (-self._crossed[w], w))
        return {
            "num_distinct_words": of["distinct"],
            "boundary_fraction": _share(of["all"] - of["crossed"], of["all"]),
            "aligned_fraction": _share(of["words"] - of["broken"], of["words"]),
            "most_frequent_crossed": worst,
        }


def sample_report(tokenizer: Any, samples: Iterable[SampleText]) -> list[dict[str, Any]]:
    """Fertility and [UNK] of whole documents by language and source; words as spaces part them."""
    sums: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    unknown = unknown_id(tokenizer)
    for sample in samples:
        encoding = tokenizer.encode(sample.text, add_special_tokens=False)
        of = sums[sample.language, sample.source]
        of["words"] += len(sample.text.split())
        of["pieces"] += len(encoding.ids)
        of["unknown"] += encoding.ids.count(unknown)
        of["bytes"] += len(sample.text.encode("utf-8", "replace"))
    return [
        {
            "language": language,
            "source": source,
            "num_words": of["words"],
            "num_pieces": of["pieces"],
            "num_unknown_pieces": of["unknown"],
            "pieces_per_word": _share(of["pieces"], of["words"]),
            "bytes_per_piece": _share(of["bytes"], of["pieces"]),
            "unk_piece_fraction": _share(of["unknown"], of["pieces"]),
        }
        for (language, source), of in sorted(sums.items())
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
    by_language = [SampleText(of.language, "", of.text) for of in samples]
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


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
