"""Quality rules: statistics of a text against the limits of its language and kind of source."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from electrify.config_quality import QualityLimits
from pipeline.filters import Drop
from pipeline.function_words import num_function_words, particle_fraction
from pipeline.language_codes import scripts_of
from pipeline.quality_rules import has_spaces
from pipeline.repetition import repeated_fraction, top_count, top_fraction
from pipeline.scripts import letter_of, script_counts

_LETTER = re.compile(r"[^\W\d_]")
# digits, symbols and Latin punctuation, which a table or code is made of
_NEITHER = re.compile(r"[\d#$%&*+/<=>@\\^_`{|}~\[\]]")
_ELLIPSES = ("...", "…")
_BULLETS = (
    "- ", "* ", "+ ", "•", "·", "●", "○", "■", "□", "▪", "▶", "◆", "‣", "∙", "ㆍ", "※", "・",
)  # fmt: skip
# a line may close with quotes, brackets or footnotes behind its full stop
_PUNCTUATION = tuple(".!?…。！？︒｡।॥؟۔:;\"'”’)」』»~")
_MIN_LETTERS = 20  # of which the share of a script says something
_SHORT_LINE = 30  # characters (FineWeb)
_POLICY = re.compile(
    "(?:enable|activate|turn on|requires?|without|disabled) javascript|javascript (?:is|must|to be)"
    "|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
    "|자바스크립트를 (?:사용|활성|허용)|이용약관|개인정보\\s?(?:처리|취급)\\s?방침|쿠키를 사용"
)
# a search for one string each is ten times faster than a pattern of them all
_POLICY_MARKS = ("ookie", "avascript", "avaScript", "rivacy", "erms of", "쿠키", "자바스크립트",
                 "약관", "방침")  # fmt: skip
_MIN_LETTERS = 20  # of which the share of a script says something
_SHORT_LINE = 30  # characters (FineWeb)
_POLICY = re.compile(
    "(?:enable|activate|turn on|requires?|without|disabled) javascript|javascript (?:is|must|to be)"
    "|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
    "|자바스크립트를 (?:사용|활성|허용)|이용약관|개인정보\\s?(?:처리|취급)\\s?방침|쿠키를 사용"
)
# cheap test first; a pattern that starts with a choice of letters is slow
_POLICY_MARK = re.compile(
    "(?<=[cC])ookie|(?<=[jJ])ava[sS]cript|rivacy|erms of|쿠키|자바스크|약관|방침"
)
_MIN_LETTERS = 20  # of which the share of a script says something
_SHORT_LINE = 30  # characters (FineWeb)
_POLICY = re.compile(
    "(?:enable|activate|turn on|requires?|without|disabled) javascript|javascript (?:is|must|to be)"
    "|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
    "|자바스크립트를 (?:사용|활성|허용)|이용약관|개인정보\\s?(?:처리|취급)\\s?방침|쿠키를 사용"
)
_POLICY_MARKS = ("ookie", "avascript", "avaScript", "rivacy", "erms of", "쿠키", "자바스크립트",
                 "약관", "방침")  # fmt: skip


@dataclass
class Parts:
    """A text with what several rules need of it, each computed once and only if needed."""

    text: str
    language: str

    @cached_property
    def words(self) -> list[str]:
        """What stands between spaces, also in a language without them."""
        return self.text.split()

    @cached_property
    def sample(self) -> list[str]:
        """Every n-th word, 300 or fewer: a share of them is within 6 % of that of all."""
        return self.words[:: len(self.words) // 300 + 1]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Characters of each word."""
        return np.fromiter(map(len, self.words), np.int64, len(self.words))

    @cached_property
    def num_words(self) -> float:
        """Words; in a language without spaces two characters are taken for one."""
        return len(self.words) if has_spaces(self.language) else self.num_characters / 2

    @cached_property
    def num_characters(self) -> int:
        """Characters that are no whitespace."""
        return len("".join(self.words))

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not blank."""
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def units(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hash and length of each word; in a language without spaces, of each character."""
        if has_spaces(self.language):
            # Python's string hash differs from run to run; only whether two are equal is looked at
            hashes = np.fromiter(map(hash, self.words), np.int64, len(self.words))
            return hashes.view(np.uint64), self.lengths
        packed = "".join(self.words).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(packed, dtype="<u4").astype(np.uint64)
        return codes, np.ones(len(codes), dtype=np.int64)

    def size(self, num_words: int) -> int:
        """n words as a number of units: as `num_words` takes them."""
        return num_words if has_spaces(self.language) else 2 * num_words

    @cached_property
    def top_pair(self) -> int:
        """How often the most frequent pair of words stands in the text."""
        return top_count(self.units[0], self.size(2))

    @cached_property
    def longest_share(self) -> float:
        """Share of the characters in the longest unit."""
        lengths = self.units[1]
        return float(lengths.max(initial=0)) / (self.num_characters or 1)

    @cached_property
    def duplicate_5grams(self) -> float:
        """Share of the characters in repeated runs of five words."""
        return repeated_fraction(*self.units, self.size(5))


