"""Patterns mean the same in every Python that we support."""

import re
from pathlib import Path

import pytest

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{+[0-9,]+\}+)\+")


@pytest.mark.parametrize(
    "path",
    [path for kind in ("*.py", "*.toml") for path in sorted(Path("pipeline").rglob(kind))],
    ids=str,
)
def test_no_group_is_possessive(path: Path):
    """Python before 3.11.5 does not step back in `(?:...)*+`: `(?>(?:...)*)` is right in all."""
    assert not POSSESSIVE_GROUP.search(path.read_text(encoding="utf-8"))


def test_a_possessive_group_is_seen():
    assert POSSESSIVE_GROUP.search(r"(?:a|b)*+")
    assert not POSSESSIVE_GROUP.search(r"a++\)*+")
