"""`electrify page`: a discriminator as a folder that is a web page of its own.

The page runs the network in int8 by onnxruntime-web and cuts text by the JavaScript port of
`tokenizers`. Both come from npm, in the versions of package-lock.json, and are copied into the
folder. Every file is a classic script or held in one, so the page also opens from the disk.
"""

import base64
import gzip
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.analysis.inspect import EXAMPLES, SENTENCES, bundled_threshold, read
from benchmarks.analysis.reader import Reader, open_reader
from benchmarks.encoder import generator_of
from benchmarks.onnx.export import LOGITS, export_network, open_network, open_session, require_onnx
from benchmarks.onnx.int8 import quantize
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log

SOURCE = Path(__file__).with_name("browser")
_LANGUAGES = {"Hangul": "ko", "Latin": "en"}
_FAR, _MAX_OTHERS = 0.05, 0.01  # of a probability; of the words
_OWN = ("index.html", "page.css", "words.js", "detector.js", "page.js")
_RUNTIME, _TOKENIZERS = "onnxruntime-web/dist", "@huggingface/tokenizers"


def build_page(path: str, generator: str | None, output: Path) -> None:
    """Write the folder `output` for the discriminator at `path`, whole or not at all."""
    require_onnx()
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("npm was not found; install Node.js 20 or newer, which has it")
    if output.exists():
        raise UserError(f"`output` {output} is there already: remove it or name another folder")
    reader = open_reader(path, generator)
    generator = generator or generator_of(reader.source.path)
    kind = json.loads(reader.source.tokenizer.backend_tokenizer.to_str())["model"]["type"]
    if kind != "WordPiece":
        raise UserError(f"{path} has a {kind} tokenizer; the page reads WordPiece")
    paths = {"discriminator": reader.source.path} | ({"generator": generator} if generator else {})
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".page-") as scratch:
        libraries, folder = Path(scratch, "npm"), Path(scratch, "page")
        log("page 1/3: onnxruntime-web and tokenizers from npm")
        _install(npm, libraries)
        log(f"page 2/3: {' and '.join(paths)} to int8")
        networks = {}
        for name, of in paths.items():
            log(f"page 2/3: {name}, half a minute of two cores")
            networks[name] = _convert(name, Path(of), libraries)
        log("page 3/3: thresholds, and the folder")
        int8 = replace(
            reader, discriminator=networks["discriminator"], generator=networks.get("generator")
        )
        check_int8(reader, int8)
        _write(folder, int8, networks, libraries / "node_modules")
        folder.rename(output)
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    log(f"page: {output / 'index.html'}, {size / 1e6:.1f} MB in all")


def _install(npm: str, folder: Path) -> None:
    """The packages of package-lock.json in `folder`/node_modules; nothing of theirs is run."""
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCE / name, folder)
    words = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        errors = [x for x in done.stderr.splitlines() if x.startswith("npm error")]
        raise UserError(f"npm ci failed: {'; '.join(errors[:3])} (it needs the network)")


class _Int8:
    """An int8 file, called as the network of `transformers` that it was made from."""

    def __init__(self, file: Path) -> None:
        self.file, self._session = file, open_session(file, 0)
        self.inputs = [given.name for given in self._session.get_inputs()]

    def __call__(self, **given: Tensor) -> SimpleNamespace:
        rows = {name: of.numpy() for name, of in given.items()}
        rows["token_type_ids"] = np.zeros_like(rows["input_ids"])
        (logits,) = self._session.run([LOGITS], {name: rows[name] for name in self.inputs})
        return SimpleNamespace(logits=torch.from_numpy(logits))


def _convert(name: str, path: Path, folder: Path) -> _Int8:
    texts = [sentence for of in SENTENCES.values() for sentence in of]
    fp32, int8 = folder / f"{name}.onnx", folder / f"{name}.int8.onnx"
    export_network(open_network(path), fp32, texts)
    quantize(fp32, int8)
    return _Int8(int8)


