"""The frozen normaliser is BERT's cleaning and `pipeline.rules.hangul`, in steps of
`tokenizers`."""

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoTokenizer

from pipeline.rules.hangul import normalise_hangul
from vocab.encode import cut_sentences
from vocab.normalizer import LOOK_AROUND, MAX_RUN, charsmap, normalizer
from vocab.pretokenize import pre_tokenizer
from vocab.shards.word_encoder import WordEncoder
from vocab.tokenizer import build_tokenizer, save_tokenizer
from vocab.wordpiece.learn import SPECIAL_TOKENS

OLD_LEADS = "\u112b\u1140\ua960"
OLD_VOWELS = "\u119e\ud7b0"
OLD_TAILS = "\u11eb\u11f0\ud7cb"
MODERN = "\u1100\u1103\u110f\u1112\u1161\u1169\u116e\u1175\u11a8\u11ab\u11af\u11c2"
LETTERS = "가각갛나해ㄱㅋㅏㅠㆍㆎ\uffa1\uffbe\uffc2\uffca\uffdc\uffa0\u3164\u115f\u1160"
WIDTHS = "！？（）：，＂～＠［｝０９ＡｚZａ"
PLAIN = "aZ1 ()「」’”‘“·.漢の。ÉİÅ\u212b"
DOTS = "\u30fb\uff65\u2027\u2219\u22c5\u2022\u0387"
INVISIBLE = "\t\n\u200b\u00ad\u0600\u200d\ufeff\x07\ue000\ufffd"


def bert(lowercase):
    """What was frozen before Hangul was looked at."""
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )


def blanks_alike(text):
    return "".join(" " if character.isspace() else character for character in text)


def expected(text, lowercase=False):
    return blanks_alike(normalise_hangul(bert(lowercase).normalize_str(text)))


def found(text, lowercase=False):
    return blanks_alike(normalizer(lowercase).normalize_str(text))


def texts(alphabet, size=16):
    return st.text(st.sampled_from(alphabet), max_size=size)


@settings(max_examples=1500, deadline=None)
@given(texts(MODERN + LETTERS + WIDTHS + PLAIN + DOTS + INVISIBLE), st.booleans())
@example("ᄏᄏ아！！？ ᄒᆞᆫ", False)
@example("（가）・나 가：・나", True)
@example("\u1100", False)
@example("", False)
def test_it_is_berts_cleaning_and_the_corpus_rule(text, lowercase):
    assert found(text, lowercase) == expected(text, lowercase)


@settings(max_examples=800, deadline=None)
@given(texts(MODERN + OLD_LEADS + OLD_VOWELS + OLD_TAILS + "가각ㄱ\u115f\u1160 a", 4))
def test_old_korean_syllables_stay_and_lone_jamo_do_not(text):
    assert found(text) == expected(text)


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
def test_on_any_text_it_changes_nothing_the_second_time(text, lowercase):
    once = found(text, lowercase)
    assert found(once, lowercase).split() == once.split()  # ideographs get more spaces


@settings(max_examples=500, deadline=None)
@given(texts(MODERN + LETTERS + WIDTHS + PLAIN + DOTS, 20))
def test_cleaned_text_only_gets_spaces_around_ideographs(text):
    clean = normalise_hangul(unicodedata.normalize("NFC", text))
    assert found(clean).replace(" ", "") == blanks_alike(clean).replace(" ", "")


@settings(max_examples=500, deadline=None)
@given(texts(MODERN + LETTERS + WIDTHS + DOTS + "aé漢\u200b ", 12))
@example("ᄏᄏ아 가ㆍ나・다！？（Ａ） \u200bᄏ가ᅡ")
def test_offsets_name_what_a_piece_was_made_from(characters, text):
    assume(
        unicodedata.is_normalized(
            "NFC", text.translate(dict.fromkeys(map(ord, INVISIBLE + "\u115f\u1160")))
        )
    )
    encoding = characters.encode(text, add_special_tokens=False)
    wrong = []
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        source = text[start:end]
        made = {source, found(source), found(f"가{source}")[1:], found(f"가{source}가")[1:-1]}
        if token.removeprefix("##") not in {form.strip() for form in made}:
            wrong.append((token, source))
    assert not wrong


@pytest.fixture(scope="module")
def characters():
    """A tokenizer whose pieces are all single characters of the tests."""
    alphabet = [
        chr(c) for c in (*range(0x20, 0x2300), *range(0x3000, 0x3200), *range(0xFF00, 0xFFE0))
    ]
    alphabet += [
        unicodedata.normalize("NFC", v + t)
        for v in "가나해"
        for t in ("", *"\u11a8\u11ab\u11af\u11c2")
    ]
    alphabet += [*"漢각갛아나다"]
    pieces = list(dict.fromkeys([*SPECIAL_TOKENS, *alphabet, *("##" + c for c in alphabet)]))
    return build_tokenizer(pieces, False)


