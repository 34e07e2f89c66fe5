"""Training learns, and a run stopped anywhere and continued ends as one never stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from model.checkpoint import checkpoints
from model.networks.electra import ElectraPretrainer
from model.pretrain import make_model
from tests.model.conftest import MODERN, VARIANTS, make_config, make_run, with_pretrain
from tests.model.trained import Trained, records_of, train


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_sharing": "gdes", "optimizer": "bias-corrected"},
        MODERN | {"optimizer": "muon"},
        {"optimizer": "muon", "precision": "fp16"},
    ],
    ids=str,
)
def test_killed_and_continued_ends_bit_identical(config, tmp_path, monkeypatch, options):
    config = make_config(Path(config.output_dir), num_hidden_layers=1, **options)
    train(config, tmp_path / "whole")
    for step in (1, 6):  # before the first checkpoint, and behind it
        train(config, tmp_path / "killed", step, monkeypatch)
    before = [of["seconds"] for of in records_of(tmp_path / "killed") if of["step"] <= 4]
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')  # killed while writing
    train(config, tmp_path / "killed")
    killed = Trained.read(tmp_path / "killed")
    killed.check_same(Trained.read(tmp_path / "whole"))
    seconds = [of["seconds"] for of in killed.records]
    assert seconds[: len(before)] == before  # they go on from there
    assert seconds == sorted(seconds)


def test_without_a_sound_checkpoint_a_continued_run_starts_from_its_initial_model(tmp_path, caplog):
    config = make_run(tmp_path / "run")
    train(config, tmp_path / "run/before")
    later = with_pretrain(config, initial_model=str(tmp_path / "run/before"))
    train(later, tmp_path / "run/later")
    reference = Trained.read(tmp_path / "run/later")
    for path in checkpoints(tmp_path / "run/later"):
        (path / "model.safetensors").write_bytes(b"torn")
    train(later, tmp_path / "run/later")
    Trained.read(tmp_path / "run/later").check_same(reference)
    assert "checkpoint-12 is damaged" in caplog.text


@pytest.mark.parametrize(
    ("options", "killed_at"),
    [
        (VARIANTS["electra-two-stage"] | {"log_every_steps": 5}, 4),
        ({"mlm_steps_fraction": 0.5, "mlm_learning_rate": 2e-3, "log_every_steps": 5}, 6),
    ],
    ids=["electra-two-stage", "mlm first"],
)
def test_each_stage_is_logged_and_validated_as_it_is_trained(
    config, tmp_path, monkeypatch, options, killed_at
):
    """A run killed between the stages ends as one that was not."""
    config = make_config(Path(config.output_dir), **options)
    train(config, tmp_path / "whole")
    train(config, tmp_path / "killed", killed_at, monkeypatch)
    train(config, tmp_path / "killed")
    whole = Trained.read(tmp_path / "whole")
    Trained.read(tmp_path / "killed").check_same(whole)
    own = "generator_loss" if options.get("objective") else "language_loss"
    assert [m["step"] for m in whole.records if m["kind"] == "train"] == [4, 5, 6, 8, 10, 12]
    for record in whole.records:
        if record["step"] <= 6:
            assert record["loss"] == pytest.approx(record[own], rel=1e-5)
            assert "rtd_loss" not in record
        else:
            others = 0 if options.get("objective") else record["generator_loss"]
            assert record["loss"] == pytest.approx(50 * record["rtd_loss"] + others, rel=1e-5)
            assert record["generator_loss"] > 0
            assert "language_loss" not in record


def test_auto_is_settled_once_for_a_run(config, tmp_path, monkeypatch):
    """The run goes on as it began, where the machine or its load now says otherwise."""
    for name in ("fp32", "bf16"):
        train(with_pretrain(config, precision=name), tmp_path / name)
    folder, auto = tmp_path / "begun in bf16", with_pretrain(config, precision="auto")
    flag = "electrify.system.machine.bf16_flag"
    monkeypatch.setattr(flag, lambda: "amx_bf16")
    train(auto, folder, 6, monkeypatch)
    monkeypatch.setattr(flag, lambda: None)
    train(auto, folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["precision"] == "bf16"
    in_fp32, in_bf16 = (Trained.read(tmp_path / name) for name in ("fp32", "bf16"))
    Trained.read(folder).check_same(in_bf16)
    assert any(not torch.equal(of, in_bf16.tensors[name]) for name, of in in_fp32.tensors.items())


@pytest.mark.parametrize(
    ("every", "step"), [({}, 2), ({"log": 12, "checkpoint": 12, "valid": 3}, 3)]
)
def test_a_broken_loss_stops_before_anything_is_saved(config, tmp_path, monkeypatch, every, step):
    """Also where only a validation looks."""

    def broken(*arguments: Any) -> ElectraPretrainer:
        model = make_model(*arguments)
        torch.nn.init.constant_(model.embeddings.word.weight, float("nan"))
        return model

    monkeypatch.setattr("model.pretrain.make_model", broken)
    options = {f"{name}_every_steps": number for name, number in every.items()}
    words = rf"norm became nan by step {step}: .*Lower pretrain\.learning_rate"
    with pytest.raises(ValueError, match=words):
        train(with_pretrain(config, **options), tmp_path)
    assert checkpoints(tmp_path) == []


def test_in_fp16_a_skipped_update_is_no_end_but_one_at_the_least_scale_is(
    config, tmp_path, monkeypatch
):
    """At the first scale gradients of this model overflow, and the run goes on to a lower one. No
    checkpoint is written behind a skipped update: a run that has diverged has none."""
    config = with_pretrain(config, precision="fp16", log_every_steps=1)
    train(config, tmp_path / "goes on")
    records = records_of(tmp_path / "goes on")
    norms = [of["gradient_norm"] for of in records if of["kind"] == "train"]
    assert norms[:2] == [0, 0]
    assert norms[-1] > 0
    monkeypatch.setattr("model.optim.LEAST_SCALE", 2.0**15)
    config = with_pretrain(config, checkpoint_every_steps=1)
    with pytest.raises(ValueError, match=r"norm became (nan|inf) by step 2 at a loss scale below"):
        train(config, tmp_path / "stops")
    assert checkpoints(tmp_path / "stops") == []
