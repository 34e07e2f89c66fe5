"""The ids of texts looked up are those that the tokenizer gives the whole text."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from vocab.encode import WordEncoder
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer

LETTERS = "abcdé학교갔다.|,漢!?1·)！），・\u0301"
PIECES = [*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in "abcd교다é\u0301"), "학교", "##갔다"]
# what texts are made of here: words, every sort of space, controls, joiners, literal specials
ATOMS = [
    *LETTERS,
    *(" ", " ", "\n", "\t", "\r\n", "\u3000", "\u2028", "\xa0", "\x0b", "\x1c", "\x85", "\u200d"),
    *("[MASK]", "[SEP]", "\ufffd", "e\u0301", "ᄒ", "ᅡ", "ᆨ", "😀", "한", "。", "A"),
    "x" * 120,
    *("다. ", "？” ", "가！", "・나", "！", "）", "，", "ㆍ", "１", "\u110f", "\u1172"),
]
texts = st.lists(st.sampled_from(ATOMS), max_size=40).map("".join)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(PIECES, lowercase=False)


def whole(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


@settings(max_examples=150)
@given(st.lists(texts, max_size=6))
def test_texts_looked_up_word_by_word_have_the_tokenizers_ids(tokenizer, listed):
    encoder = WordEncoder(tokenizer)
    for _ in range(2):  # new words, then known ones
        found = [np.frombuffer(ids, np.uint16).tolist() for ids in encoder.encode(listed)]
        assert found == [whole(tokenizer, text) for text in listed]


@pytest.mark.parametrize("size", [2, 4])
def test_a_forgetful_memory_changes_nothing(tokenizer, monkeypatch, size):
    monkeypatch.setattr("vocab.encode.MAX_STRINGS", size)
    encoder = WordEncoder(tokenizer)
    for text in ("a b c d", "b a 학교 갔다", "a  d"):
        ids = np.frombuffer(encoder.encode([text])[0], np.uint16).tolist()
        assert ids == whole(tokenizer, text)


def test_threads_share_the_memory(tokenizer, monkeypatch):
    monkeypatch.setattr("vocab.encode.MAX_STRINGS", 4)
    interval = sys.getswitchinterval()
    encoder = WordEncoder(tokenizer)
    texts = [[f"a b{number} c{number} 학교"] for number in range(400)]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = [*threads.map(encoder.encode, texts)]
    finally:
        sys.setswitchinterval(interval)
    assert found == [WordEncoder(tokenizer).encode(text) for text in texts]


def test_a_tokenizer_with_other_steps_is_refused():
    odd = build_tokenizer(PIECES, lowercase=False)
    odd.pre_tokenizer = pre_tokenizers.Split("a b", "removed")
    with pytest.raises(ValueError, match="train-vocab"):
        WordEncoder(odd)
