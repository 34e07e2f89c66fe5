"""Embeddings beside `transformers` and `sentence-transformers`, and the folder that both read."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from benchmarks.embed.sentences import _POOLING, open_sentence_encoder, write_folder
from benchmarks.encoder import open_model
from electrify.system.outcome import UserError

TEXTS = ["오늘 국회", "새 축구 경찰 여행 내일", "증시 " * 50, ""]


@pytest.fixture(params=["model_folder", "modern_folder"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embeddings_are_pooled_states_of_transformers(folder, pooling):
    encoder = open_sentence_encoder(open_model(str(folder)), "cpu", pooling=pooling)
    assert encoder.max_length == 32
    network = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, ours in zip(TEXTS, encoder.embed(TEXTS), strict=True):  # theirs without padding
        inputs = tokenizer(text, truncation=True, max_length=32, return_tensors="pt")
        with torch.no_grad():
            states = network(**{k: inputs[k] for k in ("input_ids", "attention_mask")})[0][0]
        pooled = states.mean(0) if pooling == "mean" else states[0]
        expected = (pooled / pooled.norm()).numpy()
        np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_folder_reads_back(folder, pooling, tmp_path):
    encoder = open_sentence_encoder(open_model(str(folder)), "cpu", "fp32", 16, pooling)
    write_folder(encoder, tmp_path)
    again = open_sentence_encoder(open_model(str(tmp_path)), "cpu")
    assert (again.pooling, again.max_length) == (pooling, 16)
    np.testing.assert_array_equal(again.embed(TEXTS), encoder.embed(TEXTS))
    # as versions from 6 on name the pooling
    modern = json.dumps({"embedding_dimension": 32, "pooling_mode": pooling})
    (tmp_path / "1_Pooling" / "config.json").write_text(modern)
    assert open_sentence_encoder(open_model(str(tmp_path)), "cpu").pooling == pooling


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_sentence_transformers_gives_the_same(folder, pooling, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    encoder = open_sentence_encoder(open_model(str(folder)), "cpu", "fp32", 16, pooling)
    write_folder(encoder, tmp_path)
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu")
    assert theirs.max_seq_length == 16
    np.testing.assert_allclose(theirs.encode(TEXTS), encoder.embed(TEXTS), atol=1e-5)
    theirs.save(str(tmp_path / "theirs"))
    again = open_sentence_encoder(open_model(str(tmp_path / "theirs")), "cpu")
    assert again.pooling == pooling


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}]),
        (_POOLING, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}),
        (_POOLING, {"pooling_mode": "lasttoken"}),
        (_POOLING, {"pooling_mode": ["mean", "cls"]}),
    ],
)
def test_other_modules_are_refused(model, tmp_path, file, content):
    write_folder(open_sentence_encoder(model, "cpu"), tmp_path)
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(UserError, match="Transformer, Pooling, Normalize with the pooling mean or"):
        open_sentence_encoder(open_model(str(tmp_path)), "cpu")


def test_the_tokenizer_is_copied_as_it_is(model_folder, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(model_folder, source)
    options = json.loads((source / "tokenizer_config.json").read_text()) | {"note": "ours"}
    (source / "tokenizer_config.json").write_text(json.dumps(options))
    write_folder(open_sentence_encoder(open_model(str(source)), "cpu"), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (source / name).read_bytes()
