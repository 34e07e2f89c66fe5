"""The figures of the loader alone: of whose shards, and what they count."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.throughput import pretrain_loader
from benchmarks.throughput.pretrain_loader import ShardSource, measure_loader, write_even_shards
from benchmarks.throughput.pretrain_settings import PretrainSettings
from model.batch import SpecialTokens
from model.train.data import SequenceData, noise_key
from vocab.shards.files import TokenShards

CPU = torch.device("cpu")
SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
CONFIG = PretrainSettings(size="tiny").config()


@pytest.fixture
def few(monkeypatch):
    """Text and steps enough to be counted."""
    monkeypatch.setattr(pretrain_loader, "_NUM_TOKENS", 20_000)
    monkeypatch.setattr(pretrain_loader, "_STEPS", 2)


@pytest.mark.parametrize(("vocab_size", "dtype"), [(300, np.uint16), (70_000, np.uint32)])
def test_made_up_shards_are_those_of_a_run(tmp_path: Path, vocab_size: int, dtype: type):
    write_even_shards(tmp_path, vocab_size, SPECIAL, 100_000)
    shards = TokenShards(tmp_path)
    shards.verify(["train"])
    assert shards.dtype == dtype
    [shard] = shards.stream("train").shards
    lengths = np.diff(shard.documents)
    assert (lengths.min() >= 64, lengths.max() <= 1024) == (True, True)
    assert len(shard.tokens) == pytest.approx(100_000, rel=0.2)
    assert (shard.tokens[shard.documents[1:] - 1] == SPECIAL.sep).all()


def test_steps_are_consecutive_stretches_with_draws_of_their_own(tmp_path: Path):
    write_even_shards(tmp_path, 300, SPECIAL, 20_000)
    data = SequenceData(TokenShards(tmp_path), "train", 32, seed=0, slots=4)
    found = ShardSource(data, 6).host_batch(5).to(CPU)
    expected = data.batch(30, 6, noise_key(0, 5))
    assert torch.equal(found.input_ids, expected.input_ids)
    assert torch.equal(found.noise.samples, expected.noise.samples)


def test_figures_of_made_up_text_and_of_a_run(few: None, tmp_path: Path):
    made = measure_loader(CONFIG, (4, 32), CPU, 300, SPECIAL)
    write_even_shards(tmp_path / "shards", 300, SPECIAL, 20_000)
    run = measure_loader(CONFIG, (4, 32), CPU, 300, SPECIAL, tmp_path)
    assert (made.data, run.data) == ("0 M made-up tokens", "shards of a run")
    slots = 4  # of 32
    for figures in (made, run):
        assert figures.positions == 4 * 32
        assert figures.bytes == 4 * 32 * (2 + 1 + 4) + 4 * 8 + 4 * slots * (4 + 16)
        assert min(figures.read_cpu_seconds, figures.move_cpu_seconds) > 0
        assert figures.positions_per_second > 0
        assert "tokens/s" in figures.line()
