"""What code made a result, and whether its libraries are those asked for."""

from importlib.metadata import PackageNotFoundError

import pytest

from electrify.stage import provenance

INSTALLED = {"numpy": "2.1.0", "torch": "2.4.0+cpu", "tqdm": "4.66"}
ASKED_FOR = [
    "tqdm>=4.66",
    'torch>=2.9; extra == "model"',
    'numpy>=2; extra == "model"',
    'onnx>=1.20; extra == "onnx"',
    'electrify[model]; extra == "onnx"',
]


def _version(name: str) -> str:
    if name not in INSTALLED:
        raise PackageNotFoundError(name)
    return INSTALLED[name]


def test_an_extra_names_what_it_lacks_and_what_is_too_old(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "version", _version)
    monkeypatch.setattr(provenance, "requires", lambda _: ASKED_FOR)
    too_old = "torch>=2.9 is needed, 2.4.0+cpu is installed"
    assert provenance.unmet_requirements("model") == [too_old]
    assert provenance.unmet_requirements("onnx") == ["onnx>=1.20 is missing", too_old]
    assert provenance.unmet_requirements("pipeline") == []
