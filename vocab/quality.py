"""How good a vocabulary is, as numbers and as segmentations to look at."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import accumulate
from typing import Any

from electrify.page import Page
from vocab.pretokenize import has_hangul, morphemes_of
from vocab.tokenizer import UNK
from vocab.wordpiece import PREFIX, SPECIAL_TOKENS

MAX_MORPHEME_WORDS = 20_000  # the most frequent ones, some 2 s of Kiwi
NUM_LONGEST = 40
_WORDS_A_TEXT = 1000


def vocab_report(
    tokenizer: Any, words: Mapping[str, Mapping[str, int]], samples: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Measure a tokenizer on counts of words per language; `samples` are (language, text) pairs."""
    pieces = [tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size())]
    report: dict[str, Any] = {
        "vocab_size": len(pieces),
        "languages": {lang: language_report(tokenizer, words[lang]) for lang in sorted(words)},
        "scripts": dict(Counter(map(script_of, pieces)).most_common()),
        "longest_pieces": longest(pieces),
        "samples": [
            {"language": language, "text": text, "pieces": tokenizer.encode(text).tokens[1:-1]}
            for language, text in samples
        ],
    }
    together: Counter[str] = Counter()
    for counts in words.values():
        together.update({word: count for word, count in counts.items() if has_hangul(word)})
    if together:
        report["morphemes"] = morpheme_report(tokenizer, together)
    return report


def language_report(tokenizer: Any, words: Mapping[str, int]) -> dict[str, Any]:
    """Fertility and [UNK] share of all words, each weighted by its count.

    A word is what stands between whitespace and punctuation; marks alone are not counted.
    """
    by_count: defaultdict[int, list[str]] = defaultdict(list)
    for word, count in words.items():
        if any(map(str.isalnum, word)):
            by_count[count].append(word)
    unknown = tokenizer.token_to_id(UNK)
    total = distinct = pieces = characters = unknowns = 0
    for count, listed in by_count.items():
        total += count * len(listed)
        distinct += len(listed)
        characters += count * sum(map(len, listed))
        # Words of equal count make one text: ten times faster than a text for each.
        texts = [" ".join(part) for part in _batched(listed, _WORDS_A_TEXT)]
        for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            pieces += count * len(encoding.ids)
            unknowns += count * encoding.ids.count(unknown)  # one for a word
    return {
        "num_words": total,
        "num_distinct_words": distinct,
        "pieces_per_word": _share(pieces, total),
        "characters_per_piece": _share(characters, pieces),
        "unk_fraction": _share(unknowns, total),
    }


def morpheme_report(tokenizer: Any, words: Mapping[str, int]) -> dict[str, Any]:
    """How far pieces respect morphemes, over the most frequent words that have two or more.

    `boundary_fraction` is the share of morpheme boundaries where a piece starts, `aligned_fraction`
    the share of words in which all of them are; both weighted by count.
    """
    top = nsmallest(MAX_MORPHEME_WORDS, words, key=lambda word: (-words[word], word))
    several = {
        word: pieces for word, pieces in zip(top, morphemes_of(top), strict=True) if len(pieces) > 1
    }
    encodings = tokenizer.encode_batch(list(several), add_special_tokens=False)
    boundaries = found = aligned = 0
    for (word, morphemes), encoding in zip(several.items(), encodings, strict=True):
        wanted = set(accumulate(len(piece) for piece in morphemes[:-1]))
        hit = wanted & {start for start, _ in encoding.offsets}
        boundaries += words[word] * len(wanted)
        found += words[word] * len(hit)
        aligned += words[word] * (hit == wanted)
    return {
        "num_distinct_words": len(several),
        "boundary_fraction": _share(found, boundaries),
        "aligned_fraction": _share(aligned, sum(words[word] for word in several)),
    }


def script_of(piece: str) -> str:
    """The script of a piece's first character: Hangul, Latin, Han, Kana, digit, ..."""
    if piece in SPECIAL_TOKENS:
        return "special token"
    text = piece.removeprefix(PREFIX) or piece
    if text[0].isdigit():
        return "digit"
    if not text[0].isalpha():
        return "punctuation or symbol"
    name = unicodedata.name(text[0], "other").split()[0]
    names = {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HALFWIDTH": "other"}
    return names.get(name, name.capitalize())


def longest(pieces: Iterable[str]) -> list[str]:
    """The longest pieces, a check against boilerplate that was learnt by heart."""
    lengths = {p: len(p.removeprefix(PREFIX)) for p in pieces if p not in SPECIAL_TOKENS}
    return nsmallest(NUM_LONGEST, lengths, key=lambda piece: (-lengths[piece], piece))


def report_page(report: Mapping[str, Any], title: str) -> Page:
    """The report as a page."""
    page = Page(title, f"{report['vocab_size']} WordPiece pieces")
    page.heading("Languages")
    columns = (
        "num_words", "num_distinct_words", "pieces_per_word", "characters_per_piece",
        "unk_fraction",
    )  # fmt: skip
    rows = [[lang, *(of[name] for name in columns)] for lang, of in report["languages"].items()]
    page.table(["language", *columns], rows, "Weighted by count; marks alone are no words.")
    if "morphemes" in report:
        page.heading("Korean morphemes")
        page.paragraph(
            "Over the most frequent words of two or more morphemes: boundaries where a piece "
            "starts, and words in which all boundaries are such."
        )
        found = report["morphemes"]
        page.table(list(found), [list(found.values())])
    page.heading("Pieces")
    page.table(["script", "pieces"], list(report["scripts"].items()))
    page.text_samples("Longest pieces", [("", "  ".join(report["longest_pieces"]))])
    segmented = [(s["language"], " ".join(s["pieces"])) for s in report["samples"]]
    page.text_samples("Segmentations", segmented)
    return page


def _batched(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
