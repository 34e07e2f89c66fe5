"""Copies of known similarity: the true Jaccard is in [J, J + 0.02], by seed."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.throughput.jaccard import jaccard, shingles

BANDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
BAND_WIDTH = 0.02
MIN_WORDS, MAX_WORDS = 100, 3000  # of an original; longer ones would outweigh the real text
_TRIES = 4  # of other places in one original before another is taken
_SPACE = re.compile(r"(\s+)")

Kind = Literal["exact", "words", "block"]


@dataclass(frozen=True)
class Text:
    """One text of the corpus; `source` counts the corpora of the run."""

    id: str
    source: int
    language: str
    text: str


@dataclass(frozen=True)
class Planted:
    """A copy and what it is a copy of; `band` is 1 for an exact one."""

    original: Text
    text: str
    kind: Kind
    band: float
    jaccard: float


def plant(texts: Sequence[Text], num_exact: int, num_near: int, seed: int) -> list[Planted]:
    """`num_exact` exact copies, and `num_near` of each kind and band, each of another original.

    Raises `ValueError` if the corpus has too few documents that can be altered so.
    """
    rng = random.Random(seed)
    originals = [t for t in texts if MIN_WORDS <= len(t.text.split()) <= MAX_WORDS]
    rng.shuffle(originals)
    needed = num_exact + 2 * len(BANDS) * num_near
    if len(originals) < needed:
        raise ValueError(
            f"{needed:,} copies need as many documents of {MIN_WORDS} to {MAX_WORDS} words, the "
            f"corpus has {len(originals):,}; give fewer with --exact and --near"
        )
    made = [Planted(t, t.text, "exact", 1.0, 1.0) for t in originals[:num_exact]]
    left = originals[num_exact:]
    donors = {t.language: [o.text for o in originals if o.language == t.language] for t in left}
    # the narrowest bands first, while there are long originals: in a short one a word is > 0.02
    for band in reversed(BANDS):
        for kind in _ALTER:
            made += _take(left, donors, kind, band, num_near, rng)
    return made


# (words and spaces in turn, words of another text, rng) -> change of the first n places of it
Alter = Callable[[list[str], list[str], random.Random], Callable[[int], str]]


def _take(
    left: list[Text],
    donors: dict[str, list[str]],
    kind: Kind,
    band: float,
    number: int,
    rng: random.Random,
) -> list[Planted]:
    """Copies of the last originals that can be altered to the band; these leave the list."""
    made: list[Planted] = []
    for position in range(len(left) - 1, -1, -1):
        if len(made) == number:
            break
        original = left[position]
        pieces = _SPACE.split(original.text.strip())
        for _ in range(_TRIES):
            donor = rng.choice(donors[original.language]).split()
            changed = _ALTER[kind](pieces, donor, rng)
            if copy := _fit(original.text, changed, len(pieces) // 2, band):
                del left[position]
                made.append(Planted(original, copy[0], kind, band, copy[1]))
                break
    if len(made) < number:
        raise ValueError(
            f"only {len(made)} of {number} documents left can be brought to Jaccard {band} by "
            f"changing {kind}; give fewer copies with --near, or a larger corpus"
        )
    return made


def _fit(
    text: str, changed: Callable[[int], str], most: int, band: float
) -> tuple[str, float] | None:
    """The least change that leaves Jaccard below the band's end, if it is in the band."""
    truth = shingles(text)
    low, high = 0, most  # changes: too few, enough
    while high - low > 1:
        middle = (low + high) // 2
        if jaccard(truth, shingles(changed(middle))) > band + BAND_WIDTH:
            low = middle
        else:
            high = middle
    copy = changed(high)
    found = jaccard(truth, shingles(copy))
    return (copy, found) if band <= found <= band + BAND_WIDTH else None


def _replace_words(pieces: list[str], donor: list[str], rng: random.Random) -> Callable[[int], str]:
    places = list(range(0, len(pieces), 2))
    rng.shuffle(places)
    words = [rng.choice(donor) for _ in places]

    def changed(number: int) -> str:
        copy = pieces.copy()
        for place, word in zip(places[:number], words, strict=False):
            copy[place] = word
        return "".join(copy)

    return changed


def _replace_block(pieces: list[str], donor: list[str], rng: random.Random) -> Callable[[int], str]:
    num_words = (len(pieces) + 1) // 2
    start = rng.randrange(num_words)
    first = rng.randrange(len(donor))
    # around the end of either text, so that any start leaves room for any block
    places = [2 * ((start + i) % num_words) for i in range(num_words)]

    def changed(number: int) -> str:
        copy = pieces.copy()
        for i, place in enumerate(places[:number]):
            copy[place] = donor[(first + i) % len(donor)]
        return "".join(copy)

    return changed


_ALTER: dict[Kind, Alter] = {"words": _replace_words, "block": _replace_block}
