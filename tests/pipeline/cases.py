"""Tables of cases beside the tests that use them."""

import tomllib
from pathlib import Path
from typing import Any


def read_cases(test: str) -> dict[str, Any]:
    """The TOML beside a test file, whose `__file__` is given."""
    return tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))
