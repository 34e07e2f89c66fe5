"""MediaWiki's markup to plain text."""

import mwparserfromhell
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.wikitext import WikiWords, plain_text

ARTICLE = """{{다른 뜻|가람}}
{{강 정보|이름=가람|길이=12 km|그림=[[파일:Garam.jpg|{{크기|300px}}]]}}
'''가람'''({{llang|en|Garam}}, {{IPA|ka}})은 [[들판]]을 \
가로지르는 [[강|물줄기]]이다.<ref name="a">{{웹 인용|제목=강}} \
[http://a.example/b 여기]</ref> 물이 맑다.<ref name="a" />
[[파일:Garam.jpg|섬네일|[[들판]]에서 본 ''가람'']]
== 역사 ==
<!-- 고칠 것 -->옛날에는 [https://a.example 큰내]라 불렸다.
* 하나 [[둘]]
** 셋
# 넷
{| class="wikitable"
! 해 !! 길이
|-
| 1990 || 12
|}
=== 이름 ===
AT&amp;T&nbsp;강<br />새 줄 <nowiki>[[그대로]] '''굵게'''</nowiki> <math>x^2</math>끝
== 자료 ==
{{표}}
== 각주 ==
{{각주}}
=== 설명 ===
버릴 것
== 이어지는 이야기 ==
남는 글. __목차__
== 외부 링크 ==
* [http://a.example 누리집]
[[분류:강]]
[[en:Garam]]
"""
TEXT = """가람(Garam)은 들판을 가로지르는 물줄기이다. 물이 맑다.
역사
옛날에는 큰내라 불렸다.
하나 둘
셋
넷
이름
AT&T 강
새 줄 [[그대로]] '''굵게''' 끝
이어지는 이야기
남는 글."""


def test_an_article():
    assert plain_text(ARTICLE) == TEXT


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("[[a]] [[b|c]] [[d|]] [[:Category:E]] [[f#g]]", "a c d Category:E f#g"),
        ("x[[Category:y]][[File:z.png|thumb|w [[v]] u]][[ja:t]]s", "xs"),
        ("[[파일:a.jpg|한 줄\n두 줄]]글", "글"),
        ("a {{b|{{c}}|[[d|e]]}} f", "a f"),
        ("{{lang|fr|mot|italic=no}} {{lang-ko|글|hanja=文}} {{nowrap|1=a b}}", "mot 글 a b"),
        (
            "a[http://b.c]d [http://b.c e f] [//b.c g] [mailto:h i] [no link]",
            "ad e f g i [no link]",
        ),
        ("'''''a''''' ''b'' c's", "a b c's"),
        ("; term\n: text\n:: more\n----\n*# both", "term\ntext\nmore\nboth"),
        ("a\n\n\nb", "a\nb"),
        ("-{zh-hans:计算机; zh-hant:電腦}-和-{机}--{H|zh:a;zh-tw:b}-", "计算机和机"),
        ("a<ref>b</ref>c<ref name=d />e<references />f", "acef"),
        ("a<gallery>\nFile:b.jpg|c\n</gallery>d", "ad"),
        ("d<syntaxhighlight lang='py'>e[[f</syntaxhighlight>g", "dg"),
        ("a<div style='x'>b</div><p>c</p>", "ab\nc"),
        ("글({{lang|zh|字}}, )과 ( , 뜻) ( ) (；)", "글(字)과 (뜻)"),
        ("== A ==\n=== B ===\ntext\n== C ==\n== D ==\nmore", "A\nB\ntext\nD\nmore"),
        ("== References ==\na\n=== b ===\nc\n== d ==\ne", "d\ne"),
        ("=== Notes ===\na\n== d ==\ne", "d\ne"),
        # what is removed leaves no hole
        ("가 ({{a|b}}), 나({{a}}, {{b}}) 다", "가, 나 다"),
        ("({{a}}, 뜻) (글, {{a}}) (가, {{a}}, 나)", "(뜻) (글) (가, 나)"),
        ("가 {{a}} 나 {{a}}. 다{{a}}라, {{a}}, 마", "가 나. 다라, 마"),
        ('「{{a}}」과 "{{a}}" 글<ref>b</ref>. <ref/>끝', "과 글. 끝"),
        ("f(x) 함수() for (;;) (1,) f(<!-- c -->)", "f(x) 함수() for (;;) (1,) f()"),
        ("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>を読む", "漢字を読む"),
        # what is left unclosed hides no more than it must
        ("{{Infobox\n| a = b\nThe lead.\n== Next ==\nText.", "The lead.\nNext\nText."),
        ("A [[link, never closed.\n\nNext one.", "A link, never closed.\nNext one."),
        ("A {{cite [[b}} c", "A c"),
        ("A [[b {{c]] d}} e]] f", "A b e f"),
        ("Lead.\n{| class=x\n| cell\n== Next ==\nText.", "Lead.\nNext\nText."),
        ("A }} b ]] c |} d", "A b c |} d"),
        ("A <!-- hidden", "A"),
        ("A <math>x\nText.", "A x\nText."),
        ("A < b and c > d", "A < b and c > d"),
    ],
)
def test_pieces_of_markup(wikitext, expected):
    assert plain_text(wikitext) == expected


