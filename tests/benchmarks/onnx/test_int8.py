"""Tables in int8 have a scale for each row."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.onnx.int8 import quantize


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
    operators = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=operators, ir_version=10), table


def test_a_row_keeps_its_digits_beside_a_larger_one(tmp_path: Path) -> None:
    (model, table), file = tied(), tmp_path / "int8.onnx"
    onnx.save(model, tmp_path / "fp32.onnx")
    quantize(tmp_path / "fp32.onnx", file)
    found = onnx.load(file).graph.initializer
    of_size = [each.data_type for each in found if len(each.dims) == 2 and max(each.dims) == 100]
    assert sorted(of_size) == sorted([TensorProto.INT8, TensorProto.INT8, TensorProto.FLOAT])
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    states, logits = session.run(None, {"ids": np.arange(1, 100)})
    largest = np.abs(table).max(axis=1, keepdims=True)
    assert (np.abs(states - table[1:]) <= largest[1:] / 127 / 2 + 1e-9).all()
    expected = states @ table.T
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(logits - expected) <= 0.03 * scale).all()
