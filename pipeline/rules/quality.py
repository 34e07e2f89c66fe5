"""Quality rules: statistics of a text against the limits of its language and kind of source.

The rules are those of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020), FineWeb and
FineWeb-2. Limits by language are in data/quality.toml, by kind of source in data/profiles.toml.
FineWeb-2 tuned its limits on the tokens of a word tokenizer by language, in text with a paragraph a
line. A word here stands between spaces, or is two characters of a language without spaces: a Korean
word has 2.4 of its tokens, an English one 1.2. So these rules differ (docs/corpus.md has figures):
- what depends on where lines are wrapped is tuned again on text of ours: sentence ends are counted
  for each 100 characters, not by line, and a blank line is no line break;
- there is no rule for short lines, which FineWeb-2 turned off;
- runs of words are longer than runs of tokens in Korean; in a language without spaces five words
  are 15 characters, as five Korean words are;
- mean word lengths are of words between spaces;
- a text may be short: Gopher asks for 50 words, which no comment and few stubs have;
- the rules about lines are for web pages alone: they would delete comments and documentation;
- Korean has a rule of its own: the share of words that end in a particle. It is low in lists of
  keywords and machine output.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from electrify.config.clean import Profile, QualityLimits
from pipeline.rules.characters import LOST, kinds
from pipeline.rules.data import read_table
from pipeline.rules.scripts import has_spaces, num_letters, own_letters, scripts_of
from pipeline.rules.text_parts import SHORT, Parts, repeated_fraction, top_fraction

REPLACEMENT_FRACTION = 0.01  # of characters lost to a wrong decoding, beyond which a text is noise
_TABLE = read_table("quality")
_PROFILES = read_table("profiles")
_OF_SPACED_WORDS = (
    "min_mean_word_length",
    "max_mean_word_length",
    "max_word_length",
    "max_top_word",
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
_END = "(?:(?<!\\d)\\.|[!?…])[.!?…]*+[\"'”’)」』»\\]]*+(?!\\S)|[。！？︒｡।॥؟۔།။។]++"
_SENTENCE_END = re.compile(_END)
_KOREAN_SENTENCE_END = re.compile(f"{_END}|[다요까죠](?!\\S)")
_MIN_LETTERS = 20  # of which the share of a script says something
_POLICY = re.compile(
    "(?:enable|activate|turn on|requires?|without|disabled) javascript|javascript (?:is|must|to be)"
    "|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
    "|자바스크립트를 (?:사용|활성|허용)|이용약관|개인정보\\s?(?:처리|취급)\\s?방침|쿠키를 사용"
)
# One of them is in every such line. In a long text a search for one string each is ten times
# faster than a pattern of them all, in a short one slower.
_POLICY_MARKS = (
    *("ookie", "avascript", "avaScript", "rivacy", "erms of"),
    *("쿠키", "자바스크립트", "약관", "방침"),
)
_POLICY_MARK = re.compile("|".join(_POLICY_MARKS))
_LOWER_MARKS = tuple(dict.fromkeys(mark.lower().encode() for mark in _POLICY_MARKS))


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a text is not kept: `reason` is counted, `detail` is for the reader."""

    reason: str
    detail: str


def undecodable(text: str) -> Drop | None:
    """Drop a raw text of which over 1 % are U+FFFD or lone surrogates: it was decoded wrongly."""
    if not kinds(text) & LOST:
        return None
    num_lost = text.count("\ufffd") + _num_surrogates(text)
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


