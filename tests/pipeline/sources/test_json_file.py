"""JSON in the forms that people have it: the same documents from all, and paths to a text."""

import json

import pytest

from pipeline.sources.files import line_parts, split_file
from pipeline.sources.input_file import Raw
from pipeline.sources.json_file import text_path
from pipeline.sources.readers import read_file
from tests.pipeline.sources.reading import (
    LINE_BYTES,
    file_of,
    read_data,
    read_path,
    reasons_of,
    source_of,
    with_peak,
)

TEXTS = [f'{i}번째 글: "[{{괄호}}], 쉼표"' for i in range(30)]
ROWS = [{"id": i, "text": text, "tags": ["a", "b"]} for i, text in enumerate(TEXTS)]
LINES = [json.dumps(row, ensure_ascii=False) for row in ROWS]
PRETTY = [json.dumps(row, ensure_ascii=False, indent=4) for row in ROWS]
OBJECT_A_LINE = {
    "lines": "\n".join(LINES),
    "list": "[\n" + ",\n".join(LINES) + "\n]\n",
    "commas in front": "[ " + "\n, ".join(LINES) + " ]",
    "list without its end": "[\r\n" + ",\r\n".join(LINES) + ",\r\n",
    "commas without a list": ",\n".join(LINES) + ",\n",
    "files that were joined": "\n".join(f"\ufeff{line}" for line in LINES),
}
OVER_LINES = {
    "list in one line": json.dumps(ROWS),
    "pretty list": json.dumps(ROWS, ensure_ascii=False, indent=2),
    "pretty objects": "\n".join(PRETTY),
    "objects in one line": "".join(LINES),
    "objects with commas": ",".join(PRETTY),
    "record separators": "".join(f"\x1e{row}\n" for row in PRETTY),
}


@pytest.mark.parametrize("form", [*OBJECT_A_LINE, *OVER_LINES])
def test_every_form_gives_the_same_documents_and_an_object_a_line_in_parts(tmp_path, form):
    path, text = tmp_path / "a.json", (OBJECT_A_LINE | OVER_LINES)[form]
    path.write_text(text, encoding="utf-8", newline="")
    file = file_of(path)
    parts = split_file(file, source_of(), part_bytes=100)
    assert parts == (line_parts(file, 100) if form in OBJECT_A_LINE else [file])
    items = [item for part in parts for item in read_file(part, source_of(), LINE_BYTES)]
    assert [item.text for item in items] == TEXTS
    encoding = "utf-8" if "\ufeff" in text else "cp949"
    items = read_data(tmp_path, text.encode(encoding), encoding=encoding)
    assert [(i.text, i.source_id) for i in items] == [(t, str(n)) for n, t in enumerate(TEXTS)]


def test_bad_lines_of_a_list_are_faults_of_their_own(tmp_path):
    for place in range(6):  # also at the head
        lines, expected = LINES[:5], TEXTS[:5]
        lines.insert(place, '{"text": ')
        expected.insert(place, "malformed_json")
        for text in ("[\n" + ",\n".join(lines) + "\n]", "\n".join(lines)):
            assert reasons_of(read_data(tmp_path, text)) == expected


NIKL = {
    "id": "N",
    "metadata": {"title": "신문"},
    "document": [
        {
            "id": f"N.{i}",
            "url": f"u{i}",
            "paragraph": [{"id": 1, "form": text}, {"id": 2, "form": None}, {"form": "둘째."}],
        }
        for i, text in enumerate(TEXTS)
    ],
}
PARAGRAPHS = [{"context": text, "qas": [{"question": "누구?"}]} for text in TEXTS]
AIHUB = {"data": [{"title": "제목", "paragraphs": [paragraph]} for paragraph in PARAGRAPHS]}


@pytest.mark.parametrize("indent", [None, 4])
def test_documents_of_one_object_a_file(tmp_path, indent):
    """As Korea's National Institute and AI-Hub publish corpora: texts deep within an object."""
    data = json.dumps(NIKL, ensure_ascii=False, indent=indent).encode("utf-8-sig")
    expected = [
        Raw(i + 1, f"{text}\n둘째.", url=f"u{i}", source_id=f"N.{i}")
        for i, text in enumerate(TEXTS)
    ]
    for field in ("document[].paragraph.form", "document[].paragraph[].form"):
        assert read_data(tmp_path, data, text_field=field) == expected
    (whole,) = read_data(tmp_path, data, text_field="document.paragraph.form")
    assert whole.text == "\n".join(item.text for item in expected)
    data = json.dumps(AIHUB, indent=indent)
    items = read_data(tmp_path, data, text_field="data[].paragraphs[].context")
    assert [item.text for item in items] == TEXTS


def test_paths_into_rows(tmp_path):
    rows = [{"body": {"parts": ["하나", "둘"]}, "id": 3}]
    rows += [{"body": {"parts": []}}, {"body": {"parts": [1]}}]
    rows += [{"body.parts": "이름에 점이 있다"}, {"body": None}]
    data = "".join(f"{json.dumps(row)}\n" for row in rows)
    items = read_data(tmp_path, data, text_field="body.parts")
    assert items[0] == Raw(1, "하나\n둘", source_id="3")
    assert items[3] == Raw(4, "이름에 점이 있다")
    faults = ["missing_field", "wrong_type", "missing_field"]
    assert [reasons_of(items)[place] for place in (1, 2, 4)] == faults
    assert reasons_of(read_data(tmp_path, data, text_field="body.parts[]"))[:2] == ["하나", "둘"]


def test_a_large_object_is_read_document_by_document(tmp_path):
    path = tmp_path / "a.json"
    row = json.dumps({"text": "가" * 10_000})  # 60,000 bytes
    path.write_text('{"info": {"n": 1}, "data": [' + ",".join([row] * 300) + "]}")
    items, peak = with_peak(lambda: read_path(path, text_field="data[].text"))
    assert [len(item.text) for item in items] == [10_000] * 300
    assert peak < 18_000_000
    (fault,) = read_path(path, text_field="data.text", max_line_bytes=100_000)
    assert fault.reason == "line_too_long"
    path.write_text(path.read_text().replace(",", ",\n"))
    (fault,) = read_path(path, text_field="data.text", max_line_bytes=100_000)
    assert "a JSON value of more than clean.max_line_bytes = 100,000" in fault.detail


def test_what_comes_before_a_fault_between_objects_stands(tmp_path):
    *items, fault = read_data(tmp_path, "\n".join([*PRETTY[:3], "{ broken", *PRETTY[3:]]))
    assert [item.text for item in items] == TEXTS[:3]
    assert fault.reason == "unreadable_file"
    assert "no JSON at character" in fault.detail
    data = "\n".join(PRETTY).encode().replace(b"\xea\xb8\x80", b"\xea\xb8", 1)
    fault, *items = read_data(tmp_path, data)
    assert (fault.reason, len(items)) == ("invalid_utf8", len(TEXTS) - 1)


@pytest.mark.parametrize(
    ("value", "is_file", "expected"),
    [
        (NIKL, True, "document[].paragraph.form"),
        (AIHUB, True, "data[].paragraphs.context"),
        (NIKL["document"][0], False, "paragraph.form"),
        ({"text": "짧다", "note": TEXTS[0]}, False, "text"),
        ({"tokens": ["긴", "낱말들의", "목록"], "s": "글"}, False, "s"),
        ({"n": 1, "url": "https://example.org/long/address"}, False, None),
        ({f"k{n}": text for n, text in enumerate(TEXTS)}, True, None),  # documents by id
    ],
)
def test_the_path_with_most_letters(value, is_file, expected):
    assert text_path([value], is_file) == expected
