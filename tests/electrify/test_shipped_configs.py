"""Where their files are, all configs that are shipped pass `validate` and all grids are planned.

The files are stand-ins of the right names: text, tasks, weights of an earlier run, the hub.
"""

import bz2
import gzip
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from safetensors.torch import save_file

from benchmarks.tasks.registry import TASKS
from electrify.cli import main
from electrify.config.load import load_config
from electrify.config.run import RunConfig
from electrify.stage.folder import fingerprint
from electrify.stage.plan import CHECKPOINT_STATE
from model.checkpoint import FILES
from vocab.tokenizer import tokenizer_sha256

ROOT = Path.cwd()
GRIDS = "configs/ablations"
EVERY, OF_GRIDS = ({p.as_posix() for p in Path(of).rglob("*.toml")} for of in ("configs", GRIDS))
SHIPPED = "model/shipped/ko-modern/discriminator"


def write_source(kind: str, pattern: str) -> None:
    one = re.sub(r"\[(.)[^]]*\]", lambda of: "x" if of[1] == "!" else of[1], pattern)
    path = Path(one.replace("/*", "/x").replace("*", ""))
    path.parent.mkdir(parents=True, exist_ok=True)
    page = b"<page><ns>0</ns><id>1</id><revision><text>x</text></revision></page>"
    written = {"jsonl": b'{"text": "x"}', "wikipedia": b"<mediawiki>%b</mediawiki>" % page}
    zstd = partial(pa.compress, codec="zstd", asbytes=True)
    packed = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}.get(path.suffix, bytes)
    path.write_bytes(packed(written.get(kind, b"x")))


def own_rows(suffix: str, has_words: bool, number: int) -> str:
    """Rows that differ from those of other numbers."""
    if has_words:
        return json.dumps({"tokens": ["film", str(number)], "tags": ["O", "B-LOC"]})
    if suffix == ".csv":
        return "text,label\n" + f"a good film {number},1\na bad film {number},0\n" * 9
    rows = ({"text": f"film {number}", "pair": "x", "label": label} for label in ("good", "bad"))
    return "\n".join(map(json.dumps, rows))


def write_checkpoint(folder: Path, config: RunConfig) -> None:
    """The sizes of a run with these options, without its weights."""
    folder.mkdir(parents=True)
    options = config.pretrain.model_dump(mode="json")
    size = config.vocab.num_pieces
    sha256 = tokenizer_sha256(ROOT / SHIPPED)
    identity = {"options": options, "vocab_size": size, "tokenizer_sha256": sha256}
    for name in FILES:
        save_file({}, folder / name)
    hashes = {name: fingerprint(str(folder / name)) for name in FILES}
    state = {"step": 1, "identity": identity, "sha256": hashes}
    (folder / CHECKPOINT_STATE).write_text(json.dumps(state))
    (folder.parents[1] / "vocab").symlink_to(ROOT / SHIPPED)


def stand_in(config: RunConfig) -> None:
    """What a config names and this folder does not have."""
    clean, evaluate = config.clean, config.evaluate
    named = [(source.kind, source.path) for source in clean.sources if source.kind != "huggingface"]
    named += [("jsonl", name) for name in clean.decontaminate_against or () if "/" in name]
    for kind, pattern in named:
        if not list(Path().glob(pattern)):
            write_source(kind, pattern)
    for place in {*map(str, evaluate.data_dirs), clean.decontaminate_data_dir} - {"hub", None}:
        for files in (files for task in TASKS.values() for files in task.files.values()):
            path = Path(str(place), files[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    for task in evaluate.own_tasks:
        assert isinstance(task.further, str) or not task.further
        further = task.further and task.further.replace("*", "xx")
        names = (task.train, task.dev, task.test, further)
        for n, path in enumerate(Path(name) for name in names if name):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(own_rows(path.suffix, task.kind in ("tagging", "word-labels"), n))
    if (tokenizer := config.vocab.extend) and not Path(tokenizer).exists():
        Path(tokenizer).parent.mkdir(parents=True, exist_ok=True)
        Path(tokenizer).symlink_to(ROOT / SHIPPED)
    if (generator := config.pretrain.initial_generator) and not Path(generator).exists():
        Path(generator).symlink_to((ROOT / SHIPPED).with_name("generator"))
    if (initial := config.pretrain.initial_model) and not Path(initial, "config.json").exists():
        write_checkpoint(Path(initial, "pretrain", "checkpoint-1"), config)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what is shipped and nothing else, and a hub that answers."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("configs", "pipeline/sample", "model/shipped"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(ROOT / name)
    answer = SimpleNamespace(sha="a" * 40)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: answer)


@pytest.mark.parametrize("config", sorted(EVERY - OF_GRIDS))
@pytest.mark.usefixtures("elsewhere")
def test_every_config_can_be_run(config: str, capsys: pytest.CaptureFixture[str]):
    stand_in(load_config(config))
    assert main(["validate", config]) == 0
    assert f"{config} can be run" in capsys.readouterr().out


@pytest.mark.parametrize("grid", sorted(OF_GRIDS))
@pytest.mark.usefixtures("elsewhere")
def test_every_grid_can_be_planned(grid: str):
    assert main(["ablate", grid, "--dry-run"]) == 0
