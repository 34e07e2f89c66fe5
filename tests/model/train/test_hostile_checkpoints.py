"""Checkpoints and configs of models that somebody wrote by hand: refused, with the file named."""

import json

import pytest
import torch
from torch import nn
from transformers import ElectraConfig

from model.train.checkpoint import (
    Checkpoint,
    load_latest,
    load_model,
    model_tensors,
    newest_sound,
    write_checkpoint,
)
from model.train.log import _read_lines
from model.train.optim import AdamW
from model.weights.initial import read_electra_config


def _write(folder, moments=None):
    model = nn.Linear(3, 2)
    write_checkpoint(folder, Checkpoint(7, {}, model_tensors(model), moments or {}), keep=1)
    return model


@pytest.mark.parametrize(
    "text",
    [
        '{"step": Infinity}',
        '{"step": "7"}',
        '{"identity": []}',
        '{"identity": {"options": 3}}',
        "[]",
    ],
)
def test_a_state_of_another_form_is_damaged(tmp_path, text):
    model = _write(tmp_path)
    path = tmp_path / "checkpoint-7" / "state.json"
    change = json.loads(text)
    content = json.loads(path.read_text()) | change if change else change
    path.write_text(json.dumps(content))
    assert newest_sound(tmp_path) == 0
    assert load_latest(tmp_path, model, [], identity={}) == 0
    with pytest.raises(ValueError, match="checkpoint-7 is damaged"):
        load_model(tmp_path / "checkpoint-7", model)


@pytest.mark.parametrize("key", ["0/exp_avg", "9/exp_avg/weight", "x/y/weight", "0/exp_avg/other"])
def test_moments_of_no_parameter_are_refused(tmp_path, key):
    model = _write(tmp_path, {key: torch.ones(2, 3)})
    groups = [{"params": list(model.parameters())}]
    optimizer = AdamW(groups, (0.9, 0.999), 1e-6, bias_correction=True)
    with pytest.raises(
        ValueError, match=r"optimizer\.safetensors holds .* no moment of this model"
    ):
        load_latest(tmp_path, model, [optimizer])


def test_moments_of_another_shape_are_refused(tmp_path):
    model = _write(tmp_path, {"0/exp_avg/weight": torch.ones(5)})
    groups = [{"params": list(model.parameters())}]
    optimizer = AdamW(groups, (0.9, 0.999), 1e-6, bias_correction=True)
    with pytest.raises(ValueError, match="no moment of this model"):
        load_latest(tmp_path, model, [optimizer])


@pytest.mark.parametrize("text", ["[]", "{", '{"model_type": "electra", "hidden_size": [1]}'])
def test_a_config_of_another_form_is_named(tmp_path, text):
    ElectraConfig().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json"):
        read_electra_config(tmp_path)


def test_lines_of_metrics_that_cannot_be_read_are_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = '{"step": 1, "seconds": 2, "note": "a\u2028b"}'.encode()
    bad = [b"\xff", b'{"step": "x", "seconds": 1}', b'{"step": 1%s}' % (b"0" * 400), b"[", b"3"]
    path.write_bytes(b"\n".join([*bad, good, *bad]))
    assert [line for line, _ in _read_lines(path)] == [good.decode()]
