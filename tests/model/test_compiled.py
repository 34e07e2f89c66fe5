"""Compiled steps do what the steps they are made of do, and what fails is done without.

What a recorded step does, and that it waits for nothing, is in tests/cuda.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partialmethod
from typing import Any

import pytest
import torch

from model.compiled import WARM_UPS, should_compile, should_record
from model.devices.processes import ALONE, Ranks
from model.log import MetricsWindow
from model.networks.batch import Batch
from model.networks.electra import ElectraPretrainer
from model.optim import make_optimizer
from model.pretrain import Update
from tests.model.conftest import (
    MODERN,
    OBJECTIVES,
    everything,
    random_batch,
    random_model,
    tiny,
    train_step,
)

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
Counters = dict[str, dict[str, int]]


class Twins:
    """The same model twice, its steps and figures: as written, and fast."""

    def __init__(self, **options: object) -> None:
        options = DROPOUT | {"num_hidden_layers": 1} | options
        self.plain, self.fast = (random_model(**options) for _ in range(2))
        self.config = self.plain.config
        self.optimizers = [make_optimizer(model, self.config) for model in (self.plain, self.fast)]
        self.windows = [MetricsWindow(["ko"]), MetricsWindow(["ko"])]
        self.step = Update(self.fast, self.optimizers[1], self.config, self.windows[1], seed=5)

    def run(self, number: int, batches: Sequence[Batch]) -> None:
        outputs, norm = train_step(self.plain, self.optimizers[0], batches, number, seed=5)
        self.windows[0].add(outputs)
        _, fast_norm = self.step(batches, number)
        self.norms = norm.item(), fast_norm.item()

    def assert_equal(self, tolerance: float = 0.0) -> None:
        models = (self.plain, self.fast)
        plain, fast = (everything(*of) for of in zip(models, self.optimizers, strict=True))
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)
        plain, fast = (window.read() for window in self.windows)
        assert fast == pytest.approx(plain, rel=max(tolerance, 1e-12), nan_ok=True)
        assert self.norms[1] == pytest.approx(self.norms[0], rel=max(tolerance, 1e-7))


def batch_of(model: ElectraPretrainer, number: int, **form: int) -> Batch:
    return random_batch(model, seed=number, **form)


# --- compiled -------------------------------------------------------------------------------------


@pytest.fixture
def compiles(monkeypatch) -> Iterator[Callable[[str], Counters]]:
    """Choose how much of the compiler runs; its counters. The code at its end takes a minute."""
    import torch._dynamo

    def choose(backend: str) -> Counters:
        parts = partialmethod(Update.compile_parts, backend=backend)
        monkeypatch.setattr(Update, "compile_parts", parts)
        return torch._dynamo.utils.counters

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield choose
    torch._dynamo.reset()


# the compiler itself uses what torch deprecates
COMPILER = pytest.mark.filterwarnings("ignore::DeprecationWarning")


# electra-15 and mlm have no function that none of these has
COMPILED = {name: {"objective": name} | options for name, options in OBJECTIVES.items()}
COMPILED |= {"electra": MODERN | {"optimizer": "muon"}, "fp16": {"precision": "fp16"}}
del COMPILED["electra-15"], COMPILED["mlm"]
QUICK = ("electra", "electra-two-stage")


@COMPILER
@pytest.mark.parametrize(
    "name", [pytest.param(of, marks=() if of in QUICK else pytest.mark.slow) for of in COMPILED]
)
def test_every_objective_is_one_graph_for_all_steps(name: str, compiles):
    """0 graph breaks: each part is traced whole, or it is an error; and none a second time."""
    counters = compiles("eager")
    twins = Twins(compile="on", **COMPILED[name])
    # electra-two-stage: of both stages
    numbers = (4, 5, 6, 7) if name == "electra-two-stage" else (1, 2)
    graphs = []
    for number in numbers:
        twins.run(number, [batch_of(twins.plain, number)])
        graphs.append(counters["stats"]["unique_graphs"])
    assert twins.step.is_compiled
    assert not counters["graph_break"]
    # mask, forward passes, figures; in the adversarial objective both networks are one pass
    expected = {"electra-two-stage": [3, 3, 5, 5], "electra-adversarial": [3, 3]}
    assert graphs == expected.get(name, [4, 4])
    twins.assert_equal(1e-5)


# --- what fails -----------------------------------------------------------------------------------


class BrokenRecorder:
    """Breaks off, as CUDA does, and nothing is done."""

    def warming(self) -> AbstractContextManager[None]:
        return nullcontext()

    def record(self, work: Callable[[], Any]) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")


def break_compiled(update: Update, after: int = 1) -> None:
    """The compiled network fails in a forward pass, those before it being done."""
    calls: list[int] = []

    def call(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > after:
            raise RuntimeError("no working compiler\nand more")
        return update.model.forward(*arguments)

    update.model._compiled_call_impl = call  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("what", "option", "words"),
    [
        ("torch.compile", "compile", "no working compiler"),
        ("a CUDA graph", "cuda_graph", "not permitted when stream is capturing"),
    ],
)
def test_what_fails_is_done_without_from_the_same_state_and_with_on_an_error(
    monkeypatch, caplog, what: str, option: str, words: str
):
    """Though the generator's pass was done before the discriminator's failed."""

    def broken(**options: object) -> Twins:
        twins = Twins(optimizer="bias-corrected")
        twins.step.config = twins.config.model_copy(update=options)
        twins.step.is_compiled = option == "compile"
        if option == "cuda_graph":
            twins.step._recorder = BrokenRecorder()  # type: ignore[assignment]
        return twins

    monkeypatch.setattr(Update, "compile_parts", break_compiled)

    def train(twins: Twins) -> None:
        for number in range(1, WARM_UPS + 3):
            twins.run(number, [batch_of(twins.plain, number)])
            twins.assert_equal()

    twins = broken()
    train(twins)
    assert not twins.step.is_compiled
    assert not twins.step.is_recorded
    (warned,) = (message for message in caplog.messages if f"{what}, which" in message)
    assert words in warned
    with pytest.raises(ValueError, match=rf"{what} failed .*{words}"):
        train(broken(**{option: "on"}))


@pytest.mark.parametrize(("rows", "words"), [(6, "micro_batch_size = 3,"), (1, "one sequence")])
def test_where_memory_ends_the_error_names_micro_batches(monkeypatch, rows: int, words: str):
    def update(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    twins = Twins()
    monkeypatch.setattr(Update, "update", update)
    with pytest.raises(ValueError, match=f"out of memory with .*{words}"):
        twins.step([batch_of(twins.plain, 0, rows=rows)], 0)


# --- which runs -----------------------------------------------------------------------------------


def test_on_a_gpu_steps_are_compiled_and_recorded_and_elsewhere_they_are_not():
    two, xla = Ranks(0, 2), torch.device("xla")
    for options, device, ranks, is_fast, recorded in (
        ({}, CUDA, ALONE, True, True),
        ({}, CUDA, two, True, False),
        ({}, CPU, ALONE, False, False),
        ({}, CPU, two, False, False),
        ({}, xla, ALONE, False, False),
        ({"compile": "off", "cuda_graph": "off"}, CUDA, ALONE, False, False),
        ({"compile": "off"}, CUDA, ALONE, False, True),
        ({"compile": "on"}, CPU, ALONE, True, False),
    ):
        assert should_compile(tiny(**options), device) == is_fast
        assert should_record(tiny(**options), device, ranks) == recorded
    for device, ranks, words in ((CPU, ALONE, "on cpu"), (CUDA, two, "2 process")):
        with pytest.raises(ValueError, match=rf'cuda_graph = "on" .*{words}'):
            should_record(tiny(cuda_graph="on"), device, ranks)
