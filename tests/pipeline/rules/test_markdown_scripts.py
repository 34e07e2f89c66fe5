"""Markdown in languages whose words end in signs, or that have no spaces between them."""

import time

import pytest

from pipeline.rules.markdown import remove_markdown


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
def test_marks_go(text, expected):
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
def test_what_only_looks_like_it_stays(text):
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


@pytest.mark.parametrize(
    "piece",
    [r"\<a ", r"\[가", r"]\(가", r"<a\\", "_가 ", "![가", "가**", "a|\n", "-|-\n", "a|\n-|-|"],
)
def test_time_is_linear(piece):
    start = time.process_time()
    remove_markdown(piece * 20_000)
    assert time.process_time() - start < 3  # quadratic would be minutes
