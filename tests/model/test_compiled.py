"""Compiled steps do what the steps they are made of do, and what fails is done without.

What a recorded step does, and that it waits for nothing, is in tests/cuda.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial, partialmethod
from typing import Any

import pytest
import torch

from model.compiled import should_compile, should_record
from model.devices.processes import ALONE, Ranks
from model.pretrain import Update
from tests.cuda.conftest import NUM_STEPS, Run, make_step
from tests.model.conftest import MODERN, OBJECTIVES, random_batch, random_model, tiny

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SMALL = {"num_hidden_layers": 1, "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, int]]]:
    """Those of the compiler, which makes no code: that takes a minute."""
    import torch._dynamo

    parts = partialmethod(Update.compile_parts, backend="eager")
    monkeypatch.setattr(Update, "compile_parts", parts)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
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
def test_every_objective_is_one_graph_for_all_steps(name: str, counters):
    """0 graph breaks: each part is traced whole, or it is an error; and none a second time."""
    model = random_model(**SMALL, **COMPILED[name])
    num_steps = 8 if name == "electra-two-stage" else 3  # of both stages
    fast = Run(model, num_steps, device="cpu", compile="on")
    assert fast.step.is_compiled
    assert not counters["graph_break"]
    # mask, forward passes, figures; in the adversarial objective both networks are one pass
    expected = {"electra-two-stage": 5, "electra-adversarial": 3}
    assert counters["stats"]["unique_graphs"] == expected.get(name, 4)
    fast.assert_near(Run(model, num_steps, device="cpu"), 1e-5)


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

    def broken(value: str, update: Update) -> None:
        update.config = update.config.model_copy(update={option: value})
        update.is_compiled = option == "compile"
        if option == "cuda_graph":
            update._recorder = BrokenRecorder()  # type: ignore[assignment]

    monkeypatch.setattr(Update, "compile_parts", break_compiled)
    model = random_model(**SMALL, optimizer="bias-corrected")
    run = Run(model, NUM_STEPS, partial(broken, "auto"), device="cpu")
    run.assert_near(Run(model, NUM_STEPS, device="cpu"), 0.0)
    assert not run.step.is_compiled
    assert not run.step.is_recorded
    (warned,) = (message for message in caplog.messages if f"{what}, which" in message)
    assert words in warned
    with pytest.raises(ValueError, match=rf"{what} failed .*{words}"):
        Run(model, NUM_STEPS, partial(broken, "on"), device="cpu")


PHASES = [{"steps_fraction": 0.25}, {"steps_fraction": 0.25, "micro_batch_size": 4}]  # of 12 steps


@pytest.mark.parametrize(
    ("rows", "step", "words"),
    [
        (6, 0, r"set pretrain\.micro_batch_size = 3,"),
        (6, 3, r"set pretrain\.curriculum\[1\]\.micro_batch_size = 3,"),
        (6, 6, r"set pretrain\.micro_batch_size = 3,"),
        (1, 3, "one sequence"),
    ],
)
def test_where_memory_ends_the_error_names_micro_batches(monkeypatch, rows, step, words):
    def update(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    model = random_model(curriculum=PHASES)
    take_step, _ = make_step(model, device="cpu")
    monkeypatch.setattr(Update, "update", update)
    with pytest.raises(ValueError, match=f"out of memory with .*{words}"):
        take_step([random_batch(model, rows=rows)], step)


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
