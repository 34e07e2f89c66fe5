"""An ONNX file gives what torch gives, for any batch and length; a wrong one is not written."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import (
    AutoTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ModernBertForTokenClassification,
)

from benchmarks.encoder import replaced_logits
from benchmarks.onnx import export
from benchmarks.onnx.export import FP32_FILE, export_network, open_network, real_rows

TEXTS = ["오늘 국회 새 증시 큰 경찰 첫 여행 다시 외교"] * 10


@pytest.fixture
def exported(converted: Path) -> Path:
    """As the command wrote it."""
    return converted / "discriminator" / FP32_FILE


@pytest.fixture(scope="module")
def modern_exported(modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 32 positions."""
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert export_network(open_network(modern_folder), file, TEXTS).keys() == {8, 32}
    return file


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("kind", "folder", "file", "inputs"),
    [
        (ElectraForPreTraining, "model_folder", "exported", 3),
        (ModernBertForTokenClassification, "modern_folder", "modern_exported", 2),
    ],
)
def test_a_discriminator_has_the_states_and_logits_of_torch(kind, folder, file, inputs, request):
    path, opened = request.getfixturevalue(folder), session(request.getfixturevalue(file))
    names = [given.name for given in opened.get_inputs()]
    assert names == ["input_ids", "attention_mask", "token_type_ids"][:inputs]
    assert [given.name for given in opened.get_outputs()] == ["last_hidden_state", "logits"]
    model = kind.from_pretrained(path).eval()
    generator = torch.Generator().manual_seed(0)
    for size in ((1, 1), (1, 7), (5, 32)):
        rows = {
            "input_ids": torch.randint(5, 18, size, generator=generator),
            "attention_mask": torch.ones(size, dtype=torch.int64),
            "token_type_ids": torch.randint(0, 2, size, generator=generator),
        }
        rows["attention_mask"][1:, size[1] // 2 :] = 0
        rows = {name: rows[name] for name in names}
        with torch.inference_mode():
            states = model.base_model(**rows).last_hidden_state.numpy()
            logits = replaced_logits(model(**rows).logits)
            logits = torch.stack([torch.zeros_like(logits), logits], -1).numpy()
        outputs = opened.run(None, {name: of.numpy() for name, of in rows.items()})
        read = rows["attention_mask"].numpy() > 0  # what is padding differs by the attention
        for output, expected in zip(outputs, (states, logits), strict=True):
            np.testing.assert_allclose(output[read], expected[read], atol=1e-5)


def test_a_generator_has_the_logits_of_the_vocabulary(tmp_path: Path, model_folder: Path) -> None:
    shape, folder = ElectraConfig.from_pretrained(model_folder), tmp_path / "generator"
    ElectraForMaskedLM(shape).half().save_pretrained(folder)  # exported in single precision
    AutoTokenizer.from_pretrained(model_folder).save_pretrained(folder)
    export_network(open_network(folder), tmp_path / "generator.onnx", TEXTS)
    opened = session(tmp_path / "generator.onnx")
    model = ElectraForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = real_rows(open_network(folder).source, TEXTS, 8)
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(of) for name, of in rows.items()}).logits
    given = {each.name: rows[each.name] for each in opened.get_inputs()}
    (logits,) = opened.run(["logits"], given)
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)


def test_what_differs_from_torch_is_not_written(exported, model_folder, tmp_path, monkeypatch):
    graph = onnx.load(exported)
    bias = next(of for of in graph.graph.initializer if of.name.endswith("LayerNorm.bias"))
    wrong = onnx.numpy_helper.to_array(bias) + 1e-2
    bias.CopyFrom(onnx.numpy_helper.from_array(wrong, bias.name))
    monkeypatch.setattr(export, "_converted", lambda network: graph)
    with pytest.raises(ValueError, match="would differ from torch"):
        export_network(open_network(model_folder), tmp_path / "model.onnx", TEXTS)
    assert not list(tmp_path.iterdir())
