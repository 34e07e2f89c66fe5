"""Batches as the model takes them: nothing sees the padding, and the tokenizer is the right one."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from model.corrupt import choose_positions, masked_limits
from model.data import SequenceData
from model.pretrain import Trainer
from vocab.shard_writer import write_shards
from vocab.tokenizer import tokenizer_sha256


def data_of(config, packing):
    encode = config.encode.model_copy(update={"packing": packing})
    return SequenceData.from_config(Path(config.output_dir) / "shards", "train", encode, 7)


@pytest.mark.parametrize("packing", ["full", "electra", "sentence"])
def test_padding_stands_only_behind_the_text(config, packing):
    batch = data_of(config, packing).batch(0, 200)
    is_text = batch.input_ids != 0
    lengths = is_text.sum(dim=1)
    assert (is_text == (torch.arange(32) < lengths[:, None])).all()
    assert batch.packed == bool(is_text.all()) == (packing == "full")
    assert (batch.input_ids[torch.arange(200), lengths - 1] == 3).all()
    assert (batch.token_type_ids[~is_text] == 0).all()


def test_what_is_behind_the_text_changes_no_loss(config, model):
    """Padded sequences against the same sequences without their padding, one at a time."""
    model.eval()
    batch = data_of(config, "electra").batch(0, 12)
    lengths = (batch.input_ids != 0).sum(dim=1).tolist()
    assert min(lengths) < 25
    for row, length in enumerate(lengths):
        ids, types = batch.input_ids[row : row + 1], batch.token_type_ids[row : row + 1]
        out = model(ids, types, torch.Generator().manual_seed(row), packed=False)
        expected = max(1, round(config.pretrain.mask_fraction * length))
        assert out.weights.sum() == min(expected, config.pretrain.num_masked(32), length - 2)
        assert out.tokens.sum() == length
        short = model.discriminate(out.corrupted_ids[:, :length], types[:, :length])
        assert torch.allclose(short, out.discriminator_logits[:, :length], atol=1e-5)
        loss = binary_cross_entropy_with_logits(short, out.labels[:, :length])
        assert torch.allclose(out.discriminator_loss, loss, atol=1e-5)


def test_a_short_sequence_has_its_share_masked_not_that_of_a_full_one():
    tokens = torch.arange(128) < torch.tensor([128, 40, 10, 3])[:, None]
    limits = masked_limits(tokens, 0.15)
    assert limits.tolist() == [19, 6, 2, 1]  # python's round halves to even, as the original's
    maskable = tokens & (torch.arange(128) > 0)
    positions, weights = choose_positions(maskable, 19, None, limits)
    assert weights.sum(dim=1).tolist() == limits.tolist()
    assert maskable.gather(1, positions)[weights > 0].all()


@pytest.mark.parametrize("packing", ["electra", "sentence"])
def test_training_runs_on_padded_batches(config, tmp_path, packing):
    encode = config.encode.model_copy(update={"packing": packing})
    (tmp_path / "run").mkdir()
    trainer = Trainer(config.model_copy(update={"encode": encode}), tmp_path / "run")
    assert trainer.run()["num_steps"] == config.pretrain.num_steps


def test_a_vocabulary_edited_after_encoding_is_an_error(config, tmp_path):
    folder = Path(config.output_dir)
    vocab = folder / "vocab"
    vocab.mkdir()
    (vocab / "tokenizer.json").write_text("{}")
    special = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    documents = {("train", "ko"): [[9] * 99 + [3]], ("valid", "ko"): [[9] * 99 + [3]]}
    write_shards(folder / "shards", documents, 60, tokenizer_sha256(vocab), special)
    SequenceData.from_config(folder / "shards", "train", config.encode, 0)
    (vocab / "tokenizer.json").write_text("[]")
    with pytest.raises(ValueError, match=r"not the tokenizer that the shards .* made with"):
        SequenceData.from_config(folder / "shards", "train", config.encode, 0)
