"""int8 is near fp32, in every variant; what is kept is equal; tables have a scale for each row."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.onnx.export import Exported, predict
from benchmarks.onnx.int8 import VARIANTS, error, modules, quantize, quantize_embeddings

ROWS = [
    {
        "input_ids": np.array([2, 5, 6, 7, 3]),
        "attention_mask": np.ones(5, dtype=np.int64),
        "token_type_ids": np.zeros(5, dtype=np.int64),
    }
]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_near_fp32(name: str, exported: Exported, tmp_path: Path) -> None:
    quantize(exported.file, tmp_path / "int8.onnx", VARIANTS[name])
    assert 0 < error(predict(exported.file, ROWS), predict(tmp_path / "int8.onnx", ROWS)) < 0.2


def test_kept_modules_stay_in_fp32(exported: Exported, tmp_path: Path) -> None:
    names = modules(exported.file)
    assert "encoder.layer.1.output.dense" in names
    assert "dense_prediction" in names
    quantize(exported.file, tmp_path / "all.onnx", kept=names)
    assert error(predict(exported.file, ROWS), predict(tmp_path / "all.onnx", ROWS)) == 0
    quantize(
        exported.file,
        tmp_path / "part.onnx",
        kept=[name for name in names if name.startswith("encoder.layer.0.")],
    )
    products = [
        node.name.partition("/")[0].partition(".")[2]
        for node in onnx.load(tmp_path / "part.onnx").graph.node
        if node.op_type == "MatMul" and "dense" in node.name
    ]
    assert products == [name for name in names if "layer.0." in name and "dense" in name]


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


@pytest.mark.parametrize("levels", [63, 127])
def test_a_row_keeps_its_digits_beside_a_larger_one(levels: int) -> None:
    model, table = tied()
    quantize_embeddings(model, levels)
    assert [(of.name, of.data_type) for of in model.graph.initializer] == [
        ("table.int8", TensorProto.INT8),
        ("table.scale", TensorProto.FLOAT),
    ]  # one table, though two read it
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    states, logits = session.run(None, {"ids": np.arange(1, 100)})
    largest = np.abs(table).max(axis=1, keepdims=True)
    assert (np.abs(states - table[1:]) <= largest[1:] / levels / 2 + 1e-9).all()
    assert np.abs(numpy_helper.to_array(model.graph.initializer[0])).max() == levels
    expected = states @ table.T
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(logits - expected) <= 0.03 * scale).all()
