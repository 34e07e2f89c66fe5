"""Embeddings in int8 with a scale for each row, which onnxruntime's quantiser does not do.

One scale for a whole table is set by its largest number: rare pieces, whose rows are small, lose
most of their bits. Where a table is the vocabulary head's weight, too, both read the same int8.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

_MIN_ROWS = 64  # token types and the like stay as they are


def quantize_tables(model: Any, product_levels: int, kept: Collection[str] = ()) -> None:
    """Put int8 in place of every table that is looked up by row; `kept` are names of nodes.

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
