"""int8 that loses is not written, unless it is forced; its card says what happened."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from benchmarks.encoder import open_model
from benchmarks.onnx import convert, int8
from benchmarks.onnx.convert import ConvertedNetworks, write_card
from benchmarks.onnx.export import FP32_FILE, INT8_FILE, predict
from benchmarks.onnx.int8 import Loss, problems, task_benchmark, token_benchmark
from benchmarks.statistics.uncertainty import Interval
from benchmarks.tasks.load import load_data
from benchmarks.training.network import Kept
from benchmarks.training.recipe import hyper_parameters
from electrify.cli import main
from electrify.config.evaluate import EvaluateConfig
from tests.benchmarks.onnx.conftest import TEXTS
from tests.benchmarks.records import own_task_of


@pytest.fixture
def group(converted: Path, model_folder: Path, tmp_path: Path) -> ConvertedNetworks:
    """A network and four tasks on it, which are all the same."""
    found = ConvertedNetworks("discriminator", num_tasks=4)
    for name in ("discriminator", "one", "two", "three", "four"):
        file = tmp_path / name / FP32_FILE
        file.parent.mkdir(parents=True)
        shutil.copyfile(converted / "discriminator" / FP32_FILE, file)
        found.files[name], found.differences[name] = file, {8: 1e-6}
    found.benchmarks["one"] = token_benchmark(open_model(str(model_folder)), TEXTS)
    return found


def turned_round(file_in: Path, file_out: Path) -> None:
    """A quantisation that turns every decision of the discriminator round."""
    model = onnx.load(file_in)
    last = [node for node in model.graph.node if node.op_type == "MatMul"][-1]
    weights = next(of for of in model.graph.initializer if of.name in last.input)
    weights.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weights), weights.name))
    onnx.save(model, file_out)


@pytest.mark.parametrize("force", [False, True])
def test_wrong_int8_is_written_only_by_force(force, group, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(int8, "quantize", turned_round)
    convert._judge(group, force)
    assert group.is_written == force
    assert "agrees with fp32 on" in group.problems[-1]
    files = [file.parents[1] / INT8_FILE for file in group.files.values()]
    assert [file.exists() for file in files] == [force] * 5
    write_card(tmp_path / "discriminator", group, "")
    card = (tmp_path / "discriminator" / "README.md").read_text(encoding="utf-8")
    assert ("**Written by force, although** replaced tokens" in card) == force
    assert ("Not written, because replaced tokens" in card) != force
    assert ("written all the same" if force else "not written (`export.onnx.force`") in caplog.text


def loss(**changes: Any) -> Loss:
    lost = Interval(changes.pop("lost", 0.0))
    plain = Loss("klue-ynat", "macro_f1", "examples", 1000, 0.8, 0.8, lost, 1.0)
    return replace(plain, **changes)


def test_the_gate_counts_points_and_agreement():
    assert problems([loss(lost=0.01, agreement=0.99), loss(lost=-0.2)]) == []
    (point,) = problems([loss(lost=0.0101)])
    assert point == "klue-ynat loses 1.01 points of macro_f1 (allowed 1.00)"
    (agreement,) = problems([loss(agreement=0.9899)])
    assert agreement.startswith("klue-ynat agrees with fp32 on 98.99 % of 1,000 examples")
    assert len(problems([loss(lost=float("nan"), agreement=float("nan"))])) == 2
    (constant,) = problems([loss(is_constant=True)])
    assert constant == "klue-ynat says nothing: fp32 predicts the same everywhere"


@pytest.mark.parametrize("kind", ["multi-label", "regression"])
def test_label_sets_agree_as_sets_and_numbers_by_their_score(model_folder, tmp_path, kind):
    golds: list[Any] = [["a"], ["a", "b"], ["b"], ["b"]] if kind == "multi-label" else [0, 1, 2, 3]
    rows = [{"text": text, "gold": of} for text, of in zip(TEXTS, golds * 3, strict=True)]
    task = own_task_of(tmp_path, rows, label="gold", kind=kind)
    examples, source = load_data(task, tmp_path).reported, open_model(str(model_folder))
    settings = hyper_parameters(task, EvaluateConfig(), 32)
    benchmark = task_benchmark(Kept(source, task, None, settings), examples)  # type: ignore[arg-type]
    size = 2 if kind == "multi-label" else 1
    outputs = np.linspace(-3, 3, size * len(examples)).reshape(len(examples), size)
    outcome = benchmark.outcome([{"logits": of} for of in outputs])
    assert len(outcome.predictions) == len(examples)
    assert benchmark.must_agree == (kind == "multi-label")


def test_tokens_of_text_are_scored_by_token(model_folder):
    source = open_model(str(model_folder))
    truth = [source.tokenizer(text)["input_ids"] for text in TEXTS]
    replaced = token_benchmark(source, TEXTS)
    changed = [row["input_ids"] != ids for row, ids in zip(replaced.rows, truth, strict=True)]
    assert any(of.any() for of in changed)
    said = [{"logits": np.eye(2)[of.astype(int)]} for of in changed]
    assert replaced.outcome(said).score == 1
    never = [{"logits": np.eye(2)[np.zeros(len(ids), int)]} for ids in truth]
    assert len(replaced.outcome(never).predictions) == sum(len(ids) - 2 for ids in truth)


def test_the_commands_write_a_folder_with_a_card(
    converted, arguments, model_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("benchmarks.onnx.export.sample", lambda: TEXTS)
    report = json.loads((converted / "report.json").read_text(encoding="utf-8"))
    judged = report["networks"]["discriminator"]
    assert judged["is_written"]
    assert judged["problems"][0].startswith("4 fine-tuned tasks are needed, 1 are kept")
    assert [each["benchmark"] for each in judged["losses"]] == ["replaced tokens", "klue-ynat"]
    for place in ("discriminator", "encoder", "tasks/klue-ynat"):
        for name in (FP32_FILE, INT8_FILE, "config.json", "tokenizer.json"):
            assert (converted / place / name).is_file()
    assert (converted / "discriminator" / "README.md").is_file()
    kinds = {"discriminator": "ElectraForTokenClassification", "encoder": "ElectraModel"}
    for place, kind in kinds.items():
        about = json.loads((converted / place / "config.json").read_text())
        assert about["architectures"] == [kind]
    assert (converted / "encoder" / "modules.json").is_file()
    assert (converted / "manifest.json").exists()
    assert main(arguments) == 0  # done already
    shutil.copytree(model_folder, tmp_path / "discriminator")
    (tmp_path / "discriminator" / "more.txt").touch()
    assert main([*arguments, "--model", str(tmp_path / "discriminator")]) == 1
    assert "scores other weights than those to convert" in capsys.readouterr().err


def test_int8_is_near_fp32(converted):
    row = {"input_ids": np.array([2, 5, 6, 7, 3]), "attention_mask": np.ones(5, dtype=np.int64)}
    row["token_type_ids"] = np.zeros(5, dtype=np.int64)
    for folder in (converted / "discriminator", converted / "tasks" / "klue-ynat"):
        files = folder / FP32_FILE, folder / INT8_FILE
        (fp32,), (in_int8,) = (predict(file, [row]) for file in files)
        for name, expected in fp32.items():
            distance = np.linalg.norm(in_int8[name] - expected)
            assert 0 < distance < 0.2 * np.linalg.norm(expected)
