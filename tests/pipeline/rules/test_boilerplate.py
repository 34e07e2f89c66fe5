"""Whole lines of boilerplate go; sentences about the same things stay."""

import pytest

from pipeline.rules.boilerplate import remove_boilerplate


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("ko", "저작권자 ⓒ 가나일보, 무단 전재 및 재배포 금지"),
        ("ko", "[서울=뉴스가나] 홍길동 기자 ="),
        ("ko", "홍길동 기자 gildong@news.kr"),
        ("ko", "▶ 관련기사 더보기"),
        ("ko", "개인정보처리방침 | 이용약관 | 고객센터"),
        ("ko", "## 더 보기"),
        ("ko", "ⓒ 가나일보"),
        ("ko", "Google Colab에서 실행하기"),
        ("ko", "노트북 다운로드"),
        ("ko", "깃허브(GitHub) 소스 보기"),
        ("en", "Copyright 2020 The Authors."),
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
        ("ko", "Copyright ⓒ 가나일보 & gana.com. 무단 전재 및 재배포 금지"),
        ("ko", "본 기사의 저작권은 가나일보에 있습니다. 무단 전재를 금합니다."),
        ("ko", "이 사이트는 쿠키를 사용합니다. 자세히 보기"),
        ("ko", "이 페이지를 보려면 자바스크립트를 활성화해 주세요."),
        ("ko", "구독과 좋아요 부탁드려요!"),
        ("ko", "사진=가나뉴스"),
        ("en", "JavaScript is disabled in your browser. Please enable it to continue."),
        ("en", "Please enable JavaScript to view the comments."),
        ("en", "This site uses cookies. By using this site, you agree to our use of cookies."),
        ("en", "© 1996 – 2009 The Office of the High Commissioner"),
        ("en", "Copyright 2019 A. Smith, B. Jones, Health Inc."),
        ("ja", "当サイトではCookieを使用しています。詳しくはこちら"),
        ("ja", "JavaScriptを有効にしてください。"),
        ("zh", "请启用JavaScript以继续访问"),
        ("de", "Wir verwenden Cookies, um Inhalte und Anzeigen zu personalisieren."),
        ("fr", "Veuillez activer JavaScript pour afficher cette page."),
        ("es", "Utilizamos cookies propias y de terceros para mejorar nuestros servicios."),
        ("ru", "Пожалуйста, включите JavaScript в вашем браузере."),
    ],
)
def test_boilerplate_goes(language, line):
    assert remove_boilerplate(f"앞\n{line}\n뒤", language) == ("앞\n뒤", 1)
    assert remove_boilerplate(line, language) == ("", 1)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("ko", "매력있는 연기자"),
        ("ko", "홍길동 기자 역을 맡은 배우"),
        ("ko", "저작권법은 무단 복제를 막는 법이다. 금지되는 것은 많다."),
        ("ko", "좋아요"),
        ("ko", "노트북을 Google Colab에서 실행하면 빠르다"),
        ("ko", "[본 게시물은 관리자에 의해 수정되었습니다] 라는 말이 붙었다"),
        ("ko", "더 보기 좋은 그림이었다"),
        ("en", "Copyright law protects authors"),
        ("en", "Read more books this year"),
        ("en", "(c) the third item"),
        ("zh", "第三条 未经许可，任何单位和个人不得从事客运经营。"),
        ("de", "teilen,"),
        ("xx", "한 줄"),
        ("ko", "개인정보 보호법에 따르면 개인정보의 무단 사용은 금지된다."),
        ("ko", "정부가 무단 복제 금지 운동을 시작했다"),
        ("ko", "자바스크립트를 활성화하면 페이지가 느려질 수 있다."),
        ("ko", "이 사이트는 쿠키를 사용해 세션을 유지하는 예를 보여 준다"),
        ("ko", "구독과 좋아요 수가 늘었다"),
        ("ko", "(c) 2020년 매출이 줄었다"),
        ("ko", "저작권자: 저작물을 만든 사람을 말한다"),
        ("en", "JavaScript is disabled by default in some mail programs"),
        ("en", "JavaScript is required for anyone who builds pages"),
        ("en", "We use cookies in this chapter to store the session."),
        ("en", "This site uses cookies. The court forbade it."),
        ("en", "Copyright 1976 Act changed the law"),
        ("en", "(c)Extension of the Act."),
        ("en", "The words all rights reserved have no meaning today"),
        ("ja", "この法律は無断使用を禁止している"),
        ("ja", "このサイトのCookieを削除する方法"),
        ("zh", "转载请注明出处是网络礼仪的一部分"),
        ("de", "Diese Seite verwendet Cookies als Beispiel"),
        ("fr", "Nous utilisons des cookies dans ce chapitre"),
        ("ru", "Копирование программ запрещено законом"),
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


@pytest.mark.parametrize("piece", ["The ", "© ", "무단 전재 ", "javascript가", "cookies and "])
def test_a_long_row_of_one_piece_takes_linear_time(piece):
    line = ("©" + piece * 60)[:150]
    assert remove_boilerplate(f"{line}\n" * 500, "ko")[1] <= 500
