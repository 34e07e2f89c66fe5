"""Lines that say nothing: copyright, bylines, read-more, cookie banners, navigation.

A line goes only if it is one of the phrases of data/boilerplate.toml, a row of them, or if patterns
there take it whole, sentence by sentence.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from pipeline.rules.characters import SENTENCE_BREAK
from pipeline.rules.data import fill, read_table


def key(line: str) -> str:
    """What two spellings of a phrase have in common."""
    return line.lower().replace(" ", "").replace("’", "'")


def _keys(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(map(key, phrases))


_TABLE = read_table("boilerplate")
BRANDS, EVERYWHERE = _keys(_TABLE["brands"]), _keys(_TABLE["everywhere"])
PHRASES = {language: EVERYWHERE | _keys(own) for language, own in _TABLE["languages"].items()}

_MAX_LINE = 160  # characters; longer lines are prose
_MANY_WORDS = 10  # from which on they are looked for together
_MAX_PHRASES = 90  # of a row of phrases
# what frames such a line: marks of lists, headings and arrows
_FRAME = " \t*#>|·•-–—▶▷►→←↑»«[]<>【】▲△■□◆※:：…"
_FRAMES = frozenset(_FRAME)
_BETWEEN = re.compile(r"\s*[|/·,•]\s*")

# what a moderator's tool adds to the end of a text
_MODERATED = re.compile(
    r"\s*\[본 (?:게시물|게시글|댓글)[^\[\]\n]{0,60}관리자에 의해 (?:수정|삭제)[^\[\]\n]{0,12}\]$",
    re.MULTILINE,
)
_EVERY = "every"  # stands for languages without notices of their own


class _Notice(NamedTuple):
    """A kind of notice: its words in small letters, its sentences, and those that go with them."""

    words: frozenset[str]
    sentences: re.Pattern[str]
    beside: re.Pattern[str]


def _pattern(alternatives: Iterable[str]) -> re.Pattern[str]:
    pattern = fill("|".join(alternatives), _TABLE["parts"])
    return re.compile(rf"(?:{pattern})[.。!]?\s*", re.IGNORECASE)


def _compiled(language: str) -> tuple[_Notice, ...]:
    tables = _TABLE["notices"]
    rows = (*tables[_EVERY], *(tables[language] if language != _EVERY else ()))
    return tuple(
        _Notice(
            frozenset(row["words"]),
            _pattern(row["patterns"]),
            _pattern([*row["patterns"], *row.get("beside", ())]),
        )
        for row in rows
    )


_COMPILED = {language: _compiled(language) for language in _TABLE["notices"]}
_WORDS = {
    language: tuple(dict.fromkeys(word for notice in notices for word in notice.words))
    for language, notices in _COMPILED.items()
}
_ANY_WORD = {
    language: re.compile("|".join(map(re.escape, words))) for language, words in _WORDS.items()
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
    rules = language if language in _COMPILED else _EVERY
    phrases = PHRASES.get(language, EVERYWHERE)
    lower_text = text.lower()
    lines, in_lower = text.split("\n"), lower_text.split("\n")
    words = _WORDS[rules]
    if len(words) > _MANY_WORDS:
        found = [*_ANY_WORD[rules].finditer(lower_text)]
    else:
        present = (re.escape(word) for word in words if word in lower_text)
        found = [match for word in present for match in re.finditer(word, lower_text)]
    with_words: set[int] = set()  # numbers of lines that may be notices
    if found:
        ends = [*accumulate(len(line) + 1 for line in in_lower)]
        with_words = {bisect_right(ends, match.start()) for match in found}
    removed = {
        index
        for index, lower in enumerate(in_lower)
        if (index in with_words or lower[:2] in _BEGINNINGS or lower[:1] in _FRAMES)
        and 0 < len(lines[index]) <= _MAX_LINE
        and (
            (index in with_words and _is_notice(lines[index], lower, rules, phrases))
            or _is_phrase(lines[index], phrases)
        )
    }
    if not removed:
        return text, num_notices
    kept = "\n".join([line for index, line in enumerate(lines) if index not in removed])
    return re.sub(r"\n{3,}", "\n\n", kept).strip("\n"), num_notices + len(removed)


def _is_notice(line: str, lower: str, language: str, phrases: frozenset[str]) -> bool:
    present = [word for word in _WORDS[language] if word in lower]
    possible = [one for one in _COMPILED[language] if not one.words.isdisjoint(present)]
    whole = line.strip(_FRAME)
    if any(notice.sentences.fullmatch(whole) for notice in possible):
        return True
    sentences = [part for part in SENTENCE_BREAK.split(whole) if part]
    if not any(notice.sentences.fullmatch(part) for notice in possible for part in sentences):
        return False
    return all(
        key(part.rstrip(".。!")) in phrases
        or any(notice.beside.fullmatch(part) for notice in possible)
        for part in sentences
    )


def _is_phrase(line: str, phrases: frozenset[str]) -> bool:
    """Also `Terms of use | Privacy policy`, and `Facebook Twitter Email`."""
    words = line.strip(_FRAME)
    if len(words) > _MAX_PHRASES or words[:2].lower() not in _BEGINNINGS:
        return False
    if key(words) in phrases:
        return True
    mark = _BETWEEN.search(words)
    if mark:  # the first part decides for nearly every line
        first = key(words[: mark.start()])
        known = phrases | BRANDS if first in phrases or first in BRANDS else frozenset()
        return bool(known) and all(key(part) in known for part in _BETWEEN.split(words))
    names = words.lower().split()
    return len(names) > 1 and all(name in BRANDS for name in names)
