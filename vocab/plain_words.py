"""Strings that the tokenizer's own steps would leave as they are, and their words.

Nearly all text is such; a pattern finds its words ten times faster than normaliser and
pre-tokenizer, which keep track of where each character came from.
"""

import re
from typing import Any

from vocab.normalizer import normalizer
from vocab.pretokenize import pre_tokenizer

# Characters that the normaliser leaves as they are, alone and in any order (none of them combines
# with another under NFC), and that are letters to the pre-tokenizer: Arabic, Devanagari without
# nukta, boxes and symbols, kana, jamo of the compatibility block, Hangul syllables; Latin and
# Cyrillic.
_CASELESS = (
    "\u0621-\u063a\u0641-\u064a\u0901-\u0939\u093e-\u094d"
    "\u2500-\u2767"
    "\u3041-\u3096\u30a1-\u30fa\u30fc\u3131-\u3163가-힣"
)
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u0430-\u044f"
_MIXED = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0100-\u017f\u1ea0-\u1ef9\u0410-\u042f"
# Those that it leaves as they are and that always stand alone. "<" is one, though "<email>" may be
# a token: the encoder looks for such tokens first.
_ALONE = r"!-/:-@\[-`{-~·‘’“”…、。「」『』【】《》〈〉" + "\u4e00-\u9fff"


class PlainWords:
    """Tells plain strings from others, and cuts them."""

    def __init__(self, lowercase: bool, split_digits: bool) -> None:
        letters = _CASELESS + _LOWER + ("" if lowercase else _MIXED)
        letters, alone = (letters, _ALONE + "0-9") if split_digits else (letters + "0-9", _ALONE)
        # one word; words and marks without a space between them; the words and marks of those
        self.is_word = re.compile(f"[{letters}]++").fullmatch
        self.is_plain = re.compile(f"[{letters}{alone}]++").fullmatch
        self.words = re.compile(f"[{letters}]++|[{alone}]").findall
        # the same for Arrow, whose RE2 has no possessive quantifiers and needs none
        self.word_re2 = f"^[{letters}]+$"
        self.plain_re2 = f"^[{letters}{alone}]+$"
        self.mark_re2 = f"[{alone}]"


def plain_words_of(tokenizer: Any) -> PlainWords | None:
    """For a tokenizer with the steps of this project; None if it has others."""
    steps = _state(tokenizer.normalizer), _state(tokenizer.pre_tokenizer)
    for lowercase in (False, True):
        for split_digits in (False, True):
            if steps == (_state(normalizer(lowercase)), _state(pre_tokenizer(split_digits))):
                return PlainWords(lowercase, split_digits)
    return None


def _state(step: Any) -> bytes | None:
    state: bytes | None = None if step is None else step.__getstate__()
    return state
