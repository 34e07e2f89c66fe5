"""Rules that change a text. Each is text to text; `clean_text` runs them to a fixed point.

One round is not enough: an entity may hide a tag, a tag a URL. Rounds end because after the first
each one that changes anything shortens the text or leaves it in its normal form. Hence the law that
the tests hold: clean_text(clean_text(x)) == clean_text(x).
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from electrify.config.clean import CleanRules, Source
from pipeline.rules.characters import (
    BLANK,
    COMBINING,
    CONTROL,
    JOINER,
    LINE_END,
    LOST,
    ODD_SPACE,
    SHORT,
    TABLE,
    codes,
    kinds,
)
from pipeline.rules.hangul import drop_hanja, normalise_hangul
from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.namuwiki import remove_namuwiki
from pipeline.rules.markup.wiki import remove_aozora, remove_wikitext
from pipeline.rules.mojibake import repair_mojibake
from pipeline.rules.repeats import COMMENT_REPEATS, clean_comment, squeeze_repeats

Rule = tuple[str, Callable[[str], str]]


MAX_ROUNDS = 50  # each takes off a layer of markup; of ordinary texts none asks for five


class Cleaned(NamedTuple):
    """A text with the names of the rules that changed it."""

    text: str
    altered: tuple[str, ...]
    is_settled: bool = True  # false where more than `MAX_ROUNDS` would be needed


def rules_for(rules: CleanRules, source: Source) -> tuple[Rule, ...]:
    """The rules that `rules` asks for, in their order; the name says what happened to a text.

    Misread bytes come first, for later rules take them apart; then white space, for Markdown is
    told by the beginnings of lines; Markdown before HTML, for a <br> would break a table's row.
    """
    korean, comments = source.language == "ko", source.profile == "comments"
    max_repeats = rules.max_repeats
    if comments:
        max_repeats = min(max_repeats or COMMENT_REPEATS, COMMENT_REPEATS)
    markdown, mojibake = rules.remove_markdown, rules.repair_mojibake
    misread = partial(repair_mojibake, language=source.language)
    chosen: list[tuple[bool, str, Callable[[str], str]]] = [
        (True, "lost_characters_removed", remove_lost_characters),
        (mojibake, "mojibake_repaired", misread),
        (True, "control_characters_removed", remove_control_characters),
        (True, "whitespace_squeezed", squeeze_whitespace),
        (True, "csv_quotes_removed", remove_csv_quotes),
        (markdown and source.language == "ja", "aozora_markup_removed", remove_aozora),
        (markdown and korean, "namuwiki_markup_removed", remove_namuwiki),
        (markdown, "wiki_markup_removed", remove_wikitext),
        (markdown, "markdown_removed", remove_markdown),
        (rules.remove_html, "html_removed", remove_html),
        (True, "unicode_composed", compose),
        (rules.normalise_hangul, "hangul_normalised", normalise_hangul),
        (rules.remove_urls, "url_removed", remove_urls),
        (rules.hanja == "drop" and korean, "hanja_dropped", drop_hanja),
        (comments, "comment_cleaned", clean_comment),
        (max_repeats > 0, "repeats_squeezed", squeeze_repeats(max(1, max_repeats))),
        # again, for the blanks that others left: it saves most texts a round
        (True, "whitespace_squeezed", squeeze_whitespace),
    ]
    return tuple((name, rule) for wanted, name, rule in chosen if wanted)


def clean_text(
    text: str, chosen: Sequence[Rule], changes: dict[str, tuple[str, str]] | None = None
) -> Cleaned:
    """Apply the rules in order, again until none changes anything.

    `changes` gets the text before and after the first change of each rule that it has none of. A
    rule is not asked again about a text that all rules after its last look have left alone. After
    `MAX_ROUNDS` the text is given up: with a layer a round, time would be quadratic in the layers.
    """
    altered: dict[str, None] = {}
    unchanged = num_rounds = 0  # rules in a row that had nothing to do
    while unchanged < len(chosen):
        if num_rounds == MAX_ROUNDS:
            return Cleaned(text, tuple(altered), is_settled=False)
        num_rounds += 1
        for name, rule in chosen:
            changed = rule(text)
            unchanged += 1
            if changed != text:
                altered[name] = None
                if changes is not None:
                    changes.setdefault(name, (text, changed))
                text, unchanged = changed, 0
            elif unchanged == len(chosen):
                break
    if len(altered) > 1:
        names = dict.fromkeys(name for name, _ in chosen)
        return Cleaned(text, tuple(name for name in names if name in altered))
    return Cleaned(text, tuple(altered))


MAX_MARKS = 30  # over one letter, the limit of Unicode's Stream-Safe Text Format (UAX #15)
_MARKS = "".join(map(chr, np.flatnonzero(TABLE & COMBINING)))
_MARK_RUN = b"\x01" * (MAX_MARKS + 1)
_MARKS_BEYOND = re.compile(f"([{_MARKS}]{{{MAX_MARKS}}})[{_MARKS}]+")


def compose(text: str) -> str:
    """Unicode NFC: Hangul typed as jamo (as macOS file names are) becomes syllables.

    More than `MAX_MARKS` marks in a row are no spelling, and NFC would take quadratic time to sort
    them: the rest goes.
    """
    if kinds(text) & COMBINING and _MARK_RUN in (TABLE.take(codes(text)) & COMBINING > 0).tobytes():
        text = _MARKS_BEYOND.sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


_LOST = re.compile("[\ud800-\udfff\ufffd\ufffe\uffff]+")


def remove_lost_characters(text: str) -> str:
    """Remove lone surrogates, U+FFFD and noncharacters: what stood there cannot be known.

    BERT tokenizers drop U+FFFD too, so a text reads the same to the model.
    """
    return _LOST.sub("", text) if kinds(text) & LOST else text


# invisible marks: zero-width space, soft hyphen, joiners, writing direction, byte order mark
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
# The joiners U+200C and U+200D are spelling in Arabic and Indic scripts and hold emoji together;
# anywhere else they are noise.
_JOINERS = re.compile(
    "[\u200c\u200d](?<![\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\u2600-\u27bf"
    "\ufe0f\U0001f000-\U0001faff].)"
)


def remove_control_characters(text: str) -> str:
    """Remove control and zero-width characters that are no whitespace."""
    held = kinds(text)
    if held & CONTROL:
        text = _CONTROL.sub("", text)
    return _JOINERS.sub("", text) if held & JOINER else text


_CSV_FIELD = re.compile(r'"((?:[^"]++|"")*+)"')


def remove_csv_quotes(text: str) -> str:
    """A field as a CSV file holds it, in quotes and its own quotes doubled, to what it says.

    Its own come in pairs: one alone is where two quotations meet. Python's come with lines.
    """
    if text[:1] != '"' or '""' not in text or "\n" in text:
        return text
    field = _CSV_FIELD.fullmatch(text)
    return field[1].replace('""', '"') if field and not field[1].count('""') % 2 else text


# Hangul belongs to a URL behind / = _ % and -, as do brackets behind _ ("wiki/가람_(강)"). Other
# scripts never do: without spaces nobody knows where such an address ends. Possessive: linear time.
_URL_TAIL = (
    r"(?:[A-Za-z0-9\-._~:/?#@!$&*+,;=%]++|\([A-Za-z0-9\-._~/%,]*+\)|(?<=_)\([^\s()]*+\)"
    r"|(?<=[/=_%\-])[가-힣]++(?:[0-9]++[가-힣]++)*+)*+"
)
_URL = rf"(?:(?:[Hh][Tt][Tt][Pp][Ss]?|[Ff][Tt][Pp])://|[Ww]{{3}}\.(?=[A-Za-z0-9])){_URL_TAIL}"
_URL_MARKS = ("://", "www.", "WWW.", "Www.")
# the first character in a class of its own: the search may then leap to the next of them
_URLS = re.compile(
    r"[<(（\[`HhFfWw](?:"
    rf"(?<=<){_URL}>|(?<=`)`?{_URL}`{{1,2}}|(?<=\[){_URL}\]|(?<![\w\])]\()(?<=\(){_URL}\)|(?<=（){_URL}）"
    rf"|(?<=\]\()\s*{_URL}(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)"
    r"|(?<![A-Za-z0-9].)(?:(?:(?<=[Hh])[Tt][Tt][Pp][Ss]?|(?<=[Ff])[Tt][Pp])://"
    rf"|(?<=[Ww])[Ww][Ww]\.(?=[A-Za-z0-9])){_URL_TAIL})"
)


def remove_urls(text: str) -> str:
    """Remove http, ftp and www addresses; of a Markdown link the words stay.

    Bare domains stay: in a sentence they are names.
    """
    if not any(mark in text for mark in _URL_MARKS):
        return text
    return _URLS.sub(_after_url, text)


_OPEN_SYLLABLES = "".join(map(chr, range(0xAC00, 0xD7A4, 28)))  # without a final consonant
# A particle at the end of a URL. Behind Hangul, which may be a title that ends alike ("회의",
# "국가"), only those that nouns seldom end with, in the form for the syllable before them.
_PARTICLE = re.compile(
    r"(?:(?<=[가-힣])|(?<=[/=_%\-]))(?:"
    r"에(?:게|서)?(?:[는도만의]|부터|까지)?|(?:부터|까지)[는도만의]?|으?로(?:[는도만의]|부터)"
    r"|처럼|보다|입니다|예요|인데"
    rf"|(?<![{_OPEN_SYLLABLES}])(?:[은을]|으로|이(?:라[는고]|[고며다]|지만|에요))"
    rf"|(?<=[{_OPEN_SYLLABLES}])(?:[는를]|라[는고])"
    r"|(?<![가-힣])(?:[는를이가의와과도만나로]|라[는고])"
    r")\Z"
)


def _after_url(url: re.Match[str]) -> str:
    """What a match gives back: the punctuation and the particle of the sentence around it."""
    if url[0][0] in "<(（[`":
        return ""
    address = url[0].rstrip(".,;:!?")
    if address[-1:] >= "가" and (particle := _PARTICLE.search(address)):
        return url[0][particle.start() :]
    return url[0][len(address) :]


_LINE_ENDS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
_BLANK_LETTERS = ("\u2800", "\u3164", "\uffa0")
# the usual ones first
_OTHER_SPACES = tuple(
    "\t\xa0\u3000\u2009\u202f\u200a\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2000\u2001\u205f\u1680"
    "\x1c\x1d\x1e\x1f"
)


@lru_cache(maxsize=2)  # the rule is asked twice a round
def squeeze_whitespace(text: str) -> str:
    """One space between words, at most one blank line between paragraphs, none at the edges.

    Every kind of line end becomes a newline, a tab and every other Unicode space a space.
    """
    held = kinds(text)
    if held & ODD_SPACE:  # replacing one by one is faster than a class of characters
        if held & LINE_END:
            text = _replace_all(text, _LINE_ENDS, "\n")
        if held & BLANK:
            text = _replace_all(text, _BLANK_LETTERS, " ")
        text = _replace_all(text, _OTHER_SPACES, " ")
    return squeeze_blanks(text)


def squeeze_blanks(text: str) -> str:
    """As `squeeze_whitespace`, of a text whose only white space is spaces and newlines."""
    if _has_blanks(text):
        text = "\n".join(
            [
                " ".join(line.split()) if "  " in line else line.strip(" ")
                for line in text.split("\n")
            ]
        )
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip(" \n")


def _has_blanks(text: str) -> bool:
    """Are there spaces beside white space? Three searches take eight times as long as arrays."""
    if len(text) < SHORT:
        return "  " in text or " \n" in text or "\n " in text
    points = codes(text)
    is_space = points == 32
    is_blank = is_space | (points == 10)
    beside = (is_space[1:] & is_blank[:-1]) | (is_blank[1:] & is_space[:-1])
    return bool(beside.any())


def _replace_all(text: str, each: tuple[str, ...], by: str) -> str:
    for one in each:
        text = text.replace(one, by)
    return text


# Short texts of plain words, told by one look: most rules have nothing to do there.
#
# A third of the time that a corpus of comments or reviews takes would be calls of these rules.

_MAX_CHARACTERS = 400  # of a longer text the look costs more than it saves
# Letters that are no mark of anything: no W and no O (www, masked words), one apostrophe at most,
# and numbers of three digits that no others follow. All that is left is blanks and repeats.
_PLAIN = re.compile(
    "(?! *[~^])(?:[A-NP-VX-Za-vx-z가-힣ㄱ-ㅣ .,!?~^;()%…♥♡·‘’“”]++"
    "|[0-9]{1,3}+(?![0-9\\-–. )(\n])|'(?!')|\"(?!\")|\n(?!\\s*[~^]))*+"
)
# The rules that never change a plain text. Any other rule is asked of it, such as a new one.
_IDLE = (
    "lost_characters_removed mojibake_repaired control_characters_removed csv_quotes_removed "
    "aozora_markup_removed wiki_markup_removed markdown_removed html_removed unicode_composed "
    "hangul_normalised url_removed hanja_dropped comment_cleaned"
)
IDLE_ON_PLAIN = frozenset(_IDLE.split())


def is_plain(text: str) -> bool:
    """Is there nothing to do for the rules of `IDLE_ON_PLAIN`, once its blanks are squeezed?"""
    return len(text) < _MAX_CHARACTERS and _PLAIN.fullmatch(text) is not None
