"""The doctor names each GPU, and what keeps torch from one."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from electrify import overview
from electrify.cli import main
from electrify.overview import check_gpus

GIB = 2**30


def fake_torch(*cards: tuple[str, int, int, int]) -> SimpleNamespace:
    properties = [
        SimpleNamespace(name=name, major=major, minor=minor, total_memory=memory * GIB)
        for name, major, minor, memory in cards
    ]
    cuda = SimpleNamespace(
        is_available=lambda: bool(cards),
        device_count=lambda: len(cards),
        get_device_properties=lambda number: properties[number],
        mem_get_info=lambda number: (GIB, 0),
        get_arch_list=lambda: ["sm_75", "sm_80", "sm_90", "compute_90"],
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"), __version__="2.13")


@pytest.mark.parametrize(
    ("card", "words", "is_usable"),
    [
        (("H100", 9, 0, 80), "GPU 0: H100, capability 9.0, 1 of 80 GiB free, CUDA 13.0", True),
        (("Tesla T4", 7, 5, 15), "no units for bf16, so precision is fp32", True),
        (("Tesla V100", 7, 0, 16), "built for sm_75, sm_80, sm_90, compute_90 alone", False),
    ],
)
def test_a_card_is_named_with_what_it_can_do(card, words, is_usable, monkeypatch):
    monkeypatch.setattr(overview, "import_module", lambda name: fake_torch(card))
    ((line,), found) = check_gpus()
    assert words in line
    assert found == is_usable
    assert line.startswith("PROBLEM") == (not is_usable)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_card_that_torch_does_not_see_is_a_problem(is_there, monkeypatch):
    monkeypatch.setattr(overview, "import_module", lambda name: fake_torch())
    monkeypatch.setattr(Path, "exists", lambda path: is_there)
    ((line,), found) = check_gpus()
    assert found == (not is_there)
    assert ("needs a driver of CUDA 13.0" in line) == is_there


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU")
def test_without_a_gpu_nothing_is_compared(capsys):
    assert main(["doctor", "--gpu"]) == 1
    assert "torch sees no CUDA device here" in capsys.readouterr().err
