"""UTF-8 read with the wrong encoding comes back; other text stays as it is."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.rules.mojibake import repair_mojibake
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize("text", [*CASES["good"], "\n".join(CASES["good"])])
def test_good_text_stays(text):
    assert repair_mojibake(text) == text


@pytest.mark.parametrize("encoding", ["latin-1", "sloppy-windows-1252"])
@pytest.mark.parametrize("text", CASES["read_as_latin"])
def test_utf8_read_as_latin_is_repaired(text, encoding):
    # lines of their own, so that a line end cannot come from the bytes
    broken = text.encode("utf-8").decode(encoding)
    assert repair_mojibake(f"first\n{broken}\nlast") == f"first\n{text}\nlast"


@given(st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=4, max_size=40))
@example("갠갠갠갠")  # ftfy leaves it
@settings(max_examples=50)
def test_any_hangul_comes_back(text):
    assert repair_mojibake(text.encode("utf-8").decode("latin-1")) == text
