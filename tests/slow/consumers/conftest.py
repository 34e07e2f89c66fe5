"""What the consumers read, and environments of their own for them.

An environment is a folder of packages in front of those that are installed here, so that torch is
not installed twice. All of it is made on demand and removed after.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel

from electrify.cli import main
from electrify.stage.networks import make_portable, save_network, write_pooling
from electrify.stage.plan import TOKENIZER_FILES

SHIPPED = Path("model/shipped/ko-modern/discriminator")
SCRIPT = Path(__file__).with_name("consumer.py")
PACKAGES = {
    "transformers 4": (
        "transformers==4.57.*",
        "huggingface_hub<1",
        "tokenizers<0.23",
        "datasets==4.0.0",  # later ones ask for a later huggingface_hub
        "sentence-transformers<6",
    ),
    "optimum": ("optimum", "optimum-onnx"),
    "mteb": ("mteb", "pytrec-eval-terrier", "polars", "polars-runtime-32"),
    "openvino": ("openvino",),
}
Arrays = dict[str, np.ndarray]
Consume = Callable[..., Arrays]


@pytest.fixture(scope="session")
def consume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consume]:
    """Runs a function of `consumer.py` on a folder, with some of `PACKAGES` in front."""
    root, made = tmp_path_factory.mktemp("environments"), dict[str, Path]()

    def run(kind: str, folder: Path, *names: str, file: str = "") -> Arrays:
        for name in names:
            if name not in made:
                target = root / str(len(made))
                words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
                done = subprocess.run([*words, target, *PACKAGES[name]], capture_output=True)
                if done.returncode:
                    pytest.skip(f"{name} cannot be installed, as without a network")
                made[name] = target
        output = root / "output.npz"
        here = os.environ | {"PYTHONPATH": os.pathsep.join(str(made[name]) for name in names)}
        words = [sys.executable, str(SCRIPT), kind, str(folder), str(output), file]
        done = subprocess.run(words, env=here, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(np.load(output))

    yield run
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped encoder as `export/encoder/` of a run."""
    folder = tmp_path_factory.mktemp("export") / "encoder"
    save_network(AutoModel.from_pretrained(SHIPPED), folder)
    for name in TOKENIZER_FILES:
        shutil.copyfile(SHIPPED / name, folder / name)
    make_portable(folder)
    write_pooling(folder)
    return folder


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped networks as ONNX files."""
    folder = tmp_path_factory.mktemp("run")
    words = ["export", "--onnx", "--force", "--model", str(SHIPPED)]
    assert main([*words, "--set", f"output_dir={folder}"]) == 0
    return folder / "onnx"
