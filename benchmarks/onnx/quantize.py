"""int8: matrix products by the dynamic quantisation of onnxruntime, embeddings by row."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Literal

from benchmarks.onnx.tables import quantize_tables
from electrify.storage.files import read_toml


@dataclass(frozen=True)
class Variant:
    """How int8 is made; variants.toml says what each is for."""

    about: str = ""
    weight_bits: Literal[7, 8] = 7
    unsigned: bool = False  # weights of 0 to 255 with a zero point, in place of -127 to 127
    per_channel: bool = True  # a scale for each output of a matrix, in place of one for all
    tables: Literal["row", "tensor", "fp32"] = "row"  # what of the embeddings has a scale

    @property
    def is_safe_on_avx2(self) -> bool:
        """Whether no sum of two products is beyond 16 bits."""
        return self.weight_bits == 7 or self.unsigned


DEFAULT = Variant()


@cache
def variants() -> Mapping[str, Variant]:
    """Those of variants.toml, by name."""
    known = read_toml(Path(__file__).with_name("variants.toml"))
    return {name: Variant(**of) for name, of in known.items()}


def quantize(
    file_in: Path, file_out: Path, variant: Variant = DEFAULT, kept: Collection[str] = ()
) -> None:
    """Write an fp32 file of `export_onnx` in int8.

    `kept` are patterns of modules that stay in fp32, as `modules` names them.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(file_in)
    excluded = [
        node.name
        for node in model.graph.node
        if any(fnmatch(_module(node.name), pattern) for pattern in kept)
    ]
    if variant.tables == "row":
        quantize_tables(model, 63 if variant.is_safe_on_avx2 else 127, excluded)
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # it advises a step that is of no use here
    try:
        quantize_dynamic(
            model,
            file_out,
            op_types_to_quantize=["MatMul", *["Gather"] * (variant.tables == "tensor")],
            weight_type=QuantType.QUInt8 if variant.unsigned else QuantType.QInt8,
            per_channel=variant.per_channel,
            reduce_range=variant.weight_bits == 7,
            nodes_to_exclude=excluded,
        )
    finally:
        logger.setLevel(level)


def _module(node: str) -> str:
    return node.partition("/")[0].partition(".")[2]


def modules(file: Path) -> list[str]:
    """The modules of an fp32 file whose weights `quantize` makes int8.

    They are named from below the encoder or the head, so that an encoder's have the same names in
    every network on it: `encoder.layer.0.output.dense`.
    """
    import onnx

    graph: Any = onnx.load(file, load_external_data=False).graph
    names = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    quantized = [
        _module(node.name)
        for node in graph.node
        if node.op_type in ("MatMul", "Gather") and names & set(node.input)
    ]
    return list(dict.fromkeys(quantized))
