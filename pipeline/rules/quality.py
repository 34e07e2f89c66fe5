"""Quality rules: statistics of a text against the limits of its language and kind of source.

The rules are those of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020), FineWeb and
FineWeb-2, in the order of data/quality_rules.toml. Limits by language are in data/quality.toml, by
kind of source in data/profiles.toml. A word stands between spaces, or is two characters of a
language without spaces; what depends on where lines are wrapped is tuned again (docs/corpus.md).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electrify.config.clean import Profile, QualityLimits
from pipeline.rules.characters import LOST, TABLE, WIDE_ENDS, codes, kinds
from pipeline.rules.data import read_table
from pipeline.rules.quality_model import QualityModel
from pipeline.rules.scripts import has_spaces, num_letters, own_letters, scripts_of

REPLACEMENT_FRACTION = 0.01  # of characters lost to a wrong decoding, beyond which a text is noise
_TABLE = read_table("quality")
_PROFILES = read_table("profiles")
_RULES = read_table("quality_rules")
_OF_SPACED_WORDS = frozenset(
    ["min_mean_word_length", "max_mean_word_length", "max_word_length", "max_top_word"]
)
FUNCTION_WORDS = {
    language: frozenset(row["function_words"].split())
    for language, row in _TABLE.items()
    if "function_words" in row
}
FUNCTION_CHARACTERS: dict[str, str] = {
    language: row["function_characters"]
    for language, row in _TABLE.items()
    if "function_characters" in row
}
KOREAN_ENDINGS = frozenset(_TABLE["ko"]["particles"])
_CLOSING_MARKS = ".,!?…~\"'”’)]}>」』》;:ㅋㅎㅠㅜ^"
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
_SPAM = {
    language: {word: weight for kind, weight in (("hints", 1), ("sure", 3)) for word in row[kind]}
    for language, row in read_table("spam").items()
}
_MIN_SPAM_WORDS = 4  # different ones: a report on casinos has few
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
    limits = {} if profile == "none" else _web(language)
    if profile not in ("none", "web"):
        limits = _changed(limits, _PROFILES[profile])
    if not has_spaces(language):
        limits = {name: limit for name, limit in limits.items() if name not in _OF_SPACED_WORDS}
    own = overrides.model_dump(exclude_none=True) if overrides else {}
    return QualityLimits(**limits | own)


def _web(language: str) -> dict[str, float]:
    row = _TABLE["other"] | _TABLE.get(language, {})
    shortest, longest = row["mean_word_length"]
    top = zip((2, 3, 4), row["max_top_ngrams"], strict=True)
    duplicate = zip(range(5, 11), row["max_duplicate_ngrams"], strict=True)
    return {
        **_PROFILES["web"],
        **{name: limit for name, limit in row.items() if name in QualityLimits.model_fields},
        "min_mean_word_length": shortest,
        "max_mean_word_length": longest,
        "max_duplicate_paragraphs": row["max_duplicate_lines"],
        **{f"max_top_{size}gram": limit for size, limit in top},
        **{f"max_duplicate_{size}gram": limit for size, limit in duplicate},
    }


def _changed(web: Mapping[str, float], profile: Mapping[str, Any]) -> dict[str, float]:
    """The limits of web pages as another kind of source has them, see data/profiles.toml."""
    limits = {}
    for name, limit in web.items():
        known = "ngrams" if name.endswith("gram") else name
        if known not in profile.get("off", ()) and known in profile.get("only", [known]):
            limits[name] = limit * profile.get("times", {}).get(known, 1)
    limits |= {n: limit for n, limit in profile.items() if n in QualityLimits.model_fields}
    return {n: limit for n, limit in limits.items() if n != "min_particles" or n in web}


class Runs:
    """How much of a text repeats itself, from hashes of its words: no dictionary of n-grams."""

    def __init__(self, keys: NDArray[np.uint64], lengths: NDArray[np.int64]) -> None:
        mixed = keys * np.uint64(0xBF58476D1CE4E5B9)
        self._keys, self._lengths = mixed ^ (mixed >> np.uint64(31)), lengths
        self._size, self._hashes = 0, np.zeros(len(keys), dtype=np.uint64)
        self._largest = len(keys)  # no run of so many units stands twice

    def hashes(self, size: int) -> NDArray[np.uint64]:
        """Of every run of `size` units: sum of key_i * odd^i modulo 2^64, from that of the runs
        that were asked for before, if they are shorter."""
        if size < self._size:
            self._size, self._hashes = 0, np.zeros(len(self._keys), dtype=np.uint64)
        num = len(self._keys) - size + 1
        hashes = self._hashes[:num].copy()
        for index in range(self._size, size):
            hashes += self._keys[index : index + num] * _POWERS[index]
        self._size, self._hashes = size, hashes
        return hashes

    def repeated_fraction(self, size: int) -> float:
        """Fraction of the characters that lie in a run of `size` units that stood earlier.

        Never more for a larger size: a repeated long run is made of repeated short ones.
        """
        if size >= self._largest:
            return 0.0
        hashes = self.hashes(size)
        chosen = _not_alone(hashes)
        ordered = np.sort(hashes[chosen])  # 5 times faster than argsort
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(repeated):
            self._largest = size
            return 0.0
        at = np.minimum(np.searchsorted(repeated, hashes[chosen]), len(repeated) - 1)
        places = chosen[repeated[at] == hashes[chosen]]
        order = places[np.argsort(hashes[places], kind="stable")]
        again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        # +1 where a repeated run starts, -1 behind it: inside is where the sum is positive
        edges = np.bincount(again, minlength=len(self._keys) + 1)
        edges -= np.bincount(again + size, minlength=len(self._keys) + 1)
        inside = np.cumsum(edges)[:-1] > 0
        return float(self._lengths[inside].sum() / self._lengths.sum())

    def top_fraction(self, size: int) -> float:
        """Fraction of the characters in the most frequent run of `size` units, or the longest of
        them.

        Overlapping runs count as often as they stand, as with Gopher; 0 if none stands twice.
        """
        if len(self._keys) <= size:
            return 0.0
        hashes = self.hashes(size)
        ordered = np.sort(hashes[_not_alone(hashes)])
        if not len(ordered):
            return 0.0
        edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        starts = np.concatenate(([0], edges))
        counts = np.concatenate((edges, [len(ordered)])) - starts
        highest = int(counts.max())
        if highest == 1:
            return 0.0
        most = ordered[starts[counts == highest]]
        at = np.minimum(np.searchsorted(most, hashes), len(most) - 1)
        places = np.flatnonzero(most[at] == hashes)
        ends = np.cumsum(self._lengths)
        longest = int((ends[places + size - 1] - ends[places] + self._lengths[places]).max())
        return min(1.0, longest * highest / int(ends[-1]))


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting.

    The first bits of each hash are its bin: there are four to eight for each of them.
    """
    bits = len(hashes).bit_length() + 2
    bins = (hashes >> np.uint64(64 - bits)).view(np.int64)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


