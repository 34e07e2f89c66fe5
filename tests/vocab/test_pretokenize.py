import unicodedata
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.conftest import count_words
from vocab.pretokenize import is_isolated, morphemes_of, normalizer, pre_tokenizer, surface_pieces

HANGUL = st.sampled_from("가나다했학교에서습니다갑봤은는이ㅋㅎ하었a1🙂.é한글쀍")


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("학교에서", ["학교", "에서"]),
        ("먹었습니다", ["먹", "었", "습니다"]),
        ("했다", ["했", "다"]),  # 하 + 었 + 다 share the first syllable
        ("봤어요", ["봤", "어요"]),
        ("갑니다", ["갑", "니다"]),
        ("도와줘서", ["도와줘", "서"]),
        ("123에서", ["123", "에서"]),
        ("library", ["library"]),
    ],
)
def test_words_are_cut_into_stem_particles_endings(word, pieces):
    assert morphemes_of([word]) == [pieces]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(HANGUL, min_size=1, max_size=12), max_size=8))
def test_morphemes_join_to_the_word(words):
    words = [unicodedata.normalize("NFC", word) for word in words]
    cut = morphemes_of(words)
    assert ["".join(pieces) for pieces in cut] == words
    assert all(piece for pieces in cut for piece in pieces)


@given(
    st.text(HANGUL, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=6),
)
def test_any_offsets_give_pieces_that_join_to_the_word(word, spans):
    spans = sorted(spans)
    tokens = [SimpleNamespace(start=start, len=length) for start, length in spans]
    pieces = surface_pieces(word, tokens)
    assert "".join(pieces) == word
    assert all(pieces)


def test_batches_agree_with_single_words(documents):
    words = sorted({word for _, text in documents for word in text.split()})
    assert morphemes_of(words) == [morphemes_of([word])[0] for word in words]


def test_counts_equal_a_counter_over_the_run_time_pretokenizer(documents):
    texts = [text for _, text in documents] * 3 + ["漢字と한글", "a,b a,b", "x" * 101, ""]
    expected = Counter()
    for text in texts:
        for word, _ in pre_tokenizer().pre_tokenize_str(normalizer(False).normalize_str(text)):
            expected[word] += 1
    del expected["x" * 101]  # [UNK] at run time
    assert count_words(texts, lowercase=False) == expected


def test_isolated_characters_stand_alone_inside_a_word():
    assert all(is_isolated(character) for character in "漢,.「」·…")
    assert not any(is_isolated(character) for character in "가aあ🙂1ㅋ")
