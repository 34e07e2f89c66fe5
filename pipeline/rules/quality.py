"""Quality rules: statistics of a text against the limits of its language and kind of source.

The rules are those of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020), FineWeb and
FineWeb-2. Limits by language are in data/quality.toml, by kind of source in data/profiles.toml. A
word stands between spaces, or is two characters of a language without spaces; what depends on where
lines are wrapped is tuned again (docs/corpus.md has how the limits differ, and figures).
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.config.clean import Profile, QualityLimits
from pipeline.rules.characters import LOST, codes, kinds
from pipeline.rules.data import read_table
from pipeline.rules.scripts import has_spaces, num_letters, own_letters, scripts_of

REPLACEMENT_FRACTION = 0.01  # of characters lost to a wrong decoding, beyond which a text is noise
_TABLE = read_table("quality")
_PROFILES = read_table("profiles")
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
_LETTER = re.compile(r"[^\W\d_]")
_LATIN_WORD = re.compile(r"[A-Za-z0-9][\w.\-+#']*+", re.ASCII)
# digits, symbols and Latin punctuation, which a table or code is made of
_NEITHER = re.compile(r"[\d#$%&*+/<=>@\\^_`{|}~\[\]]")
_ELLIPSES = ("...", "…")
_BULLETS = ("- ", "* ", "+ ", *"•·●○■□▪▶◆‣∙ㆍ※・")
# A full stop with quotes and brackets behind it, before white space where words have spaces; not
# that of a numbered line. Many Koreans write none: a word in a verb's final ending will do.
_WIDE_ENDS = "。！？︒｡।॥؟۔།။።"
_END = (  # behind its first character, for which a search leaps
    f"(?<=[.!?…])(?<!\\d\\.)[.!?…]*+[\"'”’)」』»\\]]*+(?!\\S)|(?<=[{_WIDE_ENDS}])[{_WIDE_ENDS}]*+"
)
_SENTENCE_END = re.compile(f"[.!?…{_WIDE_ENDS}](?:{_END})")
_KOREAN_SENTENCE_END = re.compile(f"[.!?…다요까죠{_WIDE_ENDS}](?:{_END}|(?<=[다요까죠])(?!\\S))")
_MIN_LETTERS = 20  # of which the share of a script says something
# after C4, in small letters
_POLICY = (
    *("enable javascript", "activate javascript", "turn on javascript", "require javascript"),
    *("requires javascript", "without javascript", "disabled javascript", "javascript is"),
    *("javascript must", "javascript to be", "terms of use", "privacy policy", "cookie policy"),
    *("uses cookies", "use of cookies", "use cookies", "자바스크립트를 사용"),
    *("자바스크립트를 활성", "자바스크립트를 허용", "이용약관", "개인정보처리방침"),
    *("개인정보 처리방침", "개인정보취급방침", "개인정보 취급방침", "쿠키를 사용"),
)
_LOST = re.compile("[\ud800-\udfff\ufffd]")


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a text is not kept: `reason` is counted, `detail` is for the reader."""

    reason: str
    detail: str


def undecodable(text: str) -> Drop | None:
    """Drop a raw text of which over 1 % are U+FFFD or lone surrogates: it was decoded wrongly."""
    if not kinds(text) & LOST:
        return None
    num_lost = len(_LOST.findall(text))
    if num_lost <= REPLACEMENT_FRACTION * len(text):
        return None
    return Drop("undecodable", f"{num_lost} of {len(text)} characters are lost (U+FFFD)")


def too_short(text: str, min_characters: int) -> Drop | None:
    """Drop a cleaned text that is empty or has fewer than `min_characters`."""
    if not text:
        return Drop("empty", "no text after cleaning")
    if len(text) < min_characters:
        return Drop("too_short", f"{len(text)} characters; clean.min_characters = {min_characters}")
    return None


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


# How much of a text repeats itself, from hashes of its words: numpy, no dictionary of n-grams.


