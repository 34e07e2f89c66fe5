"""Which lines of a text are of its language: by script, and by models inside a shared script.

A line is `own`, `foreign` or neither: too short to say, code, or judged differently by two models.
The Unicode block decides Korean, Thai, Hindi ... and Japanese with kana. Latin, Cyrillic and Arabic
lines go to pycld2, and those it does not place to py3langid as well. Han alone is Japanese or
Chinese: pycld2 tells. A text below `MIN_EVIDENCE` characters is judged as one line.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import py3langid
import pycld2
from numpy.typing import NDArray

from electrify.config.fields import is_language, language_code
from pipeline.rules.quality import FUNCTION_WORDS, Drop
from pipeline.rules.scripts import (
    CODE,
    FIRST_SCRIPT,
    LANGUAGE_OF_SCRIPT,
    MODEL_CODES,
    NUM_CLASSES,
    SCRIPTS,
    SPACE,
    classes,
    family_of,
    letter_of,
    line_counts,
    num_letters,
    own_letters,
    script_counts,
    scripts_of,
)

# The language of Latin, Cyrillic and Arabic lines, by two models that ship their data.

_MODEL_CHARACTERS = 300  # of a line, that a model sees
_NOT_LATIN = re.compile("[\u0400-\u052f\u0600-\u06ff]")
_ASCII_WORDS = re.compile("[A-Za-z][A-Za-z0-9_.]*+")


def language_of_line(line: str, family: frozenset[str]) -> str | None:
    """The code of a line, None where the models differ; `family` is what is expected.

    pycld2 alone (100,000 lines a CPU second) where it finds what is expected; otherwise py3langid
    (12,000) must say the same as pycld2, or the expected language where pycld2 is not sure.
    """
    line = shown_to_model(line)
    reliable, shares = cld2_shares(line)
    if _first_is(shares, family):
        return shares[0][0]
    first = shares[0][0] if reliable and shares else None
    second: str = py3langid.classify(line)[0]
    if first is None:
        return second if second in family else None
    return first if second == first else None


def _first_is(shares: Sequence[tuple[str, int]], family: frozenset[str]) -> bool:
    return bool(shares) and shares[0][0] in family and shares[0][1] >= 50


def shown_to_model(line: str) -> str:
    """The start of a line; of one in Cyrillic or Arabic without its Latin names."""
    line = line[:_MODEL_CHARACTERS]
    if line.isascii() or len(others := _NOT_LATIN.findall(line)) < 3:
        return line
    without = _ASCII_WORDS.sub("", line)
    return without if 4 * len(others) >= len(line) - len(without) else line


def is_foreign_han(line: str, scripts: frozenset[str]) -> bool:
    """Is a line of Han with hardly any kana Chinese, for Japanese `scripts`, or the reverse?

    pycld2 takes up to 5 % of the Chinese lines of 8 to 20 characters for Japanese: it is believed
    where a character is in no encoding of Chinese or Hanja, as the simplified ones of Japan.
    """
    letters = letter_of(_HAN | _KANA).findall(line[:_MODEL_CHARACTERS])
    _, shares = cld2_shares("".join(letters), best_effort=True)
    code = shares[0][0] if shares else ""
    if "Kana" in scripts:
        return code.startswith("zh")
    return code == "ja" and not _all_han_in(line, "gb2312", "big5", "euc_kr")


def _all_han_in(text: str, *encodings: str) -> bool:
    """Is each Han character in one of the encodings? They hold what a country writes."""
    han = letter_of(_HAN).findall(text)
    return all(any(one.encode(name, "ignore") for name in encodings) for one in han)


def cld2_shares(text: str, best_effort: bool = False) -> tuple[bool, list[tuple[str, int]]]:
    """Is it sure, and the codes with their percent of the text; a guess with `best_effort`."""
    try:
        reliable, _, shares = pycld2.detect(text, isPlainText=True, bestEffort=best_effort)
    except pycld2.error:  # characters that it takes for broken UTF-8
        return False, []
    return reliable, [(code, share) for _, code, share, _ in shares if code != "un"]


MIN_LETTERS = 40  # of a foreign line, or of one that a model judges; a Hangul letter counts 2.5
MIN_SHORT_LETTERS = 20  # the same of a text below `MIN_EVIDENCE` characters, which is one line
# Letters in foreign lines, below which a document is dropped only if they are half of its letters.
MIN_EVIDENCE = 100
NUM_SAMPLED = 24  # lines a document that go to a model, evenly spaced
_WINDOW = 16_000  # characters; of a longer text NUM_WINDOWS pieces are looked at, evenly spaced
_NUM_WINDOWS = 6

_LATIN = SCRIPTS.index("Latn")
_CJK = {name: SCRIPTS.index(name) for name in ("Hang", "Kana", "Hani")}
_CJK_WEIGHT = 2.5  # a syllable or a Han character in Latin letters (translated documentation)
_WEIGHTS = np.where(np.isin(np.arange(len(SCRIPTS)), list(_CJK.values())), _CJK_WEIGHT, 1.0)
_KANA, _HANGUL, _HAN = (frozenset({name}) for name in ("Kana", "Hang", "Hani"))
_USUAL_KANA = re.compile("[\u3041-\u30ff]")
_CODE_STARTS = ("//", "/*", ";;", "<")
# one script, several languages that the models know
_SHARED_SCRIPTS = {"Latn", "Cyrl", "Arab"}


@dataclass(frozen=True, slots=True)
class Lines:
    """Letters of each line, Hangul and Han weighted, and which lines are own or foreign."""

    letters: NDArray[np.float64]
    own: NDArray[np.bool_]
    foreign: NDArray[np.bool_]


class LanguageShare(NamedTuple):
    """How much of a text's letters are of its language, of those in lines that are surely of one;
    and a sentence on it."""

    fraction: float
    detail: str


# Of a text with nearly all letters in a script of its language's own, lines need no look to say
# that the fraction is at least this
PLAIN_FRACTION = 0.8
_LOOK, _NUM_LOOKS = 1000, 8  # characters of a long text that are looked at, and how often
_SURE_PERCENT = 95


def language_share(text: str, language: str, closely: bool) -> LanguageShare | None:
    """The share of the language in a text; None for one that no limit drops, as there is too little
    to say so.

    Without `closely` one above `PLAIN_FRACTION` may be taken for sure.
    """
    scripts = scripts_of(language)
    if not scripts:
        return None
    if not letter_of(scripts).search(text):
        return _without_own_letter(text, language)
    min_letters, is_short = MIN_LETTERS, len(text) < MIN_EVIDENCE
    if is_short:
        if _has_no_rival(text, language):
            return None
        min_letters, text = MIN_SHORT_LETTERS, text.replace("\n", " ")
    elif not closely and _is_plainly_of(text, language):
        return None
    own, foreign, total, lines = _own_and_foreign(text, language, min_letters)
    if not foreign or foreign < min(MIN_EVIDENCE, total / 2):
        return None
    name = _name_foreign("\n".join(lines), language)
    if is_short and not _has_words_of(name, text, language):
        return None
    fraction = own / (own + foreign)
    detail = f"{fraction:.0%} of {own + foreign:.0f} letters are {language}, the rest {name}"
    return LanguageShare(fraction, detail)


def _is_plainly_of(text: str, language: str) -> bool:
    """Whether a cheap look says that at least `PLAIN_FRACTION` of the text is of the language."""
    scripts = scripts_of(language)
    if scripts & _SHARED_SCRIPTS:
        starts = np.linspace(0, max(0, len(text) - _LOOK), _NUM_LOOKS).astype(int).tolist()
        is_long = len(text) > _LOOK * _NUM_LOOKS
        shown = "\n".join([text[at : at + _LOOK] for at in starts]) if is_long else text
        _, shares = cld2_shares(shown)
        return sum(share for code, share in shares if code in family_of(language)) >= _SURE_PERCENT
    if scripts == _KANA | _HAN:
        return False
    letters = np.bincount(classes(text), minlength=NUM_CLASSES)[FIRST_SCRIPT:] * _WEIGHTS
    own = letters[[SCRIPTS.index(name) for name in scripts]].sum()
    # of a foreign line up to a fifth of the letters may be in the script of the language
    return bool(own >= 0.85 * letters.sum())


def foreign_language(share: LanguageShare, min_fraction: float) -> Drop | None:
    """Drop a text that is mostly of another language."""
    if share.fraction >= min_fraction:
        return None
    limit = f"clean.min_language_fraction = {min_fraction}"
    return Drop("foreign_language", f"{share.detail}; {limit}")


def main_language(text: str) -> str | None:
    """The code of the language of most letters in the text's sentences; None if it is not known.

    A letter of Hangul or kana tells; of a script that several languages share there must be some.
    """
    letters, script, is_code = _letters_of_lines(text)
    letters[(script < 0) | is_code] = 0.0
    most = int(np.bincount(np.maximum(script, 0), weights=letters).argmax())
    name = SCRIPTS[most]
    is_shared = name in _SHARED_SCRIPTS or name == "Hani"
    if letters.sum() < (MIN_SHORT_LETTERS if is_shared else 1):
        return None
    usual = None if name in _SHARED_SCRIPTS else LANGUAGE_OF_SCRIPT.get(name)
    if usual and name not in ("Deva", "Hebr"):
        return usual
    lines = text.split("\n")
    chosen = np.flatnonzero((script == most) & (letters > 0))
    shown = "\n".join(shown_to_model(lines[index]) for index in chosen)
    if name == "Deva":  # pycld2 alone takes 1 % of short Hindi texts for another
        return language_of_line(shown, family_of("hi")) or usual
    _, shares = cld2_shares(shown)
    first = shares[0] if shares else ("", 0)
    is_most = 2 * first[1] >= sum(share for _, share in shares)
    code = language_code(first[0])
    return code if is_most and is_language(code) else usual


def language_meant(code: str, languages: Sequence[str]) -> str | None:
    """The one of the languages that a model means by `code`: this one, else one that models have no
    code of, else one that they take for it; None of none."""
    possible = [language for language in languages if code in family_of(language)]
    return min(possible, key=lambda one: (one != code, one in MODEL_CODES), default=None)


def only_language(text: str, languages: Sequence[str]) -> str | None:
    """The one of the languages in whose scripts the text has letters; None of none or several."""
    scripts = {name: own for name in languages if (own := scripts_of(name))}
    found = [name for name, own in scripts.items() if letter_of(own).search(text)]
    return found[0] if len(found) == 1 else None


def judge(text: str, language: str, min_letters: int) -> Lines:
    """Judge the lines of a text; of those that need a model an even sample.

    The lines not in it are neither, and those in it carry the letters of all.
    """
    lines, scripts = text.split("\n"), scripts_of(language)
    letters, script, is_code = _letters_of_lines(text, scripts)
    is_own = _is_one_of(script, scripts)
    long = (letters >= min_letters) & ~is_code
    foreign = long & ~is_own & (script >= 0)
    own = is_own.copy()
    if "Hani" in scripts:
        han = script == _CJK["Hani"]
        for index in np.flatnonzero(han & long).tolist():
            foreign[index] = is_foreign_han(lines[index], scripts)
        own &= ~foreign
        if "Kana" in scripts:
            own &= ~han | long  # a few Han characters alone are of either
    if family := family_of(language) if scripts & _SHARED_SCRIPTS else frozenset():
        is_shared = _is_one_of(script, scripts & _SHARED_SCRIPTS)
        asked = np.flatnonzero(is_shared & long).tolist()
        # comments and elements of code in a translated manual are often English
        prose = [index for index in asked if not lines[index].startswith(_CODE_STARTS)]
        candidates = np.array(prose, dtype=np.int64)
        own[is_shared] = False
        _ask_models(lines, candidates, family, letters, own, foreign)
    return Lines(letters, own, foreign)


def _is_one_of(script: NDArray[np.int64], names: frozenset[str]) -> NDArray[np.bool_]:
    """As np.isin, 20 times faster on a few lines; -1 is none."""
    wanted = np.array([*(name in names for name in SCRIPTS), False])
    chosen: NDArray[np.bool_] = wanted[script]
    return chosen


def _ask_models(
    lines: Sequence[str],
    candidates: NDArray[np.int64],
    family: frozenset[str],
    letters: NDArray[np.float64],
    own: NDArray[np.bool_],
    foreign: NDArray[np.bool_],
) -> None:
    if not len(candidates):
        return
    total = letters[candidates].sum()
    if len(candidates) > NUM_SAMPLED:
        candidates = candidates[np.linspace(0, len(candidates) - 1, NUM_SAMPLED).astype(np.int64)]
    letters[candidates] *= total / letters[candidates].sum()
    # pycld2 sees all at once, 35 MB a second: is there hardly anything else? Not its own
    # `reliable`: that is false wherever much of a text is names, which count as nothing
    _, shares = cld2_shares("\n".join(shown_to_model(lines[index]) for index in candidates))
    expected = sum(share for code, share in shares if code in family)
    if expected >= 50 and expected >= 0.9 * sum(share for _, share in shares):
        own[candidates] = True
        return
    for index in candidates:
        code = language_of_line(lines[index], family)
        own[index] = code in family
        foreign[index] = code is not None and code not in family


def _letters_of_lines(
    text: str, expected: frozenset[str] = frozenset()
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Of each line: its letters, Hangul and Han weighted; the script that names its language, -1
    where none does; and whether it is code.

    Sentences about code are half Latin, so 20 % of another script names a line, and Latin does
    only from 95 %, or 40 % where it is expected. 5 % of Hangul makes Han characters Korean; 5 % of
    kana, Japanese, but a Chinese line may have one ornamental kana.
    """
    counts = line_counts(text)
    by_script = counts[:, FIRST_SCRIPT:].astype(np.float64) * _WEIGHTS
    letters = by_script.sum(axis=1)
    total = np.maximum(letters, 1.0)
    others = by_script.copy()
    others[:, _LATIN] = 0.0
    hangul, kana, han = (others[:, _CJK[name]].copy() for name in ("Hang", "Kana", "Hani"))
    cjk = hangul + kana + han
    is_korean = (hangul > 0) & (hangul >= 0.05 * cjk) & (hangul >= kana)
    if expected >= _KANA:  # with a Korean quotation
        is_korean &= (kana == 0) | (hangul >= 0.5 * cjk)
    ornament = _CJK_WEIGHT if expected == _HAN else 0.0
    is_japanese = ~is_korean & (kana > ornament) & (kana >= 0.05 * cjk)
    for name, mask in (("Hang", is_korean), ("Kana", is_japanese)):
        others[:, _CJK[name]] = np.where(mask, cjk, 0.0)
    others[:, _CJK["Hani"]] = np.where(is_korean | is_japanese, 0.0, cjk)
    script = others.argmax(axis=1)
    named = np.where(others.max(axis=1) >= 0.2 * total, script, -1)
    latin_from = 0.4 if "Latn" in expected else 0.95
    script = np.where(by_script[:, _LATIN] >= latin_from * total, _LATIN, named)
    # Latin lines that are no sentences: few words, long words, or many symbols
    latin, spaces = counts[:, FIRST_SCRIPT + _LATIN], counts[:, SPACE]
    few_words = (spaces < 4) | (latin > 12 * (spaces + 1))
    is_code = (script == _LATIN) & (few_words | (counts[:, CODE] > 0.08 * latin))
    return letters, script, is_code


