"""The measure that judges both systems: Jaccard similarity of sets of word 5-grams."""

import re
import unicodedata

SHINGLE_WORDS = 5
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


def shingles(text: str) -> frozenset[int]:
    """Hashes of the distinct word 5-grams; of a shorter text, of all its words as one.

    Case, compatibility forms, punctuation and the value of numbers do not count, as in both
    systems. Hashes are Python's, so they hold within one process only.
    """
    plain = _NUMBER.sub("0", unicodedata.normalize("NFKC", text).lower())
    words = _WORD.findall(plain)
    last = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(hash(tuple(words[i : i + SHINGLE_WORDS])) for i in range(last))


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Size of the intersection over that of the union."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)
