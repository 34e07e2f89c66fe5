"""Files that anyone may have written: JSON, names of files below a folder; tables of ours.

What is wrong is a `ValueError` that names the file.
"""

import json
import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

from electrify.system.outcome import UserError

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path) -> Any:
    """The value of a UTF-8 file (with a byte order mark or without); `ValueError` names the file.

    `FileNotFoundError` if there is none.
    """
    return parse_json(path.read_bytes(), path)


def read_toml(path: Path) -> dict[str, Any]:
    """A table of ours."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def parse_json(text: str | bytes, where: object, names_are_checked: bool = False) -> Any:
    """The value of a JSON text; `ValueError` says `where` it is from and what is wrong.

    Of a name that an object has twice, the last value counts; `names_are_checked`: it is an error.

    Beside what is no JSON, that is: other bytes than UTF-8, numbers of more digits than Python
    converts, lists in lists deeper than its stack, and halves of surrogate pairs, which could be
    neither tokenised nor written again.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_checked if names_are_checked else None)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not UTF-8: {error}") from None
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.start + 1]
        raise UserError(f"{where} is not text: {half!a} is half of a surrogate pair") from None
    except RecursionError:
        raise UserError(f"{where} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, and too many digits
        raise UserError(f"{where} is not valid JSON: {error}") from None
    return value


def _checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise UserError(f"{max(names, key=names.count)!r} is twice in an object")
    return value


def inner_path(folder: Path, name: object) -> Path:
    """The path of a file below `folder`; `ValueError` for a name that leads elsewhere."""
    inside = PurePosixPath(name) if isinstance(name, str) and "\0" not in name else None
    if inside is None or not inside.parts or inside.is_absolute() or ".." in inside.parts:
        raise UserError(f"{name!r} is no name of a file in {folder}")
    return folder / inside
