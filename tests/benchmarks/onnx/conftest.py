"""A small discriminator as an ONNX file, made once: a conversion takes seconds."""

from pathlib import Path

import pytest

from benchmarks.onnx.export import export_onnx

TEXTS = ["오늘 국회 새 증시 큰 경찰 첫 여행 다시 외교"] * 10


@pytest.fixture(scope="session")
def exported(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export(model_folder, tmp_path_factory)


@pytest.fixture(scope="session")
def modern_exported(modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export(modern_folder, tmp_path_factory)


def _export(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 32 positions."""
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert export_onnx(folder, file, TEXTS).keys() == {8, 32}
    return file