def _num_surrogates(text: str) -> int:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return sum("\ud800" <= character <= "\udfff" for character in text)
    return 0


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A statistic against one limit; not asked of a text with less than so many words and lines."""

    reason: str
    limit: str  # field of QualityLimits; its first letters say which side is bad
    statistic: Callable[[Parts], float | None]
    num_words: int = 0
    num_lines: int = 0
    # of (parts, limit): a cheap look after which the statistic is known to keep the limit
    bound: Callable[[Parts, float], bool] | None = None


def has_no_letters(text: str) -> Drop | None:
    """Drop a text of symbols and digits alone, whatever its profile."""
    if _LETTER.search(text):
        return None
    return Drop("no_letters", f"{len(text)} characters, no letter")


class QualityRules:
    """The rules that have a limit for a language and a kind of source."""

    def __init__(self, language: str, limits: QualityLimits) -> None:
        self._language = language
        of_rule = ((rule, getattr(limits, rule.limit)) for rule in RULES)
        self._rules = tuple((rule, limit) for rule, limit in of_rule if limit is not None)
        self._of_few_lines = tuple(pair for pair in self._rules if pair[0].num_lines <= 1)

    def drop(self, text: str) -> Drop | None:
        """Drop a text that breaks a rule; the first one, with the value and the limit."""
        if not self._rules:
            return None
        parts = Parts(text, self._language)
        for rule, limit in self._rules if "\n" in text else self._of_few_lines:
            if rule.num_words and rule.num_words > parts.num_words:
                continue
            if rule.num_lines and rule.num_lines > len(parts.lines):
                continue
            if rule.bound and rule.bound(parts, limit):
                continue
            value = rule.statistic(parts)
            if value is not None and (value < limit if rule.limit[:3] == "min" else value > limit):
                return Drop(rule.reason, f"{value:.4g}; {rule.limit} = {limit:g}")
        return None


def quality(text: str, language: str, limits: QualityLimits) -> Drop | None:
    return QualityRules(language, limits).drop(text)


def num_function_words(text: str, words: set[str], language: str) -> int | None:
    """How many different function words a text has; None for a language without a list.

    `words` are those between spaces, in lower case or as they are written.
    """
    if characters := FUNCTION_CHARACTERS.get(language):
        return sum(character in text for character in characters)
    if listed := FUNCTION_WORDS.get(language):
        return len(listed & words) or len(listed & {word.lower() for word in words})
    return None


_CLOSING_MARKS = ".,!?…~\"'”’)]}>」』》;:ㅋㅎㅠㅜ^"


def particle_fraction(words: list[str]) -> float:
    """Share of the Korean words that end in a common josa or eomi."""
    endings = [word.rstrip(_CLOSING_MARKS)[-1:] for word in words]
    return sum(map(KOREAN_ENDINGS.__contains__, endings)) / (len(words) or 1)


def _words(parts: Parts) -> float:
    """In a short text without spaces a Latin word is one word: a title of three is no sentence."""
    if parts.spaced or len(parts.text) > SHORT:
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


def _is_of_script(parts: Parts, limit: float) -> bool:
    """There are no more letters than characters."""
    scripts = scripts_of(parts.language)
    own = own_letters(parts.text, scripts) if len(parts.text) < SHORT and scripts else 0
    return own > limit * parts.num_characters


def _alphabetic_words(parts: Parts) -> float:
    """Without spaces: share of the characters that are letters or marks of punctuation."""
    if not parts.spaced:
        symbols = len(_NEITHER.findall(parts.text))
        return 1.0 - symbols / (parts.num_characters or 1)
    without = sum(not _LETTER.search(word) for word in parts.sample if not word.isalpha())
    return 1.0 - without / (len(parts.sample) or 1)


def _is_alphabetic(parts: Parts, limit: float) -> bool:
    """Words of letters alone are enough."""
    if not parts.spaced:
        return False
    return sum(map(str.isalpha, parts.sample)) > limit * len(parts.sample)


def _symbols(parts: Parts) -> float:
    text = parts.text
    num = text.count("#") + text.count("…") + text.count("...")
    return num / (parts.num_words or 1)


def _function_words(parts: Parts) -> float | None:
    return num_function_words(parts.text, set(parts.first_words(1000)), parts.language)


def _has_function_words(parts: Parts, limit: float) -> bool:
    """The first words nearly always have enough."""
    beginning = parts.text[:400]
    if listed := FUNCTION_WORDS.get(parts.language):
        return len(listed.intersection(beginning.split()[:-1])) >= limit
    num = num_function_words(beginning, set(), parts.language)
    return num is None or num >= limit


def _top_word(parts: Parts) -> float:
    return max(Counter(parts.words).values(), default=0) / (len(parts.words) or 1)


def _varied(parts: Parts, limit: float) -> bool:
    """With n different words none stands more often than there are words but for n - 1."""
    num = parts.num_between_spaces
    return num - len(set(parts.words)) + 1 < limit * num


def _share_of_lines(parts: Parts, is_such: Callable[[str], object]) -> float:
    return sum(1 for line in parts.lines if is_such(line)) / (len(parts.lines) or 1)


def _policy_lines(parts: Parts) -> float:
    return _share_of_lines(parts, lambda line: _POLICY.search(line.lower()))


def _few_policy_marks(parts: Parts, limit: float) -> bool:
    if len(parts.text) < SHORT:
        return not _POLICY_MARK.search(parts.text)
    if not any(mark in parts.text for mark in _POLICY_MARKS):
        return True
    lower = parts.text.encode("utf-8", "surrogatepass").lower()
    return sum(map(lower.count, _LOWER_MARKS)) <= limit * len(parts.lines)


def _ends(parts: Parts) -> Iterator[re.Match[str]]:
    pattern = _KOREAN_SENTENCE_END if parts.language == "ko" else _SENTENCE_END
    return pattern.finditer(parts.text)


def _sentence_ends(parts: Parts) -> float:
    return 100 * sum(1 for _ in _ends(parts)) / (parts.num_characters or 1)


def _has_sentence_ends(parts: Parts, limit: float) -> bool:
    """The beginning nearly always has enough."""
    needed = math.ceil(limit * parts.num_characters / 100)
    return sum(1 for _ in islice(_ends(parts), needed)) == needed


def _newlines_per_word(parts: Parts) -> float:
    return (len(parts.lines) - 1) / (parts.num_words or 1)


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


def _top_bound(size: int) -> Callable[[Parts, float], bool]:
    """No run of words stands more often than the most frequent pair; its words are the longest."""
    return lambda parts, limit: parts.max_top_pair * parts.size(size) * parts.longest_share <= limit


def _duplicate_gram(size: int) -> Callable[[Parts], float]:
    return lambda parts: repeated_fraction(*parts.units, parts.long_size(size))


# in this order, cheap ones first; shares of few words or lines say nothing
RULES: tuple[Rule, ...] = (
    Rule("few_words", "min_words", _words),
    Rule("many_words", "max_words", lambda parts: parts.num_words),
    Rule("short_words", "min_mean_word_length", _mean_word_length, num_words=10),
    Rule("long_words", "max_mean_word_length", _mean_word_length, num_words=3),
    Rule("long_word", "max_word_length", lambda parts: float(parts.lengths.max(initial=0))),
    Rule("script_letters", "min_script_letters", _script_letters, bound=_is_of_script),
    Rule(
        "not_alphabetic",
        "min_alphabetic_words",
        _alphabetic_words,
        num_words=5,
        bound=_is_alphabetic,
    ),
    Rule("symbols", "max_symbols_per_word", _symbols, num_words=20),
    Rule(
        "function_words",
        "min_function_words",
        _function_words,
        num_words=40,
        bound=_has_function_words,
    ),
    Rule("particles", "min_particles", lambda parts: particle_fraction(parts.sample), num_words=50),
    Rule("top_word", "max_top_word", _top_word, num_words=8, bound=_varied),
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
    Rule(
        "sentence_ends",
        "min_sentence_ends",
        _sentence_ends,
        num_words=50,
        bound=_has_sentence_ends,
    ),
    Rule("newlines", "max_newlines_per_word", _newlines_per_word, num_lines=5),
    Rule("policy_lines", "max_policy_lines", _policy_lines, bound=_few_policy_marks),
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
        Rule(
            f"top_{size}gram",
            f"max_top_{size}gram",
            _top_gram(size),
            num_words=50,
            bound=_top_bound(size),
        )
        for size in (2, 3, 4)
    ),
    *(
        Rule(
            "duplicate_ngrams",
            f"max_duplicate_{size}gram",
            _duplicate_gram(size),
            num_words=50,
            bound=lambda parts, limit: parts.duplicate_5grams <= limit,
        )
        for size in range(5, 11)
    ),
)
