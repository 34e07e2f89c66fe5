"""Excerpts of what the rules did."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.excerpts import WINDOW_CHARACTERS, excerpt, mask_excerpt


@given(st.text("ab \n"), st.text("ab \n"), st.text("ab \n", max_size=200))
def test_an_excerpt_shows_the_first_difference(one, other, start):
    before, after = start + one, start + other
    left, right = excerpt(before, after).split("  →  ", 1)
    if before != after:
        assert left != right
    assert len(left) <= WINDOW_CHARACTERS + 2
    assert len(right) <= WINDOW_CHARACTERS + 2


def test_a_mask_is_shown_without_the_data_though_others_stand_beside_it():
    before = f"mail a@b.kr {'말 ' * 100}call 010-1234-5678 now"
    after = before.replace("a@b.kr", "<email>").replace("010-1234-5678", "<phone>")
    assert "mail a@*** 말" in mask_excerpt(before, after, "<email>")
    left, right = mask_excerpt(before, after, "<phone>").split("  →  ")
    assert "call 01*** now" in left
    assert "call <phone> now" in right
    before = "write to kim.gu@hanmail.net, lee@naver.com or 010-2345-6789 today"
    shown = mask_excerpt(before, "write to <email>, <email> or <phone> today", "<phone>")
    assert "or 01*** today" in shown
    assert not any(hidden in shown for hidden in ("m.gu@", "naver", "0-2345"))
