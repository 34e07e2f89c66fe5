"""No file that is read can run code: no pickle, no eval, no code of somebody else's model. The one
that may is Python itself: the rules that `clean.extra_rules` names."""

import ast
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ElectraConfig, ElectraForPreTraining

from benchmarks.encoder import load_encoder, open_model
from model.weights.initial import read_source
from tests.benchmarks.conftest import SIZES, SPECIAL
from tests.model.conftest import make_config
from tests.vocab.shard_files import write_shards
from vocab.shards.files import TokenShards

ROOT = Path(__file__).parent.parent
PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")
UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml"}


OPTIONS = ("weights_only", "allow_pickle", "trust_remote_code", "shell")


def _is_unsafe(call: ast.Call) -> bool:
    """Whether a call may load or run what a file says."""
    name = ast.unparse(call.func)
    options = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg in OPTIONS}
    runs = name in ("eval", "exec", "compile", "__import__", "os.system", "os.popen")
    unpacks = name.endswith(("extractall", ".extract", "unpack_archive", "joblib.load"))
    if name == "torch.load" or "weights_only" in options:
        return options.pop("weights_only", None) != "True"
    return runs or unpacks or any(value != "False" for value in options.values())


def test_no_module_unpickles_or_runs_what_a_file_says():
    found = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and _is_unsafe(node):
                found.add(f"{name} {ast.unparse(node.func)}")
            elif isinstance(node, ast.Import | ast.ImportFrom):
                modules = [getattr(node, "module", ""), *(alias.name for alias in node.names)]
                found |= {f"{name} {m}" for m in modules if (m or "").split(".")[0] in UNSAFE}
    rules = {"pipeline/rules/extra.py compile", "pipeline/rules/extra.py exec"}
    assert found == rules | {"pipeline/runner.py exec"}  # the command of a forked worker


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
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, "a", "b", "c", ""]))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ElectraTokenizer"}')
    return folder


def test_a_model_to_fine_tune_or_to_go_on_from_runs_no_pickle(tmp_path):
    folder = str(_model_folder(tmp_path / "m", tmp_path / "ran"))
    with pytest.raises(ValueError, match="cannot read the weights of the model at"):
        load_encoder(open_model(folder), "pretrained", 0)
    with pytest.raises(ValueError, match="cannot be read as ElectraForPreTraining"):
        read_source(make_config(tmp_path, initial_model=folder).pretrain)
    assert not (tmp_path / "ran").exists()


def test_an_array_of_objects_is_not_unpickled(tmp_path):
    special = {name: n for n, name in enumerate(SPECIAL)}
    documents = {("train", "ko"): [[5, 6, 7, 8, 9, 10, 3], [5, 6, 7, 8, 3]]}
    write_shards(tmp_path / "shards", documents, 12, "0" * 64, special)
    path = tmp_path / "shards" / "train" / "ko" / "tokens-00000.npy"
    payload = np.empty(12, object)
    payload[:] = [Payload(tmp_path / "ran")] * 12
    np.save(path, payload, allow_pickle=True)
    with pytest.raises(ValueError, match=r"tokens-00000.npy cannot be read .*[Oo]bject"):
        TokenShards(tmp_path / "shards")
    assert not (tmp_path / "ran").exists()