def _has_no_rival(text: str, language: str) -> bool:
    """Is a short text with own letters plainly not of another language? A cheap look."""
    scripts = scripts_of(language)
    if scripts == _HANGUL or len(text) * _CJK_WEIGHT < MIN_SHORT_LETTERS:
        return not _USUAL_KANA.search(text)
    if "Hani" in scripts:
        has_kana = "Kana" in scripts and _USUAL_KANA.search(text)
        return bool(has_kana) and not letter_of(_HANGUL).search(text)
    return not scripts & _SHARED_SCRIPTS or _first_is(
        cld2_shares(shown_to_model(text))[1], family_of(language)
    )


def _has_words_of(name: str, text: str, language: str) -> bool:
    """Does a short text have a function word of the language that models gave it?

    Not asked of one in another script. A title of product names has none, whatever models say.
    """
    scripts = scripts_of(language)
    if "Hani" in scripts or 2 * own_letters(text, scripts) < num_letters(text):
        return True
    words = FUNCTION_WORDS.get(name, frozenset()) - FUNCTION_WORDS.get(language, frozenset())
    return not words.isdisjoint(text.lower().split())


def _own_and_foreign(
    text: str, language: str, min_letters: int
) -> tuple[float, float, float, list[str]]:
    """Letters in own lines, in foreign lines and in all; and the foreign lines."""
    pieces = [text]
    if len(text) > _WINDOW * _NUM_WINDOWS:
        starts = np.linspace(0, len(text) - _WINDOW, _NUM_WINDOWS).astype(int)
        pieces = [text[start : start + _WINDOW] for start in starts]
    own = foreign = total = 0.0
    foreign_lines: list[str] = []
    for piece in pieces:
        lines = judge(piece, language, min_letters)
        own += float(lines.letters[lines.own].sum())
        foreign += float(lines.letters[lines.foreign].sum())
        total += float(lines.letters.sum())
        foreign_lines += [
            line for line, is_one in zip(piece.split("\n"), lines.foreign, strict=True) if is_one
        ]
    return own, foreign, total, foreign_lines