class Statistics:
    """A text's statistics, named as the limits are: `words` of `min_words`; fractions of 0 to 1.

    None stands for a statistic that says nothing about the text.
    """

    def __init__(self, text: str, language: str, model: QualityModel | None = None) -> None:
        self.text, self.language, self.model = text, language, model
        self.has_spaces = has_spaces(language)
        self.pieces = text.split()  # between spaces, also in a language without them
        self.num_characters = len("".join(self.pieces))  # that are no white space
        # in a language without spaces two characters are taken for a word
        self.num_words = len(self.pieces) if self.has_spaces else self.num_characters / 2
        self.lines = [line for line in map(str.strip, text.split("\n")) if line]

    def value(self, name: str) -> float | None:
        """The statistic of this name; `top_2gram` is `top_gram` of two words."""
        kind, _, run = name.rpartition("_")
        if run.endswith("gram"):
            value: float | None = getattr(self, f"{kind}_gram")(int(run.removesuffix("gram")))
        else:
            value = getattr(self, name)()
        return value

    def quality(self) -> float | None:
        return self.model.score(self.text) if self.model else None

    @cached_property
    def lower(self) -> str:
        return self.text.lower()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.pieces), np.int64, len(self.pieces))

    @cached_property
    def runs(self) -> Runs:
        """Runs of words; in a language without spaces, of characters."""
        if not self.has_spaces:
            points = codes("".join(self.pieces)).astype(np.uint64)
            return Runs(points, np.ones(len(points), dtype=np.int64))
        # Python's string hash differs from run to run; only whether two are equal is looked at
        hashes = np.fromiter(map(hash, self.pieces), np.int64, len(self.pieces))
        return Runs(hashes.view(np.uint64), self.lengths)

    def top_gram(self, num_words: int) -> float:
        return self.runs.top_fraction(num_words if self.has_spaces else 2 * num_words)

    def duplicate_gram(self, num_words: int) -> float:
        """Without spaces three characters a word: runs of them begin within words, too, so that
        short ones repeat in any good text."""
        return self.runs.repeated_fraction(num_words if self.has_spaces else 3 * num_words)

    def words(self) -> float:
        return self.num_words

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

    def symbols_per_word(self) -> float:
        num_symbols = sum(map(self.text.count, ("#", "…", "...")))
        return num_symbols / (self.num_words or 1)

    def function_words(self) -> float | None:
        """How many different ones stand in the text; None for a language without a list."""
        if characters := FUNCTION_CHARACTERS.get(self.language):
            return sum(character in self.text for character in characters)
        if not (function_words := FUNCTION_WORDS.get(self.language)):
            return None
        words = set(self.pieces)
        return len(function_words & words) or len(function_words & {word.lower() for word in words})

    def particles(self) -> float:
        """Fraction of the Korean words that end in a common josa or eomi."""
        endings = [word.rstrip(_CLOSING_MARKS)[-1:] for word in self.pieces]
        return sum(map(KOREAN_ENDINGS.__contains__, endings)) / (len(self.pieces) or 1)

    def top_word(self) -> float:
        return max(Counter(self.pieces).values(), default=0) / (len(self.pieces) or 1)

    def bullet_lines(self) -> float:
        return self._fraction_of_lines(line.startswith(_BULLETS) for line in self.lines)

    def ellipsis_lines(self) -> float:
        return self._fraction_of_lines(line.endswith(_ELLIPSES) for line in self.lines)

    def policy_lines(self) -> float:
        if not (phrases := [phrase for phrase in _RULES["policy"] if phrase in self.lower]):
            return 0.0
        lines = map(str.lower, self.lines)
        return self._fraction_of_lines(any(one in line for one in phrases) for line in lines)

    def _fraction_of_lines(self, is_such: Iterable[bool]) -> float:
        return sum(is_such) / (len(self.lines) or 1)

    def sentence_ends(self) -> float:
        pattern = _KOREAN_SENTENCE_END if self.language == "ko" else _SENTENCE_END
        return 100 * len(pattern.findall(self.text)) / (self.num_characters or 1)

    def newlines_per_word(self) -> float:
        return (len(self.lines) - 1) / (self.num_words or 1)

    def spam(self) -> float:
        """Weight of the words of spam in 100 words; 0 where few different ones stand."""
        weights, pattern, beginnings = _spam_words(self.language)
        lower = self.lower
        # most texts end here: the search is slow where many words begin as one of the list does
        if beginnings and len(beginnings.intersection(lower.split())) < _MIN_SPAM_WORDS - 1:
            return 0.0
        counts = Counter(pattern.findall(lower))
        if len(counts) < _MIN_SPAM_WORDS:
            return 0.0
        return 100 * sum(weights[word] * num for word, num in counts.items()) / self.num_words

    def lorem_ipsum(self) -> float:
        return self.text.count("orem ipsum")

    def duplicate_lines(self) -> float:
        return _duplicates(self.lines)

    def duplicate_line_characters(self) -> float:
        distinct = set(self.lines)
        if len(distinct) == len(self.lines):
            return 0.0
        return 1.0 - sum(map(len, distinct)) / sum(map(len, self.lines))

    def duplicate_paragraphs(self) -> float | None:
        pieces = [piece for piece in map(str.strip, self.text.split("\n\n")) if piece]
        return _duplicates(pieces) if len(pieces) >= 5 else None


