"""What only a GPU shows. Without one nothing here runs; `python -m pytest tests/cuda` where one is.

Steps on the GPU against the same steps on the CPU, compiled and recorded ones against those as
written, a whole run that is stopped, memory that runs out, and a fine-tuning.
"""

import copy
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.devices.device import resolve_device
from model.export import export
from model.pretrain import Trainer, pretrain
from model.train.metrics import MetricsWindow
from model.train.optim import make_optimizers
from model.train.step import WARM_UPS, FastStep, Step
from tests.model.conftest import (
    MODERN,
    NO_DROPOUT,
    OBJECTIVES,
    make_run,
    random_batch,
    random_model,
)

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
    pytest.mark.filterwarnings("default"),  # of torch's compiler, which differ by release
]
NUM_STEPS = WARM_UPS + 4
MUON = MODERN | {"optimizer": "muon", "global_attn_every_n_layers": 2}
NETWORKS: dict[str, dict[str, object]] = {
    **{name: {"objective": name} | needs for name, needs in OBJECTIVES.items()},
    "decoupled": {"updates": "decoupled", "optimizer": "bias-corrected", "weight_sharing": "gdes"},
    "document": {"attention": "document"},
    "modern": MUON,
    "modern document": MUON | {"attention": "document"},
    "modern mlm": MUON | {"objective": "mlm"},
}


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[torch.device]:
    """Products in fp32 as the CPU has them, and no choice of kernels by time."""
    device = resolve_device("cuda")
    torch.set_float32_matmul_precision("highest")
    yield device
    torch.set_float32_matmul_precision("high")


class Run:
    """A few steps of a random network, its figures, and its weights at the end."""

    def __init__(self, model: torch.nn.Module, num_steps: int, **options: object):
        place = torch.device(str(options["device"]))
        self.model = copy.deepcopy(model).to(place)
        config = self.model.config.model_copy(update=options)
        self.model.config = config
        optimizers = make_optimizers(self.model, config)
        window = MetricsWindow(["ko"], place)
        self.step = FastStep(self.model, optimizers, config, place, window)
        self.norms = []
        for number in range(num_steps):
            batch = random_batch(model, rows=8, length=32, seed=number, padded=True).to(place)
            _, norm = self.step([batch], Step(number, seed=5))
            self.norms.append(norm.item())
        self.figures = window.read()

    def assert_near(self, other: "Run", tolerance: float) -> None:
        assert self.norms == pytest.approx(other.norms, rel=tolerance)
        for name, value in other.figures.items():
            if "loss" in name:
                assert self.figures[name] == pytest.approx(value, rel=tolerance, nan_ok=True), name
        theirs = dict(other.model.named_parameters())
        for name, weight in self.model.named_parameters():
            # the gradient of a key's bias is 0 but for rounding, which Adam makes a step of
            if not name.endswith("key.bias"):
                difference = (weight.detach().cpu() - theirs[name].detach().cpu()).norm()
                assert difference <= tolerance * weight.detach().cpu().norm() + 1e-6, name


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
    graph.assert_near(eager, 1e-3)


COMPILED = ["electra", "modern document", "modern mlm"]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_steps_do_what_those_as_written_do(name: str):
    model = random_model(**NETWORKS[name])
    options = {"device": "cuda", "precision": "fp32", "cuda_graph": "on"}
    eager = Run(model, NUM_STEPS, compile="off", **options)
    fast = Run(model, NUM_STEPS, compile="on", **options)
    assert fast.step.is_compiled
    fast.assert_near(eager, 2e-3)


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


@pytest.mark.parametrize("name", ["electra", "modern", "modern document"])
def test_the_host_waits_for_no_step(name: str):
    model = random_model(**NETWORKS[name])
    run = Run(model, NUM_STEPS, device="cuda", compile="off", precision="bf16")
    device = torch.device("cuda")
    batch = random_batch(model, rows=8, length=32, seed=99, padded=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run.step([batch.to(device)], Step(NUM_STEPS, seed=5))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_stopped_run_continues_as_if_it_had_not_been(tmp_path: Path, monkeypatch):
    options = {"device": "cuda", "compile": "off", "precision": "bf16"} | NO_DROPOUT | MUON
    whole = make_run(tmp_path / "whole", **options)
    pretrain(whole)
    stopped = make_run(tmp_path / "stopped", **options)
    save = Trainer._save

    def saved_and_left(self: Trainer, *arguments: object, **named: object) -> None:
        save(self, *arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save", saved_and_left)
        with pytest.raises(KeyboardInterrupt):
            pretrain(stopped)
    pretrain(stopped)
    states = []
    for config in (whole, stopped):
        export(config)
        folder = Path(config.output_dir) / "export"
        states.append(load_file(next(iter(sorted(folder.rglob("model.safetensors"))))))
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        torch.testing.assert_close(states[1][key], value, rtol=1e-2, atol=1e-3)


def test_out_of_memory_halves_the_passes():
    model = random_model(hidden_size=256, num_attention_heads=4)
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    place = torch.device("cuda")
    model.to(place)
    config = model.config.model_copy(update={"device": "cuda", "compile": "off"})
    model.config = config
    window = MetricsWindow(["ko"], place)
    step = FastStep(model, make_optimizers(model, config), config, place, window)
    batch = random_batch(model, rows=4096, length=40, seed=1).to(place)
    torch.cuda.set_per_process_memory_fraction(min(1.0, 3e9 / total))
    try:
        for number in range(NUM_STEPS):
            _, norm = step([batch], Step(number, seed=5))
            assert math.isfinite(norm.item())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert step._num_splits > 1
