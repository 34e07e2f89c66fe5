"""Rules of the user's own: functions of files that `clean.extra_rules` names.

A function gets a text and its language, and returns the text as it should be, or None to remove the
document. Workers get the code of the file, not the file: it may import what they have installed.
"""

import sys
import types
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from electrify.system.outcome import UserError, first_line


class ExtraRule(NamedTuple):
    name: str  # of the function: the reason of what it removes
    apply: Callable[[str, str], str | None]  # text and language to the text, or None


def read_code(names: Sequence[str]) -> dict[str, str]:
    """The code of each file that `clean.extra_rules` names, by path; the rules are made once."""
    code: dict[str, str] = {}
    for path in dict.fromkeys(name.rpartition(":")[0] for name in names):
        try:
            code[path] = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"clean.extra_rules: {path} cannot be read ({first_line(error)}); relative paths "
                f"start at {Path.cwd()}"
            ) from None
    made_rules(tuple(names), tuple(code.items()))
    return code


@cache
def made_rules(names: tuple[str, ...], code: tuple[tuple[str, str], ...]) -> list[ExtraRule]:
    """The rules of names such as `rules.py:drop_letters`, made from the (path, code) of their files
    once a process and not for each file that is cleaned."""
    spaces = {path: _namespace(path, text) for path, text in code}
    rules = []
    for name in names:
        path, _, function = name.rpartition(":")
        given = spaces[path].get(function)
        if not callable(given):
            raise UserError(f"clean.extra_rules: {path} has no function {function!r}")
        rules.append(ExtraRule(function, _checked(name, given)))
    return rules


def _namespace(path: str, code: str) -> dict[str, Any]:
    module = types.ModuleType(f"{__name__}:{path}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses look for it
    try:
        exec(compile(code, path, "exec"), module.__dict__)
    except Exception as error:  # whatever the code raises
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"clean.extra_rules: {path}{where}: {type(error).__name__}: {first_line(error)}"
        ) from error
    return module.__dict__


def _checked(name: str, rule: Callable[[str, str], Any]) -> Callable[[str, str], str | None]:
    """The rule, whose errors and other results are `UserError`s."""

    def apply(text: str, language: str) -> str | None:
        try:
            left = rule(text, language)
        except Exception as error:
            raise UserError(
                f"clean.extra_rules: {name} failed with {type(error).__name__}: "
                f"{first_line(error)} on a text that begins {text[:60]!r}"
            ) from error
        if left is None or isinstance(left, str):
            return left
        raise UserError(
            f"clean.extra_rules: {name} returned {type(left).__name__}, not a text or None"
        )

    return apply
