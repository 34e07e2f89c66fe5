"""Perturbations of texts, each a function of text, strength and random numbers; every kind by name.

`perturb.toml` explains the kinds, `korean.toml` has their tables.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from html.entities import codepoint2name
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.analysis.korean import (
    LEADS,
    TAILS,
    VOWELS,
    kiwi,
    letters_of,
    neighbours,
    syllable_of,
)
from electrify.storage.files import read_toml

Perturb = Callable[[str, float, Generator], str]  # text, strength, random numbers
Change = Callable[[re.Match[str], Generator], str]


def _tables(name: str) -> dict[str, Any]:
    return read_toml(Path(__file__).with_name(f"{name}.toml"))


def _substitution(pattern: str, change: Change) -> Perturb:
    """`re.sub` of each match with the chance `strength`.

    One number is drawn for each match before any change is: equal generators change at a higher
    strength all that they change at a lower one.
    """
    compiled = re.compile(pattern)

    def perturb(text: str, strength: float, rng: Generator) -> str:
        chances = iter(rng.random(len(compiled.findall(text))))
        return compiled.sub(lambda m: change(m, rng) if next(chances) < strength else m[0], text)

    return perturb


def _of_words(change: Callable[[str, Generator], str]) -> Perturb:
    """The same for what stands between spaces."""
    return _substitution(r"\S+", lambda match, rng: change(match[0], rng))


# Korean.

_KOREAN = _tables("korean")
_SYLLABLE = "[가-힣]"
_LOANWORDS: Mapping[str, str] = _KOREAN["loanwords"] | {
    other: word for word, other in _KOREAN["loanwords"].items()
}
_LOANWORD = "|".join(
    word if len(word) > 2 else f"(?<!{_SYLLABLE}){word}"
    for word in sorted(_LOANWORDS, key=len, reverse=True)
)
_LEVELS: Mapping[str, str] = _KOREAN["speech_levels"]
_LEVEL = "|".join(sorted(_LEVELS, key=len, reverse=True))
_END = r"(?=[\s.!?~…^;)\"'”’]*(?:$|[.!?~…]))"  # of a sentence
_ENDING = f"(?:{_LEVEL}|{_SYLLABLE}(?:습니다|어요|는다|다)){_END}"


def _mistyped_syllable(match: re.Match[str], rng: Generator) -> str:
    """A syllable with one of its jamo taken for that of a key beside it, vowel for vowel."""
    parts = list(letters_of(match[0]))
    places = [number for number, part in enumerate(parts) if neighbours(part)]
    if not places:  # ㅢ: pressed as two keys
        return match[0]
    place = int(rng.choice(places))
    jamo = [key for key in neighbours(parts[place]) if key in (LEADS, VOWELS, TAILS)[place]]
    parts[place] = str(rng.choice(jamo)) if jamo else parts[place]
    return syllable_of(*parts)


def _particle_dropped(text: str, strength: float, rng: Generator) -> str:
    """Without particles that kiwi finds behind a word."""
    if not re.search(_SYLLABLE, text):
        return text
    kept, end = [], 0
    for token in kiwi().tokenize(text):
        is_particle = token.form in _KOREAN["particles"].get(token.tag, ())
        # a particle that is fused with its word, as in 난 and 걸, has no characters of its own
        is_apart = token.form == text[token.start : token.end] and token.start >= end
        if is_particle and is_apart and rng.random() < strength:
            kept.append(text[end : token.start])
            end = token.end
    return "".join(kept) + text[end:]


def _other_level(ending: str) -> str:
    """Plain sentences become formal, formal ones polite, polite ones formal; others stay.

    `ending` is one of the table, or a syllable with 습니다, 어요, 는다 or 다 behind it.
    """
    if ending in _LEVELS:
        return _LEVELS[ending]
    lead, vowel, coda = letters_of(ending[0])
    stem, rest = ending[0], ending[1:]
    if coda == "ㅆ":  # 했다, 있었습니다, 갔어요
        return stem + {"습니다": "어요"}.get(rest, "습니다")
    if coda and rest == "는다":  # 먹는다
        return stem + "습니다"
    if coda == "ㄴ" and rest == "다":  # 간다
        return syllable_of(lead, vowel, "ㅂ") + "니다"
    return ending


# Noise that text from a crawl has, in any language.

_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


def _entity(sign: str) -> str:
    name = codepoint2name.get(ord("\xa0" if sign == " " else sign), "#x27")
    return f"&{name};"


def _misread(word: str, rng: Generator) -> str:
    """Its UTF-8 as Windows-1252; bytes that have no letter there as Latin-1 has them."""
    letters = (bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in word.encode())
    return "".join(letters)


_FUNCTIONS: Mapping[str, Perturb] = {
    "spacing-removed": _substitution(" ", lambda match, rng: ""),
    "spacing-added": _substitution(f"(?<={_SYLLABLE})(?={_SYLLABLE})", lambda match, rng: " "),
    "coda-dropped": _substitution(_SYLLABLE, lambda m, rng: syllable_of(*letters_of(m[0])[:2])),
    "jamo-nfd": _substitution(_SYLLABLE, lambda m, rng: unicodedata.normalize("NFD", m[0])),
    "jamo-compatibility": _substitution(_SYLLABLE, lambda m, rng: "".join(letters_of(m[0]))),
    "keyboard-typo": _substitution(_SYLLABLE, _mistyped_syllable),
    "laughter": _of_words(lambda word, rng: word + str(rng.choice(_KOREAN["laughter"]))),
    "emoji": _of_words(lambda word, rng: word + str(rng.choice(_KOREAN["emoji"]))),
    "loanword-spelling": _substitution(_LOANWORD, lambda match, rng: _LOANWORDS[match[0]]),
    "speech-level": _substitution(_ENDING, lambda match, rng: _other_level(match[0])),
    "particle-dropped": _particle_dropped,
    "html-entities": _substitution(r"[ &<>\"'…·“”‘’]", lambda match, rng: _entity(match[0])),
    "zero-width": _substitution(
        r"(?<=\S)(?=\S)", lambda match, rng: str(rng.choice(list(_INVISIBLE)))
    ),
    "mojibake": _of_words(_misread),
}


# by kind its strengths, in the order of tables
KINDS: Mapping[str, Sequence[float]] = _tables("perturb")


def perturbed(kind: str, texts: Sequence[str], strength: float, row_id: str) -> tuple[str, ...]:
    """The texts of a row; the same for the same id, whatever the other rows are."""
    changed = []
    for number, text in enumerate(texts):
        seed = hashlib.sha256(f"{kind}\n{row_id}\n{number}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
        changed.append(_FUNCTIONS[kind](text, strength, rng))
    return tuple(changed)
