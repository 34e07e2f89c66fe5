"""Markdown goes, prose, chat and code that only look like it stay."""

import pytest

from pipeline.rules.markup.markdown import remove_markdown


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
        (".. note:: 알림 글\n.. code-block:: python\n   :linenos:\n\n   x", "알림 글\n\n\nx"),
        (":ref:`글 <a>` :class:`~torch.nn.Module` :math:`x^2`", "글 torch.nn.Module x^2"),
        ("`글 <http://a.kr>`_ 끝", "글 끝"),
        ("1\\. 가\nfoo\\_bar \\<map.h>", "1. 가\nfoo_bar <map.h>"),
        ("# %%\n#@title 제목", "\n 제목"),
        ("제목\n~~~~\n글\n^^^^\n끝", "제목\n\n글\n\n끝"),
        ("+---+----+\n| 가 | 나 |\n+===+====+", "\n가 나\n"),
        ("=====  ===\n가      나\n=====  ===", "\n가      나\n"),
        ("||첫 칸이 빈 줄|값|\n|||둘|", "첫 칸이 빈 줄 값\n둘"),
        ("``Map``\\ 을 도표\\ (위)\\ 로 그린 API\\ 이다", "``Map``을 도표(위)로 그린 API이다"),
        ("**굵은 말**은 *기운 말*이고 **긴 말**이다", "굵은 말은 기운 말이고 긴 말이다"),
        ("**긴 " + "말 " * 50 + "끝** 뒤", "긴 " + "말 " * 50 + "끝 뒤"),
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
        "** 최** 대표의 이야기",
        "*** 대표와 **전자의 이야기, 한**",
        "**시장에서 " + "있었던 일 " * 20 + "이라고 김**씨가 말했다",
        "Item *p = (Item*)q; /* 주석 */ int *r = &s; // 끝",
        "f\\ (x), a\\ b, 가 \\ 나, D:\\ LIBS",
        "제1조 (목적) [전문개정 2009.1.30]",
        "a || b\n|| c",
        "`*code*` 와 `__x__`",
        "{{ name }} {{user}} '{:.2f}'.format(x) {:d}",
        "... 그리고 :) ::std::string a::b",
        "- 하나\n* 둘\n1. 셋",
        "C:\\new\\x \\n",
        "-",
        "",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert remove_markdown(text) == text


def test_prose_between_rules_is_no_front_matter():
    text = "---\n그날 밤 비가 왔다.\n말이 없었다.\n---\n끝"
    assert remove_markdown(text) == "\n그날 밤 비가 왔다.\n말이 없었다.\n\n끝"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Devanagari and Arabic: words that end in a vowel sign, a point or their own punctuation
        ("**नई गाड़ी** यहाँ है", "नई गाड़ी यहाँ है"),
        ("अंत में **हाँ**के लिए", "अंत में हाँके लिए"),
        ("देखें\n_**यहाँ से:** घर, खेत और नदी_", "देखें\nयहाँ से: घर, खेत और नदी"),
        ("*بيتٌ جميلٌ* هنا", "بيتٌ جميلٌ هنا"),
        ("**هل وصل القطار؟** نعم", "هل وصل القطار؟ نعم"),
        ("_نعم_ أو _لا_", "نعم أو لا"),
        # Vietnamese
        ("_Lấy từ lớp cha, Node._", "Lấy từ lớp cha, Node."),
        ("đứng _sau_ nút, độ _rộng_", "đứng sau nút, độ rộng"),
        # no spaces between words
        ("**摘要：**Example 是库", "摘要：Example 是库"),
        ("请**先保存**文件", "请先保存文件"),
        ("从**（名称、地址）**到结果", "从（名称、地址）到结果"),
        ("是否*对每个函数都做了*测试", "是否对每个函数都做了测试"),
        ("次に**保存**を押す", "次に保存を押す"),
        ("##安装步骤\n####準備", "安装步骤\n準備"),
        ("[图像分类教程](image_classification)", "图像分类教程"),
    ],
)
def test_marks_go_of_markdown_scripts(text, expected):
    assert remove_markdown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "长*宽*高",
        "a | b\nc | d",
        "f(_first, last_)",
        "_이름_ 님",
        "##define",
        "#话题",
        "[영화](movie)",
        "__init__",
    ],
)
def test_what_only_looks_like_it_stays_of_markdown_scripts(text):
    assert remove_markdown(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"الملف \> حفظ \> نعم", "الملف > حفظ > نعم"),
        (r"List<T\> と \<Menu Name\>", "List<T> と <Menu Name>"),
        (r"कुल \< 20 और \<= 30", "कुल < 20 और <= 30"),
        (r"\[الأول\] أو \[الثاني\]", "[الأول] أو [الثاني]"),
        (r"[Save]\(保存\) を押す", "[Save] (保存) を押す"),
        (r"الشكل A-\#\#", "الشكل A-##"),
        ("名 | 数\n:-- | --:\n`甲` | 3\n乙 | |\n\n末 | 尾", "名 数\n`甲` 3\n乙\n\n末 | 尾"),
        ("||\n| a | b |\n| | |", "\na b\n"),
        ("[версия 2](?view=v2)", "версия 2"),
        ('![Плитка](_img/tile.png "Кнопка "Да" слева")', "Плитка"),
        ("![" + "dài " * 120 + "](form.png)", "dài " * 120),
        ("---\ntitle: A::b | Документация Майкрософт\n---\nТекст", "A::b\n\nТекст"),
    ],
)
def test_what_documentation_writes(text, expected):
    assert remove_markdown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        r"C:\> dir",
        r"C:\Users\<name>",
        r"\<b> в тексте",
        r"\[ x + y \]",
        r"\(a\)",
        r"grep '\<w'",
        r"[a-z]\(foo\)",
        "`\\<i\\>`",
    ],
)
def test_escapes_of_code_stay(text):
    assert remove_markdown(text) == text
