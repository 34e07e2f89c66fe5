"""The frozen normaliser is BERT's cleaning, NFC, and one form of the jamo that chat repeats."""

import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoTokenizer

from pipeline.rules.hangul import normalise_hangul
from vocab.pretokenize import normalizer, pre_tokenizer
from vocab.tokenizer import build_tokenizer, save_tokenizer
from vocab.wordpiece.learn import SPECIAL_TOKENS

CHAT = "\u110f\u1112\u1103\u110b\u1172\u116e\u1173"
SYLLABLES = "가각갛나해ㄱㅋㅏㅠ\u1161\u11a8\u11ab\u1100"
MARKS = "！？（）：，・。「」’”‘“·.!? ()"
LETTERS = "aZ1漢のÉİÅ\u212b０Ａe\u0301"
INVISIBLE = "\t\n\u200b\u00ad\u200d\ufeff\x07\ue000\ufffd"
TEXTS = st.text(st.sampled_from(CHAT + SYLLABLES + MARKS + LETTERS + INVISIBLE), max_size=20)


def normalised(text, lowercase=False):
    return normalizer(lowercase).normalize_str(text)


@settings(max_examples=500, deadline=None)
@given(TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
@example("ᄏᄏ아！！？ ᄒᆞᆫ", False)
def test_it_is_berts_cleaning_then_nfc_then_chats_jamo(text, lowercase):
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    composed = unicodedata.normalize("NFC", bert.normalize_str(text))
    letters = str.maketrans({jamo: normalise_hangul(jamo) for jamo in CHAT})
    assert normalised(text, lowercase) == composed.translate(letters)
    once = normalised(text, lowercase)
    assert normalised(once, lowercase).split() == once.split()  # ideographs get more spaces


@pytest.fixture(scope="module")
def characters():
    """A tokenizer whose pieces are all single characters of the tests."""
    alphabet = [
        chr(c) for c in (*range(0x20, 0x2300), *range(0x3000, 0x3200), *range(0xFF00, 0xFFE0))
    ]
    alphabet += [
        unicodedata.normalize("NFC", v + t) for v in "가나해" for t in ("", *"\u11a8\u11ab\u11c2")
    ]
    alphabet += [*"漢각갛아나다"]
    pieces = list(dict.fromkeys([*SPECIAL_TOKENS, *alphabet, *("##" + c for c in alphabet)]))
    return build_tokenizer(pieces, False)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@example("ᄏᄏ아 가ㆍ나・다！？（Ａ） \u200bᄏ가ᅡ")
def test_offsets_name_what_a_piece_was_made_from(characters, text):
    visible = text.translate(dict.fromkeys(map(ord, INVISIBLE)))
    assume(unicodedata.is_normalized("NFC", visible))
    encoding = characters.encode(text, add_special_tokens=False)
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        assert token.removeprefix("##") in {text[start:end], normalised(text[start:end]).strip()}


def test_no_white_space_is_within_a_word():
    for blank in filter(str.isspace, map(chr, range(0x110000))):
        if blank in "\t\n\r" or unicodedata.category(blank) != "Cc":
            words = pre_tokenizer().pre_tokenize_str(normalised(f"a{blank}b"))
            assert [word for word, _ in words] == ["a", "b"], hex(ord(blank))


@pytest.mark.parametrize("lowercase", [False, True])
def test_transformers_normalises_alike(characters, tmp_path, lowercase):
    pieces = sorted(characters.get_vocab(with_added_tokens=True), key=characters.token_to_id)
    ours = build_tokenizer(pieces, lowercase)
    save_tokenizer(ours, tmp_path, lowercase)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("ᄏᄏ아 가ㆍ나・다！？（ＡÉ） \u200bᄏ가ᅡ", "", "\u1100", "ㅤ０９ﾡ", "가！" * 50):
        assert theirs(text)["input_ids"] == ours.encode(text).ids
        assert theirs(normalised(text, lowercase))["input_ids"] == theirs(text)["input_ids"]
