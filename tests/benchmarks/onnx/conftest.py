"""A run of `electrify export --onnx` that several files look at: converting takes seconds."""

from pathlib import Path

import pytest
from transformers import ElectraForPreTraining

from electrify.cli import main
from tests.benchmarks.conftest import save_electra, save_modern
from tests.benchmarks.records import sets

TEXTS = ["오늘 국회 새 증시 큰 경찰", "첫 여행 다시 외교", "반도체 축구 내일 새 국회"] * 4


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one layer, which is converted faster."""
    folder = tmp_path_factory.mktemp("model") / "discriminator"
    return save_electra(folder, ElectraForPreTraining, 11, num_layers=1)


@pytest.fixture(scope="session")
def modern_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_modern(tmp_path_factory.mktemp("modern") / "discriminator", num_layers=1)


@pytest.fixture(scope="session")
def arguments(
    model_folder: Path, ynat_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Of `electrify export`, for a network that is fine-tuned on one task."""
    output = f"output_dir={tmp_path_factory.mktemp('run')}"
    given = ["--model", str(model_folder), "--data-dir", str(ynat_folder), "--set", output]
    options = ["keep_models=true", "seeds=[0]", "num_epochs=1.0", "device=cpu", 'pooling="parts"']
    options += ["random_init_control=false", "bag_of_words=false"]
    words = sets(*(f"evaluate.{option}" for option in options))
    assert main(["evaluate", "--task", "klue-ynat", *given, *words]) == 0
    return ["export", "--onnx", "--force", *given]


@pytest.fixture(scope="session")
def converted(arguments: list[str]) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.onnx.export.sample", lambda: TEXTS)
        assert main(arguments) == 0
    return Path(arguments[-1].removeprefix("output_dir=")) / "onnx"
