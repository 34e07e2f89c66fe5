"""HTML goes, text that only looks like it stays."""

import pytest

from pipeline.rules.markup.html import remove_html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("한<b>국</b>어", "한국어"),
        ("첫 줄<br>둘째 줄<BR />셋째", "첫 줄\n둘째 줄\n셋째"),
        ("<p>가</p><p>나", "\n가\n\n나"),
        ("`alloc`<br/>`free()`<br />끝", "`alloc`\n`free()`\n끝"),
        ("<td>1</td><td>2</td>", " 1  2 "),
        ("<a href=\"x.html\" title='제목'>글</a>", "글"),
        ("<input disabled>값", "값"),
        ("앞<script type='a'>var x = '<b>';</script>뒤", "앞\n뒤"),
        ("앞<STYLE>p {}</style >뒤", "앞\n뒤"),
        ("앞<!-- <p>숨은\n글 -->뒤", "앞뒤"),
        ("<!DOCTYPE html>글", "\n글"),
        ("3 &lt; 4 &amp;&nbsp;5 &#44032;&#xAC01;", "3 < 4 &\xa05 가각"),
    ],
)
def test_markup_is_removed(text, expected):
    assert remove_html(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a < b 이고 c > d",
        "사랑해 <3<3",
        "vector<int> v; map<string, int> m; pair<a, b> p;",
        "#include <map>\n#include <stdio.h>",
        "if (a <b && c> d) return;",
        "static_cast<B>(x), vector<object>",
        "부칙 <제5255호,1997.1.13>",
        r"Markdown의 \<body> 태그와 `<td>` 태그, `a`<br>` 아닌 `<br>`",
        "AT&T, R&D, ?a=1&copy=2&lt=3",
        "int &item; &notice;",
        "닫히지 않은 <!-- 주석",
        "닫히지 않은 <script> 이야기",
        "<",
        "&",
    ],
)
def test_text_that_is_no_markup_stays(text):
    assert remove_html(text) == text
