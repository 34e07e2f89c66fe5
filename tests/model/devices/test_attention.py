"""The backend of attention is the fastest of those that compute the formula."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from model.devices import attention
from model.devices.attention import (
    BACKENDS,
    AttentionWork,
    any_backend,
    attention_pass,
    backend_seconds,
    enable,
    fastest,
    works_of,
)
from tests.model.conftest import preset

CPU = torch.device("cpu")
WORK = AttentionWork((6, 2, 16, 8), 0.0, None, 3)


@pytest.fixture
def flags() -> Iterator[Callable[[], dict[str, bool]]]:
    """Those of torch, which are put back after."""
    cuda = torch.backends.cuda

    def read() -> dict[str, bool]:
        return {
            "flash": cuda.flash_sdp_enabled(),
            "cudnn": cuda.cudnn_sdp_enabled(),
            "efficient": cuda.mem_efficient_sdp_enabled(),
            "math": cuda.math_sdp_enabled(),
        }

    before, tag = read(), torch.compiler.config.cache_key_tag
    yield read
    cuda.enable_flash_sdp(before["flash"])
    cuda.enable_cudnn_sdp(before["cudnn"])
    cuda.enable_mem_efficient_sdp(before["efficient"])
    cuda.enable_math_sdp(before["math"])
    torch.compiler.config.cache_key_tag = tag


def test_the_work_is_that_of_both_networks():
    main, generator = works_of(preset(), 128, 128, packed=True)
    assert main == AttentionWork((128, 4, 128, 64), 0.1, None, 12)
    assert generator == AttentionWork((128, 1, 128, 64), 0.1, None, 12)
    assert works_of(preset(objective="mlm"), 128, 128, packed=True) == [main]


def test_masks_are_those_of_the_model():
    def masks(packed: bool, **options: object) -> list[object]:
        return [work.mask_shape for work in works_of(preset(**options), 8, 32, packed)]

    assert masks(False) == [(8, 1, 1, 32)] * 2
    assert masks(True, attention="document") == [(8, 1, 32, 32)] * 2
    assert masks(True, objective="electric") == [None, (1, 1, 32, 32)]  # of its towers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mask_shape", [None, (6, 1, 1, 16), (6, 1, 16, 16)])
def test_each_backend_is_timed_on_every_layer(mask_shape, dtype: torch.dtype):
    work = replace(WORK, mask_shape=mask_shape)
    runs: list[object] = []

    def seconds_of(run: Callable[[], object], device: torch.device) -> float:
        runs.append(run())
        return 2.0

    found = backend_seconds([work, work], CPU, dtype, seconds_of)
    assert set(found) == set(BACKENDS)
    assert found["math"] == found["flash"] == 2 * 3 * 2.0
    assert found["cudnn"] is None  # a CPU has none
    assert len(runs) == 2 * 2
    # which on a CPU takes no dropout
    assert backend_seconds([replace(work, dropout=0.1)], CPU, dtype, seconds_of)["flash"] is None


def test_a_backend_that_computes_something_else_is_refused(monkeypatch):
    def almost(
        work: AttentionWork, backend: SDPBackend, device: torch.device, dtype: torch.dtype
    ) -> Callable[[], list[Tensor]]:
        run = attention_pass(work, backend, device, dtype)
        factor = 1.1 if backend == SDPBackend.FLASH_ATTENTION else 1.0
        return lambda: [*run()[:3], run()[3] * factor]  # the gradient of the values

    def found() -> tuple[float | None, ...]:
        seconds = backend_seconds([WORK], CPU, torch.float32, lambda *_: 1.0)
        return seconds["flash"], seconds["math"]

    assert found() == (3.0, 3.0)
    monkeypatch.setattr(attention, "attention_pass", almost)
    assert found() == (None, 3.0)


def test_the_fastest_is_used_and_what_it_refuses_is_left_to_the_formula(flags):
    seconds = {"flash": 0.2, "cudnn": None, "efficient": 0.1, "math": 0.3}
    assert fastest(seconds) == "efficient"
    enable(fastest(seconds))
    assert flags() == {"flash": False, "cudnn": False, "efficient": True, "math": True}
    # code that was compiled for another backend is not found again
    assert torch.compiler.config.cache_key_tag == "attention by efficient"
    with any_backend():
        assert set(flags().values()) == {True}
    assert flags()["flash"] is False
    enable(None)
    assert flags()["efficient"] is True
    assert fastest(dict.fromkeys(BACKENDS)) is None
