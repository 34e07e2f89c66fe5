"""How a table is written, and whether its first row names the columns."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.storage.tables import (
    guess_delimiter,
    guess_escape,
    has_cells,
    has_header,
    read_rows,
    read_table,
)

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
        assert guess_delimiter(head, default=default) == delimiter
        assert guess_delimiter(head, ("text",), default) == delimiter


def _read(text, delimiter, **options):
    rows = read_rows(io.StringIO(text, newline=""), delimiter, **options)
    return [tuple(row) for _, row in rows if row]


@given(
    st.lists(st.tuples(*[st.text('가나 ab"\n;,', max_size=6)] * 3), min_size=1, max_size=9),
    st.sampled_from([",", "\t"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_quoted_cells_may_hold_anything(rows, delimiter, quoting):
    rows = [("text", "note", "n"), *(row for row in rows if "".join(row).strip())]
    text = _written(rows, delimiter, "\n", quoting)
    assert guess_delimiter(text, ("text",), delimiter) == delimiter
    assert _read(text, delimiter, quoted=True) == rows
    # but where tabs make a row of each line
    lines = text.split("\n")
    if delimiter == "," or not any(of.count(delimiter) == 2 and '"' in of for of in lines):
        assert _read(text, delimiter) == rows


@given(st.lists(st.tuples(*[st.text('가나 ab"\\\n;,', max_size=6)] * 2), min_size=1, max_size=9))
def test_marks_behind_a_backslash_are_text(rows):
    """As MySQL and ClickHouse write tables; `\\N` is null there."""
    rows = [("text", "note", "n"), *((*row, "\\N") for row in rows), ('그는 "안녕" 했다', "", "1")]
    cells = [["\\N" if cell == "\\N" else f'"{_escaped(cell)}"' for cell in row] for row in rows]
    text = "".join(",".join(row) + "\n" for row in cells)
    assert guess_escape(f"{text}\n", ",") == "\\"
    read = _read(text, ",", escape="\\")
    assert read == [tuple("" if cell == "\\N" else cell for cell in row) for row in rows]


def _escaped(cell):
    return cell.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\\n")


def test_a_backslash_that_stands_before_no_mark_is_a_character():
    """As Spark and PHP write: marks alone are escaped. In another table it is always one."""
    text = 'id,text\n1,"그는 \\"네\\", 라고 C:\\new"\n2,"x \\alpha, y"\n'
    assert guess_escape(text, ",") == "\\"
    rows = [("1", '그는 "네", 라고 C:\\new'), ("2", "x \\alpha, y")]
    assert _read(text, ",", escape="\\")[1:] == rows
    for text in (
        'id,text\n1,좋아요 C:\\new\n3,"좋다\\" 는 말\n4,끝 \\alpha\n',
        'a,b\n"C:\\",1\n"D:\\",2\n',
        'a,b\n"say ""\\""",1\n',
        "a,b\n\\x,1\n",
    ):
        assert guess_escape(text, ",") is None


@given(st.lists(st.tuples(*[st.text('가나 ab",', max_size=6)] * 2), min_size=1, max_size=9))
def test_a_table_without_quotes_is_read_line_by_line(rows):
    """A mark that is never closed hides nothing, nor one that another row happens to close."""
    rows = [("text", "n"), *rows]
    text = "".join(f"{one}\t{other}\n" for one, other in rows)
    assert _read(text, "\t", quoted=False) == rows
    read = _read(text, "\t")
    assert len(read) == len(rows)
    for cells, expected in zip(read, rows, strict=True):
        assert [c.replace('"', "") for c in cells] == [c.replace('"', "") for c in expected]


def test_rows_are_numbered_by_their_first_line():
    text = 'a,b\n"1\n2",3\n\n"open,4\n5,6\n'
    found = [(1, ["a", "b"]), (2, ["1\n2", "3"]), (4, []), (5, ['"open', "4"]), (6, ["5", "6"])]
    assert list(read_rows(io.StringIO(text), ",")) == found
    *_, (number, fault) = read_rows(io.StringIO('a,b\n"open,4\n5,6\n'), ",", quoted=False)
    assert (number, fault) == (3, ["5", "6"])


def test_the_first_line_in_which_a_spreadsheet_names_its_delimiter_is_no_row():
    text = "sep=;\n\na;b\n1;2\n"
    assert next(row for row in _read(text, guess_delimiter(text)) if has_cells(row)) == ("a", "b")


def test_one_column_of_texts_with_commas_has_no_delimiter():
    assert guess_delimiter("text\na,1\nb,2\n") == ","  # a name is missing
    for texts in (["하나, 둘", "셋, 넷"], ["하나, 둘", "하나, 둘, 셋", '"하나\n둘"']):
        text = "\n".join(["text", *texts, ""])
        expected = [(cell.strip('"'),) for cell in texts]
        assert _read(text, guess_delimiter(text))[1:] == expected


PAIRS = [*zip(TEXTS[:4], TEXTS[4:], strict=True)]
LABELLED = [(f"{text} {n}", "나쁨" if n % 2 else "좋음") for n in range(3) for text in TEXTS[:4]]
HEADER = ("평", "라벨")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (ROWS, True),
        ([("번호", "감상평", "점수"), *ROWS[1:]], True),
        ([("", "0", "1"), *ROWS[1:]], True),  # pandas
        ([("7", "오늘은 날씨가 좋아서 공원에 갔다 왔다", "1"), *ROWS[1:]], False),
        ([("보고서", "", ""), *ROWS[1:]], None),  # cannot be known
        (PAIRS, None),
        ([("원문", "번역문"), *PAIRS], True),
        (LABELLED, False),  # the label recurs
        ([HEADER, *LABELLED], True),
        ([HEADER, *LABELLED, HEADER, *LABELLED, HEADER], True),  # joined files
    ],
)
def test_the_first_row_names_the_columns_or_is_data(rows, expected):
    assert has_header(rows) is expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize(("name", "delimiter"), [("a.CSV", ";"), ("a.csv", ","), ("a.tsv", "\t")])
def test_a_table_as_spreadsheets_write_it(tmp_path, encoding, name, delimiter):
    rows = [*ROWS, ("9", "둘\n째 줄", "1")]
    blank = [("", "", "")]
    (tmp_path / name).write_bytes(_written(blank + rows + blank * 3, delimiter).encode(encoding))
    assert [tuple(row) for row in read_table(tmp_path / name)] == rows
