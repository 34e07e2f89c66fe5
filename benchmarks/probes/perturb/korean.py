"""Perturbations of Korean text: spaces, syllables and their jamo, particles, spelling, endings.

The tables are in `korean.toml`.
"""

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

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
from benchmarks.probes.perturb.places import of_words, substitution
from electrify.storage.files import read_toml

_TABLES = read_toml(Path(__file__).with_suffix(".toml"))
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


def _mistyped(match: re.Match[str], rng: Generator) -> str:
    """A syllable with one of its jamo taken for that of a key beside it, vowel for vowel."""
    parts = list(letters_of(match[0]))
    places = [number for number, part in enumerate(parts) if neighbours(part)]
    if not places:  # ㅢ: pressed as two keys
        return match[0]
    place = int(rng.choice(places))
    allowed = (LEADS, VOWELS, TAILS)[place]
    found = [jamo for jamo in neighbours(parts[place]) if jamo in allowed]
    parts[place] = str(rng.choice(found)) if found else parts[place]
    return syllable_of(*parts)


spacing_removed = substitution(re.compile(" "), lambda match, rng: "")
spacing_added = substitution(_BETWEEN_SYLLABLES, lambda match, rng: " ")
coda_dropped = substitution(_SYLLABLE, lambda m, rng: syllable_of(*letters_of(m[0])[:2]))
jamo_nfd = substitution(_SYLLABLE, lambda m, rng: unicodedata.normalize("NFD", m[0]))
jamo_compatibility = substitution(_SYLLABLE, lambda match, rng: "".join(letters_of(match[0])))
keyboard_typo = substitution(_SYLLABLE, _mistyped)
laughter = of_words(lambda word, rng: word + str(rng.choice(_TABLES["laughter"])))
emoji = of_words(lambda word, rng: word + str(rng.choice(_TABLES["emoji"])))
loanword_spelling = substitution(_LOANWORD, lambda match, rng: _LOANWORDS[match[0]])
# plain sentences become formal, formal ones polite, polite ones formal
speech_level = substitution(_ENDING, lambda match, rng: _other_level(match[0]))


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
