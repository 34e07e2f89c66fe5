"""Words of a text from arrays are those of `str.split`, and their hashes tell them apart."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.text_parts import SHORT, Parts

_TEXTS = st.lists(
    st.sampled_from(["가", "나다", "a", "bc", "漢", " ", "  ", "\n", "\n\n"]), min_size=600
)


@given(_TEXTS.map("".join), st.sampled_from(["ko", "ja"]))
def test_words_are_those_of_split(text, language):
    parts, words = Parts(text, language), text.split()
    assert parts.num_between_spaces == len(words)
    assert parts.lengths.tolist() == [len(word) for word in words]
    assert parts.num_characters == len("".join(words))
    step = len(words) // 300 + 1
    assert len(parts.sample) == len(words) // step
    for place, word in enumerate(parts.sample):
        assert word in words[place * step : (place + 1) * step]
    assert parts.first_words(7) == words[:7]


@given(_TEXTS.map("".join))
def test_equal_words_and_no_others_have_equal_hashes(text):
    words, hashes = text.split(), Parts(text, "ko").units[0].tolist()
    assert len(hashes) == len(words)
    assert len(set(zip(words, hashes, strict=True))) == len(set(words)) == len(set(hashes))


@pytest.mark.parametrize("space", [" ", "\t"])
def test_hashes_do_not_know_the_place_of_a_word(space):
    """Over several blocks, and with white space that arrays leave to `str.split`."""
    random.seed(0)
    vocabulary = ["".join(random.choices("가나다라마바사", k=length)) for length in range(1, 40)]
    words = random.choices(vocabulary, k=9000)
    text = space.join(words)
    assert len(text) > SHORT
    hashes = Parts(text, "ko").units[0].tolist()
    assert len(set(zip(words, hashes, strict=True))) == len(set(words)) == len(set(hashes))


def test_a_word_longer_than_a_block():
    text = "가나 " * 200 + "x" * 200_000 + " 가나"
    hashes = Parts(text, "ko").units[0].tolist()
    assert hashes[0] == hashes[199] == hashes[-1] != hashes[-2]
