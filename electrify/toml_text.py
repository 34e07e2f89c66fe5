"""Values as TOML text, as configs and `--set` take them."""

import json
import re
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Any) -> str:
    """A JSON value as TOML, which has no null: such keys of a table are left out."""
    if isinstance(value, dict):
        pairs = (f"{toml_key(key)} = {toml_value(v)}" for key, v in value.items() if v is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return _json(value)


def toml_key(key: str) -> str:
    """One part of a dotted key: in quotes where it has to be."""
    return key if _BARE_KEY.fullmatch(key) else _json(key)


def _json(value: Any) -> str:
    # JSON's strings, numbers, true and false are TOML's, but for DEL in a string
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
