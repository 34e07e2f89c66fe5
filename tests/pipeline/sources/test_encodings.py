"""Sources in other encodings than UTF-8, and with other line ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.input_file import Raw
from pipeline.sources.lines import to_utf8
from tests.pipeline.sources.reading import read_data

KOREAN = "한국어 문장입니다. 첫째 줄과 둘째 줄이 있습니다."
JAPANESE = "これは日本語の文です。二つ目の文もあります。"


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
    data = "가나\n".encode("cp949") + b"\xff\x81\n" + "다라".encode("cp949")
    first, fault, last = read_data(tmp_path, data, "text", encoding="cp949", document="line")
    assert (first, last) == (Raw(1, "가나"), Raw(3, "다라"))
    assert (fault.row, fault.reason) == (2, "wrong_encoding")
    assert "reads as" not in fault.detail  # most rows are good


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_byte_order_mark_counts_more_than_the_config(tmp_path, encoding):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    data = f"{mark}{KOREAN}\n{KOREAN}".encode(encoding)
    for named in ("utf-8", "cp949"):
        items = read_data(tmp_path, data, "text", encoding=named, document="line")
        assert [item.text for item in items] == [KOREAN, KOREAN]
