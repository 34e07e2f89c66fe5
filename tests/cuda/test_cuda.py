"""Numbers that a GPU computes: `python -m pytest tests/cuda` where one is.

Steps on the GPU against the same steps on the CPU, compiled and recorded ones against those as
written, and a whole run that is stopped. `test_null_gpu.py` runs all but the compiled ones without
a GPU.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model.devices.device import resolve_device
from tests.cuda.conftest import MUON, NETWORKS, NUM_STEPS, ON_GPU, Run
from tests.cuda.nullgpu.card import is_null_gpu
from tests.cuda.nullgpu.emulate import EmulatedGraph, computed
from tests.model.conftest import NO_DROPOUT, make_run, random_model
from tests.model.trained import Trained, train

pytestmark = ON_GPU
# of a replay and the step as written: the null GPU computes both by the same kernels
REPLAY_TOLERANCE = 0.0 if is_null_gpu() else 1e-3


@pytest.fixture(autouse=True)
def exact_products(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products in fp32 as the CPU has them; on the null GPU, operators are computed."""
    resolve_device("cuda")
    torch.set_float32_matmul_precision("highest")
    if is_null_gpu():
        monkeypatch.setattr(torch.cuda, "CUDAGraph", EmulatedGraph)
    with computed():
        yield
    torch.set_float32_matmul_precision("high")


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_are_those_of_the_cpu(name: str):
    model = random_model(**NETWORKS[name])
    options = {"compile": "off", "cuda_graph": "off"}
    cpu = Run(model, 4, device="cpu", **options)
    Run(model, 4, device="cuda", **options).assert_near(cpu, 2e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_replay_does_what_the_step_does(name: str):
    """Rates, draws, dropout and text differ in each."""
    dropout = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
    model = random_model(**NETWORKS[name], **dropout)
    options = {"device": "cuda", "compile": "off"}
    eager = Run(model, NUM_STEPS, cuda_graph="off", **options)
    graph = Run(model, NUM_STEPS, cuda_graph="on", **options)
    assert graph.step.is_recorded
    graph.assert_near(eager, REPLAY_TOLERANCE)


compiled = pytest.mark.skipif(is_null_gpu(), reason="nobody computes Triton's kernels")
COMPILED = ["electra", "modern document", "modern mlm"]


@compiled
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_steps_do_what_those_as_written_do(name: str):
    model = random_model(**NETWORKS[name])
    options = {"device": "cuda", "precision": "fp32", "cuda_graph": "on"}
    eager = Run(model, NUM_STEPS, compile="off", **options)
    fast = Run(model, NUM_STEPS, compile="on", **options)
    assert fast.step.is_compiled
    fast.assert_near(eager, 2e-3)


@compiled
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_step_in_bf16_rounds_no_worse_than_the_one_as_written(name: str):
    """By the first step's gradients, beside those in fp32: weights this large drift apart later."""
    model = random_model(**NETWORKS[name])
    options = {"device": "cuda", "cuda_graph": "off"}
    exact = Run(model, 1, compile="off", precision="fp32", **options)
    eager = Run(model, 1, compile="off", precision="bf16", **options)
    fast = Run(model, 1, compile="on", precision="bf16", **options)
    assert fast.step.is_compiled
    error = abs(eager.norms[0] - exact.norms[0]) / exact.norms[0]
    assert fast.norms == pytest.approx(exact.norms, rel=2 * error + 0.02)


def test_a_killed_run_continues_as_if_it_had_not_been(tmp_path: Path, monkeypatch):
    options = {"device": "cuda", "compile": "off", "precision": "bf16"} | NO_DROPOUT | MUON
    config = make_run(tmp_path / "run", **options)
    train(config, tmp_path / "whole")
    train(config, tmp_path / "killed", 6, monkeypatch)
    train(config, tmp_path / "killed")
    whole, killed = (Trained.read(tmp_path / name).tensors for name in ("whole", "killed"))
    torch.testing.assert_close(killed, whole, rtol=1e-2, atol=1e-3)