def grams(keys: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """A hash of every run of `size` units: sum of key_i * odd^i modulo 2^64, mixed."""
    powers = np.cumprod(np.full(size, 0x9E3779B97F4A7C15, dtype=np.uint64))
    mixed = keys * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    num = len(keys) - size + 1
    hashes: NDArray[np.uint64] = mixed[:num] * powers[0]
    for index in range(1, size):
        hashes += mixed[index : index + num] * powers[index]
    return hashes


def repeated_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters that lie in a run of `size` units that stood earlier in the text.

    Never more for a larger size: a repeated long run is made of repeated short ones.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
    chosen = _not_alone(hashes)
    ordered = np.sort(hashes[chosen])  # 5 times faster than argsort
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return 0.0
    at = np.minimum(np.searchsorted(repeated, hashes[chosen]), len(repeated) - 1)
    places = chosen[repeated[at] == hashes[chosen]]
    order = places[np.argsort(hashes[places], kind="stable")]
    again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    # +1 where a repeated run starts, -1 behind it: inside is where the sum is positive
    edges = np.bincount(again, minlength=len(keys) + 1)
    edges -= np.bincount(again + size, minlength=len(keys) + 1)
    inside = np.cumsum(edges)[:-1] > 0
    return float(lengths[inside].sum() / lengths.sum())


def top_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters in the most frequent run of `size` units; the longest of a tie.

    Overlapping runs count as often as they stand, as with Gopher; 0 if none stands twice.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
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
    ends = np.cumsum(lengths)
    longest = int((ends[places + size - 1] - ends[places] + lengths[places]).max())
    return min(1.0, longest * highest / int(ends[-1]))


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting.

    The first bits of each hash are its bin: there are four to eight for each of them.
    """
    bits = len(hashes).bit_length() + 2
    bins = (hashes >> np.uint64(64 - bits)).view(np.int64)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


class Parts:
    """A text with what several rules need of it."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.spaced = has_spaces(language)

    @cached_property
    def words(self) -> list[str]:
        """What stands between spaces, also in a language without them."""
        return self.text.split()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.words), np.int64, len(self.words))

    @cached_property
    def num_words(self) -> float:
        """Words; in a language without spaces two characters are taken for one."""
        return len(self.words) if self.spaced else self.num_characters / 2

    @cached_property
    def num_characters(self) -> int:
        """Characters that are no whitespace."""
        return len("".join(self.words))

    @cached_property
    def lines(self) -> list[str]:
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def units(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hash and length of each word; in a language without spaces, of each character."""
        if not self.spaced:
            points = codes("".join(self.words)).astype(np.uint64)
            return points, np.ones(len(points), dtype=np.int64)
        # Python's string hash differs from run to run; only whether two are equal is looked at
        hashes = np.fromiter(map(hash, self.words), np.int64, len(self.words))
        return hashes.view(np.uint64), self.lengths

    @cached_property
    def duplicate_5grams(self) -> float:
        return repeated_fraction(*self.units, self.long_size(5))

    def size(self, num_words: int) -> int:
        """n words as a number of units: as `num_words` takes them."""
        return num_words if self.spaced else 2 * num_words

    def long_size(self, num_words: int) -> int:
        """As `size`, of five words and more: in a language without spaces three characters a word.

        Runs of characters begin within words, too, so that short ones repeat in any good text.
        """
        return num_words if self.spaced else 3 * num_words


@dataclass(frozen=True, slots=True)
class Rule:
    """A statistic against one limit; not asked of a text with less than so many words and lines."""

    reason: str
    limit: str  # field of QualityLimits; its first letters say which side is bad
    statistic: Callable[[Parts], float | None]
    num_words: int = 0
    num_lines: int = 0


def has_no_letters(text: str) -> Drop | None:
    """Drop a text of symbols and digits alone, whatever its profile."""
    if _LETTER.search(text):
        return None
    return Drop("no_letters", f"{len(text)} characters, no letter")


def quality(text: str, language: str, limits: QualityLimits) -> Drop | None:
    """Drop a text that breaks a limit; the first one, with the value and the limit."""
    parts = Parts(text, language)
    for rule in RULES:
        limit = getattr(limits, rule.limit)
        if limit is None or rule.num_words > parts.num_words or rule.num_lines > len(parts.lines):
            continue
        value = rule.statistic(parts)
        if value is not None and (value < limit if rule.limit[:3] == "min" else value > limit):
            return Drop(rule.reason, f"{value:.4g}; {rule.limit} = {limit:g}")
    return None


_CLOSING_MARKS = ".,!?…~\"'”’)]}>」』》;:ㅋㅎㅠㅜ^"


def particle_fraction(words: Sequence[str]) -> float:
    """Share of the Korean words that end in a common josa or eomi."""
    endings = [word.rstrip(_CLOSING_MARKS)[-1:] for word in words]
    return sum(map(KOREAN_ENDINGS.__contains__, endings)) / (len(words) or 1)


def _words(parts: Parts) -> float:
    """In a text without spaces a Latin word is one word: a title of three is no sentence."""
    if parts.spaced:
        return parts.num_words
    latin = _LATIN_WORD.findall(parts.text)
    return (parts.num_characters - len("".join(latin))) / 2 + len(latin)


def _mean_word_length(parts: Parts) -> float | None:
    return parts.num_characters / parts.num_words if parts.num_words else None


def _script_letters(parts: Parts) -> float | None:
    scripts = scripts_of(parts.language)
    if not scripts or parts.num_characters < _MIN_LETTERS:
        return None
    own, total = own_letters(parts.text, scripts), num_letters(parts.text)
    return min(1.0, own / total) if total >= _MIN_LETTERS else None


def _alphabetic_words(parts: Parts) -> float:
    """Without spaces: share of the characters that are letters or marks of punctuation."""
    if not parts.spaced:
        symbols = len(_NEITHER.findall(parts.text))
        return 1.0 - symbols / (parts.num_characters or 1)
    without = sum(not (word.isalpha() or _LETTER.search(word)) for word in parts.words)
    return 1.0 - without / (len(parts.words) or 1)


def _symbols(parts: Parts) -> float:
    text = parts.text
    num = text.count("#") + text.count("…") + text.count("...")
    return num / (parts.num_words or 1)


def _function_words(parts: Parts) -> float | None:
    """How many different ones stand in the text; None for a language without a list."""
    if characters := FUNCTION_CHARACTERS.get(parts.language):
        return sum(character in parts.text for character in characters)
    if not (listed := FUNCTION_WORDS.get(parts.language)):
        return None
    words = set(parts.words)
    return len(listed & words) or len(listed & {word.lower() for word in words})


def _top_word(parts: Parts) -> float:
    return max(Counter(parts.words).values(), default=0) / (len(parts.words) or 1)


def _share_of_lines(parts: Parts, is_such: Callable[[str], object]) -> float:
    return sum(1 for line in parts.lines if is_such(line)) / (len(parts.lines) or 1)


def _policy_lines(parts: Parts) -> float:
    lower = parts.text.lower()
    if not (phrases := [phrase for phrase in _POLICY if phrase in lower]):
        return 0.0
    return _share_of_lines(parts, lambda line: any(one in line.lower() for one in phrases))


def _sentence_ends(parts: Parts) -> float:
    pattern = _KOREAN_SENTENCE_END if parts.language == "ko" else _SENTENCE_END
    return 100 * len(pattern.findall(parts.text)) / (parts.num_characters or 1)


def _newlines_per_word(parts: Parts) -> float:
    return (len(parts.lines) - 1) / (parts.num_words or 1)


def _duplicates(pieces: Sequence[str]) -> float:
    return 1.0 - len(set(pieces)) / (len(pieces) or 1)


def _duplicate_line_characters(parts: Parts) -> float:
    distinct = set(parts.lines)
    if len(distinct) == len(parts.lines):
        return 0.0
    return 1.0 - sum(map(len, distinct)) / sum(map(len, parts.lines))


def _duplicate_paragraphs(parts: Parts) -> float | None:
    pieces = [piece for piece in map(str.strip, parts.text.split("\n\n")) if piece]
    return _duplicates(pieces) if len(pieces) >= 5 else None


def _top_gram(size: int) -> Callable[[Parts], float]:
    return lambda parts: top_fraction(*parts.units, parts.size(size))


def _duplicate_gram(size: int) -> Callable[[Parts], float]:
    """A longer run that stands twice is made of runs of five words that do."""
    return lambda parts: (
        parts.duplicate_5grams and repeated_fraction(*parts.units, parts.long_size(size))
    )


# in this order, cheap ones first; shares of few words or lines say nothing
RULES: tuple[Rule, ...] = (
    Rule("few_words", "min_words", _words),
    Rule("many_words", "max_words", lambda parts: parts.num_words),
    Rule("short_words", "min_mean_word_length", _mean_word_length, num_words=10),
    Rule("long_words", "max_mean_word_length", _mean_word_length, num_words=3),
    Rule("long_word", "max_word_length", lambda parts: float(parts.lengths.max(initial=0))),
    Rule("script_letters", "min_script_letters", _script_letters),
    Rule("not_alphabetic", "min_alphabetic_words", _alphabetic_words, num_words=5),
    Rule("symbols", "max_symbols_per_word", _symbols, num_words=20),
    Rule("function_words", "min_function_words", _function_words, num_words=40),
    Rule("particles", "min_particles", lambda parts: particle_fraction(parts.words), num_words=50),
    Rule("top_word", "max_top_word", _top_word, num_words=8),
    Rule(
        "bullet_lines",
        "max_bullet_lines",
        lambda parts: _share_of_lines(parts, lambda line: line.startswith(_BULLETS)),
        num_lines=5,
    ),
    Rule(
        "ellipsis_lines",
        "max_ellipsis_lines",
        lambda parts: _share_of_lines(parts, lambda line: line.endswith(_ELLIPSES)),
        num_lines=5,
    ),
    Rule("sentence_ends", "min_sentence_ends", _sentence_ends, num_words=50),
    Rule("newlines", "max_newlines_per_word", _newlines_per_word, num_lines=5),
    Rule("policy_lines", "max_policy_lines", _policy_lines),
    Rule("lorem_ipsum", "max_lorem_ipsum", lambda parts: parts.text.count("orem ipsum")),
    Rule(
        "duplicate_lines",
        "max_duplicate_lines",
        lambda parts: _duplicates(parts.lines),
        num_lines=5,
    ),
    Rule(
        "duplicate_lines", "max_duplicate_line_characters", _duplicate_line_characters, num_lines=5
    ),
    Rule("duplicate_paragraphs", "max_duplicate_paragraphs", _duplicate_paragraphs),
    *(
        Rule(f"top_{size}gram", f"max_top_{size}gram", _top_gram(size), num_words=50)
        for size in (2, 3, 4)
    ),
    *(
        Rule("duplicate_ngrams", f"max_duplicate_{size}gram", _duplicate_gram(size), num_words=50)
        for size in range(5, 11)
    ),
)
