"""Perturbations of Korean text: spaces, syllables and their jamo, particles, spelling, endings.

Each takes a text, the chance that a place is changed, and a generator, and returns the text. The
tables are in `korean.toml`. Syllables are taken apart by the arithmetic of the Unicode standard
(section 3.12).
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numpy.random import Generator

from benchmarks.probes.perturb.places import change_words, neighbours, substitute

_TABLES: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_FIRST, _NUM_CODAS = 0xAC00, 28
_LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_CODAS = ["", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"]
_SYLLABLE = re.compile("[가-힣]")
_BETWEEN_SYLLABLES = re.compile("(?<=[가-힣])(?=[가-힣])")
_NEIGHBOURS = neighbours(_TABLES["keyboard"])
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


def split_syllable(syllable: str) -> tuple[str, str, str]:
    """Lead, vowel and coda of a syllable as compatibility jamo; the coda may be empty."""
    number = ord(syllable) - _FIRST
    lead, rest = divmod(number, len(_VOWELS) * _NUM_CODAS)
    vowel, coda = divmod(rest, _NUM_CODAS)
    return _LEADS[lead], _VOWELS[vowel], _CODAS[coda]


def join_syllable(lead: str, vowel: str, coda: str = "") -> str:
    """The syllable of three jamo."""
    number = _LEADS.index(lead) * len(_VOWELS) + _VOWELS.index(vowel)
    return chr(_FIRST + number * _NUM_CODAS + _CODAS.index(coda))


def spacing_removed(text: str, strength: float, rng: Generator) -> str:
    return substitute(re.compile(" "), lambda match: "", text, strength, rng)


def spacing_added(text: str, strength: float, rng: Generator) -> str:
    return substitute(_BETWEEN_SYLLABLES, lambda match: " ", text, strength, rng)


def coda_dropped(text: str, strength: float, rng: Generator) -> str:
    return substitute(
        _SYLLABLE, lambda m: join_syllable(*split_syllable(m[0])[:2]), text, strength, rng
    )


def jamo_nfd(text: str, strength: float, rng: Generator) -> str:
    return substitute(_SYLLABLE, lambda m: unicodedata.normalize("NFD", m[0]), text, strength, rng)


def jamo_compatibility(text: str, strength: float, rng: Generator) -> str:
    return substitute(_SYLLABLE, lambda m: "".join(split_syllable(m[0])), text, strength, rng)


def keyboard_typo(text: str, strength: float, rng: Generator) -> str:
    """A syllable with one of its jamo taken for that of a key beside it, vowel for vowel."""

    def mistyped(match: re.Match[str]) -> str:
        parts = list(split_syllable(match[0]))
        places = [number for number, part in enumerate(parts) if part in _NEIGHBOURS]
        if not places:  # ㅢ: pressed as two keys
            return match[0]
        place = int(rng.choice(places))
        allowed = (_LEADS, _VOWELS, _CODAS)[place]
        found = [jamo for jamo in _NEIGHBOURS[parts[place]] if jamo in allowed]
        parts[place] = str(rng.choice(found)) if found else parts[place]
        return join_syllable(*parts)

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
    for token in _kiwi().tokenize(text):
        is_particle = token.form in _TABLES["particles"].get(token.tag, ())
        # a particle that is fused with its word, as in 난 and 걸, has no characters of its own
        is_apart = token.form == text[token.start : token.end] and token.start >= end
        if is_particle and is_apart and rng.random() < strength:
            kept.append(text[end : token.start])
            end = token.end
    return "".join(kept) + text[end:]


@cache
def _kiwi() -> Any:
    from kiwipiepy import Kiwi

    return Kiwi(num_workers=1)


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
    lead, vowel, coda = split_syllable(ending[0])
    stem, rest = ending[0], ending[1:]
    if coda == "ㅆ":  # 했다, 있었습니다, 갔어요
        return stem + {"습니다": "어요"}.get(rest, "습니다")
    if coda and rest == "는다":  # 먹는다
        return stem + "습니다"
    if coda == "ㄴ" and rest == "다":  # 간다
        return join_syllable(lead, vowel, "ㅂ") + "니다"
    return ending
