"""The folder of a page is whole, asks nobody else, and says everything in both languages.

npm and the conversion to ONNX are stood in for here; tests/slow/test_page.py builds a real one.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from benchmarks.analysis import page as module
from benchmarks.analysis.reader import Reader
from electrify.cli import main

HOST = re.compile(r"(https?:|wss?:|ftp:)?//[\w.-]+\.\w+")


@pytest.fixture(scope="module")
def page(
    reader: Reader,
    model_folder: Path,
    generator_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    def install(npm: str, folder: Path) -> None:
        for name, file in (
            ("onnxruntime-web", "ort.wasm.min.js"),
            ("onnxruntime-web", "ort-wasm-simd-threaded.wasm"),
            ("onnxruntime-web", "ort-wasm-simd-threaded.mjs"),
            ("@huggingface/tokenizers", "tokenizers.min.cjs"),
        ):
            package = folder / "node_modules" / name
            (package / "dist").mkdir(parents=True, exist_ok=True)
            (package / "dist" / file).write_text(f"// {file}")
            about = {"name": name, "version": "1", "license": "MIT"}
            (package / "package.json").write_text(json.dumps(about))

    def convert(name: str, path: Path, folder: Path) -> SimpleNamespace:
        (folder / name).write_text(f"int8 {name} of {path}")
        network = getattr(reader, name)
        return _Standing(network, folder / name)

    output = tmp_path_factory.mktemp("pages") / "page"
    words = ["page", str(model_folder), "--generator", str(generator_folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.which", lambda name: name)
        patch.setattr(module, "_install", install)
        patch.setattr(module, "_convert", convert)
        assert main([*words, "--output", str(output)]) == 0
    return output


class _Standing(SimpleNamespace):
    def __init__(self, network: object, file: Path) -> None:
        super().__init__(network=network, file=file, inputs=("input_ids",))

    def __call__(self, **inputs: object) -> object:
        return self.network(**inputs)


def settings_of(page: Path) -> dict:
    text = (page / "data" / "settings.js").read_text(encoding="utf-8")
    return json.loads(re.fullmatch(r"const electrify = \{ settings: (.*) \};\n", text, re.S)[1])


def test_every_file_is_there_and_none_is_of_another_host(page: Path):
    html = (page / "index.html").read_text(encoding="utf-8")
    files = re.findall(r'\b(?:src|href)="([^"]*)"', html)
    assert len(files) >= 7
    assert all(name == "data:," or (page / name).is_file() for name in files)
    assert all((page / "data" / f"{name}.js").is_file() for name in settings_of(page)["files"])
    for path in page.rglob("*.*"):
        if path.parent.name != "vendor":  # what npm brings names its authors' pages in comments
            text = re.sub('"[A-Za-z0-9+/=]{99,}"', "", path.read_text(encoding="utf-8"))
            assert not HOST.search(text), path
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    assert "*" not in policy
    assert "connect-src data:;" in policy


def test_settings_are_those_of_the_model(page: Path, model_folder: Path, reader: Reader):
    settings = settings_of(page)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    ids = [*settings["before"], *tokenizer("국회")["input_ids"][1:-1], *settings["after"]]
    assert ids == tokenizer("국회")["input_ids"]
    assert settings["maxPieces"] == 30
    assert settings["mask"] == tokenizer.mask_token_id
    assert settings["model"] == "/".join(model_folder.parts[-2:])
    assert str(model_folder.parent) not in json.dumps(settings)
    assert settings["thresholds"]["Hangul"]["false_alarms"] <= 0.05


def test_networks_that_int8_has_changed_make_no_page(reader: Reader) -> None:
    def shifted(by: float) -> Reader:
        def network(**given: object) -> SimpleNamespace:
            return SimpleNamespace(logits=reader.discriminator(**given).logits + by)

        return replace(reader, discriminator=network)

    module.check_int8(reader, shifted(0.01))
    with pytest.raises(ValueError, match=r"in int8 100\.0% of .* words get another probability"):
        module.check_int8(reader, shifted(1.0))
