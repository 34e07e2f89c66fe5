"""Lines that say nothing: copyright, bylines, read-more, cookie banners, navigation.

A line goes only if it is one of the phrases of data/boilerplate.toml, a row of them, or if patterns
there take it whole, sentence by sentence.
"""

import re
from collections.abc import Iterable
from functools import cache
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
_MAX_PHRASES = 90  # of a row of phrases
# what frames such a line: marks of lists, headings and arrows
_FRAME = " \t*#>|·•-–—▶▷►→←↑»«[]<>【】▲△■□◆※:：…"
_SEPARATOR = re.compile("[|/·,•]")
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


class _Notices(NamedTuple):
    """The notices of a language, and what finds a word of any of them."""

    kinds: tuple[_Notice, ...]
    any_word: re.Pattern[str]


@cache
def _notices(language: str) -> _Notices:
    tables = _TABLE["notices"]
    kinds = tuple(
        _Notice(
            frozenset(row["words"]),
            _pattern(row["patterns"]),
            _pattern([*row["patterns"], *row.get("beside", ())]),
        )
        for row in [*tables[_EVERY], *(tables[language] if language != _EVERY else ())]
    )
    words = dict.fromkeys(word for notice in kinds for word in notice.words)
    # both cases of the first letter: the search leaps to the next of them
    any_word = [
        f"{re.escape(first)}(?i:{re.escape(word[1:])})"
        for word in words
        for first in sorted({word[0], word[0].upper()})
    ]
    return _Notices(kinds, re.compile("|".join(any_word)))


# first two characters of a line that may be a phrase, or a row of them
_BEGINNINGS = frozenset(
    beginning
    for known in (BRANDS, *PHRASES.values())
    for phrase in known
    for beginning in (phrase[:2], phrase[0] + " ")
)
_BEGINNING = "".join(sorted({c for pair in _BEGINNINGS for c in (pair[0], pair[0].upper())}))
_MAY_BE_PHRASE = re.compile(f"\n[{re.escape(_FRAME + _BEGINNING)}]")


def remove_boilerplate(text: str, language: str) -> tuple[str, int]:
    """The text without its boilerplate lines, and how many they were. Idempotent."""
    num_notices = 0
    if language == "ko" and "관리자에 의해" in text:
        text, num_notices = _MODERATED.subn("", text)
    notices = _notices(language if language in _TABLE["notices"] else _EVERY)
    phrases = PHRASES.get(language, EVERYWHERE)
    lines = f"\n{text}\n"
    removed: dict[int, int] = {}  # where lines begin and end that go
    end = 0
    for word in notices.any_word.finditer(lines):
        if word.start() >= end:
            start, end = lines.rfind("\n", end, word.start()) + 1, lines.find("\n", word.start())
            if end - start <= _MAX_LINE and _is_notice(lines[start:end], notices.kinds, phrases):
                removed[start] = end
    for beginning in _MAY_BE_PHRASE.finditer(lines):
        start = beginning.start() + 1
        end = lines.find("\n", start)
        if end - start <= _MAX_LINE and _is_phrase(lines[start:end], phrases):
            removed[start] = end
    if not removed:
        return text, num_notices
    kept, copied = [], 1
    for start, end in sorted(removed.items()):
        kept.append(lines[copied:start])
        copied = end + 1
    whole = "".join([*kept, lines[copied:-1]])
    return re.sub(r"\n{3,}", "\n\n", whole).strip("\n"), num_notices + len(removed)


def _is_notice(line: str, kinds: Iterable[_Notice], phrases: frozenset[str]) -> bool:
    lower = line.lower()
    possible = [notice for notice in kinds if any(word in lower for word in notice.words)]
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
    if mark := _SEPARATOR.search(words):  # the first part decides for nearly every line
        first = key(words[: mark.start()].rstrip())
        known = phrases | BRANDS if first in phrases or first in BRANDS else frozenset()
        return bool(known) and all(key(part) in known for part in _BETWEEN.split(words))
    names = words.lower().split()
    return len(names) > 1 and all(name in BRANDS for name in names)
