"""How good a vocabulary is, as numbers and as segmentations to look at, and the page of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from electrify.page.page import Page
from vocab.segment import surface
from vocab.tokenizer import UNK, is_special, pieces_of


def report_page(report: Mapping[str, Any], title: str) -> Page:
    page = Page(title, "What the pieces of the vocabulary are, and how long words become")
    languages = report["languages"]
    fertility = ", ".join(
        f"{figures['pieces_per_word']:.2f} in {name}" for name, figures in languages.items()
    )
    page.verdict(f"{report['vocab_size']:,} pieces; pieces a word: {fertility}.")
    rows = [{"language": language} | figures for language, figures in languages.items()]
    _table(page, rows, "Over a sample of documents; a word is what is between spaces.")
    with page.fold("Sources", is_section=True):
        _table(page, report["sources"])
    with page.fold("Pieces and segmentations", is_section=True):
        if added := report.get("added_pieces"):
            page.text_samples("Added pieces, the first", [("", "  ".join(added[:NUM_ADDED]))])
        page.text_samples("Longest pieces", [("", "  ".join(report["longest_pieces"]))])
        segmented = [(s["language"], " ".join(s["pieces"])) for s in report["samples"]]
        page.text_samples("Segmentations", segmented)
    return page


def _table(page: Page, rows: Sequence[Mapping[str, Any]], caption: str = "") -> None:
    named = [{name.replace("_", " "): value for name, value in row.items()} for row in rows]
    page.records(named, caption)


NUM_LONGEST = 40
NUM_ADDED = 200


class SampleText(NamedTuple):
    language: str
    source: str
    text: str


def vocab_report(
    tokenizer: Any,
    samples: Sequence[SampleText],
    sentences: Iterable[tuple[str, str]],
    extended: Any = None,
) -> dict[str, Any]:
    """Figures of a tokenizer by language and by source; its longest pieces, and segmentations of
    `sentences`, which are (language, text) pairs. Of the tokenizer that it extends, too: the pieces
    a word before, and the pieces that it lacks."""
    pieces, sums = pieces_of(tokenizer), sample_sums(tokenizer, samples)
    languages, added = _by_language(sums), dict[str, Any]()
    if extended is not None:
        for language, before in _by_language(sample_sums(extended, samples)).items():
            languages[language]["pieces_per_word_before"] = before["pieces_per_word"]
        added["added_pieces"] = pieces[extended.get_vocab_size() :]
    return added | {
        "vocab_size": len(pieces),
        "languages": languages,
        "sources": [
            {"language": language, "source": source} | _figures(counts)
            for (language, source), counts in sums.items()
        ],
        "longest_pieces": longest(pieces),
        "samples": [
            {"language": language, "text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for language, text in sentences
        ],
    }


def _by_language(sums: Mapping[tuple[str, str], Counter[str]]) -> dict[str, dict[str, float]]:
    by_language: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (language, _), counts in sums.items():
        by_language[language].update(counts)
    return {language: _figures(counts) for language, counts in by_language.items()}


def sample_sums(
    tokenizer: Any, samples: Iterable[SampleText]
) -> dict[tuple[str, str], Counter[str]]:
    """Counts of words (as spaces part them), pieces and bytes by language and source."""
    sums: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    unknown = tokenizer.token_to_id(UNK)
    for sample in samples:
        ids = tokenizer.encode(sample.text, add_special_tokens=False).ids
        sums[sample.language, sample.source].update(
            num_words=len(sample.text.split()),
            num_pieces=len(ids),
            num_unknown_pieces=ids.count(unknown),
            num_bytes=len(sample.text.encode("utf-8", "replace")),
        )
    return dict(sorted(sums.items()))


def _figures(counts: Mapping[str, int]) -> dict[str, float]:
    """Fertility and [UNK]."""
    return {
        **{name: counts[name] for name in ("num_words", "num_pieces", "num_unknown_pieces")},
        "pieces_per_word": _ratio(counts["num_pieces"], counts["num_words"]),
        "bytes_per_piece": _ratio(counts["num_bytes"], counts["num_pieces"]),
        "unk_piece_fraction": _ratio(counts["num_unknown_pieces"], counts["num_pieces"]),
    }


def longest(pieces: Iterable[str]) -> list[str]:
    """The longest pieces, a check against boilerplate that was learnt by heart."""
    lengths = {piece: len(surface(piece)) for piece in pieces if not is_special(piece)}
    return nsmallest(NUM_LONGEST, lengths, key=lambda piece: (-lengths[piece], piece))


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
