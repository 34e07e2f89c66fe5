"""Residue of wikitext and of Aozora Bunko."""

import pytest

from pipeline.rules.markup.wiki import remove_aozora, remove_wikitext


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[대한민국|한국]]의 [[수도]]", "한국의 수도"),
        ("[[파일:a.jpg|섬네일|설명]]본문", "본문"),
        ("본문[[분류:도시]]", "본문"),
        ("{{lang|en|Seoul}}서울", "서울"),
        ("{{정보상자\n| 이름 = 가\n}}글", "글"),
        ("== 역사 ==\n글\n=== 근대 ===", "역사\n글\n근대"),
        ("= Title =", "Title"),
        ("말<ref>책, 3쪽</ref>이다<ref name=a/>.", "말이다."),
        ("'''굵게''' ''기울게''", "굵게 기울게"),
        ("__TOC__글", "글"),
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
        ("陽《ひ》は両｜乳房《ちち》の間", "陽は両乳房の間"),
        ("夢［＃「夢」に傍点］を見る", "夢を見る"),
        ("※［＃「弓＋剪」、U+5F45、1-2］く", "彅く"),
        ("※［＃二の字点、第3水準1-2-22］", "〻"),
        ("本文。\n底本：「集」書房\n入力：誰\n青空文庫作成ファイル：", "本文。"),
        (
            "題\n"
            + "-" * 30
            + "\n【テキスト中に現れる記号について】\n《》：ルビ\n"
            + "-" * 30
            + "\n本文",
            "題\n\n本文",
        ),
        ("山々をいよ／＼高く、ほろ／″＼と", "山々をいよ〱高く、ほろ〲と"),
        ("益※［＃二の字点、1-2-22］遠く", "益〻遠く"),
        ("第※［＃ローマ数字3、1-13-23］章", "第Ⅲ章"),
        ("※［＃「魚＋反」、118-4］を釣る", "※を釣る"),
    ],
)
def test_aozora(text, expected):
    assert remove_aozora(text) == expected


@pytest.mark.parametrize("text", ["《源氏物語》を読む", "と言った。《なぜ》", "底本：不明の本"])
def test_japanese_brackets_stay(text):
    assert remove_aozora(text) == text
