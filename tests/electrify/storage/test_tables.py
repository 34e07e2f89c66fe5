"""How a table is written, and whether its first row names the columns."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.storage.tables import Dialect, guess_dialect, has_header, read_table

TEXTS = [
    f"{i}번째 후기: 오늘은 날씨가 좋아서, 공원에 {w}" for i, w in enumerate(["갔다", "있다"] * 4)
]
ROWS = [("id", "text", "label"), *((str(i), text, str(i % 2)) for i, text in enumerate(TEXTS))]


def _written(rows, delimiter=",", end="\r\n", quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return text.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("default", [",", "\t"])
def test_the_delimiter_is_seen(delimiter, default):
    text = _written(ROWS, delimiter)
    for head in (text, text[:-30]):
        assert guess_dialect(head, default=default).delimiter == delimiter
        assert guess_dialect(head, ("text",), default).delimiter == delimiter


@given(
    st.lists(st.tuples(*[st.text('가나 ab"\n;,', max_size=6)] * 2), min_size=1, max_size=9),
    st.sampled_from([",", "\t"]),
)
def test_quoted_cells_may_hold_anything(rows, delimiter):
    rows = [("text", "note"), *(row for row in rows if "".join(row).strip())]
    text = _written(rows, delimiter, "\n")
    dialect = guess_dialect(text, ("text",), delimiter)
    read = [tuple(row) for row in dialect.rows(io.StringIO(text, newline="")) if row]
    assert read == rows


@pytest.mark.parametrize(
    "cells",
    [
        ['"최고" 영화다', "둘"],  # no closing quotation mark stands before the delimiter
        ['"열고 닫지 않았다', *["둘"] * 9],
    ],
)
def test_a_table_without_quotes_is_seen(cells):
    text = "text\tlabel\n" + "".join(f"{cell}\t1\n" for cell in cells)
    assert guess_dialect(text, default="\t") == Dialect("\t", quoted=False)


def test_one_column_of_texts_with_commas_has_no_delimiter():
    text = "text\n하나, 둘\n하나, 둘, 셋\n하나\n"
    assert [*guess_dialect(text).rows(text.splitlines(keepends=True))][1] == ["하나, 둘"]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (("id", "text", "label"), True),
        (("번호", "감상평", "점수"), True),
        (("", "0", "1"), True),  # pandas
        (("7", "오늘은 날씨가 좋아서 공원에 갔다 왔다", "1"), False),
    ],
)
def test_the_first_row_names_the_columns_or_is_data(first, expected):
    assert has_header([first, *ROWS[1:]]) is expected


def test_what_cannot_be_known_is_not_guessed():
    rows = [(one, other) for one, other in zip(TEXTS[:4], TEXTS[4:], strict=True)]
    assert has_header(rows) is None
    assert has_header([("원문", "번역문"), *rows]) is True
    assert has_header([("보고서", "", ""), *ROWS[1:]]) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(("name", "delimiter"), [("a.CSV", ";"), ("a.csv", ","), ("a.tsv", "\t")])
def test_a_table_as_spreadsheets_write_it(tmp_path, encoding, name, delimiter):
    rows = [*ROWS, ("9", "둘\n째 줄", "1")]
    blank = [("", "", "")]
    (tmp_path / name).write_bytes(_written(blank + rows + blank * 3, delimiter).encode(encoding))
    assert [tuple(row) for row in read_table(tmp_path / name)] == rows
