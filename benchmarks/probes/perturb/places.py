"""Choosing the places of a text that are changed."""

import re
from collections.abc import Callable

from numpy.random import Generator

Perturb = Callable[[str, float, Generator], str]  # text, strength, random numbers
_WORD = re.compile(r"\S+")


def substitution(
    pattern: re.Pattern[str], change: Callable[[re.Match[str], Generator], str]
) -> Perturb:
    """`re.sub` of each match with the chance `strength`.

    One number is drawn for each match before any change is: equal generators change at a higher
    strength all that they change at a lower one.
    """

    def perturb(text: str, strength: float, rng: Generator) -> str:
        chances = iter(rng.random(len(pattern.findall(text))))
        return pattern.sub(lambda m: change(m, rng) if next(chances) < strength else m[0], text)

    return perturb


def of_words(change: Callable[[str, Generator], str]) -> Perturb:
    """The same for what stands between spaces."""
    return substitution(_WORD, lambda match, rng: change(match[0], rng))
