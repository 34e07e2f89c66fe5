"""Which lines are of a language, by script and by models."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.language import (
    foreign_language,
    main_language,
    remove_foreign_lines,
)

SENTENCES = {
    "ko": "오늘은 날씨가 맑아서 친구와 강가를 따라 오래 걸었고 저녁에는 국수를 먹었다.",
    "en": "The weather was fine, so we walked along the river and had noodles in the evening.",
    "ja": "今日は天気が良かったので、友だちと川沿いを長く歩いて、夜は温かいうどんを食べました。",
    "zh": "今天天气很好，我和朋友沿着河边走了很久，晚上一起吃了热腾腾的面条。",
    "ru": "Сегодня была хорошая погода, мы долго гуляли вдоль реки, а вечером ели горячую лапшу.",
    "fr": "Il faisait beau aujourd'hui, nous avons marché le long de la rivière et dîné le soir.",
    "es": "Hoy hizo buen tiempo, caminamos mucho rato junto al río y por la noche cenamos fideos.",
    "de": "Heute war das Wetter schön, wir gingen lange am Fluss entlang und aßen abends Nudeln.",
    "vi": "Hôm nay trời đẹp nên chúng tôi đi bộ rất lâu dọc bờ sông và buổi tối ăn mì nóng.",
    "ar": "كان الطقس جميلا اليوم فمشينا طويلا على ضفة النهر ثم أكلنا في المساء طبقا من المعكرونة.",
    "hi": "आज मौसम अच्छा था इसलिए हम नदी के किनारे बहुत देर तक चले और शाम को गरम खाना खाया।",
    "th": "วันนี้อากาศดีมาก เราเดินเล่นริมแม่น้ำเป็นเวลานานและตอนเย็นก็กินก๋วยเตี๋ยว",
}
_CODE = "for (int i = 0; i < values.size(); ++i) { total += weight[i] * value_of(values[i]); }"


@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_is_of_its_own_language_alone(language):
    for other, sentence in SENTENCES.items():
        for text in (sentence, "\n".join([sentence] * 4)):
            for fraction in (0.5,) if text == sentence else (0.01, 1.0):
                drop = foreign_language(text, language, fraction)
                assert (drop and drop.reason) == (None if language == other else "foreign_language")


@pytest.mark.parametrize("language", SENTENCES)
def test_half_and_half(language):
    other = "en" if language != "en" else "ko"
    text = "\n".join([SENTENCES[language], SENTENCES[other]] * 3)
    assert foreign_language(text, language, 0.3) is None
    assert foreign_language(text, language, 0.7) is not None
    kept, num = remove_foreign_lines(text, language)
    assert kept == "\n".join([SENTENCES[language]] * 3)
    assert num == 3


def test_code_counts_as_no_language():
    text = "\n".join([SENTENCES["ko"], *[_CODE] * 30])
    assert foreign_language(text, "ko", 1.0) is None


def test_short_texts_are_dropped_only_without_a_letter_of_the_script():
    assert foreign_language("good", "ko", 0.5) is None
    assert foreign_language("this is a very good movie 굿", "ko", 0.5) is None
    for language, text in (
        ("ko", "this is a very good movie"),
        ("en", "한국어 문장이지만 영어 말뭉치에 들어 있는 짧은 글"),
        ("hi", "।।4.7।। There is no note to this verse."),  # a danda is no letter
        ("ar", "Orders، returns، invoices and payments؟"),
    ):
        assert foreign_language(text, language, 0.5) is not None


CHINESE = [
    "今天天气很好我们去公园",
    "这家餐厅的菜又便宜又好吃",
    "公司决定明年三月搬到新的办公楼",
    "全国人民代表大会常务委员会",
    "這個週末我們一起去看電影吧",
    "圖書館每天晚上九點關門",
    "Windows 更新之後電腦變得很慢",
]
JAPANESE = [
    "東京の天気は晴れです",
    "電車が遅れて会議に間に合わなかった",
    "コーヒー一杯三百円、安い！",
    "昭和の終わり頃の写真",
    # of Han alone
    "国会図書館関西館利用案内",
    "国土交通省気象庁緊急地震速報",
    "消費税増税法案衆院通過",
]


@pytest.mark.parametrize(
    ("text", "language"), [*((t, "zh") for t in CHINESE), *((t, "ja") for t in JAPANESE)]
)
def test_short_chinese_japanese_and_korean_are_told_apart(text, language):
    drops = {code: foreign_language(text, code, 0.5) for code in ("zh", "zh-Hant", "ja", "ko")}
    kept = {"zh", "zh-Hant"} if language == "zh" else {language}
    assert {code for code, drop in drops.items() if drop is None} == kept


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ko", "大韓民國臨時政府 樹立宣言"),  # Hanja alone
        ("ko", "東亞日報 創刊 百周年 記念 特輯號의 社說"),
        ("ko", "新型コロナ 확진자 다시 늘어"),
        ("ko", "中 시진핑 주석, 美 대통령과 통화"),
        ("ja", "韓国語の「안녕하세요」は挨拶"),
        ("zh", "优の良品专卖店欢迎您光临"),
        ("zh", "为了方便大家😀请用 Python 3.11"),
        ("en", "BTS (방탄소년단) release a new album in Seoul today"),
        ("en", "The newspaper Pravda (Правда) was founded by workers"),
        ("fr", "Microsoft Office SharePoint Server 2007"),
        ("es", "Runtime de Microsoft Visual Studio Tools para Office"),
        ("de", "FC Bayern gegen Real Madrid live"),
        ("th", "รีวิว iPhone Pro Max"),
        ("hi", "।।4.7।। इस पर टीका नहीं है, see verse eight."),
        ("ar", "Orders and returns، الطلبات والمرتجعات"),
    ],
)
def test_good_short_texts_with_letters_of_others_are_kept(language, text):
    assert foreign_language(text, language, 0.5) is None


def test_a_language_that_nothing_knows_is_never_dropped():
    for code in ("nv", "qaa", "zxx"):
        for text in SENTENCES.values():
            assert foreign_language("\n".join([text] * 5), code, 1.0) is None


@given(
    st.lists(st.sampled_from([*SENTENCES.values(), _CODE, "", "제목", "Title"]), max_size=12),
    st.sampled_from(sorted(SENTENCES)),
)
@settings(max_examples=30)
def test_removing_foreign_lines_twice_is_removing_them_once(lines, language):
    text = "\n".join(lines)
    once, num = remove_foreign_lines(text, language)
    assert remove_foreign_lines(once, language) == (once, 0)
    assert num == len(lines or [""]) - len(once.split("\n")) or not once


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("국회는 오늘 본회의를 열어 예산안을 처리했다.\nfor (i = 0; i < n; ++i) { next(); }", "ko"),
        ("予算案は今日の本会議で可決されました。", "ja"),
        ("今天议会通过了明年的预算法案，政府表示欢迎。", "zh"),
        ("Das Parlament hat heute den Haushalt des nächsten Jahres beschlossen.", "de"),
        ("Сегодня парламент принял бюджет на следующий год.", "ru"),
        ("ㅋㅋ", None),
        ("12 + 34 = 46\n", None),
        ("", None),
    ],
)
def test_the_main_language_of_a_text_of_which_nothing_is_known(text, language):
    assert main_language(text) == language
