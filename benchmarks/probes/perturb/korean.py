"""Perturbations of Korean text: spaces, syllables and their jamo, particles, spelling, endings.

Each takes a text, the chance that a place is changed, and a generator, and returns the text. The
tables are in `korean.toml`.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.random import Generator

from benchmarks.korean.hangul import (
    LEADS,
    TAILS,
    VOWELS,
    letters_of,
    neighbours,
    syllable_of,
)
from benchmarks.korean.morphemes import kiwi
from benchmarks.probes.perturb.places import change_words, substitute

_TABLES: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_SYLLABLE = re.compile("[가-힣]")
_BETWEEN_SYLLABLES = re.compile("(?<=[가-힣])(?=[가-힣])")
_LOANWORDS: Mapping[str, str] = _TABLES["loanwords"] | {
    other: word for word, other in _TABLES["loanwords"].items()
}
_LOANWORD = re.compile(
    "|".join(
        word if len(word) > 2 else f"(?<![가-힣]){word}"
        for word in sorted(_LOANWORDS, key=len, reverse=True)
    )
)
_LEVELS: Mapping[str, str] = _TABLES["speech_levels"]
_END = r"(?=[\s.!?~…^;)\"'”’]*(?:$|[.!?~…]))"  # of a sentence
_ENDING = re.compile(
    f"(?:{'|'.join(sorted(_LEVELS, key=len, reverse=True))}|[가-힣](?:습니다|어요|는다|다)){_END}"
)


def spacing_removed(text: str, strength: float, rng: Generator) -> str:
    return substitute(re.compile(" "), lambda match: "", text, strength, rng)


def spacing_added(text: str, strength: float, rng: Generator) -> str:
    return substitute(_BETWEEN_SYLLABLES, lambda match: " ", text, strength, rng)


def coda_dropped(text: str, strength: float, rng: Generator) -> str:
    return substitute(_SYLLABLE, lambda m: syllable_of(*letters_of(m[0])[:2]), text, strength, rng)


def jamo_nfd(text: str, strength: float, rng: Generator) -> str:
    return substitute(_SYLLABLE, lambda m: unicodedata.normalize("NFD", m[0]), text, strength, rng)


def jamo_compatibility(text: str, strength: float, rng: Generator) -> str:
    return substitute(_SYLLABLE, lambda m: "".join(letters_of(m[0])), text, strength, rng)


def keyboard_typo(text: str, strength: float, rng: Generator) -> str:
    """A syllable with one of its jamo taken for that of a key beside it, vowel for vowel."""

    def mistyped(match: re.Match[str]) -> str:
        parts = list(letters_of(match[0]))
        places = [number for number, part in enumerate(parts) if neighbours(part)]
        if not places:  # ㅢ: pressed as two keys
            return match[0]
        place = int(rng.choice(places))
        allowed = (LEADS, VOWELS, TAILS)[place]
        found = [jamo for jamo in neighbours(parts[place]) if jamo in allowed]
        parts[place] = str(rng.choice(found)) if found else parts[place]
        return syllable_of(*parts)

    return substitute(_SYLLABLE, mistyped, text, strength, rng)


def laughter(text: str, strength: float, rng: Generator) -> str:
    return _with_signs(_TABLES["laughter"], text, strength, rng)


def emoji(text: str, strength: float, rng: Generator) -> str:
    return _with_signs(_TABLES["emoji"], text, strength, rng)


def _with_signs(signs: Sequence[str], text: str, strength: float, rng: Generator) -> str:
    return change_words(text, lambda word: word + str(rng.choice(signs)), strength, rng)


def particle_dropped(text: str, strength: float, rng: Generator) -> str:
    """Without particles that kiwi finds behind a word."""
    kept, end = [], 0
    for token in kiwi().tokenize(text):
        is_particle = token.form in _TABLES["particles"].get(token.tag, ())
        # a particle that is fused with its word, as in 난 and 걸, has no characters of its own
        is_apart = token.form == text[token.start : token.end] and token.start >= end
        if is_particle and is_apart and rng.random() < strength:
            kept.append(text[end : token.start])
            end = token.end
    return "".join(kept) + text[end:]


def loanword_spelling(text: str, strength: float, rng: Generator) -> str:
    return substitute(_LOANWORD, lambda match: _LOANWORDS[match[0]], text, strength, rng)


def speech_level(text: str, strength: float, rng: Generator) -> str:
    """Plain sentences become formal, formal ones polite, polite ones formal."""
    return substitute(_ENDING, lambda match: _other_level(match[0]), text, strength, rng)


def _other_level(ending: str) -> str:
    """Of a whole ending of the table, or of a syllable with 습니다, 어요, 는다 or 다 behind it. One
    that no rule knows stays."""
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