@pytest.mark.parametrize(
    ("language", "wikitext", "shown"),
    [
        ("ko", "키는 {{convert|180|cm}}이고", "키는 180 cm이고"),
        ("ko", "{{단위변환|5|ft|11|in|cm}}, {{Convert|10|-|20|km2|sqmi}}", "5 ft 11 in, 10–20 km²"),
        ("en", "{{cvt|10|to|20|C|F|abbr=on}} {{convert|5|m|1}}", "10 to 20 °C 5 m"),
        ("ko", "인구 {{formatnum:1234567}}명, {{formatnum: 12.5 }}", "인구 1,234,567명, 12.5"),
        ("de", "{{formatnum:1234567.5}}", "1.234.567,5"),
        ("hi", "{{formatnum:1234567}}", "12,34,567"),
        ("ja", "{{仮リンク|甲|en|A}}が{{仮リンク|乙|en|B|label=丙}}", "甲が丙"),
        ("zh", "{{link-en|甲|A|乙}}和{{tsl|en|B|丙}}", "乙和丙"),
        ("ru", "{{нп5|Река|реки|en|River}}", "реки"),
        ("ja", "{{ruby|東京|とうきょう}}と{{読み仮名|亀戸|かめいど}}", "東京と亀戸（かめいど）"),
        ("ko", "{{루비|漢字|한자}}({{llang|ja|東京|도쿄}}, {{언어|en|A}})", "漢字(東京, A)"),
        ("ko", "{{글자색|red|빨강}} {{small|(주)}} {{크게|큰}}", "빨강 (주) 큰"),
        ("ko", "{{국기|대한민국}}과 {{flag|일본}}{{국기그림|일본}}", "대한민국과 일본"),
        ("en", "{{nihongo|A|甲||x}}, {{nihongo|B}}, {{zh|s=乙|t=丙}}", "A (甲, x), B, 乙, 丙"),
        ("ko", "{{출생일|1990|05|3}}, {{날짜|2020}}", "1990년 5월 3일, 2020년"),
        ("en", "{{birth date|df=yes|1990|5|3}}", "May 3, 1990"),
        ("ko", "가{{·}}나{{,}} 다{{ndash}}라 {{!}}", "가·나, 다–라 |"),
        ("en", "{{frac|1|2}} {{frac|3|1|2}} {{chem|H|2|O}} {{US$|5000}}", "1⁄2 3 1⁄2 H2O US$5,000"),
        ("ko", "{{환율|1000|달러}}, {{₩|1000}}", "1,000 달러, ₩1,000"),
        # marks inside an argument are not those between arguments
        ("ko", "{{lang|fr|[[a|x=y]]}} {{nowrap|{{lang|ko|{{small|글}}}}}}", "x=y 글"),
        ("ko", "{{small|{{모름}}}} 글 {{lang|fr}}.", "글."),
    ],
)
def test_templates_show_their_argument(language, wikitext, shown):
    assert plain_text(wikitext, WikiWords(language=language)) == shown


@pytest.mark.parametrize(
    "piece",
    [
        *("{{", "[[", "{{{", "{{lang|en|", "({{a}}, ", "( , ", "{{convert|1|", "{{formatnum:1"),
        *("{{hlist|a|", "「{{a}}", "{{a}}, "),
    ],
)
def test_time_is_linear_in_what_is_never_closed(piece):
    plain_text(piece * (100_000 // len(piece)))  # quadratic would be minutes
    plain_text(piece * (50_000 // len(piece)) + "}}" * 25_000)


def test_the_names_of_a_wiki_are_those_of_its_dump():
    words = WikiWords(media=frozenset({"fîle"}), category=frozenset({"dabestan"}))
    assert plain_text("a[[Fîle:b.jpg]][[Dabestan:c]] [[Category:d]]", words) == "a Category:d"


_WORD = st.from_regex(r"[a-z가-힣]{1,6}", fullmatch=True)
_INLINE = st.recursive(
    _WORD,
    lambda inner: st.one_of(
        st.builds("[[{0}|{1}]]".format, _WORD, inner),
        st.builds("'''{0}''' {1}".format, _WORD, inner),
        st.builds("{0} {{{{t|{1}}}}} {0}".format, inner, inner),
        st.builds("{0}<!-- {1} -->".format, _WORD, _WORD),
        st.builds("<b>{0}</b> {1}".format, inner, _WORD),
        st.builds("[http://a.example/ {0}] {1}".format, _WORD, inner),
    ),
    max_leaves=12,
)


@given(st.lists(_INLINE, min_size=1, max_size=5))
def test_words_are_those_of_a_full_parser(paragraphs):
    wikitext = "\n\n".join(paragraphs)
    reference = mwparserfromhell.parse(wikitext).strip_code(normalize=True, collapse=True)
    assert plain_text(wikitext).split() == reference.split()
