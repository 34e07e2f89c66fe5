"""Which characters have pieces of their own."""

from collections.abc import Iterable

from vocab.merges import PREFIX
from vocab.pretokenize import is_isolated


def alphabet_pieces(characters: Iterable[str], lowercase: bool, split_digits: bool) -> list[str]:
    """Each character as it begins a word, then those that can continue one as they do."""
    plain = sorted(characters)
    continuing = [
        PREFIX + character
        for character in plain
        if not is_isolated(character, lowercase, split_digits)
    ]
    return plain + continuing
