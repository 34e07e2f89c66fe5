"""Other libraries open the shipped encoder's folders and say what transformers says in torch.

pip and npm with a network are needed. `-s` shows the largest differences.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.onnx.export import FP32_FILE, INT8_FILE
from electrify.cli import main
from tests.slow.consumers.conftest import SHIPPED, Arrays, Consume
from tests.slow.consumers.consumer import LENGTHS, TEXTS, rows, sentences, transformers

TABLE = Path("pipeline/sample/made-up-headlines.json")
SHORT = TEXTS[:-1]  # transformers.js cuts a long text without its [SEP]


def largest(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    assert found.shape == expected.shape
    difference = float(np.abs(found - expected).max())
    print(f"{name}: {difference:.1e}")
    return difference


@pytest.fixture(scope="module")
def torch_says() -> Arrays:
    return transformers(str(SHIPPED), "")


@pytest.fixture(scope="module")
def embeddings(encoder: Path) -> np.ndarray:
    return sentences(str(encoder), "")["embeddings"]


def test_transformers_4_has_the_same_hidden_states(consume: Consume, torch_says: Arrays):
    found = consume("transformers", SHIPPED, "transformers 4")
    assert found.keys() == torch_says.keys()
    for name, expected in torch_says.items():
        assert largest(f"transformers 4.57, {name}", found[name], expected) < 1e-5


@pytest.mark.parametrize("file", ["", FP32_FILE])
def test_sentence_transformers(
    file: str, encoder: Path, converted: Path, consume: Consume, embeddings: np.ndarray
):
    """Version 5, in torch and by its ONNX backend, beside version 6 in torch."""
    folder = converted / "encoder" if file else encoder
    names = ("transformers 4", "optimum") if file else ("transformers 4",)
    found = consume("sentences", folder, *names, file=file)["embeddings"]
    assert largest(f"sentence-transformers 5, {file or 'torch'}", found, embeddings) < 1e-5


def test_a_model_of_mteb(encoder: Path, consume: Consume, embeddings: np.ndarray):
    found = consume("mteb", encoder, "mteb")["embeddings"]
    assert largest("MTEB, ten texts", found, embeddings) < 1e-5


def test_optimum(converted: Path, consume: Consume, torch_says: Arrays):
    names = ("transformers 4", "optimum")
    logits = consume("optimum", converted / "discriminator", *names)["logits"]
    found = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert largest("optimum, P(label)", found, torch_says["probabilities"]) < 1e-5
    assert consume("optimum", converted / "generator", *names)["logits"].shape[-1] == 12_000


def test_onnxruntime_alone_and_openvino(converted: Path, consume: Consume, torch_says: Arrays):
    folder = converted / "discriminator"
    found = consume("openvino", folder, "openvino", file=FP32_FILE)
    session = onnxruntime.InferenceSession(folder / FP32_FILE, providers=["CPUExecutionProvider"])
    for length in LENGTHS:
        given = rows(length)
        states, _ = outputs = session.run(["last_hidden_state", "logits"], given)
        read = given["attention_mask"] > 0
        assert largest(f"ONNX Runtime, {length}", states[read], torch_says[str(length)]) < 1e-4
        for n, output in enumerate(outputs):
            theirs = found[f"{length} {n}"][read]
            assert largest(f"OpenVINO, {length}, output {n}", theirs, output[read]) < 1e-3


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """transformers.js for Node, without the scripts of its packages, which fetch CUDA."""
    folder = tmp_path_factory.mktemp("modules")
    words = ["--ignore-scripts", "--no-audit", "--no-fund", "@huggingface/transformers@4"]
    npm = shutil.which("npm")
    if not npm or subprocess.run([npm, "i", *words], cwd=folder, capture_output=True).returncode:
        pytest.skip("npm is not installed, or has no network")
    yield folder
    shutil.rmtree(folder)


def in_node(modules: Path, task: str, folder: Path, dtype: str = "fp32") -> list[list]:
    """The answers of a pipeline of transformers.js, one a text."""
    script = Path(__file__).with_name("pipelines.mjs")
    words = ["node", str(script), str(modules), f"{folder.parent}/", task, folder.name, dtype]
    lines = "".join(f"{json.dumps(text)}\n" for text in SHORT)
    done = subprocess.run(words, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_transformers_js_on_tokens(modules: Path, converted: Path, torch_says: Arrays):
    folder, expected = converted / "discriminator", torch_says["probabilities"][1:-1]
    first = in_node(modules, "token-classification", folder)[0]
    assert {token["entity"] for token in first} == {"original", "replaced"}
    found = np.array([token["score"] for token in first])
    assert largest("transformers.js, token-classification", found, expected.max(-1)) < 1e-3
    assert [token["entity"] == "replaced" for token in first] == (expected[:, 1] > 0.5).tolist()
    assert (folder / INT8_FILE).is_file()  # what it takes in a browser if nothing is said
    marked = [token["word"] for token in in_node(modules, "token-classification", folder, "q8")[0]]
    assert marked == [token["word"] for token in first]


def test_transformers_js_on_features(modules: Path, converted: Path, embeddings: np.ndarray):
    for name in ("encoder", "discriminator"):
        found = np.array(in_node(modules, "feature-extraction", converted / name))
        assert largest(f"transformers.js, {name}", found, embeddings[:-1]) < 1e-3


def test_transformers_js_on_texts(modules: Path, tmp_path: Path):
    """A folder of `electrify finetune`."""
    folder = tmp_path / "topics"
    words = ["finetune", str(SHIPPED), "--own-task", str(TABLE), "--output", str(folder), "--onnx"]
    assert main([*words, "--set", "evaluate.num_epochs=1.0"]) == 0
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found, expected = [], []
    for text, answer in zip(SHORT, in_node(modules, "text-classification", folder), strict=True):
        scores = {each["label"]: each["score"] for each in answer}
        found.append([scores[label] for label in model.config.label2id])
        given = tokenizer(text, return_tensors="pt", truncation=True)
        with torch.inference_mode():
            expected.append(model(**given).logits[0].softmax(-1).tolist())
    name = "transformers.js, text-classification"
    assert largest(name, np.array(found), np.array(expected)) < 1e-3
