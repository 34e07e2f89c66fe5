"""Quality rules: statistics of a text against the limits of its language and kind of source.

The rules are those of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020), FineWeb and
FineWeb-2, in the order of data/quality.toml, which has the limits by kind of source and language. A
word stands between spaces, or is two characters of a language without spaces; what depends on where
lines are wrapped is tuned again (docs/corpus.md).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from electrify.config.clean import Profile, QualityLimits
from pipeline.rules.characters import LOST, TABLE, WIDE_ENDS, codes, kinds
from pipeline.rules.data import read_table
from pipeline.rules.scripts import has_spaces, num_letters, own_letters, scripts_of

REPLACEMENT_FRACTION = 0.01  # of characters lost to a wrong decoding, beyond which a text is noise
_TABLE = read_table("quality")
_LANGUAGES = {name: row for name, row in _TABLE.items() if isinstance(row, dict)}
_OF_SPACED_WORDS = frozenset(
    ["min_mean_word_length", "max_mean_word_length", "max_word_length", "max_top_word"]
)
FUNCTION_WORDS = {
    language: frozenset(row["function_words"].split())
    for language, row in _LANGUAGES.items()
    if "function_words" in row
}
FUNCTION_CHARACTERS: dict[str, str] = {
    language: row["function_characters"]
    for language, row in _LANGUAGES.items()
    if "function_characters" in row
}
_LETTER = re.compile(r"[^\W\d_]")
_LATIN_WORD = re.compile(r"[A-Za-z0-9][\w.\-+#']*+", re.ASCII)
# digits, symbols and Latin punctuation, which a table or code is made of
_NEITHER = re.compile(r"[\d#$%&*+/<=>@\\^_`{|}~\[\]]")
_ELLIPSES = ("...", "…")
_BULLETS = ("- ", "* ", "+ ", *"•·●○■□▪▶◆‣∙ㆍ※・")
# A full stop with quotes and brackets behind it, before white space where words have spaces; not
# that of a numbered line. Many Koreans write none: a word in a verb's final ending will do.
_END = (  # behind its first character, for which a search leaps
    f"(?<=[.!?…])(?<!\\d\\.)[.!?…]*+[\"'”’)」』»\\]]*+(?!\\S)|(?<=[{WIDE_ENDS}])[{WIDE_ENDS}]*+"
)
_SENTENCE_END = re.compile(f"[.!?…{WIDE_ENDS}](?:{_END})")
_KOREAN_SENTENCE_END = re.compile(f"[.!?…다요까죠{WIDE_ENDS}](?:{_END}|(?<=[다요까죠])(?!\\S))")
_POWERS = np.cumprod(np.full(64, 0x9E3779B97F4A7C15, dtype=np.uint64))
_MIN_LETTERS = 20  # of which the share of a script says something


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a text is not kept: `reason` is counted, `detail` is for the reader."""

    reason: str
    detail: str


def undecodable(text: str) -> Drop | None:
    """Drop a raw text of which over 1 % are lost (U+FFFD ...): it was decoded wrongly."""
    if not kinds(text) & LOST:
        return None
    num_lost = np.count_nonzero(TABLE.take(codes(text)) & LOST)
    if num_lost <= REPLACEMENT_FRACTION * len(text):
        return None
    return Drop("undecodable", f"{num_lost} of {len(text)} characters are lost (U+FFFD)")


def too_short(num_characters: int, min_characters: int) -> Drop | None:
    """Drop a cleaned text that is empty or has fewer than `min_characters`."""
    if not num_characters:
        return Drop("empty", "no text after cleaning")
    if num_characters < min_characters:
        limit = f"clean.min_characters = {min_characters}"
        return Drop("too_short", f"{num_characters} characters; {limit}")
    return None


def has_letters(text: str) -> bool:
    """Whether a text is more than symbols and digits."""
    return _LETTER.search(text) is not None


