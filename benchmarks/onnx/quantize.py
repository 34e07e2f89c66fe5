"""int8: matrix products by the dynamic quantisation of onnxruntime, embeddings by row."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

Bits = Literal[7, 8]
# Processors with AVX2 or AVX512 but without VNNI add two products of 8 bits in 16, which overflow:
# with 7-bit weights no sum does.
VARIANTS: Mapping[str, Bits] = {"int8": 7, "int8-vnni": 8}
ABOUT: Mapping[str, str] = {
    "int8": "7-bit weights, a scale for each output and each embedding: for any processor",
    "int8-vnni": "8-bit weights: for processors with VNNI, wrong on AVX2 alone",
}
_MIN_ROWS = 64  # of a table: token types and the like stay as they are


def quantize(file_in: Path, file_out: Path, bits: Bits = 7, kept: Collection[str] = ()) -> None:
    """Write an fp32 file of `export_onnx` in int8.

    `kept` are modules that stay in fp32, as `modules` names them.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(file_in)
    excluded = [node.name for node in model.graph.node if _module(node.name) in kept]
    quantize_tables(model, 2 ** (bits - 1) - 1, excluded)
    with errors_alone():  # it advises a step that is of no use here
        quantize_dynamic(
            model,
            file_out,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=bits == 7,
            nodes_to_exclude=excluded,
        )


@contextmanager
def errors_alone(name: str | None = None) -> Iterator[None]:
    """Without the warnings of a logger; None: of all."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
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


def quantize_tables(model: Any, product_levels: int, kept: Collection[str] = ()) -> None:
    """Put int8 in place of every table that is looked up by row; `kept` are names of nodes.

    Each row has a scale, which onnxruntime's quantiser does not do: one scale for a whole table is
    set by its largest number, and rare pieces, whose rows are small, lose most of their bits. Where
    a table is the vocabulary head's weight, too, both read the same int8.

    Numbers go up to 127, or to `product_levels` where a matrix product reads the table, too.
    """
    from onnx import numpy_helper

    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    tables = {
        node.input[0]
        for node in graph.node
        if node.op_type == "Gather"
        and node.name not in kept
        and node.input[0] in weights
        and len(weights[node.input[0]].dims) == 2
        and weights[node.input[0]].dims[0] >= _MIN_ROWS
    }
    for name in sorted(tables):
        table = numpy_helper.to_array(weights[name])
        is_looked_up_alone = all(node.op_type == "Gather" for node in _readers(graph, name))
        levels = np.float32(127 if is_looked_up_alone else product_levels)
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-12) / levels
        rows = np.rint(table / scales).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(rows, f"{name}.int8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        if all(_replace(graph, node, name) for node in _readers(graph, name)):
            graph.initializer.remove(weights[name])


def _readers(graph: Any, name: str) -> list[Any]:
    return [node for node in graph.node if name in node.input]


def _replace(graph: Any, node: Any, name: str) -> bool:
    """Whether a node that reads the table now reads the int8 one."""
    from onnx import TensorProto, helper

    rows, scales, out = f"{name}.int8", f"{name}.scale", node.output[0]

    def make(kind: str, inputs: list[str], *outputs: str, **options: Any) -> Any:
        return helper.make_node(kind, inputs, outputs, f"{node.name}.{outputs[0]}", **options)

    if node.op_type == "Gather":
        ids = node.input[1]
        made = [
            make("Gather", [rows, ids], f"{out}.int8"),
            make("Cast", [f"{out}.int8"], f"{out}.cast", to=TensorProto.FLOAT),
            make("Gather", [scales, ids], f"{out}.scale"),
            make("Mul", [f"{out}.cast", f"{out}.scale"], out),
        ]
        _put(graph, node, made)
        return True
    readers = _readers(graph, out)
    if node.op_type != "Transpose" or [each.op_type for each in readers] != ["MatMul"]:
        return False
    product = readers[0]
    x, y = product.input[0], product.output[0]
    quantized = [f"{y}.input", f"{y}.input_scale", f"{y}.zero"]
    made = [
        make("Transpose", [rows], f"{out}.int8", perm=[1, 0]),
        make("DynamicQuantizeLinear", [x], *quantized),
        make("MatMulInteger", [quantized[0], f"{out}.int8", quantized[2]], f"{y}.sums"),
        make("Cast", [f"{y}.sums"], f"{y}.cast", to=TensorProto.FLOAT),
        make("Transpose", [scales], f"{out}.scale", perm=[1, 0]),
        make("Mul", [quantized[1], f"{out}.scale"], f"{y}.scale"),
        make("Mul", [f"{y}.cast", f"{y}.scale"], y),
    ]
    graph.node.remove(node)
    _put(graph, product, made)
    return True


def _put(graph: Any, node: Any, made: list[Any]) -> None:
    """Nodes in the place of one."""
    place = list(graph.node).index(node)
    graph.node.remove(node)
    for offset, new in enumerate(made):
        graph.node.insert(place + offset, new)
