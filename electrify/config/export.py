"""The options of the exported folders."""

from typing import Annotated, Literal

from pydantic import Field

from electrify.config.section import Section


class OnnxConfig(Section):
    """The exported networks as ONNX files (benchmarks/onnx/): `electrify export --onnx`."""

    variants: Annotated[tuple[str, ...], Field(min_length=1)] = ("int8",)
    """Ways to make int8: `int8`, and `int8-vnni` for processors with VNNI. Each is scored beside
    fp32."""
    force: bool = False
    """A variant that loses too much is written all the same, and the card says so. `--force`, too.
    """


class ExportConfig(Section):
    """The last checkpoint to `transformers` folders (model/export.py)."""

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Type of the weights in the files. `float16` and `bfloat16` halve the files. `transformers`
    computes in the type that it finds, unless `from_pretrained` is given another `dtype`."""
    onnx: OnnxConfig = OnnxConfig()
