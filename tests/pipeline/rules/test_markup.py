"""HTML goes, text that only looks like it stays."""

import pytest

from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_wikitext


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
        ("Write `&lt;` for `<` and a &lt; b", "Write `&lt;` for `<` and a < b"),
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[대한민국|한국]]의 [[수도]]", "한국의 수도"),
        ("키는 {{convert|180|cm}}이고 {{formatnum:1234}}명", "키는 180 cm이고 1,234명"),
        ("글 ({{모름|a}}), 함수() f( )", "글, 함수() f( )"),
        ("== 역사 ==\n글\n=== 근대 ===", "역사\n글\n근대"),
        ("= Title =\n= = Life = =\n= = = Early = = =", "Title\nLife\nEarly"),
        ("2 @,@ 500 well @-@ known ; 3 @.@ 5", "2,500 well-known ; 3.5"),
        ("a @ b, x @y, a = = b", "a @ b, x @y, a = = b"),
        ("'''굵게''' ''기울게''", "굵게 기울게"),
    ],
)
def test_wikitext(text, expected):
    assert remove_wikitext(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x = a[[1, 2]]; [[nodiscard]] int f(); [[ -f x ]]",
        "{{ name }} {{ x | upper }}",
        "if a == b == c:",
        "s = '' + ''; f('', '')",
        "__init__",
        "x = 1\ny = 2",
        "=^.^=",
    ],
)
def test_code_stays(text):
    assert remove_wikitext(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\ntitle: 첫 글\nms.date: 1\nkeys:\n- a\n---\n본문", "첫 글\n\n본문"),
        ("---\ntitle: '첫 글'\n---\n# 첫 글\n본문", "첫 글\n본문"),
        ('+++\ntitle = "글"\n+++\n본문', "글\n\n본문"),
        ("# 제목\n### 작은 제목 ###\n글", "제목\n작은 제목\n글"),
        ("제목\n=====\n글\n\n---\n\n끝", "제목\n\n글\n\n\n\n끝"),
        ("```python\nx = 1\n```", "\nx = 1\n"),
        ("[문서](../a.md)를 [보라](b.md#c 'x')", "문서를 보라"),
        ("![그림](a.png)[![딱지](b.svg)](http://a.kr)", "그림딱지"),
        ('[글][a]과 [b]\n\n[a]: http://a.kr "x"\n[b]: /b.md', "글과 b\n\n"),
        ("말[^1]이다\n[^1]: 뜻", "말이다\n뜻"),
        ("**굵게**는 *기울게* ***둘 다***", "굵게는 기울게 둘 다"),
        ("**①** 국가는 **1.** 말", "① 국가는 1. 말"),
        ("_두 단어_로 __두 단어__", "두 단어로 두 단어"),
        ("|이름|값|\n|---|:-:|\n|가|1|", "이름 값\n\n가 1"),
        ("> 따온 말\n> 둘째", "따온 말\n둘째"),
        ("> [!NOTE]\n> 알림", "\n알림"),
        ("[!INCLUDE [이름](../x.md)]글 [!VIDEO http://a.kr]", "글 "),
        (':::image type="x" source="a.png" alt-text="그림":::', "그림"),
        ('{{JSxRef("Array")}} {{domxref("A.b()", "b()")}}{{Compat}}{{Page("x")}}', "Array b()"),
        ('{{HTMLElement("a")}} {{RFC(2606)}}', "a RFC 2606"),
        ("{{< ref >}}{% include a.html %}글", "글"),
        ("## 제목 {#id}\n글{: .external}", "제목\n글"),
        ("1\\. 가\nfoo\\_bar \\<map.h>", "1. 가\nfoo_bar <map.h>"),
        ("# %%\n#@title 제목", "\n 제목"),
        ("제목\n~~~~\n글\n^^^^\n끝", "제목\n\n글\n\n끝"),
        ("||첫 칸이 빈 줄|값|\n|||둘|", "첫 칸이 빈 줄 값\n둘"),
        ("**굵은 말**은 *기운 말*이고 **긴 말**이다", "굵은 말은 기운 말이고 긴 말이다"),
        ("**긴 " + "말 " * 50 + "끝** 뒤", "긴 " + "말 " * 50 + "끝 뒤"),
        # Devanagari and Arabic: words that end in a vowel sign, a point or their own punctuation
        ("**नई गाड़ी** यहाँ है", "नई गाड़ी यहाँ है"),
        ("अंत में **हाँ**के लिए", "अंत में हाँके लिए"),
        ("देखें\n_**यहाँ से:** घर, खेत और नदी_", "देखें\nयहाँ से: घर, खेत और नदी"),
        ("*بيتٌ جميلٌ* هنا", "بيتٌ جميلٌ هنا"),
        ("**هل وصل القطار؟** نعم", "هل وصل القطار؟ نعم"),
        ("_نعم_ أو _لا_", "نعم أو لا"),
        # Vietnamese
        ("đứng _sau_ nút, độ _rộng_", "đứng sau nút, độ rộng"),
        # no spaces between words
        ("**摘要：**Example 是库", "摘要：Example 是库"),
        ("请**先保存**文件", "请先保存文件"),
        ("从**（名称、地址）**到结果", "从（名称、地址）到结果"),
        ("是否*对每个函数都做了*测试", "是否对每个函数都做了测试"),
        ("次に**保存**を押す", "次に保存を押す"),
        ("##安装步骤\n####準備", "安装步骤\n準備"),
        ("[图像分类教程](image_classification)", "图像分类教程"),
        (r"الملف \> حفظ \> نعم", "الملف > حفظ > نعم"),
        (r"List<T\> と \<Menu Name\>", "List<T> と <Menu Name>"),
        (r"कुल \< 20 और \<= 30", "कुल < 20 और <= 30"),
        (r"\[الأول\] أو \[الثاني\]", "[الأول] أو [الثاني]"),
        (r"الشكل A-\#\#", "الشكل A-##"),
        ("名 | 数\n:-- | --:\n`甲` | 3\n乙 | |\n\n末 | 尾", "名 数\n`甲` 3\n乙\n\n末 | 尾"),
        ("||\n| a | b |\n| | |", "\na b\n"),
        ("[версия 2](?view=v2)", "версия 2"),
        ('![Плитка](_img/tile.png "Кнопка "Да" слева")', "Плитка"),
        ("![" + "dài " * 120 + "](form.png)", "dài " * 120),
        ("---\ntitle: A::b | Документация Майкрософт\n---\nТекст", "A::b\n\nТекст"),
        ("_I_ said _never_, not _perhaps!_", "I said never, not perhaps!"),
        ("Es war _kein_ Zufall, _trotzdem_.", "Es war kein Zufall, trotzdem."),
        ('_The wind, the rain;_\n_"And the sea!"_', 'The wind, the rain;\n"And the sea!"'),
        ("_I've_ seen _her_", "I've seen her"),
        ("_Erbt alles von `Node`_.", "Erbt alles von `Node`."),
        ("choisir **« ouvrir... »** puis **C#** .", "choisir « ouvrir... » puis C# ."),
        ("**¿Listo?** sí", "¿Listo? sí"),
        ("- `x`\n  - : Der Wert.", "- `x`\nDer Wert."),
        ("> - Erstens.\n> - Zweitens.", "- Erstens.\n- Zweitens."),
        (">\n>Prenez garde.", "\nPrenez garde."),
        ("*    *   4.1\n\n    *   Kosten\n\n    *\n\n*    *\n", "*   4.1\n\n*   Kosten\n\n\n\n\n"),
        ("114\\. Satz\nvom\n24\\.1.2020 an", "114. Satz\nvom\n24.1.2020 an"),
        ("{{SubpagesWithSummaries}}{{ListGroups}}{{GlossaryDisambiguation}}", ""),
        ("<xref:A.B.Open%2A> <xref:C.Map%602> <xref:D?x=y>", "A.B.Open C.Map D"),
        ("dans[NOM_LONG](../a/b.md) et", "dansNOM_LONG et"),
        ("---\ntitle: Form :: Open\nms.date: 1\n---\n# Form::open\nText", "Form::open\nText"),
    ],
)
def test_marks_go(text, expected):
    assert remove_markdown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a * b * c, a*b*c, 2**3**4, f(**kwargs, **other)",
        "#1 #태그 #include <a>",
        "_이름_ _private __init__ __두__ foo_bar_baz",
        "a[i](x), f[0](x.y), a[i][j], regex [^1] [^a]",
        "*p = *q; int *a, *b; **pp",
        "*^^* (*_*) *.* >_< -_-; ㅡ_ㅡ",
        "김*수 박*희, 장** 장**",
        "****병원의 **동 이야기와 김**씨 이야기",
        "**시장에서 " + "있었던 일 " * 20 + "이라고 김**씨가 말했다",
        "Item *p = (Item*)q; /* 주석 */ int *r = &s; // 끝",
        "f\\ (x), a\\ b, 가 \\ 나, D:\\ LIBS",
        "제1조 (목적) [전문개정 2009.1.30]",
        "a || b\n|| c",
        "`*code*` 와 `__x__`",
        "{{ name }} {{user}} '{:.2f}'.format(x) {:d}",
        "... 그리고 :) ::std::string a::b",
        "C:\\new\\x \\n",
        "长*宽*高",
        "a | b\nc | d",
        "##define",
        "#话题",
        "[영화](movie)",
        "__init__",
        r"C:\> dir",
        r"C:\Users\<name>",
        r"\<b> в тексте",
        r"\[ x + y \]",
        r"\(a\)",
        r"grep '\<w'",
        r"[a-z]\(foo\)",
        "`\\<i\\>`",
        "f(_first, last_) and for _x, y_ in pairs",
        "x = _a ? b_ : c",
        "`_foo` und `bar_ baz`",
        "__init__ _private _WIN32_ _DEBUG_",
        "+\n-\n- eins\n* zwei",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert remove_markdown(text) == text


def test_prose_between_rules_is_no_front_matter():
    text = "---\n그날 밤 비가 왔다.\n말이 없었다.\n---\n끝"
    assert remove_markdown(text) == "\n그날 밤 비가 왔다.\n말이 없었다.\n\n끝"
