"""Each stage is made from what decides its bytes, and from nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from electrify.config.load import load_config
from electrify.config.run import RunConfig
from electrify.stage.folder import Stage, read_manifest
from electrify.stage.plan import (
    clean_stage,
    encode_stage,
    evaluate_stage,
    export_stage,
    pretrain_stage,
    vocab_stage,
)
from electrify.stage.run import run_stage
from electrify.system.machine import git_commit
from tests.electrify.stage.conftest import refuse


@pytest.fixture
def make(tmp_path: Path):
    """A config of the demo in a folder with finished clean, vocab and shards."""

    def config(*overrides: str) -> RunConfig:
        return load_config("configs/scratch.toml", [f"output_dir='{tmp_path / 'run'}'", *overrides])

    for name in ("clean", "vocab", "shards"):
        stage = Stage(name, tmp_path / "run" / name, {})
        run_stage(stage, lambda folder: {"files": (folder / "one").write_text("x")})
    return config


def test_a_stage_ends_without_git(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("electrify.stage.folder.git_commit", git_commit.__wrapped__)  # not kept
    stage = Stage("clean", tmp_path / "clean", {})
    run_stage(stage, lambda folder: {"files": (folder / "one").write_text("x")})
    assert read_manifest(stage.folder)["git_commit"] is None


@pytest.mark.parametrize(
    ("stage_of", "override", "counts"),
    [
        (lambda c: clean_stage(c, []), "beam.runner=FlinkRunner", False),
        (vocab_stage, "pretrain.num_steps=7000", False),
        (encode_stage, "pretrain.sequence_length=128", False),
        (pretrain_stage, "evaluate.num_epochs=1", False),
        (lambda c: evaluate_stage(c, "some/model", {}), "evaluate.data_dir=elsewhere", False),
        (lambda c: clean_stage(c, []), "clean.min_characters=11", True),
        (vocab_stage, "vocab.size=5000", True),
        (encode_stage, "encode.valid_fraction=0.1", True),
        (pretrain_stage, "pretrain.sequence_length=128", True),
        (pretrain_stage, "seed=1", True),
        (lambda c: evaluate_stage(c, "some/model", {}), "evaluate.pooling=cls", True),
    ],
)
def test_an_option_counts_where_it_changes_a_byte(make, stage_of, override, counts):
    assert (stage_of(make()).plan != stage_of(make(override)).plan) == counts


def test_new_weights_in_a_model_folder_count(make, tmp_path: Path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    first = evaluate_stage(make(), str(folder), {})
    (folder / "model.safetensors").write_bytes(b"two")
    assert evaluate_stage(make(), str(folder), {}).plan != first.plan
    before = evaluate_stage(make(), str(folder), {}).plan
    (folder / "README.md").write_text("scores")  # a card is written anew with each evaluation
    assert evaluate_stage(make(), str(folder), {}).plan == before
    assert first.folder.name.startswith("evaluate-")
    named = evaluate_stage(make(), str(folder), {}, name="my encoder")
    assert named.folder.name == "evaluate-my-encoder"


@pytest.mark.parametrize(
    ("name", "value"), [("folder/tokenizer.json", "folder"), ("other.txt", "other.txt")]
)
def test_the_contents_of_vocabularies_count(make, tmp_path: Path, name, value):
    (tmp_path / "folder").mkdir()
    inputs = []
    for content in ("one", "two"):
        (tmp_path / name).write_text(content)
        inputs.append(vocab_stage(make(f"vocab.extend='{tmp_path / value}'")).inputs)
    (changed,) = {key for key in inputs[0] if inputs[0][key] != inputs[1][key]}
    assert changed.startswith("vocab.extend")
    assert vocab_stage(make()).inputs.keys() == {"clean"}


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "tokenizer_config.json"])
def test_an_edited_tokenizer_is_refused_by_every_stage_after_it(make, tmp_path: Path, name):
    config = make()
    vocab = Stage("vocab", tmp_path / "run" / "vocab", {"made": "again"})
    run_stage(vocab, lambda folder: {"files": (folder / name).write_text("abc")}, overwrite=True)
    run_stage(Stage("pretrain", tmp_path / "run" / "pretrain", {}), lambda folder: {})
    path = tmp_path / "run" / "vocab" / name
    for text, words in (("abd", "has changed"), ("abcd", "is missing or has changed")):
        path.write_text(text)
        for stage in (encode_stage, pretrain_stage, export_stage):
            with pytest.raises(ValueError, match=rf"{name} {words}.* electrify train-vocab CONFIG"):
                run_stage(replace(stage(config), folder=tmp_path / "never made"), refuse)


@pytest.mark.parametrize(
    ("overrides", "is_said"),
    [
        ([], False),
        (["encode.valid_fraction=0.1"], False),  # its own option
        (["vocab.size=5000"], True),
    ],
)
def test_an_edited_config_is_said_where_earlier_work_is_used(make, caplog, overrides, is_said):
    run_stage(vocab_stage(make()), lambda folder: {}, overwrite=True)
    caplog.clear()
    encode_stage(make(*overrides))
    words = "vocab was made before the config", "size changed from", "electrify train-vocab CONFIG"
    assert ["warning" in caplog.text, *(word in caplog.text for word in words)] == 4 * [is_said]


def test_an_earlier_stage_that_is_not_read_may_be_damaged(make, tmp_path: Path):
    (tmp_path / "run" / "clean" / "manifest.json").write_text("{")
    assert pretrain_stage(make()).reads.keys() == {"encode", "train-vocab"}
