"""Keys, values, verbs and options of earlier versions: what to do instead (removed.toml)."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel

from electrify.config.fields import section_of

_TABLE: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
KEYS: Mapping[str, str] = _TABLE["keys"]
VALUES: Mapping[str, Mapping[str, str]] = _TABLE["values"]
VERBS: Mapping[str, str] = _TABLE["verbs"]
OPTIONS: Mapping[str, str] = _TABLE["options"]


def removed_key(location: Sequence[str | int], model: type[BaseModel]) -> str | None:
    """What to do instead of a key at a location in a model, as pydantic gives it."""
    return KEYS.get(_dotted(location, model))


def removed_value(
    location: Sequence[str | int], value: object, model: type[BaseModel]
) -> str | None:
    """What to do instead of a value at a location in a model."""
    return VALUES.get(_dotted(location, model), {}).get(str(value))


def _dotted(location: Sequence[str | int], model: type[BaseModel]) -> str:
    """The key without positions in lists and without tables whose keys the user chooses."""
    keys: list[str] = []
    is_chosen = False
    for part in location:
        if is_chosen or isinstance(part, int):
            is_chosen = False
            continue
        field = model.model_fields.get(part)
        section = section_of(field.annotation) if field else None
        is_chosen = bool(section and field and get_origin(field.annotation) is dict)
        if not is_chosen:
            keys.append(part)
        model = section or model
    return ".".join(keys)
