"""What every part of the config shares."""

import os
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from electrify.system.outcome import UserError

_ONE_SLASH = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")


def _path(place: str) -> str:
    if match := _ONE_SLASH.match(place):
        raise UserError(f"{place!r}: an address has two slashes, as {match[1]}://bucket/folder")
    return os.path.expanduser(place)


Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1, lt=2**63)]
LocalPath = Annotated[str, AfterValidator(_path)]  # ~ is the home folder


class Section(BaseModel):
    """A part of the config: frozen, strictly typed, no unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the description of a key stands below it
    )