def check_int8(reader: Reader, int8: Reader) -> None:
    """`ValueError` if int8 gives more than `_MAX_OTHERS` of the words of the bundled sentences a
    probability that is farther than `_FAR` from that of fp32."""
    texts, far = [text for of in SENTENCES.values() for text in of], list[bool]()
    with Progress("page: the words of sentences in int8", len(texts), "sentences") as bar:
        for text in texts:
            pairs = zip(read(reader, text).words, read(int8, text).words, strict=True)
            far += [abs(a.probability - b.probability) > _FAR for a, b in pairs]
            bar.update()
    if (fraction := sum(far) / len(far)) > _MAX_OTHERS:
        raise UserError(
            f"{reader.source.path}: in int8 {fraction:.1%} of {len(far)} words get another "
            f"probability (by more than {_FAR}; allowed are {_MAX_OTHERS:.0%} of them), so the "
            "page would mark others. electrify export --onnx says what int8 costs this network"
        )


def _write(folder: Path, int8: Reader, networks: Mapping[str, _Int8], modules: Path) -> None:
    data, vendor = folder / "data", folder / "vendor"
    for part in (data, vendor):
        part.mkdir(parents=True)
    for name in _OWN:
        shutil.copy(SOURCE / name, folder)
    shutil.copy(modules / _RUNTIME / "ort.wasm.min.js", vendor / "onnxruntime.js")
    code = (modules / _TOKENIZERS / "dist" / "tokenizers.min.cjs").read_text(encoding="utf-8")
    # the package for Node.js as a classic script, with the global `tokenizers`
    text = "const tokenizers = (() => { const module = { exports: {} };\n"
    text += f"{code}\nreturn module.exports; }})();\n"
    (vendor / "tokenizers.js").write_text(text, encoding="utf-8")
    licences = ""
    for package in (modules / _TOKENIZERS, modules / "onnxruntime-web"):
        about = json.loads((package / "package.json").read_text(encoding="utf-8"))
        file = package / "LICENSE"
        text = file.read_text(encoding="utf-8") if file.exists() else "See the head of its file."
        licences += f"{about['name']} {about['version']}: {about['license']}\n\n{text}\n\n"
    (vendor / "LICENCES.txt").write_text(licences, encoding="utf-8")
    backend = int8.source.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    files = {
        "wasm": (modules / _RUNTIME / "ort-wasm-simd-threaded.wasm").read_bytes(),
        "glue": (modules / _RUNTIME / "ort-wasm-simd-threaded.mjs").read_bytes(),
        "tokenizer": backend.to_str().encode(),
        **{name: network.file.read_bytes() for name, network in networks.items()},
    }
    for name, content in files.items():
        packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
        (data / f"{name}.js").write_text(f'electrify.{name} = "{packed}";\n')
    settings = page_settings(int8, networks["discriminator"].inputs) | {"files": list(files)}
    text = json.dumps(settings, ensure_ascii=False, indent=1)
    text = f"const electrify = {{ settings: {text} }};\n"
    (data / "settings.js").write_text(text, encoding="utf-8")


def page_settings(reader: Reader, inputs: Sequence[str]) -> dict[str, Any]:
    """What the page must know of its networks; thresholds are those of these very networks."""
    thresholds = {
        script: asdict(bundled_threshold(reader, script)) | {"num_sentences": len(sentences)}
        for script, sentences in SENTENCES.items()
    }
    # where the generator's words are found best, the network knows the language
    best = max(thresholds, key=lambda script: thresholds[script]["found_fraction"] or 0.0)
    tokenizer = reader.source.tokenizer
    return {
        "model": "/".join(Path(reader.source.path).parts[-2:]),  # no path of this machine
        "inputs": list(inputs),
        "maxPieces": reader.max_pieces,
        "before": list(reader.before),
        "after": list(reader.after),
        "mask": tokenizer.mask_token_id,
        "special": sorted(tokenizer.all_special_ids),
        "thresholds": thresholds,
        "examples": [{"text": text, "lang": _LANGUAGES[best]} for text in EXAMPLES[best]],
    }
