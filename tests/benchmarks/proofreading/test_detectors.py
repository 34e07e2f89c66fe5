"""Scores of words are those of `transformers`, computed one by one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    RobertaConfig,
    RobertaForMaskedLM,
)

from benchmarks.encoder import open_model
from benchmarks.proofreading.detectors import (
    by_word,
    check_heads,
    cut,
    discriminator,
    logits_at,
    pseudo_likelihood,
    read_models,
)
from tests.benchmarks.conftest import build_tokenizer

TEXTS = ["국회 증시 새", "오늘 내일 여행, 축구", "큰"]


def test_a_word_has_the_highest_score_of_its_pieces():
    tokenizer = build_tokenizer(("국", "##회", "증시", "##가"))
    (pieces,) = cut(tokenizer, ["국회 증시가 국"])
    assert pieces.word_of.tolist() == [-1, 0, 0, 1, 1, 2, -1]
    scores = np.array([9.0, 1, 3, 2, 0, -1, 9])
    assert by_word(pieces, scores, 3).tolist() == [3, 2, -1]


def test_the_discriminators_logits(model_folder: Path):
    source = open_model(str(model_folder))
    model = ElectraForPreTraining.from_pretrained(model_folder).eval()
    pieces = cut(source.tokenizer, TEXTS)
    for text, found in zip(TEXTS, discriminator(source)(pieces), strict=True):
        with torch.no_grad():
            logits = model(**source.tokenizer(text, return_tensors="pt")).logits[0]
        np.testing.assert_allclose(found, logits.numpy(), atol=1e-5)


def test_the_pseudo_likelihood(generator_folder: Path):
    source = open_model(str(generator_folder))
    model = ElectraForMaskedLM.from_pretrained(generator_folder).eval()
    pieces = cut(source.tokenizer, TEXTS)
    for of_text, found in zip(pieces, pseudo_likelihood(source)(pieces), strict=True):
        for place, true in enumerate(of_text.ids[:-1]):
            if place:
                ids = torch.from_numpy(of_text.ids.copy())
                ids[place] = source.tokenizer.mask_token_id
                with torch.no_grad():
                    log_p = model(ids[None]).logits[0, place].log_softmax(0)[true]
                assert found[place] == pytest.approx(-float(log_p), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (BertForMaskedLM, BertConfig),
        (RobertaForMaskedLM, RobertaConfig),
        (ElectraForMaskedLM, ElectraConfig),
    ],
)
def test_the_head_at_one_place_gives_the_same_logits(kind, config):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = kind(config(vocab_size=30, intermediate_size=16, pad_token_id=0, **sizes)).eval()
    ids, mask = torch.randint(1, 30, (3, 7)), torch.ones(3, 7).long()
    places = torch.tensor([0, 3, 6])
    with torch.no_grad():
        found = logits_at(model, ids, mask, places)
        whole = model(input_ids=ids, attention_mask=mask).logits  # and the hook is gone
    torch.testing.assert_close(found, whole[torch.arange(3), places])


def test_models_are_found_by_their_heads(model_folder: Path, generator_folder: Path):
    alone = read_models(str(model_folder), None)
    assert set(alone) == {"encoder", "discriminator"}
    both = read_models(str(model_folder), str(generator_folder))
    assert both["generator"].path == str(generator_folder)
    only = read_models(str(generator_folder), None)
    assert set(only) == {"encoder", "generator"}
    for found in (alone, both, only):
        check_heads(found)
    with pytest.raises(ValueError, match="neither a discriminator"):
        check_heads({"encoder": alone["encoder"]})


def test_an_export_has_both(model_folder: Path, generator_folder: Path, tmp_path: Path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "discriminator").symlink_to(model_folder)
    (tmp_path / "export" / "generator").symlink_to(generator_folder)
    for place in (tmp_path, tmp_path / "export"):
        assert set(read_models(str(place), None)) == {"encoder", "discriminator", "generator"}
