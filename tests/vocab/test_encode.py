"""Any text through the tokenizer, and as the encoder looks it up word by word: the same ids."""

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from tests.vocab.conftest import batches_of, count_words, vocab_options
from vocab.encode import WordEncoder
from vocab.learn import train_wordpiece
from vocab.pretokenize import normalizer, pre_tokenizer
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer


@pytest.mark.parametrize("size", [99, 100, 101, 1_050])
def test_a_long_word_is_cut_and_no_character_is_lost(tokenizer, size):
    """At every hundredth character, to its counts and its ids alike."""
    encoder = WordEncoder(tokenizer)
    for letter in ("가", "a", "ㅋ", "🙂"):
        word = letter * size
        parts = [word[start : start + 100] for start in range(0, size, 100)]
        assert count_words([word], lowercase=False) == Counter(parts)
        ids = [i for p in parts for i in tokenizer.encode(p, add_special_tokens=False).ids]
        assert tokenizer.encode(word, add_special_tokens=False).ids == ids
        assert np.frombuffer(encoder.encode([word])[0], encoder.dtype).tolist() == ids
        assert tokenizer.token_to_id("[UNK]") not in ids
    mixed = "가" * 60 + "쀍" + "가" * 150  # a character without a piece is cut out first
    tokens = tokenizer.encode(mixed, add_special_tokens=False).tokens
    assert tokens.count("[UNK]") == 1
    assert len("".join(t.removeprefix("##") for t in tokens)) == len(mixed) - 1 + len("[UNK]")


def test_any_number_of_characters_has_a_pattern():
    """Oniguruma takes 10,000 ranges in a class; every other character makes 12,000 here."""
    known = [*map(chr, (*range(0x21, 0x7F), *range(0x4E01, 0xAC00, 2))), "가"]
    build = build_tokenizer([*SPECIAL_TOKENS, *known, *(f"##{c}" for c in known)], False)
    rng = random.Random(0)
    for _ in range(20):
        word = "".join(rng.sample(known, 5)) + "가나가"
        tokens = build.encode(word, add_special_tokens=False).tokens
        assert "".join(t.removeprefix("##") for t in tokens) == word.replace("나", "[UNK]")


ALPHABET = (
    "가각한글ᄒᆞᆫᄀㄱㅋㅏㆍ\uffa1\u3164！？（Ａ・·aZé\u0301É1.,'#漢"
    "🙂👩\u200d👧🏻❤\ufe0f \t\n\u200b\u00ad"
)


@pytest.fixture(scope="module")
def tokenizer():
    text = " ".join(ALPHABET) + " 한글 한글이 가각 aZé ㅋㅋㅋ #1.1 漢a 👩\u200d👧"
    words = count_words([text + "".join(ALPHABET)], lowercase=False)
    return build_tokenizer(train_wordpiece(batches_of(words), vocab_options(90)), False)


# what texts are made of here: words, every sort of space, controls, joiners, literal specials
ATOMS = [
    *ALPHABET,
    *(" ", " ", "\n", "\t", "\r\n", "\u3000", "\u2028", "\xa0", "\x0b", "\x1c", "\x85", "\u200d"),
    *("[MASK]", "[SEP]", "\ufffd", "e\u0301", "ᄒ", "ᅡ", "ᆨ", "😀", "한", "。", "A"),
    "x" * 120,
    *("다. ", "？” ", "가！", "・나", "！", "）", "，", "ㆍ", "１", "\u110f", "\u1172"),
]
texts = st.lists(st.sampled_from(ATOMS), max_size=40).map("".join)


@pytest.mark.parametrize("num_remembered", [2, 4, 1_000_000])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listed=st.lists(texts, max_size=6))
def test_texts_looked_up_word_by_word_have_the_tokenizers_ids(
    tokenizer, monkeypatch, num_remembered, listed
):
    monkeypatch.setattr("vocab.encode.MAX_STRINGS", num_remembered)
    encoder = WordEncoder(tokenizer)
    for _ in range(2):  # new words, then known ones
        found = [np.frombuffer(ids, np.uint16).tolist() for ids in encoder.encode(listed)]
        assert found == [encoded(tokenizer, text) for text in listed]


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
    odd = build_tokenizer(SPECIAL_TOKENS, lowercase=False)
    odd.pre_tokenizer = pre_tokenizers.Split("a b", "removed")
    with pytest.raises(ValueError, match="train-vocab"):
        WordEncoder(odd)


@settings(max_examples=60)
@given(st.text(st.sampled_from(ALPHABET) | st.characters(exclude_categories=["Cs"]), max_size=30))
@example("##한글 # #이")
@example("👩\u200d👧 ❤\ufe0f👍🏻")
def test_ids_decode_to_the_words_of_the_normalised_text(tokenizer, text):
    """decode(encode(text)) is the normalised text with one space between words, words being what
    the pre-tokenizer makes (a mark is one); it has the same ids. Where a word is unknown, it is
    [UNK], and the others are as they are."""
    normalised = normalizer(False).normalize_str(text)
    words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised)]
    ids = encoded(tokenizer, text)
    known = [word if 1 not in encoded(tokenizer, word) else "[UNK]" for word in words]
    assert tokenizer.decode(ids, skip_special_tokens=False) == " ".join(known)
    if "[UNK]" not in known:
        assert encoded(tokenizer, " ".join(words)) == ids


@settings(max_examples=60)
@given(st.text(st.sampled_from(ALPHABET) | st.characters(exclude_categories=["Cs"]), max_size=30))
@example("한글이🦊한글 🦊🦊가각")
def test_unknown_are_the_characters_without_a_piece_and_no_others(tokenizer, text):
    normalised = normalizer(False).normalize_str(text)
    tokenizer.encode_special_tokens = True
    encoding = tokenizer.encode(normalised, add_special_tokens=False)
    covered = set("".join(set(tokenizer.get_vocab()).difference(SPECIAL_TOKENS)))
    for token, (start, stop) in zip(encoding.tokens, encoding.offsets, strict=True):
        of_unknown = {character not in covered for character in normalised[start:stop]}
        assert of_unknown == {token == "[UNK]"}


FEW = st.sampled_from("ab가-]^\\[&😀")  # some mean something between brackets of a pattern
ANY_PIECES = st.lists(st.tuples(st.booleans(), st.text(FEW, max_size=3)))


@settings(max_examples=60)
@given(ANY_PIECES, st.lists(st.text(FEW, min_size=1, max_size=8), max_size=5))
def test_with_any_pieces_known_words_stay_and_no_more_text_is_unknown(drawn, words):
    pieces = {"#" * 2 * continues + text for continues, text in drawn}
    ours = build_tokenizer([*SPECIAL_TOKENS, *sorted(pieces)], lowercase=False)
    berts = build_tokenizer([*SPECIAL_TOKENS, *sorted(pieces)], lowercase=False)
    berts.pre_tokenizer = pre_tokenizer()
    for word, _ in pre_tokenizer().pre_tokenize_str(" ".join(words)):
        if 1 not in encoded(berts, word):
            assert encoded(ours, word) == encoded(berts, word)
        encoding = ours.encode(word, add_special_tokens=False)
        assert encoding.offsets[0][0] == 0
        assert encoding.offsets[-1][1] == len(word)
    together = WordEncoder(ours).encode([" ".join(words)])[0]
    assert np.frombuffer(together, np.uint16).tolist() == encoded(ours, " ".join(words))


def encoded(tokenizer, text):
    tokenizer.encode_special_tokens = True  # a literal [MASK] is text
    return tokenizer.encode(text, add_special_tokens=False).ids