@dataclass(frozen=True, slots=True)
class Rule:
    """A statistic against one limit; not asked of a text with less than so many words and lines."""

    reason: str
    limit: str  # field of QualityLimits; its first letters say which side is bad
    statistic: Callable[[Parts], float | None]
    num_words: int = 0
    num_lines: int = 0
    # never less than the statistic, and known already: where it is good, the other is not computed
    bound: Callable[[Parts], float] | None = None


def has_no_letters(text: str) -> Drop | None:
    """Drop a text of symbols and digits alone, whatever its profile."""
    if _LETTER.search(text):
        return None
    return Drop("no_letters", f"{len(text)} characters, no letter")


def quality(text: str, language: str, limits: QualityLimits) -> Drop | None:
    """Drop a text that breaks a rule; the first one, with the value and the limit."""
    rules = _active(limits)
    if not rules:
        return None
    parts = Parts(text, language)
    for rule, limit in rules:
        if rule.num_words and rule.num_words > parts.num_words:
            continue
        if rule.num_lines and rule.num_lines > len(parts.lines):
            continue
        if rule.bound and rule.bound(parts) <= limit:
            continue
        value = rule.statistic(parts)
        if value is not None and (value < limit if rule.limit[:3] == "min" else value > limit):
            return Drop(rule.reason, f"{value:.4g}; {rule.limit} = {limit:g}")
    return None


@lru_cache
def _active(limits: QualityLimits) -> tuple[tuple[Rule, float], ...]:
    of_rule = ((rule, getattr(limits, rule.limit)) for rule in RULES)
    return tuple((rule, limit) for rule, limit in of_rule if limit is not None)


def _mean_word_length(parts: Parts) -> float | None:
    return parts.num_characters / parts.num_words if parts.num_words else None


def _script_letters(parts: Parts) -> float | None:
    scripts = scripts_of(parts.language)
    if not scripts or parts.num_characters < _MIN_LETTERS:
        return None
    if len(parts.text) < 300:  # numpy takes 7 us to start
        total = len(_LETTER.findall(parts.text))
        own = len(letter_of(scripts).findall(parts.text))
    else:
        counts = script_counts(parts.text)
        total = sum(counts.values())
        own = sum(counts.get(name, 0) for name in scripts)
    return min(1.0, own / total) if total >= _MIN_LETTERS else None


def _alphabetic_words(parts: Parts) -> float:
    """Without spaces: share of the characters that are letters or marks of punctuation."""
    if not has_spaces(parts.language):
        symbols = len(_NEITHER.findall(parts.text))
        return 1.0 - symbols / (parts.num_characters or 1)
    without = sum(not _LETTER.search(word) for word in parts.sample if not word.isalpha())
    return 1.0 - without / (len(parts.sample) or 1)


def _symbols(parts: Parts) -> float:
    text = parts.text
    num = text.count("#") + text.count("…") + text.count("...")
    return num / (parts.num_words or 1)


def _function_words(parts: Parts) -> float | None:
    return num_function_words(parts.text, set(parts.words[:1000]), parts.language)


def _top_word(parts: Parts) -> float:
    return max(Counter(parts.words).values(), default=0) / (len(parts.words) or 1)


def _share_of_lines(parts: Parts, is_such: Callable[[str], object]) -> float:
    return sum(1 for line in parts.lines if is_such(line)) / (len(parts.lines) or 1)