@lru_cache
def limits_for(
    language: str, profile: Profile, overrides: QualityLimits | None = None
) -> QualityLimits:
    """The limits of a language and a kind of source; what `overrides` gives goes before them."""
    of_language = _TABLE["other"] | _TABLE.get(language, {})
    limits: dict[str, float] = {} if profile == "none" else _TABLE[profile]
    if profile == "comments":
        limits = {"max_mean_word_length": 5 * of_language["max_mean_word_length"]} | limits
    elif profile == "web":
        known = QualityLimits.model_fields
        limits = limits | {name: limit for name, limit in of_language.items() if name in known}
    if not has_spaces(language):
        limits = {name: limit for name, limit in limits.items() if name not in _OF_SPACED_WORDS}
    own = overrides.model_dump(exclude_none=True) if overrides else {}
    return QualityLimits(**limits | own)


# How much of a text repeats itself, from hashes of its runs of words: no dictionary of n-grams.


def repeated_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Fraction of the characters that lie in a run of `size` words that stood earlier; words have
    `keys` and `lengths`."""
    hashes = hash_runs(keys, size)
    chosen = _not_alone(hashes)
    order = chosen[np.argsort(hashes[chosen], kind="stable")]
    again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    if not len(again):
        return 0.0
    # +1 where a repeated run starts, -1 behind it: inside is where the sum is positive
    edges = np.bincount(again, minlength=len(keys) + 1)
    edges -= np.bincount(again + size, minlength=len(keys) + 1)
    inside = np.cumsum(edges)[:-1] > 0
    return float(lengths[inside].sum() / lengths.sum())


def top_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Fraction of the characters in the most frequent run of `size` words, or the longest of them.

    Overlapping runs count as often as they stand, as with Gopher; 0 if none stands twice.
    """
    hashes = hash_runs(keys, size)
    repeated, counts = np.unique(hashes[_not_alone(hashes)], return_counts=True)
    highest = int(counts.max(initial=1))
    if highest == 1:
        return 0.0
    places = np.flatnonzero(np.isin(hashes, repeated[counts == highest]))
    ends = np.cumsum(lengths)
    longest = int((ends[places + size - 1] - ends[places] + lengths[places]).max())
    return min(1.0, longest * highest / int(ends[-1]))


