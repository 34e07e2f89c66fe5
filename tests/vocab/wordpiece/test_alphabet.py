"""Which syllables are covered, seen or not."""

import pytest

from vocab.wordpiece.learn import alphabet_pieces, hangul_syllables


def test_the_common_syllables_are_those_of_ks_x_1001():
    common, every = hangul_syllables("common"), hangul_syllables("all")
    assert (len(common), len(set(common)), len(every)) == (2350, 2350, 11172)
    assert (common[0], common[-1]) == ("가", "힝")
    assert set(common) < set(every)
    for syllable in every:  # in EUC-KR the others are spelt out in jamo, in eight bytes
        assert (len(syllable.encode("euc_kr")) == 2) == (syllable in set(common))
    assert hangul_syllables("seen") == ()


@pytest.mark.parametrize(
    ("split_digits", "expected"),
    [(False, ["#", "1", "漢", "가", "##1", "##가"]), (True, ["#", "1", "漢", "가", "##가"])],
)
def test_what_stands_alone_has_no_continuing_piece(split_digits, expected):
    assert alphabet_pieces("漢가1#", False, split_digits) == expected
