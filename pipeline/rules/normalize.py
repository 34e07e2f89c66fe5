"""Rules that change a text. Each is text to text; `clean_text` runs them to a fixed point.

One round is not enough: an entity may hide a tag, a tag a URL. Rounds end because after the first
each one that changes anything shortens the text or leaves it in its normal form. Hence the law that
the tests hold: clean_text(clean_text(x)) == clean_text(x).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from electrify.config.clean import CleanRules, Source
from pipeline.rules.characters import (
    COMBINING,
    CONTROL,
    DRAWN,
    FORM,
    HANJA,
    JOINER,
    LINE_MARK,
    LOST,
    ODD_SPACE,
    TABLE,
    VARIANT,
    code_table,
    codes,
    kinds,
    ranges_of,
    translated,
)
from pipeline.rules.data import compile_all, read_table
from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_wikitext
from pipeline.rules.mojibake import repair_mojibake

Rule = tuple[str, Callable[[str], str]]


class Changes(dict[str, int]):
    """By rule, how often it changed a text; in `lost` the characters that it took, less those that
    it added, and in `first` the text before and after its first change."""

    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self.first: dict[str, tuple[str, str]] = {}

    def note(self, rule: str, before: str, after: str, num: int | None = None) -> None:
        """Of a rule that counts what it changes `num`; another one counts once."""
        self[rule] = self.get(rule, 0) + num if num else 1
        self.lost[rule] += len(before) - len(after)
        self.first.setdefault(rule, (before, after))


def changed_part(before: str, after: str) -> str:
    """Of a text, what is not the same at both ends of another one."""
    first = _num_equal(before, after)
    end = _num_equal(before[first:][::-1], after[first:][::-1])
    return before[first : len(before) - end]


def _num_equal(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


_TABLE = read_table("normalize")
# syllables without a final consonant
_OPEN_SYLLABLES = "".join(map(chr, range(0xAC00, 0xD7A4, 28)))
_RE = compile_all(_TABLE["patterns"], {"open_syllables": _OPEN_SYLLABLES} | _TABLE["parts"])

MAX_ROUNDS = 50  # each takes off a layer of markup; of ordinary texts none asks for five


def text_rules_for(rules: CleanRules, source: Source) -> tuple[Rule, ...]:
    """The rules that `rules` asks for, in their order; the name says what happened to a text.

    Misread bytes come first, for later rules take them apart; then white space, for Markdown is
    told by the beginnings of lines; Markdown before HTML, for a <br> would break a table's row.
    """
    korean, comments = source.language == "ko", source.profile == "comments"
    max_repeats = rules.max_repeats
    if comments:
        max_repeats = min(max_repeats or COMMENT_REPEATS, COMMENT_REPEATS)
    markdown, mojibake = rules.remove_markdown, rules.repair_mojibake
    chosen: list[tuple[bool, str, Callable[[str], str]]] = [
        (True, "lost_characters_removed", remove_lost_characters),
        (mojibake, "mojibake_repaired", repair_mojibake),
        (True, "control_characters_removed", remove_control_characters),
        (True, "whitespace_squeezed", squeeze_whitespace),
        (True, "csv_quotes_removed", remove_csv_quotes),
        (markdown, "wiki_markup_removed", remove_wikitext),
        (markdown, "markdown_removed", remove_markdown),
        (rules.remove_html, "html_removed", remove_html),
        (True, "unicode_composed", compose),
        (rules.normalise_hangul, "hangul_normalised", normalise_hangul),
        (rules.remove_urls, "url_removed", remove_urls),
        (korean and (comments or rules.hanja == "drop"), "hanja_dropped", drop_hanja),
        (comments, "comment_cleaned", drop_mentions),
        (korean and comments, "comment_cleaned", clean_comment),
        (max_repeats > 0, "repeats_squeezed", squeeze_repeats(max(1, max_repeats))),
        # again, for the blanks that others left: it saves most texts a round
        (True, "whitespace_squeezed", squeeze_whitespace),
    ]
    return tuple((name, rule) for wanted, name, rule in chosen if wanted)


def clean_text(text: str, chosen: tuple[Rule, ...], changes: Changes) -> str | None:
    """Apply the rules in order, again until none changes anything; `changes` gets those that do.

    A rule is not asked again about a text that all rules after its last look have left alone. None
    for a text that is given up after `MAX_ROUNDS`: with a layer a round, time would be quadratic in
    the layers.
    """
    before = None
    while text != before and is_plain(text):
        before = text
        for name, rule in _rules_for_plain(chosen):
            if (changed := rule(text)) != text:
                changes.note(name, text, changed)
                text = changed
    if text == before:
        return text
    unchanged = num_rounds = 0  # rules in a row that had nothing to do
    while unchanged < len(chosen):
        if num_rounds == MAX_ROUNDS:
            return None
        num_rounds += 1
        for name, rule in chosen:
            changed = rule(text)
            unchanged += 1
            if changed != text:
                changes.note(name, text, changed)
                text, unchanged = changed, 0
            elif unchanged == len(chosen):
                break
    return text


# Short texts of plain words, told by one look: half of a corpus of comments or reviews.

_MAX_PLAIN = 400  # characters; of a longer text the look costs more than it saves
# Letters that are no mark of anything: no W and no O (www, masked words), one apostrophe at most,
# and numbers of three digits that no others follow. All that is left is blanks and repeats.
_PLAIN = re.compile(
    "(?! *[~^])(?>(?:[A-NP-VX-Za-vx-z가-힣ㄱ-ㅣ .,!?~^;()%…♥♡·‘’“”]++"
    "|[0-9]{1,3}+(?![0-9\\-–. )(\n])|'(?!')|\"(?!\")|\n(?!\\s*[~^]))*)"
)
# that change nothing in such a text
_IDLE_RULES = {
    *("lost_characters_removed", "mojibake_repaired", "control_characters_removed"),
    *("csv_quotes_removed", "wiki_markup_removed", "markdown_removed"),
    *("html_removed", "unicode_composed", "hangul_normalised", "url_removed", "hanja_dropped"),
    "comment_cleaned",
}


@lru_cache
def _rules_for_plain(chosen: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple((name, rule) for name, rule in chosen if name not in _IDLE_RULES)


def is_plain(text: str) -> bool:
    """Whether a text is short, and no rule but those for blanks and repeats can change it."""
    return len(text) < _MAX_PLAIN and _PLAIN.fullmatch(text) is not None


MAX_MARKS = 30  # over one letter, the limit of Unicode's Stream-Safe Text Format (UAX #15)
_MARKS = ranges_of(TABLE & COMBINING > 0)
_MARK_RUN = b"\x01" * (MAX_MARKS + 1)
_MARKS_BEYOND = re.compile(f"([{_MARKS}]{{{MAX_MARKS}}})[{_MARKS}]+")


def compose(text: str) -> str:
    """Unicode NFC: Hangul typed as jamo (as macOS file names are) becomes syllables.

    More than `MAX_MARKS` marks in a row are no spelling, and NFC would take quadratic time to sort
    them: the rest goes.
    """
    if text.isascii():
        return text
    if kinds(text) & COMBINING and _MARK_RUN in (TABLE.take(codes(text)) & COMBINING > 0).tobytes():
        text = _MARKS_BEYOND.sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


_LOST = re.compile(f"[{ranges_of(TABLE & LOST > 0)}]+")


def remove_lost_characters(text: str) -> str:
    """Remove lone surrogates, U+FFFD and noncharacters: what stood there cannot be known.

    BERT tokenizers drop U+FFFD too, so a text reads the same to the model.
    """
    return _LOST.sub("", text) if kinds(text) & LOST else text


_CONTROL = re.compile(f"[{ranges_of(TABLE & CONTROL > 0)}]+")


def remove_control_characters(text: str) -> str:
    """Remove control and zero-width characters that are no whitespace."""
    present = kinds(text)
    if present & CONTROL:
        text = _CONTROL.sub("", text)
    return _RE["joiners"].sub("", text) if present & JOINER else text


def remove_csv_quotes(text: str) -> str:
    """A field as a CSV file holds it, in quotes and its own quotes doubled, to what it says.

    Its own come in pairs: one alone is where two quotations meet. Python's come with lines.
    """
    if text[:1] != '"' or '""' not in text or "\n" in text:
        return text
    field = _RE["csv_field"].fullmatch(text)
    return field[1].replace('""', '"') if field and not field[1].count('""') % 2 else text


# One form of each character, and Korean text without Hanja.

_FORM_OF_CODE = code_table(FORM)


def normalise_hangul(text: str) -> str:
    """Bring half-width jamo, middle dots and full-width letters to one form; idempotent.

    The normaliser of `tokenizer.json` does the same (vocab/pretokenize.py).
    """
    if text.isascii() or not kinds(text) & VARIANT:
        return text
    return unicodedata.normalize("NFC", translated(text, _FORM_OF_CODE))


_HANJA = ranges_of(TABLE & HANJA > 0)
# "법률(法律)", "이순신(李舜臣, 1545~1598)": the brackets go where nothing else is in them
_GLOSS = re.compile(rf" ?[(（\[〔][{_HANJA}][{_HANJA} ,·ㆍ・]*+[)）\]〕]")
_GLOSS_HEAD = re.compile(rf"([(（\[〔])[{_HANJA}][{_HANJA} ·ㆍ・]*+[,;:] *")
_RUN = re.compile(f"[{_HANJA}]+")


def drop_hanja(text: str) -> str:
    """Remove Hanja: glosses with their brackets, other runs by themselves. For Korean only."""
    if not kinds(text) & HANJA:
        return text
    text = _GLOSS.sub("", text)
    return _RUN.sub("", _GLOSS_HEAD.sub(r"\1", text))


_URL_MARKS = ("://", "www.", "WWW.", "Www.")


def remove_urls(text: str) -> str:
    """Remove http, ftp and www addresses; of a Markdown link the words stay.

    Bare domains stay: in a sentence they are names.
    """
    if not any(mark in text for mark in _URL_MARKS):
        return text
    return _RE["urls"].sub(_after_url, text)


def _after_url(url: re.Match[str]) -> str:
    """What a match gives back: the punctuation and the particle of the sentence around it."""
    if url[0][0] in "<(（[`":
        return ""
    address = url[0].rstrip(".,;:!?")
    if address[-1:] >= "가" and (particle := _RE["particle"].search(address)):
        return url[0][particle.start() :]
    return url[0][len(address) :]


_SPACE_OF_CODE = code_table(
    dict.fromkeys(map(chr, np.flatnonzero(TABLE & ODD_SPACE)), " ")
    | dict.fromkeys("\r\x0b\x0c\x85\u2028\u2029", "\n")
)


@lru_cache(maxsize=2)  # the rule is asked twice a round
def squeeze_whitespace(text: str) -> str:
    """One space between words, at most one blank line between paragraphs, none at the edges.

    Every kind of line end becomes a newline, a tab and every other Unicode space a space.
    """
    if kinds(text) & ODD_SPACE:
        text = translated(text.replace("\r\n", "\n"), _SPACE_OF_CODE)
    if "  " in text or " \n" in text or "\n " in text:
        text = "\n".join(
            [
                " ".join(line.split()) if "  " in line else line.strip(" ")
                for line in text.split("\n")
            ]
        )
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip(" \n")


# Runs of one character, or of a unit of two, cut to a number of repeats.

HIDDEN_STARS = 4  # by which pipeline/rules/markup/markdown.py knows a hidden name
MIN_LINE_MARKS = 3  # of what rules are drawn with: "...", "---" and "===" mean something


def squeeze_repeats(max_repeats: int) -> Callable[[str], str]:
    """The rule for at most `max_repeats` (1 or more) of one character or unit in a row.

    Drawn out are Hangul, kana, Han, marks of feeling and pictures; units are of Hangul only
    ("ㅋㅎㅋㅎ"). ASCII letters and digits stay ("www", "0000"). Dots and lines are cut to three,
    dots to fewer where fewer repeats are asked for.
    """
    num_dots = min(MIN_LINE_MARKS, max_repeats)
    either = re.compile(rf"(.)(?:\1{{{num_dots}}}|(?:.\1){{{max_repeats}}})")

    def num_kept(character: str, length: int) -> int:
        kind = int(TABLE[ord(character)])
        if character == ".":
            limit = num_dots
        elif character == "*":
            limit = HIDDEN_STARS
        elif kind & LINE_MARK:
            limit = max(MIN_LINE_MARKS, max_repeats) if character == "~" else MIN_LINE_MARKS
        else:
            limit = max_repeats if kind & DRAWN else length
        return min(limit, length)

    def num_kept_of_units(unit: str, length: int) -> int:
        return 2 * max_repeats if _HANGUL_UNIT.fullmatch(unit) else length

    def squeeze(text: str) -> str:
        if len(text) < _SHORT and not either.search(text):
            return text
        text = _cut_runs(text, 1, num_dots, num_kept)
        return _cut_runs(text, 2, 2 * max_repeats, num_kept_of_units)

    return squeeze


_HANGUL_UNIT = re.compile("[ㄱ-ㅣ가-힣]{2}")
_SHORT = 300  # characters, of which a search takes no longer than arrays


def _cut_runs(text: str, size: int, num_equal: int, num_kept: Callable[[str, int], int]) -> str:
    """The text with runs of a unit of `size` characters cut to `num_kept(unit, characters)`.

    A run has `num_equal` characters or more that equal those `size` before them: looked for in
    arrays, in a seventh of the time of a search.
    """
    points = codes(text)
    is_equal = (points[size:] == points[:-size]).tobytes()
    wanted = b"\x01" * num_equal
    pieces, copied = [], 0
    start = is_equal.find(wanted)
    while start >= 0:
        end = is_equal.find(b"\x00", start)
        end = len(is_equal) if end < 0 else end
        length = (end - start) // size * size + size  # of whole units
        kept = num_kept(text[start : start + size], length)
        pieces.append(text[copied : start + kept])
        copied = start + length
        start = is_equal.find(wanted, max(end, copied))
    return "".join([*pieces, text[copied:]]) if copied else text


# The preset for comments of news and video sites, after KcELECTRA's cleaning: no mentions, and at
# most `COMMENT_REPEATS` repeats. https://github.com/Beomi/KcELECTRA

COMMENT_REPEATS = 2


def drop_mentions(text: str) -> str:
    return _RE["mention"].sub("", text) if "@" in text else text


def clean_comment(text: str) -> str:
    """A Korean comment without other scripts and without the masks over swear words ("OOO").

    Kept are Hangul with its jamo, Latin letters, digits, punctuation, symbols and emoji.
    """
    if not text.isascii():
        text = _RE["other"].sub(" ", text)
    return _RE["site_mask"].sub("", text)