def hash_runs(keys: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """A polynomial modulo 2^64 in the keys of every run of `size`, by doubling."""
    if size == 1 or len(keys) < size:
        return keys[: max(0, len(keys) - size + 1)]
    half = size // 2
    halves = hash_runs(keys, half)
    hashes: NDArray[np.uint64] = halves[:-half] * _POWERS[half - 1] + halves[half:]
    if size % 2:
        hashes = hashes[:-1] * _POWERS[0] + keys[size - 1 :]
    return hashes


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting.

    The first bits of each hash are its bin: there are four to eight for each of them.
    """
    bits = len(hashes).bit_length() + 2
    bins = (hashes >> np.uint64(64 - bits)).view(np.int64)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


class LimitRule(NamedTuple):
    """A statistic against one limit; not asked of a text with less than so many words and lines."""

    limit: str  # field of QualityLimits; its first letters say which side is bad
    reason: str
    statistic: str = ""  # left out: as the limit, without `min_` or `max_`
    num_words: int = 0
    num_lines: int = 0


class Statistics:
    """A text's statistics, named as the limits are: `words` of `min_words`; fractions of 0 to 1.

    None stands for a statistic that says nothing about the text.
    """

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.has_spaces = has_spaces(language)
        self.pieces = text.split()  # between spaces, also in a language without them
        self.num_characters = len("".join(self.pieces))  # that are no white space
        # in a language without spaces two characters are taken for a word
        self.num_words = len(self.pieces) if self.has_spaces else self.num_characters / 2
        self.lines = [line for line in map(str.strip, text.split("\n")) if line]

    def value(self, rule: LimitRule) -> float | None:
        """What the rule limits; None for a text that has too few words or lines for it."""
        if self.num_words < rule.num_words or len(self.lines) < rule.num_lines:
            return None
        value: float | None = getattr(self, rule.statistic or rule.limit[4:])()
        return value

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.pieces), np.int64, len(self.pieces))

    @cached_property
    def words_or_characters(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """A hash of each word and its length; in a language without spaces, of each character."""
        if self.has_spaces:
            # Python's string hash differs from run to run; only whether two are equal is looked at
            keys = np.fromiter(map(hash, self.pieces), np.int64, len(self.pieces)).view(np.uint64)
            lengths = self.lengths
        else:
            keys = codes("".join(self.pieces)).astype(np.uint64)
            lengths = np.ones(len(keys), dtype=np.int64)
        mixed = keys * np.uint64(0xBF58476D1CE4E5B9)
        return mixed ^ (mixed >> np.uint64(31)), lengths

    def top_2gram(self) -> float:
        return top_fraction(*self.words_or_characters, 2 if self.has_spaces else 4)

    def duplicate_5gram(self) -> float:
        """Without spaces three characters a word: runs of them begin within words, too, so that
        short ones repeat in any good text."""
        return repeated_fraction(*self.words_or_characters, 5 if self.has_spaces else 15)

    def words_of_title(self) -> float:
        """In a text without spaces a Latin word is one word: a title of three is no sentence."""
        if self.has_spaces:
            return self.num_words
        latin = _LATIN_WORD.findall(self.text)
        return (self.num_characters - len("".join(latin))) / 2 + len(latin)

    def mean_word_length(self) -> float | None:
        return self.num_characters / self.num_words if self.num_words else None

    def word_length(self) -> float:
        return float(max(map(len, self.pieces), default=0))

    def script_letters(self) -> float | None:
        scripts = scripts_of(self.language)
        if not scripts or self.num_characters < _MIN_LETTERS:
            return None
        own, total = own_letters(self.text, scripts), num_letters(self.text)
        return min(1.0, own / total) if total >= _MIN_LETTERS else None

    def alphabetic_words(self) -> float:
        """Without spaces: fraction of the characters that are letters or marks of punctuation."""
        if not self.has_spaces:
            symbols = len(_NEITHER.findall(self.text))
            return 1.0 - symbols / (self.num_characters or 1)
        others = [word for word in self.pieces if not word.isalpha()]
        without = sum(1 for word in others if not _LETTER.search(word))
        return 1.0 - without / (len(self.pieces) or 1)

    def function_words(self) -> float | None:
        """How many different ones stand in the text; None for a language without a list."""
        if characters := FUNCTION_CHARACTERS.get(self.language):
            return sum(character in self.text for character in characters)
        if not (function_words := FUNCTION_WORDS.get(self.language)):
            return None
        words = set(self.pieces)
        return len(function_words & words) or len(function_words & {word.lower() for word in words})

    def top_word(self) -> float:
        return max(Counter(self.pieces).values(), default=0) / (len(self.pieces) or 1)

    def bullet_lines(self) -> float:
        return self._fraction_of_lines(line.startswith(_BULLETS) for line in self.lines)

    def ellipsis_lines(self) -> float:
        return self._fraction_of_lines(line.endswith(_ELLIPSES) for line in self.lines)

    def _fraction_of_lines(self, is_such: Iterable[bool]) -> float:
        return sum(is_such) / (len(self.lines) or 1)

    def sentence_ends(self) -> float:
        pattern = _KOREAN_SENTENCE_END if self.language == "ko" else _SENTENCE_END
        return 100 * len(pattern.findall(self.text)) / (self.num_characters or 1)

    def newlines_per_word(self) -> float:
        return (len(self.lines) - 1) / (self.num_words or 1)

    def duplicate_lines(self) -> float:
        return 1.0 - len(set(self.lines)) / (len(self.lines) or 1)

    def duplicate_line_characters(self) -> float:
        distinct = set(self.lines)
        if len(distinct) == len(self.lines):
            return 0.0
        return 1.0 - sum(map(len, distinct)) / sum(map(len, self.lines))


RULES = [LimitRule(**row) for row in _TABLE["rules"]]
Bounds = Sequence[tuple[LimitRule, float]]


def broken_limit(text: str, language: str, bounds: Bounds) -> Drop | None:
    """The first limit that a text breaks, with the value."""
    if not bounds:
        return None
    statistics = Statistics(text, language)
    for rule, limit in bounds:
        value = statistics.value(rule)
        if value is None:
            continue
        if value < limit if rule.limit.startswith("min_") else value > limit:
            return Drop(rule.reason, f"{value:.4g}; {rule.limit} = {limit:g}")
    return None


def bounds_of(limits: QualityLimits) -> Bounds:
    """The rules that have a limit, with it."""
    bounds = [(rule, getattr(limits, rule.limit)) for rule in RULES]
    return [(rule, limit) for rule, limit in bounds if limit is not None]