@cache
def _spam_words(language: str) -> tuple[dict[str, int], re.Pattern[str], frozenset[str]]:
    """Weights by word, a pattern that finds a word before those that it begins with, and the words
    that they begin with; none of a language whose words hold them inside."""
    name = language if language in _SPAM else "other"
    words = sorted(_SPAM[name], key=len, reverse=True)
    pattern = "|".join(map(re.escape, words))
    if name != "other":
        return _SPAM[name], re.compile(pattern), frozenset()
    beginnings = frozenset(word.partition(" ")[0] for word in words)
    return _SPAM[name], re.compile(f"\\b(?:{pattern})"), beginnings


def _duplicates(pieces: Sequence[str]) -> float:
    return 1.0 - len(set(pieces)) / (len(pieces) or 1)


class LimitRule(NamedTuple):
    """A statistic against one limit; not asked of a text with less than so many words and lines."""

    limit: str  # field of QualityLimits; its first letters say which side is bad
    reason: str
    statistic: str = ""  # left out: as the limit, without `min_` or `max_`
    num_words: int = 0
    num_lines: int = 0

    @property
    def name(self) -> str:
        return self.statistic or self.limit[4:]

    def breaks(self, values: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
        """Which values are on the bad side; none that is not a number."""
        is_bad: NDArray[np.bool_] = values < limit if self.limit[:3] == "min" else values > limit
        return is_bad


RULES = [LimitRule(**row) for row in _RULES["rules"]]
Bounds = Sequence[tuple[LimitRule, float]]


def measure(
    text: str, language: str, bounds: Sequence[tuple[LimitRule, float | None]]
) -> dict[str, float | None]:
    """The statistics of a text that have a bound, with its words and lines; None for one that says
    nothing about it or of which no rule asks."""
    if not bounds:
        return {}
    statistics = Statistics(text, language)
    num_words, num_lines = statistics.num_words, len(statistics.lines)
    values: dict[str, float | None] = {"lines": num_lines, "words": num_words}
    for rule, _ in bounds:
        is_asked = num_words >= rule.num_words and num_lines >= rule.num_lines
        if is_asked and values.get(rule.name) is None:
            values[rule.name] = statistics.value(rule.name)
    return values


def broken_limit(values: Mapping[str, float | None], bounds: Bounds) -> Drop | None:
    """The first limit that the statistics of a text break, with the value."""
    for rule, limit in bounds:
        value = values.get(rule.name)
        if (
            value is None
            or (values["words"] or 0) < rule.num_words
            or (values["lines"] or 0) < rule.num_lines
        ):
            continue
        if value < limit if rule.limit[:3] == "min" else value > limit:
            return Drop(rule.reason, f"{value:.4g}; {rule.limit} = {limit:g}")
    return None


def bounds_of(limits: QualityLimits) -> Bounds:
    """The rules that have a limit, with it."""
    bounds = [(rule, getattr(limits, rule.limit)) for rule in RULES]
    return [(rule, limit) for rule, limit in bounds if limit is not None]
