"""Namuwiki's marks and macros go, its words stay; what only looks like them stays, too."""

import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.rules.markup.namuwiki import remove_namuwiki
from pipeline.rules.normalize import squeeze_whitespace
from pipeline.rules.order import DocumentRules

PAGE = """[[파일:a.png|width=300&align=center]]
[include(틀:상위 문서, top1=책, 값=가(나))]
[목차]
= 개요 =
## 고칠 것
'''도서관'''은 책을 [[독서|읽을]] 수 있다.[* 박물관과는 [[다름|다르다]].][* ] {{{+1 큰 글자}}}로
~~책벌레의 천국~~ --취소--
{{{#red 빨간}}} {{{#!wiki style="color: red" dark-style="x"
둥근 {{{-2 작은}}}}}} 글[br]새 줄[*A 둘째 각주]과[*A] 끝
==# 접힌 제목 #==
>인용 글
----
||<-2><tablealign=center> 이름 ||<width=10%> 위치 ||
|표 제목| 가람 || || 바닷가 ||
{{{#!folding [ 펼치기 · 접기 ]
숨겨진 내용}}}
{{{#!folding 출연 목록
여럿}}}
[ruby(漢字,ruby=한자, color=red)] [youtube(abc, width=3)][anchor(a)][date]
{{{#!syntax cpp
if (a || b) --i; ~~x~~
}}}
H,,2,,O, x^^2^^, __밑줄__ [[문서#s-2]] [[/하위]] [[https://a.kr|바깥]]
[각주]
[[분류:책]]"""
WORDS = """개요
도서관은 책을 읽을 수 있다. 큰 글자로
박물관과는 다르다.
책벌레의 천국 취소
빨간 둥근 작은 글
새 줄과 끝
둘째 각주
접힌 제목
인용 글

이름 위치
표 제목 가람 바닷가

숨겨진 내용
출연 목록
여럿
漢字
if (a || b) --i; ~~x~~

H2O, x2, 밑줄 문서 하위 바깥"""


def test_a_page():
    source = Source(kind="jsonl", language="ko", path="x")
    assert DocumentRules(source, CleanConfig(sources=(source,))).clean(PAGE).text == WORDS


@pytest.mark.parametrize("text", ["#redirect 느낌표(기호)", "#넘겨주기 가람#s-1", "#REDIRECT a"])
def test_redirects_go(text):
    assert remove_namuwiki(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{{#ff0000,#00ff00 글}}}과 {{{#Green 말}}}", "글과 말"),
        ("말이다.[* 뜻]\n다음", "말이다.\n뜻\n다음"),
        ("말이다.[* 바깥 [* 안] 끝]", "말이다.\n바깥 끝\n안"),
        ("|| 이름 || 위치 ||\n|| 가람 || 들 ||", "이름 위치\n가람 들"),
        ("== 제목 ==\n~~지운~~ 글", "제목\n지운 글"),
        ("'''굵게[br]써'''서[br]__밑줄__", "굵게\n써서\n밑줄"),
        ("[ruby(글(자),ruby=읽기)]와 [youtube()]", "글(자)와"),
        ("{{{#!if 값 != null\n글}}}{{{#!style .a {}}}}", "글}"),
        ("[[파일:a.jpg|align=left]]글", "글"),
    ],
)
def test_marks_go_and_words_stay(text, words):
    assert squeeze_whitespace(remove_namuwiki(text)) == words


@pytest.mark.parametrize(
    "text",
    [
        "안녕~~ 반가워~~ ㅎㅎ ~~글~~ ^^;; ^^ 네,,그래,,",
        "if (a\n|| b || c ||\nd) {}\n|| x\ny ||",
        "||첫 칸이 빈 줄|값|\n||<META />|`<b>`, 태그|\n> 인용",
        "git commit --amend --no-edit\ni--; j--; 그는 --말하자면-- 왔다",
        "[*공지*] [* 필수] 배열[*p] 값[*i 번째]",
        "__init__ 과 __한글__",
        "{{{ x }}} {{{1: 2}}} {{{#include <a>}}}",
        "'''문서 문자열'''\n--옵션 설명",
        "#redirect 는 무엇인가\n둘째 줄",
        "## 제목\n[date] [목차] grep '[br]at'",
        "> 인용\n~~취소~~",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert remove_namuwiki(text) == text


PIECES = [
    "{{{",
    "{{{#red ",
    "[[",
    "[[a[",
    "[* ",
    "[include(x(",
    "||",
    "||<a>",
    "~~a",
    "--가",
    "= a",
]


@pytest.mark.parametrize("piece", PIECES)
def test_time_is_linear_in_what_is_never_closed(piece):
    for text in (piece * 30_000, "{{{+1 가}}} " + piece * 30_000 + "}}}" * 30_000):
        remove_namuwiki(text)  # quadratic would be minutes
