"""The exported folders load in transformers alone and equal the trained model."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PreTrainedTokenizerFast,
)

from model import export as export_module
from model.export import format_example, mark_example, to_transformers, transformers_names, verify


@pytest.fixture
def exported(model, data, tmp_path: Path) -> Path:
    for kind in ("discriminator", "generator"):
        to_transformers(model.eval(), kind).save_pretrained(tmp_path / kind)
    return tmp_path


def test_folders_load_and_equal_the_model(exported: Path, model, data):
    differences = verify(model, exported, data)
    assert set(differences) == {"discriminator", "generator"}
    assert max(differences.values()) < 1e-5
    body = AutoModel.from_pretrained(exported / "discriminator")
    batch = data.batch(0, 2)
    with torch.no_grad():
        hidden = body(input_ids=batch.input_ids, token_type_ids=batch.token_type_ids)
        ours = model.discriminator(model.embeddings(batch.input_ids, batch.token_type_ids))
    assert (hidden.last_hidden_state - ours).abs().max() < 1e-5


def test_a_difference_is_refused(exported: Path, model, data):
    with torch.no_grad():
        model.discriminator.layers[0].output.bias[0] += 0.01
    with pytest.raises(ValueError, match="discriminator differs from the trained one"):
        verify(model, exported, data)


def test_every_tensor_is_exported_once(model):
    ours = model.state_dict()
    disc = transformers_names(ours, "discriminator")
    gen = transformers_names(ours, "generator")
    shared = {name for name in ours if name.startswith("embeddings.")}
    assert len(disc) + len(gen) == len(ours) + len(shared)


def test_wrong_weights_do_not_load_silently(model):
    state = transformers_names(model.state_dict(), "discriminator")
    del state["electra.encoder.layer.1.output.dense.bias"]
    made = to_transformers(model, "discriminator")
    with pytest.raises(RuntimeError, match=r"layer\.1\.output\.dense\.bias"):
        made.load_state_dict(state, strict=True)


def test_the_example_marks_the_replaced_word(exported: Path, model, monkeypatch):
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "봄",
        "##이",
        "꽃",
        "금리",
        "##가",
        "핀다",
    ]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    fast.save_pretrained(exported / "discriminator")
    monkeypatch.setitem(export_module.EXAMPLES, "ko", ("봄이 꽃이 핀다", "봄이 금리가 핀다"))
    example = mark_example(exported / "discriminator", "ko")
    replaced = [t["token"] for t in example["tokens"] if t["replaced"]]
    assert replaced == ["금리", "##가"]
    assert all(0 <= t["probability"] <= 1 for t in example["tokens"])
    assert "[금리]" in format_example(example)
    discriminator = ElectraForPreTraining.from_pretrained(exported / "discriminator")
    ids = torch.tensor([[2, 5, 6, 8, 9, 10, 3]])
    with torch.no_grad():
        expected = discriminator(input_ids=ids).logits[0].sigmoid()
    assert [t["probability"] for t in example["tokens"]] == pytest.approx(
        expected.tolist(), abs=1e-4
    )


def test_the_generator_keeps_its_tied_word_table(exported: Path):
    generator = ElectraForMaskedLM.from_pretrained(exported / "generator")
    table = generator.electra.embeddings.word_embeddings.weight
    assert generator.generator_lm_head.weight is table
