"""Tables of the rules that people edit, in TOML."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def read_table(name: str) -> dict[str, Any]:
    """The content of `name`.toml beside this file."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def fill(pattern: str, parts: dict[str, str]) -> str:
    """A pattern with the parts that it names, as `<name>`; a part may hold those above it."""
    for name in reversed(parts):
        pattern = pattern.replace(f"<{name}>", parts[name])
    return pattern


def compile_all(
    patterns: Mapping[str, str | Sequence[str]], parts: dict[str, str]
) -> dict[str, re.Pattern[str]]:
    """Patterns by name; one of several strings is what they are together."""
    return {name: re.compile(fill("".join(pieces), parts)) for name, pieces in patterns.items()}
