"""Which characters have pieces of their own."""

from collections.abc import Iterable
from typing import Literal

from vocab.merges import PREFIX
from vocab.pretokenize import is_isolated

Hangul = Literal["seen", "common", "all"]


def alphabet_pieces(characters: Iterable[str], lowercase: bool, split_digits: bool) -> list[str]:
    """Each character as it begins a word, then those that can continue one as they do."""
    plain = sorted(characters)
    continuing = [
        PREFIX + character
        for character in plain
        if not is_isolated(character, lowercase, split_digits)
    ]
    return plain + continuing


def hangul_syllables(which: Hangul) -> tuple[str, ...]:
    """Syllables that are covered whether seen or not.

    `common`: the 2,350 of KS X 1001, rows 16 to 40 of 94 cells, which is what `euc_kr` encodes;
    `all`: the 11,172 that modern jamo make.
    """
    if which == "common":
        cells = ((row, cell) for row in range(0xB0, 0xC9) for cell in range(0xA1, 0xFF))
        return tuple(bytes(cell).decode("euc_kr") for cell in cells)
    return tuple(map(chr, range(0xAC00, 0xD7A4))) if which == "all" else ()
