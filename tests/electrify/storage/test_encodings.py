"""Encodings of text files: by their mark, by a guess, and line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.storage.encodings import decode_file, decode_line, guess_encoding, reads_lines_alone
from tests.pipeline.cases import read_cases

KOREAN = "한국어 문장입니다. 첫째 줄과 둘째 줄이 있습니다."


@pytest.mark.parametrize(("encoding", "text"), read_cases(__file__)["guessed"])
def test_the_encoding_is_guessed_though_the_language_is_not_known(encoding, text):
    for num_lines in (1, 40):
        assert guess_encoding((text + "\n").encode(encoding) * num_lines) == encoding


def test_a_codec_of_the_expected_language_is_preferred():
    data = "reče, teče, seče, peče".encode("cp1250")
    assert [guess_encoding(data, language) for language in ("it", "sl")] == ["cp1252", "cp1250"]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"plain", b"\0\1\2" * 50, KOREAN.encode()[1:-1]),
        # a stray zero byte
        *(f"{KOREAN}\0".encode(), b"plain text with a \0 byte in it\n" * 9),
    ],
)
def test_ascii_and_broken_utf_8_are_utf_8(data):
    assert guess_encoding(data, "ko") == guess_encoding(data) == "utf-8"


def test_where_lines_are_mixed_the_encoding_of_the_others_is_guessed():
    lines = [KOREAN.encode("cp949" if i % 2 else "utf-8") for i in range(20)]
    assert guess_encoding(b"\n".join(lines)) == "cp949"
    assert decode_file(b"\n".join(lines), "lines") == ("\n".join([KOREAN] * 20), "cp949")
    bad = [KOREAN.encode()] * 50 + [KOREAN.encode()[:-2]]  # a line that was cut
    assert guess_encoding(b"\n".join(bad)) == "utf-8"
    with pytest.raises(ValueError, match="bad: line 51 is not text in utf-8"):
        decode_file(b"\n".join(bad), "bad")


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
    assert all(map(reads_lines_alone, ("cp949", "gb18030", "shift_jis", "koi8_r")))
    assert not any(map(reads_lines_alone, ("utf-16-le", "iso2022_jp", "utf-7", "hz", "cp037")))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949", "euc_kr"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_is_decoded_without_its_mark_and_with_newlines(encoding, end):
    lines = [f"{KOREAN} {number}" for number in range(5)]
    assert decode_file(end.join(lines).encode(encoding), "")[0] == "\n".join(lines)
