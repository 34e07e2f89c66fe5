"""Batches as the model takes them: each from its step alone, however many processes share it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from electrify.config.run import RunConfig
from model.batch import Batch
from model.train.data import SequenceData, StepData, noise_key, noise_probabilities, open_shards
from tests.model.conftest import SPECIAL, VOCAB_SIZE, make_config, write_tiny_shards
from tests.vocab.shard_files import write_shards
from vocab.shards.files import TokenShards
from vocab.tokenizer import tokenizer_sha256

CPU = torch.device("cpu")
FIELDS = ("input_ids", "token_type_ids", "languages")
NOISE = ("positions", "mask", "samples")


def with_encoding(config: RunConfig, **encode: object) -> RunConfig:
    return config.model_copy(update={"encode": config.encode.model_copy(update=encode)})


def data_of(config: RunConfig, packing: str) -> SequenceData:
    return SequenceData.from_config(with_encoding(config, packing=packing), "train")


def tensors(batch: Batch) -> dict[str, torch.Tensor]:
    found = {name: getattr(batch, name) for name in FIELDS}
    return found | {name: getattr(batch.noise, name) for name in NOISE}


def assert_same(batch: Batch, other: Batch) -> None:
    for name, tensor in tensors(batch).items():
        assert torch.equal(tensor, tensors(other)[name]), name
    assert batch.packed == other.packed


def joined(batches: list[Batch]) -> dict[str, torch.Tensor]:
    parts = [tensors(batch) for batch in batches]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


# --- one sequence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["full", "electra", "sentence"])
def test_padding_stands_only_behind_the_text(config: RunConfig, packing: str):
    batch = data_of(config, packing).batch(0, 200)
    is_text = batch.input_ids != 0
    lengths = is_text.sum(dim=1)
    assert (is_text == (torch.arange(32) < lengths[:, None])).all()
    assert batch.packed == bool(is_text.all()) == (packing == "full")
    assert (batch.input_ids[torch.arange(200), lengths - 1] == 3).all()
    assert (batch.token_type_ids[~is_text] == 0).all()


# --- the batch of a step --------------------------------------------------------------------------


def test_a_batch_follows_from_its_place_alone(config: RunConfig):
    first, again = (SequenceData.from_config(config, "train") for _ in range(2))
    first.batch(100, 7)
    assert_same(first.batch(8, 4, key=5), again.batch(8, 4, key=5))
    other = again.batch(8, 4, key=6)
    assert torch.equal(first.batch(8, 4, key=5).input_ids, other.input_ids)
    assert not torch.equal(first.batch(8, 4, key=5).noise.positions, other.noise.positions)


CURRICULUM = {
    "num_steps": 10,
    "batch_size": 6,
    "micro_batch_size": 2,
    "curriculum": [
        {"sequence_length": 16, "steps_fraction": 0.3, "batch_size": 12, "micro_batch_size": 3},
        {"sequence_length": 32, "steps_fraction": 0.2},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_shards(tmp_path / "shards")
    return tmp_path


def step_data(config: RunConfig, rank: int = 0, num_ranks: int = 1) -> StepData:
    shards = open_shards(Path(config.output_dir) / "shards", ["train"])
    return StepData(config, shards, rank, num_ranks)


def test_micro_batches_are_the_steps_batch_in_pieces(folder: Path):
    config = make_config(folder, **CURRICULUM)
    data = step_data(config)
    seen = 0
    for step in range(10):
        count, length, micro = (12, 16, 3) if step < 3 else (6, 32, 2)
        whole = SequenceData.from_config(config, "train", length)
        expected = tensors(whole.batch(seen, count, noise_key(config.seed, step)))
        batches = data.host_batch(step).micro_batches(CPU)
        assert [len(batch.input_ids) for batch in batches] == [micro] * (count // micro)
        found = joined(batches)
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name
        seen += count
    assert [phase.first_step for phase in data.phases] == [0, 3, 5]


def test_no_sequence_comes_twice_in_an_epoch_nor_any_draw_in_two_steps(folder: Path):
    data = step_data(make_config(folder, num_steps=40))
    steps = [joined(data.host_batch(step).micro_batches(CPU)) for step in range(40)]
    assert data.last.num_sequences >= 160
    rows = torch.cat([step["input_ids"] for step in steps])
    keys = {tuple(row) for row in rows.tolist()}
    assert len(keys) > 150  # a few are alike in these documents
    draws = torch.cat([step["samples"].flatten() for step in steps])
    assert len(draws.unique()) == len(draws)


@pytest.mark.parametrize("packing", ["full", "electra"])
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_ranks_together_have_the_rows_and_draws_of_one(folder: Path, num_ranks: int, packing: str):
    options = CURRICULUM | {"micro_batch_size": 1}
    options["curriculum"] = [{"sequence_length": 16, "steps_fraction": 0.3, "batch_size": 12}]
    config = with_encoding(make_config(folder, **options), packing=packing)
    alone = step_data(config)
    ranks = [step_data(config, rank, num_ranks) for rank in range(num_ranks)]
    for step in (0, 2, 3, 9):
        whole = joined(alone.host_batch(step).micro_batches(CPU))
        parts = [joined(data.host_batch(step).micro_batches(CPU)) for data in ranks]
        for name, tensor in whole.items():
            together = torch.empty_like(tensor)
            for rank, part in enumerate(parts):
                together[rank::num_ranks] = part[name]
            assert torch.equal(together, tensor), name


@pytest.mark.parametrize(
    ("micro", "num_ranks", "message"),
    [
        (None, 4, "batch_size = 6 must divide by the 4 processes"),
        (2, 2, "each of 2 processes has 3, which must divide by pretrain.micro_batch_size = 2"),
    ],
)
def test_shares_that_are_not_whole_are_refused(
    folder: Path, micro: int | None, num_ranks: int, message: str
):
    config = make_config(folder, batch_size=6, micro_batch_size=micro)
    with pytest.raises(ValueError, match=message):
        step_data(config, 0, num_ranks)


def test_the_key_of_draws_is_another_at_each_step_and_seed():
    """In its lowest 32 bits: torch's generator on the CPU knows no others."""
    keys = [noise_key(seed, step) % 2**32 for seed in range(4) for step in range(20_000)]
    assert len(set(keys)) == len(keys)


