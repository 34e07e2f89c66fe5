"""int8 by the dynamic quantisation of onnxruntime."""

import logging
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path


def quantize(
    file_in: Path, file_out: Path, reduced_range: bool = False, kept: Collection[str] = ()
) -> None:
    """Write an fp32 file of `export_onnx` with weights and embeddings in int8.

    `reduced_range`: 7 bits, for machines with AVX2 alone, whose products of 8 bits overflow.
    `kept` are patterns of modules that stay in fp32, such as `encoder.layer.0.*`.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(file_in)
    excluded = [
        node.name
        for node in model.graph.node
        if any(fnmatch(node.name.partition("/")[0], pattern) for pattern in kept)
    ]
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # it advises a step that is of no use here
    try:
        quantize_dynamic(
            model,
            file_out,
            op_types_to_quantize=["MatMul", "Gather"],
            weight_type=QuantType.QInt8,
            reduce_range=reduced_range,
            nodes_to_exclude=excluded,
        )
    finally:
        logger.setLevel(level)
