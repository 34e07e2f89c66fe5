"""Perturbations of English text: typos, capitals, contractions. The tables are in `english.toml`.

The four typos are those of TextBugger and of TextAttack's word swaps (Morris et al. 2020).
"""

import re
from pathlib import Path

from numpy.random import Generator

from benchmarks.analysis.korean import keys_beside
from benchmarks.probes.perturb.places import of_words, substitution
from electrify.storage.files import read_toml

_TABLES = read_toml(Path(__file__).with_suffix(".toml"))
_NEIGHBOURS = keys_beside(_TABLES["keyboard"])
_LONG_WORD = re.compile("[A-Za-z]{4,}")
_PAIRS = _TABLES["contractions"] | {long: short for short, long in _TABLES["contractions"].items()}
_CONTRACTION = re.compile(
    rf"\b(?:{'|'.join(sorted(_PAIRS, key=len, reverse=True))})\b", re.IGNORECASE
)


def _mistyped(match: re.Match[str], rng: Generator) -> str:
    """One letter between the first and the last is swapped with the next, left out, doubled or
    taken for that of a key beside it."""
    word, place = match[0], int(rng.integers(1, len(match[0]) - 2))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    beside = rng.choice(list(_NEIGHBOURS[letter.lower()]))
    typos = (after[0] + letter + after[1:], after, letter * 2 + after, str(beside) + after)
    return before + typos[int(rng.integers(len(typos)))]


def _contracted(match: re.Match[str], rng: Generator) -> str:
    found = str(_PAIRS[match[0].lower()])
    return found[0].upper() + found[1:] if match[0][0].isupper() else found


english_typo = substitution(_LONG_WORD, _mistyped)
english_case = of_words(lambda word, rng: word.upper())
english_contraction = substitution(_CONTRACTION, _contracted)