# --- generators without weights -------------------------------------------------------------------


def test_uniform_noise_is_all_pieces_but_special_tokens(folder: Path):
    config = make_config(folder)
    data = SequenceData.from_config(config, "train")
    table = noise_probabilities("uniform", TokenShards(folder / "shards"), data)
    assert table.dtype == torch.float64
    assert table.tolist() == [0.0] * 5 + [1 / 55] * 55


def write_two_languages(folder: Path) -> dict[str, list[list[int]]]:
    """Much Korean and little English, of other pieces."""
    rng = np.random.default_rng(1)
    documents = {}
    for language, number, first in (("ko", 600, 5), ("en", 60, 25)):
        weights = rng.random(20)
        documents[language] = [
            [*(first + rng.choice(20, 20, p=weights / weights.sum())).tolist(), 1, 3]
            for _ in range(number)
        ]
    by_split = {("train", language): texts for language, texts in documents.items()}
    by_split |= {("valid", language): texts[:9] for language, texts in documents.items()}
    write_shards(folder / "shards", by_split, VOCAB_SIZE, "0" * 64, SPECIAL)
    return documents


def test_unigram_noise_follows_how_often_a_language_is_read(tmp_path: Path):
    """Against the pieces in sequences as training reads them."""
    write_two_languages(tmp_path)
    mixture = make_config(tmp_path).encode.mixture.model_copy(update={"temperature": 0.3})
    config = with_encoding(make_config(tmp_path), mixture=mixture)
    data = SequenceData.from_config(config, "train")
    table = noise_probabilities("unigram", TokenShards(tmp_path / "shards"), data)
    read = data.batch(0, 20_000).input_ids.flatten()
    counts = read[read >= 5].bincount(minlength=VOCAB_SIZE).double()
    found = counts / counts.sum()
    assert 0.3 < table[25:].sum() < 0.45  # by its text alone English would have 0.09
    torch.testing.assert_close(table, found, rtol=0.05, atol=1e-4)


# --- the run --------------------------------------------------------------------------------------


def test_a_vocabulary_edited_after_encoding_is_an_error(config: RunConfig):
    folder = Path(config.output_dir)
    vocab = folder / "vocab"
    vocab.mkdir()
    (vocab / "tokenizer.json").write_text("{}")
    documents = {("train", "ko"): [[9] * 99 + [3]], ("valid", "ko"): [[9] * 99 + [3]]}
    write_shards(folder / "shards", documents, 60, tokenizer_sha256(vocab), SPECIAL)
    SequenceData.from_config(config, "train")
    (vocab / "tokenizer.json").write_text("[]")
    with pytest.raises(ValueError, match=r"not the tokenizer that the shards .* made with"):
        SequenceData.from_config(config, "train")
