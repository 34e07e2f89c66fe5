"""Perturbations of texts, each a function of text, strength and random numbers; every kind by name.

`perturb.toml` explains the kinds, `korean.toml` and `english.toml` have their tables. The four
English typos are those of TextBugger and of TextAttack's word swaps (Morris et al. 2020).
"""

import hashlib
import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import BaseModel, ConfigDict

from benchmarks.analysis.korean import (
    LEADS,
    TAILS,
    VOWELS,
    keys_beside,
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


def _substitution(pattern: str, change: Change, flags: int = 0) -> Perturb:
    """`re.sub` of each match with the chance `strength`.

    One number is drawn for each match before any change is: equal generators change at a higher
    strength all that they change at a lower one.
    """
    compiled = re.compile(pattern, flags)

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


# English.

_ENGLISH = _tables("english")
_KEYS_BESIDE = keys_beside(_ENGLISH["keyboard"])
_PAIRS = _ENGLISH["contractions"] | {b: a for a, b in _ENGLISH["contractions"].items()}
_CONTRACTION = rf"\b(?:{'|'.join(sorted(_PAIRS, key=len, reverse=True))})\b"


def _mistyped_word(match: re.Match[str], rng: Generator) -> str:
    """One letter between the first and the last is swapped with the next, left out, doubled or
    taken for that of a key beside it."""
    word, place = match[0], int(rng.integers(1, len(match[0]) - 2))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    beside = rng.choice(list(_KEYS_BESIDE[letter.lower()]))
    typos = (after[0] + letter + after[1:], after, letter * 2 + after, str(beside) + after)
    return before + typos[int(rng.integers(len(typos)))]


def _contracted(match: re.Match[str], rng: Generator) -> str:
    other = str(_PAIRS.get(match[0].lower(), match[0]))  # `ſ` matches s
    return other[0].upper() + other[1:] if match[0][0].isupper() else other


# Noise that text from a crawl has, in any language.

_ENTITIES = {" ": "&nbsp;", "…": "&hellip;", "·": "&middot;"} | {
    "“": "&ldquo;", "”": "&rdquo;", "‘": "&lsquo;", "’": "&rsquo;"
}  # fmt: skip
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
# bytes that Windows-1252 has no letter for are read as Latin-1 has them
_misread = _of_words(
    lambda word, rng: "".join(
        bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in word.encode()
    )
)


def _mojibake(text: str, strength: float, rng: Generator) -> str:
    """Words whose bytes in UTF-8 are read as Windows-1252; ASCII quotes are taken for curly ones
    first, of which such text mostly has the trace."""
    curly = text.replace("'", "’") if text.isascii() else text
    misread = _misread(curly, strength, rng)
    return misread.replace("’", "'") if text.isascii() else misread


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
    "english-typo": _substitution("[A-Za-z]{4,}", _mistyped_word),
    "english-case": _of_words(lambda word, rng: word.upper()),
    "english-contraction": _substitution(_CONTRACTION, _contracted, re.IGNORECASE),
    "html-entities": _substitution(
        r"[ &<>\"'…·“”‘’]", lambda match, rng: _ENTITIES.get(match[0]) or html.escape(match[0])
    ),
    "zero-width": _substitution(
        r"(?<=\S)(?=\S)", lambda match, rng: str(rng.choice(list(_INVISIBLE)))
    ),
    "mojibake": _mojibake,
}


class Kind(BaseModel):
    """One kind of perturbation; `perturb.toml` explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    languages: tuple[str, ...]
    strengths: tuple[float, ...]
    places: str
    keeps_label: str

    def perturb(self, texts: tuple[str, ...], strength: float, identity: str) -> tuple[str, ...]:
        """The texts of a row; the same for the same `identity`, whatever the other rows are."""
        perturbed = []
        for number, text in enumerate(texts):
            seed = hashlib.sha256(f"{self.name}\n{identity}\n{number}".encode()).digest()
            rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
            perturbed.append(_FUNCTIONS[self.name](text, strength, rng))
        return tuple(perturbed)


KINDS: Mapping[str, Kind] = {
    name: Kind(name=name, **fields) for name, fields in _tables("perturb").items()
}
