"""Whole lines of boilerplate go; sentences about the same things stay."""

import pytest

from pipeline.rules.boilerplate import remove_boilerplate
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("language", "line"), CASES["boilerplate_goes"])
def test_boilerplate_goes(language, line):
    assert remove_boilerplate(f"앞\n{line}\n뒤", language) == ("앞\n뒤", 1)
    assert remove_boilerplate(line, language) == ("", 1)


@pytest.mark.parametrize(("language", "line"), CASES["sentences_stay"])
def test_sentences_stay(language, line):
    assert remove_boilerplate(f"앞\n{line}\n뒤", language) == (f"앞\n{line}\n뒤", 0)


def test_what_a_moderator_added_goes_from_the_end_of_a_line():
    text = "첫 줄 [본 게시물의 일부가 규정에 맞지 않아 관리자에 의해 수정되었습니다]\n둘째 줄"
    assert remove_boilerplate(text, "ko") == ("첫 줄\n둘째 줄", 1)
    assert remove_boilerplate(f"{text}\n무단전재 금지", "ko") == ("첫 줄\n둘째 줄", 2)
    assert remove_boilerplate(text, "ja") == (text, 0)


def test_the_blank_lines_around_a_line_become_one():
    assert remove_boilerplate("가\n\nRead more\n\n나\n\nLogin", "en") == ("가\n\n나", 2)


@pytest.mark.parametrize("piece", ["The ", "© ", "무단 전재 ", "javascript가", "cookies and "])
def test_a_long_row_of_one_piece_takes_linear_time(piece):
    line = ("©" + piece * 60)[:150]
    assert remove_boilerplate(f"{line}\n" * 500, "ko")[1] <= 500
