"""Sources in other encodings than UTF-8."""

import bz2
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.lines import guess_any_encoding, guess_encoding, to_utf8
from pipeline.sources.raw import Raw
from tests.pipeline.sources.reading import read_path

KOREAN = "한국어 문장입니다. 첫째 줄과 둘째 줄이 있습니다."
JAPANESE = "これは日本語の文です。二つ目の文もあります。"
CHINESE = "这是一句中文。这里还有第二句话。"
RUSSIAN = "Это русский текст. Вот ещё одно предложение."
GERMAN = "Grüße aus Köln, schöne Straßen und fröhliche Gäste."


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("cp949", KOREAN + " 똠방각하 뷁"),
        ("euc-kr", KOREAN),
        ("iso2022_jp", JAPANESE),
        ("gb18030", CHINESE),
        ("utf-16", KOREAN),
        ("utf-16-le", "\ufeff" + KOREAN),
        ("utf-8-sig", KOREAN),
    ],
)
def test_rows_are_those_of_the_decoded_text(tmp_path, encoding, line):
    lines = [f"{line} {i}" for i in range(50)]
    path = tmp_path / "a.txt"
    path.write_bytes("\n".join(lines).encode(encoding))
    lines[0] = lines[0].removeprefix("\ufeff")
    expected = [Raw(i + 1, text) for i, text in enumerate(lines)]
    assert read_path(path, "text", encoding=encoding, document="line") == expected

    path = tmp_path / "a.jsonl.bz2"
    rows = "".join(json.dumps({"text": t}, ensure_ascii=False) + "\n" for t in lines)
    path.write_bytes(bz2.compress(rows.encode(encoding)))
    assert read_path(path, encoding=encoding) == expected


@given(
    st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    st.sampled_from(["utf-16", "gb18030", "utf-7", "utf-32-be"]),
    st.integers(1, 9),
)
def test_chunks_may_end_within_a_character(text, encoding, chunk_bytes):
    data = text.encode(encoding)
    chunks = [data[i : i + chunk_bytes] for i in range(0, len(data), chunk_bytes)]
    # GB 18030 has two characters of the private use area moved: what it reads is the reference
    assert b"".join(to_utf8(chunks, encoding)) == data.decode(encoding).encode()


def test_a_bad_place_is_a_fault_of_its_row_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("가나\n".encode("cp949") + b"\xff\x81\n" + "다라".encode("cp949"))
    first, fault, last = read_path(path, "text", encoding="cp949", document="line")
    assert (first, last) == (Raw(1, "가나"), Raw(3, "다라"))
    assert (fault.row, fault.reason) == (2, "wrong_encoding")
    assert "reads as" not in fault.detail  # most rows are good


@pytest.mark.parametrize(
    ("encoding", "language", "text"),
    [
        ("cp949", "ko", KOREAN),
        ("utf-16", "ko", KOREAN),
        ("utf-16-le", "en", "Plain English text."),
        ("utf-16-be", "en", "Plain English text."),
        ("cp932", "ja", JAPANESE),
        ("euc_jp", "ja", JAPANESE),
        ("gb18030", "zh", CHINESE),
        ("big5", "zh", "這是一句中文。這裡還有第二句話。"),
        ("cp1251", "ru", RUSSIAN),
        ("koi8_r", "ru", RUSSIAN),
        ("cp1256", "ar", "هذه جملة باللغة العربية."),
        ("cp1252", "de", GERMAN),
        ("cp1252", "fr", "L’été dernier, à Paris, j’étais déjà là."),
        ("utf-8", "ko", KOREAN),
    ],
)
def test_the_encoding_is_guessed(encoding, language, text):
    assert guess_encoding((text + "\n").encode(encoding) * 20, language) == encoding


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
        ("gb18030", "这是一个中文文件，里面有很多汉字。"),
    ],
)
def test_the_encoding_is_guessed_though_the_language_is_not_known(encoding, text):
    for num_lines in (1, 40):
        assert guess_any_encoding((text + "\n").encode(encoding) * num_lines) == encoding


@pytest.mark.parametrize("data", [b"", b"plain", bytes(range(128, 256)) * 8, b"\0\1\2" * 50])
def test_no_encoding_is_guessed_for_what_is_no_text(data):
    assert guess_encoding(data, "ko") is None


def test_the_fault_of_a_wrong_encoding_says_which_it_may_be(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\n".join([KOREAN] * 200).encode("cp949"))
    faults = read_path(path, "text", document="line")
    assert len(faults) == 200
    assert all("the file reads as cp949: set source.encoding" in f.detail for f in faults[:100])
