"""No file that is read can run code: no pickle, no eval, no code of somebody else's model. The one
that may is Python itself: the rules that `clean.extra_rules` names."""

import ast
import os
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ElectraConfig, ElectraForPreTraining

from benchmarks.encoder import load_encoder, open_model
from model.weights.initial import read_source
from tests.benchmarks.conftest import SIZES
from tests.model.conftest import make_config
from tests.vocab.shard_files import write_shards
from vocab.shards.files import TokenShards

ROOT = Path(__file__).parent.parent
PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")
UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml"}


@cache
def _nodes():
    """Calls and imports of all modules, each with its path."""
    kinds, found = (ast.Call, ast.Import, ast.ImportFrom), []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree, name = ast.parse(path.read_bytes()), path.relative_to(ROOT).as_posix()
            found += [(name, node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return found


def _name(call):
    parts, node = [], call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([getattr(node, "id", ""), *reversed(parts)])


def test_no_module_imports_what_unpickles():
    found = set()
    for path, node in _nodes():
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found |= {(path, name) for name in names if name.split(".")[0] in UNSAFE}
    assert not found


OPTIONS = ("weights_only", "allow_pickle", "trust_remote_code", "shell")


def test_no_call_loads_or_runs_what_a_file_says():
    found = []
    for path, node in _nodes():
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        options = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg in OPTIONS}
        unsafe = name in ("eval", "exec", "compile", "__import__", "os.system", "os.popen")
        unsafe |= name == "torch.load" and options.get("weights_only") != "True"
        unsafe |= name.endswith(("extractall", ".extract", "unpack_archive", "joblib.load"))
        unsafe |= options.get("allow_pickle", "False") != "False"
        unsafe |= options.get("trust_remote_code", "False") != "False"
        unsafe |= options.get("weights_only", "True") != "True"
        unsafe |= options.get("shell", "False") != "False"
        if unsafe:
            found.append(f"{path} {name}")
    assert sorted(found) == ["pipeline/rules/extra.py compile", "pipeline/rules/extra.py exec"]


class Payload:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _model_folder(folder, payload):
    """A model whose weights are a pickle that runs something."""
    config = ElectraConfig(vocab_size=8, embedding_size=8, **SIZES)
    ElectraForPreTraining(config).save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save({"electra.x": Payload(payload)}, folder / "pytorch_model.bin")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ElectraTokenizer"}')
    return folder


def test_the_payload_would_run(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


def test_a_model_to_fine_tune_runs_no_pickle(tmp_path):
    folder, payload = _model_folder(tmp_path / "m", tmp_path / "ran"), tmp_path / "ran"
    with pytest.raises(ValueError, match="cannot read the weights of the model at"):
        load_encoder(open_model(str(folder)), "pretrained", 0)
    assert not payload.exists()


def test_a_model_to_go_on_from_runs_no_pickle(tmp_path):
    folder, payload = _model_folder(tmp_path / "m", tmp_path / "ran"), tmp_path / "ran"
    with pytest.raises(ValueError, match="cannot be read as ElectraForPreTraining"):
        read_source(make_config(tmp_path, initial_model=str(folder)).pretrain)
    assert not payload.exists()


def test_an_array_of_objects_is_not_unpickled(tmp_path):
    special = {
        name: number for number, name in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    }
    documents = {("train", "ko"): [[5, 6, 7, 8, 9, 10, 3], [5, 6, 7, 8, 3]]}
    write_shards(tmp_path / "shards", documents, 12, "0" * 64, special)
    path = tmp_path / "shards" / "train" / "ko" / "tokens-00000.npy"
    payload = np.empty(12, object)
    payload[:] = [Payload(tmp_path / "ran")] * 12
    np.save(path, payload, allow_pickle=True)
    with pytest.raises(ValueError, match=r"tokens-00000.npy cannot be read .*[Oo]bject"):
        TokenShards(tmp_path / "shards")
    assert not (tmp_path / "ran").exists()
