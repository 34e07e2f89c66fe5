"""docs/troubleshooting.md quotes messages as the code makes them."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from electrify.cli import with_flags

PAGE = Path("docs/troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^```text\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")


@cache
def strings() -> list[list[str]]:
    """Every string of the code, as its fixed parts in order; values stand between them."""
    makefile = re.findall(r'f"([^"]+)"', Path("Makefile").read_text(encoding="utf-8"))
    found = [re.split(r"\{\w+\}", line) for line in makefile]
    for package in PACKAGES:
        for path in Path(package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    fixed = [part.value for part in node.values if isinstance(part, ast.Constant)]
                    found.append([with_flags("evaluate", str(part)) for part in fixed])
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append([node.value])
    return found


ENOUGH = 15  # letters that no message has by chance


def fixed_letters(message: str) -> int:
    """The most letters of a message that one string of the code has, in its order."""
    most = 0
    for parts in strings():
        size = sum(map(len, parts))
        if most < size < len(message) and all(part in message for part in parts):
            pattern = ".*?".join(map(re.escape, parts))
            most = size if re.search(pattern, message, re.DOTALL) else most
    return most


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_stands_in_the_code(message: str):
    assert fixed_letters(message) >= ENOUGH, f"no string of the code makes: {message}"