def _without_own_letter(text: str, language: str) -> LanguageShare | None:
    """Texts without a letter of the language's script; a Korean heading may be of Hanja alone."""
    counts = script_counts(text)
    letters = sum(num * _WEIGHTS[SCRIPTS.index(name)] for name, num in counts.items())
    if letters < MIN_SHORT_LETTERS:
        return None
    is_hanja = language == "ko" and counts.keys() == {"Hani"} and letters < MIN_LETTERS
    if is_hanja and _all_han_in(text, "euc_kr"):
        return None
    names = " ".join(sorted(counts, key=lambda name: -counts[name]))
    detail = f"no letter of {language} among {sum(counts.values())}: {names}"
    return LanguageShare(0.0, detail)


def _name_foreign(foreign: str, language: str) -> str:
    """What most letters of the foreign lines are, for the reader of the report."""
    counts = Counter(script_counts(foreign))
    if not counts:
        return "another"
    if counts["Hani"] and scripts_of(language) >= _HAN and not counts["Hang"]:
        return "zh" if scripts_of(language) >= _KANA else "ja"
    script = counts.most_common(1)[0][0]
    _, shares = cld2_shares(foreign) if script in _SHARED_SCRIPTS else (False, [])
    return shares[0][0] if shares else LANGUAGE_OF_SCRIPT.get(script, script)
