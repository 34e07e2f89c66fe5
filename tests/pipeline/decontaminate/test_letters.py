"""Letters of a text: equal for texts that differ in case, spacing, width and punctuation only."""

import re
import unicodedata

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decontaminate.index import gram_keys, is_wide, read_letters

TEXTS = st.text(alphabet=st.sampled_from("aAbBß １1①가나ㅋ한ｶカ漢ﬁ.,!?\n\t_-“”é🙂"))


def _folded(text):
    """Character by character, in plain Python; (letter, place)."""
    found = []
    for place, character in enumerate(text):
        folded = unicodedata.normalize("NFKC", character).casefold() if character.isalnum() else ""
        letter = next((c for c in folded if c.isalnum()), "")
        if letter:
            found.append((letter, place))
    return found


def _squeezed(pairs):
    letters = "".join(letter for letter, _ in pairs)
    return [pairs[i] for i in range(len(pairs)) if letters[i - 2 : i + 1] != letters[i] * 3]


@settings(deadline=None)  # the first call makes the table of letters
@given(TEXTS)
def test_letters_are_those_of_plain_python(text):
    letters, places = read_letters(text)
    expected = _squeezed(_folded(text))
    assert [chr(code) for code in letters] == [letter for letter, _ in expected]
    assert places.tolist() == [place for _, place in expected]


def test_what_is_put_aside():
    same = ["I don't know!", "i DON’T  know", "ｉ ｄｏｎｔ\nｋｎｏｗ…", "“I—don't—know”"]
    assert len({read_letters(text)[0].tobytes() for text in same}) == 1
    laughs = [f"재밌다 {'ㅋ' * n}" for n in (2, 3, 30)]
    assert len({read_letters(text)[0].tobytes() for text in laughs}) == 1
    assert read_letters("")[0].tolist() == []
    assert read_letters("\ud800?")[0].tolist() == []


@given(st.lists(st.integers(97, 99), max_size=40), st.sampled_from([4, 8, 12]))
def test_equal_grams_have_equal_keys_and_others_do_not(codes, width):
    keys = gram_keys(np.array(codes, dtype=np.uint32), width)
    grams = ["".join(map(chr, codes[i : i + width])) for i in range(len(codes) - width + 1)]
    assert len(keys) == len(grams)
    assert len({*zip(grams, keys.tolist(), strict=True)}) == len({*grams}) == len({*keys.tolist()})


def test_keys_fill_their_64_bits():
    text = "".join(re.findall(r"\w", "".join(map(chr, range(0xAC00, 0xD7A0)))))
    keys = gram_keys(read_letters(text)[0], 8)
    for shift in (0, 32, 48):
        counts = np.bincount((keys >> np.uint64(shift)).astype(np.int64) % 16, minlength=16)
        assert counts.min() > 0.8 * len(keys) / 16


def test_wide_letters():
    assert is_wide(read_letters("한국어 문장 a")[0])
    assert is_wide(read_letters("日本語ひらがな")[0])
    assert not is_wide(read_letters("plain words 한")[0])
    assert not is_wide(read_letters("हिन्दी العربية")[0])
