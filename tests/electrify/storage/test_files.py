"""JSON that anyone may have written: a value, or a `ValueError` that names the file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.storage.files import inner_path, parse_json, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.booleans())
def test_what_was_written_is_read(value, ensure_ascii):
    text = json.dumps(value, ensure_ascii=ensure_ascii)
    assert parse_json(text, "here") == parse_json(text.encode("utf-8-sig"), "here") == value


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_an_error_with_the_place(data):
    refused, value = None, None
    try:
        value = parse_json(data, "the place")
    except ValueError as error:
        refused = error
    assert not isinstance(refused, UnicodeError)
    assert refused is None or str(refused).startswith("the place")
    json.dumps(value, ensure_ascii=False).encode()  # can be written again


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"1" * 5000, "digits"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\uDC00": 1}', "surrogate"),
        (b'"\xff"', "not UTF-8"),
        (b"", "not valid JSON"),
    ],
)
def test_each_way_to_be_no_json_is_named_with_the_file(tmp_path, data, message):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"(?s)a.json.*{message}"):
        read_json(path)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "", ".", "a\0b", None, 3, []])
def test_no_name_leads_out_of_its_folder(tmp_path, name):
    with pytest.raises(ValueError, match="is no name of a file"):
        inner_path(tmp_path, name)
