"""A small discriminator as an ONNX file, made once: a conversion takes seconds."""

from pathlib import Path

import pytest

from benchmarks.onnx.export import Exported, export_onnx

TEXTS = ["오늘 국회 새 증시 큰 경찰 첫 여행 다시 외교"] * 10


@pytest.fixture(scope="session")
def exported(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export_onnx(model_folder, tmp_path_factory.mktemp("onnx") / "model.onnx", TEXTS)
