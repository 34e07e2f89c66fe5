"""Words and morphemes; the frozen normaliser gives a text the form that cleaning gives it."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from pipeline.rules.characters import (
    BLANK_LETTERS,
    CONTROL,
    FILLERS,
    JOINER,
    LOST,
    ODD_SPACE,
    TABLE,
    VARIANT,
)
from pipeline.rules.normalize import (
    Changes,
    clean_text,
    compose,
    normalise_hangul,
    remove_control_characters,
    remove_lost_characters,
    squeeze_whitespace,
)
from vocab.pretokenize import morphemes_of, normalizer

HANGUL = st.sampled_from("가나다했학교에서습니다갑봤은는이ㅋㅎ하었a1🙂.é한글쀍")


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        *(("학교에서", ["학교", "에서"]), ("123에서", ["123", "에서"])),
        *(("공부했습니다", ["공부", "했습니다"]), ("학생들", ["학생", "들"])),
        # verbs stay whole, and so do words of jamo alone, which are not even asked about
        *((word, [word]) for word in ("먹었습니다", "했다", "도와줘서", "ㅋㅋㄴ", "ㅠㅠ")),
    ],
)
def test_words_are_cut_where_a_nominal_ends(word, pieces):
    assert morphemes_of([word]) == [pieces]


@settings(max_examples=75)
@given(st.lists(st.text(HANGUL, min_size=1, max_size=12), max_size=8))
def test_morphemes_join_to_the_word(words):
    words = [unicodedata.normalize("NFC", word) for word in words]
    cut = morphemes_of(words)
    assert ["".join(pieces) for pieces in cut] == words
    assert all(piece for pieces in cut for piece in pieces)


JAMO = (
    "".join(map(chr, range(0x1100, 0x1200)))
    + "\ua960\ud7b0\ud7cb가각갛ㄱㅋㅏㅠㆍ\uffa1\uffdc\uffa0"
)
MARKS = "".join(map(chr, range(0xFF01, 0xFF5F))) + "・･‧∙⋅•·「」’”‘“.!? ()"
LETTERS = "aZ1漢のÉİÅ\u212be\u0301\u0338"
INVISIBLE = "\t\n\u200b\u00ad\u200d\ufeff\x07\ue000\uf8ff\ufffd\u115f\u1160\u2800\u3164"
ANY = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(
    st.sampled_from("가나ㅋ!a１・！" * 20 + JAMO + MARKS + LETTERS + INVISIBLE), max_size=20
)


# of the pipeline's cleaning, those that look at single characters
_STEPS = (remove_lost_characters, remove_control_characters, squeeze_whitespace)
STEPS = tuple(("", step) for step in (*_STEPS, compose, normalise_hangul))


def normalised(text, lowercase=False):
    return normalizer(lowercase).normalize_str(text)


@settings(max_examples=120)
@given(TEXTS | st.text(ANY, max_size=20), st.booleans())
@example("ᄏᄏ아！！？ ᄒᆞᆫ １０월 Ａ형 한‧미 e\u200b\u0301Ａ\u0301", False)
@example("ＡＢＣ 가！" * 50, True)
def test_it_is_berts_cleaning_then_the_forms_of_cleaning(text, lowercase):
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    blanks = "\x0b\x0c\x85" + BLANK_LETTERS  # BERT joins words there
    spaced = text.translate(dict.fromkeys(map(ord, blanks), " "))
    spaced = "".join(character for character in spaced if character not in FILLERS)
    expected = compose(normalise_hangul(bert.normalize_str(spaced)))
    assert normalised(text, lowercase).split() == expected.split()
    once = normalised(text, lowercase)
    assert normalised(once, lowercase).split() == once.split()  # ideographs get more spaces


@settings(max_examples=75)
@given(TEXTS | st.text(ANY, max_size=20))
def test_cleaned_text_has_the_words_that_bert_and_nfc_give_it(text):
    """So ids of a corpus, and weights trained on it, do not depend on the forms."""
    clean = clean_text(text, STEPS, Changes())
    bert = normalizers.BertNormalizer(True, True, False, False)
    bare = normalizers.Sequence([bert, normalizers.NFC()])
    assert normalised(clean).split() == bare.normalize_str(clean).split()


def test_every_code_point_reads_the_same_raw_and_cleaned():
    """Also those that cleaning takes out, or for which it has a space."""
    differing, changed = [], 0
    points = np.flatnonzero(TABLE & (LOST | CONTROL | JOINER | ODD_SPACE | VARIANT))
    for character in map(chr, points[(points < 0xD800) | (points > 0xDFFF)]):
        for before, after in ("가나", "ㅋ1", "a("):
            raw = before + character + after
            clean = clean_text(raw, STEPS, Changes())
            changed += clean != raw
            if clean != raw and normalised(raw).split() != normalised(clean).split():
                differing.append(character)
    assert changed > 500
    assert not differing
