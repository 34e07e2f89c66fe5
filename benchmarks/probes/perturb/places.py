"""Choosing the places of a text that are changed."""

import re
from collections.abc import Callable

from numpy.random import Generator

_WORD = re.compile(r"\S+")


def substitute(
    pattern: re.Pattern[str],
    change: Callable[[re.Match[str]], str],
    text: str,
    strength: float,
    rng: Generator,
) -> str:
    """`re.sub` of each match with the chance `strength`.

    One number is drawn for each match before any change is: equal generators change at a higher
    strength all that they change at a lower one.
    """
    chances = iter(rng.random(len(pattern.findall(text))))
    return pattern.sub(lambda match: change(match) if next(chances) < strength else match[0], text)


def change_words(text: str, change: Callable[[str], str], strength: float, rng: Generator) -> str:
    """The same for what stands between spaces."""
    return substitute(_WORD, lambda match: change(match[0]), text, strength, rng)