def _policy_lines(parts: Parts) -> float:
    if not any(mark in parts.text for mark in _POLICY_MARKS):
        return 0.0
    return _share_of_lines(parts, lambda line: _POLICY.search(line.lower()))


def _newlines_per_word(parts: Parts) -> float:
    return parts.text.count("\n") / (parts.num_words or 1)


def _duplicates(pieces: list[str]) -> float:
    return 1.0 - len(set(pieces)) / (len(pieces) or 1)


def _duplicate_line_characters(parts: Parts) -> float:
    distinct = set(parts.lines)
    if len(distinct) == len(parts.lines):
        return 0.0
    return 1.0 - sum(map(len, distinct)) / sum(map(len, parts.lines))


def _paragraphs(parts: Parts) -> list[str]:
    return [piece for piece in map(str.strip, parts.text.split("\n\n")) if piece]


def _duplicate_paragraphs(parts: Parts) -> float | None:
    pieces = _paragraphs(parts)
    return _duplicates(pieces) if len(pieces) >= 5 else None


def _top_gram(size: int) -> Callable[[Parts], float]:
    return lambda parts: top_fraction(*parts.units, parts.size(size))


def _top_bound(size: int) -> Callable[[Parts], float]:
    """No run of words stands more often than the most frequent pair; its words are the longest."""
    return lambda parts: parts.top_pair * parts.size(size) * parts.longest_share


def _duplicate_gram(size: int) -> Callable[[Parts], float]:
    return lambda parts: repeated_fraction(*parts.units, parts.size(size))


# in this order, cheap ones first; shares of few words or lines say nothing
RULES: tuple[Rule, ...] = (
    Rule("few_words", "min_words", lambda parts: parts.num_words),
    Rule("many_words", "max_words", lambda parts: parts.num_words),
    Rule("short_words", "min_mean_word_length", _mean_word_length, num_words=10),
    Rule("long_words", "max_mean_word_length", _mean_word_length, num_words=3),
    Rule("long_word", "max_word_length", lambda parts: float(parts.lengths.max(initial=0))),
    Rule("script_letters", "min_script_letters", _script_letters),
    Rule("not_alphabetic", "min_alphabetic_words", _alphabetic_words, num_words=5),
    Rule("symbols", "max_symbols_per_word", _symbols, num_words=20),
    Rule("function_words", "min_function_words", _function_words, num_words=40),
    Rule("particles", "min_particles", lambda parts: particle_fraction(parts.sample), num_words=50),
    Rule("top_word", "max_top_word", _top_word, num_words=8),
    Rule("bullet_lines", "max_bullet_lines",
         lambda parts: _share_of_lines(parts, lambda line: line.startswith(_BULLETS)), num_lines=5),
    Rule("ellipsis_lines", "max_ellipsis_lines",
         lambda parts: _share_of_lines(parts, lambda line: line.endswith(_ELLIPSES)), num_lines=5),
    Rule("punctuated_lines", "min_punctuated_lines",
         lambda parts: _share_of_lines(parts, lambda line: line.endswith(_PUNCTUATION)),
         num_lines=5),
    Rule("short_lines", "max_short_lines",
         lambda parts: _share_of_lines(parts, lambda line: len(line) <= _SHORT_LINE), num_lines=5),
    Rule("newlines", "max_newlines_per_word", _newlines_per_word, num_lines=5),
    Rule("policy_lines", "max_policy_lines", _policy_lines),
    Rule("lorem_ipsum", "max_lorem_ipsum", lambda parts: parts.text.count("orem ipsum")),
    Rule("duplicate_lines", "max_duplicate_lines",
         lambda parts: _duplicates(parts.lines), num_lines=5),
    Rule("duplicate_lines", "max_duplicate_line_characters",
         _duplicate_line_characters, num_lines=5),
    Rule("duplicate_paragraphs", "max_duplicate_paragraphs", _duplicate_paragraphs),
    *(Rule(f"top_{size}gram", f"max_top_{size}gram", _top_gram(size), num_words=50,
           bound=_top_bound(size))
      for size in (2, 3, 4)),
    *(Rule("duplicate_ngrams", f"max_duplicate_{size}gram", _duplicate_gram(size), num_words=50,
           bound=lambda parts: parts.duplicate_5grams)
      for size in range(5, 11)),
)  # fmt: skip
