"""Encodings of text files: by their mark, by a guess, and line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.storage.encodings import (
    decode_file,
    decode_line,
    guess_any_encoding,
    guess_encoding,
    reads_lines_alone,
)

KOREAN = "한국어 문장입니다. 첫째 줄과 둘째 줄이 있습니다."
JAPANESE = "これは日本語の文です。二つ目の文もあります。"
CHINESE = "今天天气很好，我和朋友一起去了公园。"
RUSSIAN = "Это русский текст. Вот ещё одно предложение."
GERMAN = "Grüße aus Köln, schöne Straßen und fröhliche Gäste."


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", GERMAN),  # in gb18030 Han characters, in cp1251 Cyrillic letters
        ("cp1252", "L'été dernier, le système a été réparé à Genève."),
        ("cp1252", "El niño comió una manzana. ¿Dónde está la canción?"),
        ("cp1250", "Książka leżała na stole, więc wziął ją i czytał całą noc."),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("cp1254", "Çocuklar ağaçların altında oynuyor, ışık çok güzel."),
        ("cp1251", RUSSIAN),
        ("koi8_r", RUSSIAN),
        ("cp1256", "هذه جملة باللغة العربية، وهذه جملة أخرى."),
        ("cp949", f"{KOREAN} iPhone은 좋다. API를 쓴다."),
        ("cp932", JAPANESE),
        ("gb18030", CHINESE),
        ("big5", "今天天氣很好，我和朋友一起去了公園，非常開心。"),
        ("utf-16-le", KOREAN),
        ("utf-16-be", KOREAN),
        ("utf-16-le", GERMAN),
        ("utf-16-be", RUSSIAN),
        ("utf-16-le", f"{JAPANESE} 2024"),
        ("iso2022_jp", f"{JAPANESE} 2024"),
        ("iso2022_jp_ext", f"{JAPANESE} ｶﾀｶﾅ"),
        ("iso2022_kr", KOREAN),
    ],
)
def test_the_encoding_is_guessed_though_the_language_is_not_known(encoding, text):
    for num_lines in (1, 40):
        assert guess_any_encoding((text + "\n").encode(encoding) * num_lines) == encoding


@pytest.mark.parametrize(
    ("encoding", "language", "text"),
    [("euc_jp", "ja", JAPANESE), ("koi8_r", "ru", RUSSIAN), ("utf-8", "ko", KOREAN)],
)
def test_a_known_language_is_looked_for_alone(encoding, language, text):
    assert guess_encoding((text + "\n").encode(encoding) * 20, language) == encoding


@pytest.mark.parametrize("data", [b"costs 5\x1b$ today", b"\x1b[1mbold\x1b[0m \x1b$B", b"a\x1b$B"])
def test_an_escape_sequence_without_text_behind_it_is_no_encoding(data):
    assert guess_any_encoding(data * 20) == "utf-8"


@pytest.mark.parametrize("data", [b"", b"plain", bytes(range(128, 256)) * 8, b"\0\1\2" * 50])
def test_no_encoding_is_guessed_for_what_is_no_text(data):
    assert guess_encoding(data, "ko") is None


@pytest.mark.parametrize("text", [f"{KOREAN}\0", "plain text with a \0 byte in it\n" * 9])
def test_a_stray_zero_byte_does_not_make_utf_16(text):
    assert guess_any_encoding(text.encode()) == "utf-8"


def test_where_lines_are_mixed_the_encoding_of_the_others_is_guessed():
    lines = [KOREAN.encode("cp949" if i % 2 else "utf-8") for i in range(20)]
    assert guess_any_encoding(b"\n".join(lines)) == "cp949"
    assert decode_file(b"\n".join(lines)) == ("\n".join([KOREAN] * 20), "cp949")
    bad = [KOREAN.encode()] * 50 + [KOREAN.encode()[:-2]]  # a line that was cut
    assert guess_any_encoding(b"\n".join(bad)) == "utf-8"
    with pytest.raises(ValueError, match="line 51 is not text in utf-8"):
        decode_file(b"\n".join(bad))


@given(st.text("가각힣짱챔최漢字一〈ㅋα a1", min_size=1))
def test_a_line_of_cp949_is_read_as_python_reads_it(line):
    data = line.encode("cp949")
    try:
        is_utf8 = max(data.decode(), default="") >= "\u0800"
    except UnicodeDecodeError:
        is_utf8 = False
    if not is_utf8:
        assert decode_line(data, "cp949") == line


def test_lines_stand_alone_but_in_encodings_with_a_state_or_wide_letters():
    alone = [
        name for name in ("cp949", "gb18030", "shift_jis", "koi8_r") if reads_lines_alone(name)
    ]
    assert len(alone) == 4
    assert not any(map(reads_lines_alone, ("utf-16-le", "iso2022_jp", "utf-7", "hz", "cp037")))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949", "euc_kr"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_is_decoded_without_its_mark_and_with_newlines(encoding, end):
    lines = [f"{KOREAN} {number}" for number in range(5)]
    assert decode_file(end.join(lines).encode(encoding))[0] == "\n".join(lines)
