"""The exported folders load in transformers alone and equal the model of any checkpoint."""

import json
import shutil

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from electrify.stage.networks import ENCODER
from model.checkpoint import load_model
from model.data import SequenceData
from model.export import _export, export_checkpoint, save_networks, verify
from model.networks.batch import Batch
from model.networks.electra import ElectraPretrainer
from model.pretrain import pretrain
from model.weights.card import num_parameters
from model.weights.names import DETECTOR, PREDICTOR, transformers_class
from tests.model.conftest import (
    MODERN,
    PIECES,
    VARIANTS,
    discriminate,
    generate,
    make_run,
    predict,
    random_batch,
    random_model,
    with_pretrain,
)
from tests.model.trained import train

# the folders of an export, and what the networks in them do
WITH_GENERATOR = {"discriminator": "detects", "generator": "predicts"}
FOLDERS = {
    "mlm": {"discriminator": "predicts"},
    "replace-mlm": {"discriminator": "predicts", "generator": "predicts"},
    "replace-mlm gdes": {"discriminator": "predicts", "generator": "predicts"},
    "all-tokens-mlm": WITH_GENERATOR | {"language_model": "predicts"},
    "modern all-tokens-mlm": WITH_GENERATOR | {"language_model": "predicts"},
}
LOCAL = {"global_attn_every_n_layers": 2, "local_attention": 6, "local_rope_theta": 100.0}
NETWORKS = VARIANTS | {"modern local": MODERN | LOCAL}


@pytest.fixture
def batch() -> Batch:
    return random_batch(random_model(), rows=3, length=32)


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_that_of_transformers(batch, tmp_path, name):
    """In double precision."""
    model = random_model(**NETWORKS[name]).double().eval()
    folders = FOLDERS.get(name, WITH_GENERATOR)
    save_networks(model, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {*folders, ENCODER}
    ids, types = batch.input_ids, batch.token_type_ids
    is_modern = model.config.architecture == "modern"
    inputs = {"input_ids": ids} if is_modern else {"input_ids": ids, "token_type_ids": types}
    encoder = AutoModel.from_pretrained(tmp_path / ENCODER, dtype=torch.float64).eval()
    assert encoder.config.architectures == [type(encoder).__name__]
    assert num_parameters(tmp_path / ENCODER) == encoder.num_parameters()
    # sums of tables, and a folded matrix, are rounded once more
    limit = 1e-5 if is_modern or model.config.weight_sharing == "gdes" else 1e-9
    torch.testing.assert_close(
        model.main_states(ids, types), encoder(**inputs).last_hidden_state, rtol=limit, atol=limit
    )
    everywhere = torch.arange(ids.shape[1]).expand(len(ids), -1)
    for folder, head in folders.items():
        kind = transformers_class(PREDICTOR if head == "predicts" else DETECTOR, model.config)
        theirs = kind.from_pretrained(tmp_path / folder, dtype=torch.float64).eval()
        assert type(theirs).__name__ in theirs.config.architectures
        assert num_parameters(tmp_path / folder) == theirs.num_parameters()
        expected = theirs(**inputs).logits
        if head == "detects":
            found = discriminate(model, ids, types)
            if is_modern:  # the logits of a token that is not replaced are 0
                assert not expected[..., 0].any()
                expected = expected[..., 1]
        elif folder == "generator":
            found = generate(model, ids, types, everywhere)
        else:
            found = predict(model, ids, types, everywhere)
        torch.testing.assert_close(found.view(expected.shape), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize(
    ("part", "folder", "difference"),
    [
        ("discriminator.layers.0.output.bias", "discriminator", 0.01),
        ("generator_head.bias", "generator", float("nan")),
        ("language_head.norm.bias", "language_model", 0.01),
    ],
)
def test_a_difference_is_refused(batch, tmp_path, part, folder, difference):
    model = random_model(**VARIANTS["all-tokens-mlm"]).eval()
    save_networks(model, tmp_path)
    inputs = batch.input_ids, batch.token_type_ids
    assert max(verify(model, tmp_path, *inputs).values()) < 1e-10
    with torch.no_grad():
        model.get_parameter(part)[0] += difference
    with pytest.raises(ValueError, match=f"exported {folder} differs from the trained one"):
        verify(model, tmp_path, *inputs)


def test_what_is_exported_is_what_was_trained_whatever_the_config_says_now(tmp_path):
    config = make_run(tmp_path / "run")
    pretrain(config)
    _export(with_pretrain(config, num_attention_heads=1), tmp_path, None)
    there = json.loads((tmp_path / "discriminator" / "config.json").read_text())
    assert there["num_attention_heads"] == config.pretrain.num_attention_heads > 1


@pytest.mark.parametrize("options", [VARIANTS["electra-two-stage"], {"mlm_steps_fraction": 0.5}])
def test_a_detector_that_is_not_trained_yet_is_none(tmp_path, options, caplog):
    """At the end of the first stage, of 6 steps, nothing of the second has begun."""
    steps = {"num_steps": 12, "checkpoint_every_steps": 2, "keep_checkpoints": 6}
    config = make_run(tmp_path / "run", num_hidden_layers=1, **steps, **options)
    pretrain(config)
    _export(config, tmp_path / "later", 8)
    assert "first stage" not in caplog.text
    assert "MLM warm-up" not in caplog.text
    if "objective" in options:
        with pytest.raises(ValueError, match="name a step after 6"):
            _export(config, tmp_path / "early", 6)
    else:
        _export(config, tmp_path / "early", 6)
        assert "MLM warm-up (6 steps)" in caplog.text


def test_the_encoder_of_a_checkpoint_is_exported_before_its_run_ends(tmp_path):
    """With what it was trained with, which must be there."""
    run, target = tmp_path / "run", tmp_path / "exported"
    config = make_run(run)
    train(config, run / "pretrain.partial")
    checkpoint = run / "pretrain.partial" / "checkpoint-8"
    export_checkpoint(checkpoint, target)
    data = SequenceData(config, "train")
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    load_model(checkpoint, model)
    theirs = AutoModel.from_pretrained(target)
    assert torch.equal(theirs.embeddings.word_embeddings.weight, model.embeddings.word.weight)
    tokenizer = AutoTokenizer.from_pretrained(target)
    assert tokenizer.model_max_length == 40
    assert tokenizer.get_vocab() == {piece: number for number, piece in enumerate(PIECES)}
    options = json.loads((target / "tokenizer_config.json").read_text())
    assert options["tokenizer_class"] == "PreTrainedTokenizerFast"  # of transformers 4 and 5
    newest = checkpoint.with_name("checkpoint-12")
    (newest / "state.json").write_text("{}")
    with pytest.raises(ValueError, match="checkpoint-12 is damaged"):
        export_checkpoint(newest, tmp_path / "a")
    shutil.rmtree(run / "shards")
    with pytest.raises(ValueError, match="shards"):
        export_checkpoint(checkpoint, tmp_path / "b")
