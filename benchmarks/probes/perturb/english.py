"""Perturbations of English text: typos, capitals, contractions. The tables are in `english.toml`.

The four typos are those of TextBugger and of TextAttack's word swaps (Morris et al. 2020).
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.random import Generator

from benchmarks.korean.hangul import keys_beside
from benchmarks.probes.perturb.places import change_words, substitute

_TABLES: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_NEIGHBOURS = keys_beside(_TABLES["keyboard"])
_LONG_WORD = re.compile("[A-Za-z]{4,}")
_PAIRS = _TABLES["contractions"] | {long: short for short, long in _TABLES["contractions"].items()}
_CONTRACTION = re.compile(
    rf"\b(?:{'|'.join(sorted(_PAIRS, key=len, reverse=True))})\b", re.IGNORECASE
)


def english_typo(text: str, strength: float, rng: Generator) -> str:
    """One letter between the first and the last is swapped with the next, left out, doubled or
    taken for that of a key beside it."""

    def mistyped(match: re.Match[str]) -> str:
        word, place = match[0], int(rng.integers(1, len(match[0]) - 2))
        before, letter, after = word[:place], word[place], word[place + 1 :]
        beside = rng.choice(list(_NEIGHBOURS[letter.lower()]))
        typos = (after[0] + letter + after[1:], after, letter * 2 + after, str(beside) + after)
        return before + typos[int(rng.integers(len(typos)))]

    return substitute(_LONG_WORD, mistyped, text, strength, rng)


def english_case(text: str, strength: float, rng: Generator) -> str:
    return change_words(text, str.upper, strength, rng)


def english_contraction(text: str, strength: float, rng: Generator) -> str:
    def changed(match: re.Match[str]) -> str:
        found = str(_PAIRS[match[0].lower()])
        return found[0].upper() + found[1:] if match[0][0].isupper() else found

    return substitute(_CONTRACTION, changed, text, strength, rng)
