"""The options of the exported folders."""

from typing import Literal

from electrify.config.section import Section


class ExportConfig(Section):
    """The last checkpoint to `transformers` folders (model/export.py)."""

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Type of the weights in the files. `float16` and `bfloat16` halve the files. `transformers`
    computes in the type that it finds, unless `from_pretrained` is given another `dtype`."""
