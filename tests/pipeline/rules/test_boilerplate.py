"""Whole lines of boilerplate go; sentences about the same things stay."""

import pytest

from pipeline.rules.boilerplate import remove_boilerplate


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("ko", "저작권자 ⓒ 가나일보, 무단 전재 및 재배포 금지"),
        ("ko", "<저작권자(c) 가나뉴스, 무단전재-재배포 금지>"),
        ("ko", "[서울=뉴스가나] 홍길동 기자 ="),
        ("ko", "홍길동 기자 gildong@news.kr"),
        ("ko", "홍길동 기자 <email>"),
        ("ko", "▶ 관련기사 더보기"),
        ("ko", "개인정보처리방침 | 이용약관 | 고객센터"),
        ("ko", "## 더 보기"),
        ("ko", "ⓒ 가나일보"),
        ("ko", "Google Colab에서 실행하기"),
        ("ko", "GitHub에서 소스 보기"),
        ("ko", "노트북 다운로드"),
        ("ko", "깃허브(GitHub) 소스 보기"),
        ("en", "Copyright 2020 The Authors."),
        ("en", "© 2020 Company. All rights reserved."),
        ("en", "Read more"),
        ("en", "We use cookies to give you the best experience on our site."),
        ("en", "Skip to main content"),
        ("en", "Facebook Twitter Email"),
        ("ja", "無断転載を禁じます"),
        ("ja", "続きを読む"),
        ("zh", "阅读全文"),
        ("zh", "未经授权，不得转载"),
        ("de", "Weiterlesen »"),
        ("fr", "Lire la suite"),
        ("es", "Leer más"),
        ("ru", "Все права защищены"),
        ("vi", "Xem thêm"),
        ("ar", "اقرأ المزيد"),
        ("hi", "और पढ़ें"),
    ],
)
def test_boilerplate_goes(language, line):
    assert remove_boilerplate(f"앞\n{line}\n뒤", language) == ("앞\n뒤", 1)
    assert remove_boilerplate(line, language) == ("", 1)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("ko", "매력있는 연기자"),
        ("ko", "기자 역할이 인상적이었다"),
        ("ko", "홍길동 기자 역을 맡은 배우"),
        ("ko", "저작권법은 무단 복제를 막는 법이다. 금지되는 것은 많다."),
        ("ko", "좋아요"),
        ("ko", "ⓒⓞⓞⓛ"),
        ("ko", "노트북을 Google Colab에서 실행하면 빠르다"),
        ("ko", "[본 게시물은 관리자에 의해 수정되었습니다] 라는 말이 붙었다"),
        ("ko", "더 보기 좋은 그림이었다"),
        ("en", "Copyright law protects authors"),
        ("en", "Read more books this year"),
        ("en", "(c) the third item"),
        ("zh", "第三条 未经许可，任何单位和个人不得从事客运经营。"),
        ("de", "teilen,"),
        ("ru", "вход в пещеру"),
        ("xx", "한 줄"),
    ],
)
def test_sentences_stay(language, line):
    assert remove_boilerplate(f"앞\n{line}\n뒤", language) == (f"앞\n{line}\n뒤", 0)


def test_what_a_moderator_added_goes_from_the_end_of_a_line():
    text = "첫 줄 [본 게시물의 일부가 규정에 맞지 않아 관리자에 의해 수정되었습니다]\n둘째 줄"
    assert remove_boilerplate(text, "ko") == ("첫 줄\n둘째 줄", 1)
    assert remove_boilerplate(f"{text}\n무단전재 금지", "ko") == ("첫 줄\n둘째 줄", 2)
    assert remove_boilerplate(text, "ja") == (text, 0)


def test_the_blank_lines_around_a_line_become_one():
    assert remove_boilerplate("가\n\nRead more\n\n나\n\nLogin", "en") == ("가\n\n나", 2)
