"""Whole lines of boilerplate go; sentences about the same things stay."""

from pipeline.rules.boilerplate import remove_boilerplate
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)


def test_boilerplate_goes_and_sentences_stay():
    for language, line in CASES["boilerplate_goes"]:
        assert remove_boilerplate(f"앞\n{line}\n뒤", language) == ("앞\n뒤", 1)
        assert remove_boilerplate(line, language) == ("", 1)
    for language, line in CASES["sentences_stay"]:
        assert remove_boilerplate(f"앞\n{line}\n뒤", language) == (f"앞\n{line}\n뒤", 0)


def test_what_a_moderator_added_goes_from_the_end_of_a_line():
    text = "첫 줄 [본 게시물의 일부가 규정에 맞지 않아 관리자에 의해 수정되었습니다]\n둘째 줄"
    assert remove_boilerplate(text, "ko") == ("첫 줄\n둘째 줄", 1)
    assert remove_boilerplate(f"{text}\n무단전재 금지", "ko") == ("첫 줄\n둘째 줄", 2)
    assert remove_boilerplate(text, "ja") == (text, 0)


def test_the_blank_lines_around_a_line_become_one():
    assert remove_boilerplate("가\n\nRead more\n\n나\n\nLogin", "en") == ("가\n\n나", 2)
