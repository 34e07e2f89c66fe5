"""Devices are found, or the error names the fix. None of this imports torch_xla."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
import torch

from model.devices import xla as module
from model.devices.device import resolve_device
from model.devices.xla import _scan, check_options, running_maximum, running_sum
from tests.model.conftest import tiny


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("PJRT_DEVICE", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    start = module.runtime
    start.cache_clear()
    yield
    start.cache_clear()


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    for name in ("version", "find_spec"):
        monkeypatch.setattr(module, name, versions.get)


def chips(
    monkeypatch: pytest.MonkeyPatch, number: int, machines: int = 1, bounds: int | None = None
) -> None:
    """As if torch_xla were installed, on a machine with so many chips, which shares the TPU with
    others as its metadata say, or the environment in their place."""

    @contextmanager
    def found() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(
            num_available_chips=lambda: number,
            num_tpu_workers=lambda: machines,
            process_bounds_size=lambda: bounds,
        )

    installed(monkeypatch, torch="2.9.0", torch_xla="2.9.0")
    monkeypatch.setattr(module, "_torch_xla", found)


def test_auto_takes_a_tpu(monkeypatch):
    """And imports no torch_xla where it is not installed. A single machine is asked for it."""
    monkeypatch.setitem(sys.modules, "torch_xla", None)  # an import would fail
    installed(monkeypatch, torch="2.13.0")
    assert resolve_device("auto").type == "cpu"
    for machines in ((1, None), (2, 1)):
        chips(monkeypatch, 4, *machines)
        with pytest.raises(ImportError):
            resolve_device("xla")
    tpu = torch.device("xla")
    monkeypatch.setattr(module, "runtime", lambda: SimpleNamespace(device=tpu))
    chips(monkeypatch, 0)
    assert resolve_device("auto").type == "cpu"
    chips(monkeypatch, 4)
    assert resolve_device("auto") == tpu
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"


def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TPU that cannot be asked. torch_xla raises as `requests` does, and that an OSError."""

    def ask() -> int:
        raise OSError("metadata.google.internal: no such host")

    internal = ModuleType("torch_xla._internal")
    internal.tpu = SimpleNamespace(num_available_chips=ask)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_xla", ModuleType("torch_xla"))
    monkeypatch.setitem(sys.modules, "torch_xla._internal", internal)
    installed(monkeypatch, torch="2.9.0", torch_xla="2.9.0")


def torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "0")


def not_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, torch="2.13.0+cpu", torch_xla="2.9.0")


@pytest.mark.parametrize(
    ("name", "machine", "words"),
    [
        # with auto too: the CPU would be taken on a machine with a TPU
        *(
            (name, machine, words)
            for name in ("xla", "auto")
            for machine, words in (
                (
                    not_fitting,
                    r"torch 2\.13\.0\+cpu and torch_xla 2\.9\.0 do not fit.*make tpu-env.*or set",
                ),
                (unreachable, r"cannot learn what TPU .*no such host.*--net=host"),
            )
        ),
        ("xla", torchrun, "start electrify without torchrun"),
        (
            "xla",
            lambda patch: chips(patch, 0),
            r'no TPU found .*device = "auto", or PJRT_DEVICE=CPU',
        ),
        # before the runtime starts, which would wait for the others
        ("xla", lambda patch: chips(patch, 4, 2), "this TPU has 2 machines, .* take a v4-8"),
        ("xla", lambda patch: chips(patch, 4, 1, 2), "this TPU has 2 machines, .* take a v4-8"),
    ],
)
def test_what_xla_cannot_train_on_is_refused(monkeypatch, name, machine, words):
    monkeypatch.setitem(sys.modules, "torch_xla", None)  # to go on would fail
    machine(monkeypatch)
    with pytest.raises(ValueError, match=words):
        resolve_device(name)
    assert "PJRT_DEVICE" not in os.environ


@pytest.mark.parametrize(
    "options", [{"precision": "fp16"}, {"optimizer": "muon"}, {"compile": "on"}], ids=str
)
def test_options_that_xla_does_not_have_are_refused(options: dict[str, object]):
    check_options(tiny())
    (name,) = options
    with pytest.raises(ValueError, match=rf'pretrain\.{name} .*with device = "xla"'):
        check_options(tiny(**options))


@pytest.mark.parametrize("length", [1, 2, 7, 32])
def test_what_xla_computes_by_doubling_is_what_torch_has_operators_for(length: int):
    rng = torch.Generator().manual_seed(length)
    numbers = torch.randint(-9, 10, (3, length), generator=rng)
    assert torch.equal(_scan(numbers, torch.add), running_sum(numbers, torch.int64))
    assert torch.equal(_scan(numbers, torch.maximum), running_maximum(numbers))
    chances = torch.rand(3, length, generator=rng, dtype=torch.float64)
    assert torch.allclose(_scan(chances, torch.add), chances.cumsum(dim=-1), rtol=1e-15)
