"""Fine-tuning on a GPU, or on the null GPU (`tests/cuda/test_null_gpu.py`)."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from benchmarks.encoder import ModelSource, open_model
from benchmarks.tasks.load import load_data
from benchmarks.training.finetune import Split, choose_device
from benchmarks.training.network import build_network
from benchmarks.training.trainer import Trainer
from tests.benchmarks.conftest import split_of
from tests.benchmarks.records import YNAT
from tests.cuda.nullgpu.emulate import computed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.fixture(params=["electra", "modern"])
def source(request, model_folder, modern_folder) -> ModelSource:
    return open_model(str(model_folder if request.param == "electra" else modern_folder))


@pytest.fixture
def split(ynat_folder, tokenizer) -> Split:
    return split_of(YNAT, load_data(YNAT, ynat_folder).train, tokenizer)


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """Products in fp32 as the CPU has them."""
    choose_device("cuda")
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision("high")


def make_trainer(source: ModelSource, make_settings, device: str, precision: str) -> Trainer:
    settings = make_settings(num_epochs=1.0, dropout=0.0, precision=precision)
    network = build_network(YNAT, source, "pretrained", 0, settings, torch.device(device))
    network.head.dropout.p = 0.0
    return Trainer(network, YNAT, source.tokenizer.pad_token_id, settings, "test")


def test_outputs_are_those_of_the_cpu(source, split, make_settings):
    outputs = []
    for device in ("cpu", "cuda"):
        with computed():
            trainer = make_trainer(source, make_settings, device, "fp32")
            trainer.train(split.features, np.arange(140), 0, lambda rows: None)
            outputs.append([row["logits"] for row in trainer.predict(split.features)])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=2e-3, atol=2e-3)
