"""Lines that say nothing: copyright, bylines, read-more, cookie banners, navigation.

A line goes only if it is one of the phrases of data/boilerplate.toml, a row of them, or taken whole
by a pattern there.
"""

import re
from collections.abc import Iterable

from pipeline.rules.characters import SHORT
from pipeline.rules.data import read_table


def key(line: str) -> str:
    """What two spellings of a phrase have in common."""
    return line.lower().replace(" ", "").replace("’", "'")


def _keys(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(map(key, phrases))


_TABLE = read_table("boilerplate")
BRANDS, EVERYWHERE = _keys(_TABLE["brands"]), _keys(_TABLE["everywhere"])
PHRASES = {language: EVERYWHERE | _keys(own) for language, own in _TABLE["languages"].items()}

_MAX_LINE = 160  # characters; longer lines are prose
_MAX_PHRASES = 90  # of a row of phrases
# what frames such a line: marks of lists, headings and arrows
_FRAME = " \t*#>|·•-–—▶▷►→←↑»«[]<>【】▲△■□◆※:：…"
_BETWEEN = re.compile(r"\s*[|/·,•]\s*")

# what a moderator's tool adds to the end of a text
_MODERATED = re.compile(
    r"\s*\[본 (?:게시물|게시글|댓글)[^\[\]\n]{0,60}관리자에 의해 (?:수정|삭제)[^\[\]\n]{0,12}\]$",
    re.MULTILINE,
)
_Rule = tuple[tuple[str, ...], re.Pattern[str]]
_ANY = "[^.!?。]{0,80}"
_EVERY = "every"  # stands for languages without patterns of their own


def _compiled(language: str) -> tuple[_Rule, ...]:
    tables = _TABLE["patterns"]
    rows = (*tables[_EVERY], *(tables[language] if language != _EVERY else ()))
    return tuple(
        (
            tuple(row["words"]),
            re.compile(rf"(?:{'|'.join(row['patterns']).replace('<any>', _ANY)})[.。!]?\s*"),
        )
        for row in rows
    )


_COMPILED = {language: _compiled(language) for language in _TABLE["patterns"]}
_ANY_WORD = {
    language: re.compile("|".join(re.escape(word) for words, _ in rules for word in words))
    for language, rules in _COMPILED.items()
}
_CASED = frozenset(["ru", "vi", "zh"])  # whose words have capitals beyond ASCII, or both ("icp备")
_WORDS = {
    language: (
        tuple(word.encode() for word in words if word.isascii()),
        re.compile("|".join(re.escape(word) for word in words if not word.isascii())),
    )
    for language, rules in _COMPILED.items()
    for words in [[word for words, _ in rules for word in words]]
}
# first two characters of a line that may be a phrase, or a row of them
_BEGINNINGS = frozenset(
    beginning
    for known in (BRANDS, *PHRASES.values())
    for phrase in known
    for beginning in (phrase[:2], phrase[0] + " ")
)


def remove_boilerplate(text: str, language: str) -> tuple[str, int]:
    """The text without its boilerplate lines, and how many they were. Idempotent."""
    num_notices = 0
    if language == "ko" and "관리자에 의해" in text:
        text, num_notices = _MODERATED.subn("", text)
    rules = _COMPILED.get(language, _COMPILED[_EVERY])
    held: tuple[_Rule, ...] = ()
    if _may_hold(text, language if language in _COMPILED else _EVERY):
        lower = text.lower()
        held = tuple(rule for rule in rules if any(word in lower for word in rule[0]))
    phrases = PHRASES.get(language, EVERYWHERE)
    lines = text.split("\n")
    kept = [
        line
        for line in lines
        if not line
        or len(line) > _MAX_LINE
        or not (
            (held and _is_one_of(line, held))
            or (
                # what `_is_phrase` asks first, nearly always in vain
                (line[0] in _FRAME or line[1:2] in _FRAME or line[:2].lower() in _BEGINNINGS)
                and _is_phrase(line, phrases)
            )
        )
    ]
    if len(kept) == len(lines):
        return text, num_notices
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")
    return joined, num_notices + len(lines) - len(kept)


def _may_hold(text: str, language: str) -> bool:
    """Does a word of the rules stand in the text? Lower case of ASCII is the fastest to make."""
    if len(text) < SHORT:
        return _ANY_WORD[language].search(text.lower()) is not None
    ascii_words, others = _WORDS[language]
    lower = text.encode("utf-8", "surrogatepass").lower()
    return any(word in lower for word in ascii_words) or bool(
        others.search(text.lower() if language in _CASED else text)
    )


def _is_one_of(line: str, rules: tuple[_Rule, ...]) -> bool:
    lower = line.lower()
    for words, pattern in rules:
        for word in words:
            if word in lower:
                if pattern.fullmatch(line.strip(_FRAME).lower()):
                    return True
                break
    return False


def _is_phrase(line: str, phrases: frozenset[str]) -> bool:
    words = line.strip(_FRAME)
    if len(words) > _MAX_PHRASES or words[:2].lower() not in _BEGINNINGS:
        return False
    return key(words) in phrases or _is_row(words, phrases)


def _is_row(words: str, phrases: frozenset[str]) -> bool:
    """`Terms of use | Privacy policy`, or `Facebook Twitter Email`."""
    mark = _BETWEEN.search(words)
    if mark:  # the first part decides for nearly every line
        first = key(words[: mark.start()])
        known = phrases | BRANDS if first in phrases or first in BRANDS else frozenset()
        return bool(known) and all(key(part) in known for part in _BETWEEN.split(words))
    names = words.lower().split()
    return len(names) > 1 and all(name in BRANDS for name in names)
