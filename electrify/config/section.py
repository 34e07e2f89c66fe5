"""What every part of the config shares."""

import os
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1, lt=2**63)]
LocalPath = Annotated[str, AfterValidator(os.path.expanduser)]  # ~ is the home folder


class Section(BaseModel):
    """A part of the config: frozen, strictly typed, no unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the description of a key stands below it
    )
