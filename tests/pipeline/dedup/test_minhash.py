"""Shingles and band keys against their definition in plain Python."""

import re
import unicodedata
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup import minhash
from pipeline.dedup.minhash import SHINGLE_UNITS, shingle

# letters of many scripts, marks, digits of two scripts, separators, an astral letter, an emoji
ALPHABET = "aBß가나ㅋ한字かカไท०९9１ \n.-_é\u0301ﬁ𝔸😀²"


def _units(text):
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), plain)
    words = re.findall(r"(?:\w|[\u0300-\u036f\u0e30-\u0e4e])+", plain)
    letters = [c for word in words for c in word if unicodedata.category(c)[0] in "LM"]
    spaceless = [c for c in letters if re.match("[\u0e00-\u0eff\u3040-\u30ff\u4e00-\u9fff]", c)]
    return list("".join(words)) if len(spaceless) * 2 > len(letters) else words


def _shingles(text):
    units = _units(text)
    length = min(SHINGLE_UNITS, len(units))
    return [tuple(units[i : i + length]) for i in range(len(units) - length + 1)] if units else []


def _hashes(texts):
    made = shingle(texts)
    return [made.hashes[a:b].tolist() for a, b in pairwise(made.offsets.tolist())]


@given(st.lists(st.text(ALPHABET, max_size=40), max_size=8))
@settings(max_examples=60)
def test_equal_shingles_have_equal_hashes_and_no_others(texts):
    known = {}
    for text, hashes in zip(texts, _hashes(texts), strict=True):
        expected = _shingles(text)
        assert len(hashes) == len(expected)
        for shingle_units, value in zip(expected, hashes, strict=True):
            assert known.setdefault(shingle_units, value) == value
    assert len(set(known.values())) == len(known)


def test_each_character_has_the_hash_of_what_it_folds_to():
    """Between letters, behind a jamo, a digit and another of its kind, where it might be joined."""
    characters = map(chr, (*range(0xD800), *range(0xE000, 0x10000)))
    texts = [f"가{c}나 ㅋ{c}a 1{c}2 x{c}{c} y" for c in characters]
    made, folded = shingle(texts), shingle([minhash.fold(text) for text in texts])
    assert made.offsets.tolist() == folded.offsets.tolist()
    assert (made.hashes == folded.hashes).all()


def test_a_long_text_is_hashed_in_pieces(monkeypatch):
    words = [chr(0xAC00 + i) + chr(0xAC00 + i % 7) for i in range(2000)]
    texts = [" ".join(words), "", " ".join(words[:20])]
    whole = [set(hashes) for hashes in _hashes(texts)]
    monkeypatch.setattr(minhash, "CHARACTERS_AT_ONCE", 600)
    pieces = [set(hashes) for hashes in _hashes(texts)]
    assert pieces[1:] == whole[1:]
    num_cuts = 10  # each loses 4 shingles; one inside a word changes 2 words
    assert len(pieces[0] & whole[0]) >= 1996 - 6 * num_cuts
    assert len(pieces[0]) <= 1996
