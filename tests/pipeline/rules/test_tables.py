"""Patterns mean the same in every Python that we support."""

import re
from pathlib import Path

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{+[0-9,]+\}+)\+")


def test_no_group_is_possessive():
    """Python before 3.11.5 does not step back in `(?:...)*+`: `(?>(?:...)*)` is right in all."""
    for path in [*Path("pipeline").rglob("*.py"), *Path("pipeline").rglob("*.toml")]:
        assert not POSSESSIVE_GROUP.search(path.read_text(encoding="utf-8")), path