def test_every_character_alone_is_as_in_the_corpus():
    for first in range(0, 0x110000, 64):
        several = [chr(c) for c in range(first, first + 64) if not 0xD800 <= c < 0xE000]
        text = " \n ".join(several)
        if found(text) != expected(text):
            for character in several:
                same = found(character) == expected(character)
                assert same == (character != "\u034f"), f"U+{ord(character):04X}"


@pytest.mark.parametrize(
    ("text", "ours", "theirs"),
    [
        # jamo behind three vowels or three tails of one Old Korean syllable
        ("\u112b" + 5 * "\u1161", "\u112b" + 3 * "\u1161" + "ㅏㅏ", "\u112b" + 5 * "\u1161"),
        # full-width marks behind an Old Korean syllable, and in a run that has no end
        ("\u112b\u1161！", "\u112b\u1161!", "\u112b\u1161！"),
        ("가" + "！" * (MAX_RUN + 2), "가" + "!" * MAX_RUN + "！！", "가" + "!" * (MAX_RUN + 2)),
        # an accent on a full-width letter
        ("Ａ\u0301b", "Ab", "Áb"),
        # the combining grapheme joiner
        ("a\u034f b", "a b", "a\u034f b"),
    ],
)
def test_where_it_differs_from_the_corpus_rule(text, ours, theirs):
    assert (found(text), expected(text)) == (ours, theirs)


def test_no_white_space_is_within_a_word():
    blanks = [
        chr(c) for c in range(0x110000) if chr(c).isspace() and unicodedata.category(chr(c)) != "Cc"
    ]
    for blank in ("\t", "\n", "\r", "\u3164", "\uffa0", *blanks):
        text = normalizer(False).normalize_str(f"a{blank}b")
        assert [word for word, _ in pre_tokenizer().pre_tokenize_str(text)] == ["a", "b"], hex(
            ord(blank)
        )


def test_marks_that_look_around_are_all_named():
    for character in map(chr, range(0x10000)):
        alone = normalise_hangul(character)
        if unicodedata.category(character)[0] in "PS" and len(alone) == 1:
            besides = normalise_hangul(f"가{character}가")[1:-1]
            assert (besides != alone) <= (character in LOOK_AROUND), hex(ord(character))


def test_a_long_text_of_odd_characters_takes_linear_time():
    def seconds(times):
        text = "ㅋㅋ！가・나\u200b ᄏ Ａ" * times
        start = time.process_time()
        normalizer(False).normalize_str(text)
        return time.process_time() - start

    seconds(100)
    assert min(seconds(20_000) for _ in range(3)) < 40 * min(seconds(2_000) for _ in range(3))


@given(
    st.dictionaries(
        st.characters(min_codepoint=1, exclude_categories=["Cs"]), texts("ab가", 3).filter(bool)
    )
)
def test_a_charsmap_maps_what_it_lists_and_nothing_else(mapping):
    table = normalizers.Precompiled(charsmap(mapping))
    for character in [*mapping, *"xyz가나漢"]:
        assert table.normalize_str(character) == mapping.get(character, character)


ATOMS = [
    *(MODERN + LETTERS + WIDTHS + DOTS + "aé漢.!? \n\t\u3000\u200b"),
    "다. ",
    "？” ",
    "가！",
    "・나",
]
joined = st.lists(st.sampled_from(ATOMS), max_size=24).map("".join)


@settings(max_examples=500, deadline=None)
@given(joined, st.sampled_from(["ko", "ja"]))
@example("가！ 가！！？나・다 （가）・나", "ko")
def test_words_and_sentences_have_the_ids_of_the_whole_text(characters, text, language):
    whole = characters.encode(text, add_special_tokens=False).ids
    encoder = WordEncoder(characters)
    assert np.frombuffer(encoder.encode([text])[0], encoder.dtype).tolist() == whole
    parts = cut_sentences(text, language)
    assert "".join(parts) == text
    ids = encoder.encode(parts)
    assert np.frombuffer(b"".join(ids), encoder.dtype).tolist() == whole


@pytest.mark.parametrize("lowercase", [False, True])
def test_transformers_normalises_alike(characters, tmp_path, lowercase):
    pieces = list(characters.get_vocab(with_added_tokens=True))
    pieces.sort(key=characters.token_to_id)
    ours = build_tokenizer(pieces, lowercase)
    save_tokenizer(ours, tmp_path, lowercase)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("ᄏᄏ아 가ㆍ나・다！？（ＡÉ） \u200bᄏ가ᅡ", "", "\u1100", "ㅤ０９ﾡ", "가！" * 50):
        assert theirs(text)["input_ids"] == ours.encode(text).ids
        assert theirs.backend_tokenizer.normalizer.normalize_str(text) == normalizer(
            lowercase
        ).normalize_str(text)
        plain = expected(text, lowercase)
        assert theirs(plain)["input_ids"] == theirs(text)["input_ids"]
