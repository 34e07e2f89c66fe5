"""Tables in int8 have a scale for each row."""

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.onnx.int8 import quantize_embeddings


def tied() -> tuple[Any, np.ndarray]:
    """A table of 100 rows, whose first is large, that is looked up and is the head's weight."""
    table = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32) * 0.01
    table[0] *= 1000
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["states"], "embeddings/Gather"),
            helper.make_node("Transpose", ["table"], ["turned"], "head/Transpose", perm=[1, 0]),
            helper.make_node("MatMul", ["states", "turned"], ["logits"], "head/MatMul"),
        ],
        "tied",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("states", "logits")],
        [numpy_helper.from_array(table, "table")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    ), table


def test_a_row_keeps_its_digits_beside_a_larger_one() -> None:
    model, table = tied()
    quantize_embeddings(model)
    assert [(of.name, of.data_type) for of in model.graph.initializer] == [
        ("table.int8", TensorProto.INT8),
        ("table.scale", TensorProto.FLOAT),
    ]  # one table, though two read it
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    states, logits = session.run(None, {"ids": np.arange(1, 100)})
    largest = np.abs(table).max(axis=1, keepdims=True)
    assert (np.abs(states - table[1:]) <= largest[1:] / 63 / 2 + 1e-9).all()
    assert np.abs(numpy_helper.to_array(model.graph.initializer[0])).max() == 63
    expected = states @ table.T
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(logits - expected) <= 0.03 * scale).all()
