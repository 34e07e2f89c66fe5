"""A tiny run folder with shards, for the trainer's tests."""

from pathlib import Path

import numpy as np
import pytest
import torch

from electrify.config import RunConfig
from electrify.config_file import parse_config
from model.data import SequenceData, noise_probabilities
from model.electra import ElectraPretrainer
from vocab.shard_writer import write_shards
from vocab.shards import TokenShards

VOCAB_SIZE = 60
NUM_WORDS = 6  # a document counts up through these, round and round
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}

TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "embedding_size": 16,
    "generator_hidden_fraction": 0.5,
    "max_position_embeddings": 40,
    "num_steps": 12,
    "warmup_steps": 2,
    "batch_size": 4,
    "learning_rate": 2e-3,
    "log_every_steps": 2,
    "valid_every_steps": 4,
    "num_valid_batches": 2,
    "checkpoint_every_steps": 4,
    "device": "cpu",
}


def make_config(folder: Path, **pretrain: object) -> RunConfig:
    """A config of a tiny model whose run folder is `folder`."""
    return parse_config(
        {
            "name": "tiny",
            "seed": 7,
            "output_dir": str(folder),
            "clean": {"sources": [{"kind": "text", "language": "ko", "path": "none.txt"}]},
            "encode": {"sequence_length": 32},
            "pretrain": TINY | pretrain,
        }
    )


def write_tiny_shards(folder: Path) -> None:
    """Documents in which each token follows from the one before: there is something to learn."""
    rng = np.random.default_rng(0)
    documents = {}
    for split, num_documents in (("train", 600), ("valid", 40)):
        starts = rng.integers(0, NUM_WORDS, num_documents)
        lengths = rng.integers(9, 30, num_documents)
        documents[split, "ko"] = [
            [*((start + np.arange(length)) % NUM_WORDS + 5), 3]
            for start, length in zip(starts, lengths, strict=True)
        ]
    write_shards(folder, documents, VOCAB_SIZE, "0" * 64, SPECIAL)


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """A tiny config whose run folder already holds shards (without a manifest)."""
    write_tiny_shards(tmp_path / "shards")
    return make_config(tmp_path)


@pytest.fixture
def data(config: RunConfig) -> SequenceData:
    """The train split of the tiny run."""
    return SequenceData.from_config(config, "train")


def make_model(config: RunConfig, data: SequenceData, seed: int = 3) -> ElectraPretrainer:
    """A freshly initialised tiny model in training mode, of any objective."""
    shards = TokenShards(Path(config.output_dir) / "shards")
    torch.manual_seed(seed)
    pretrain = config.pretrain
    noise = noise_probabilities(pretrain.generator, shards, data)
    return ElectraPretrainer(pretrain, data.vocab_size, data.special, noise)


@pytest.fixture
def model(config: RunConfig, data: SequenceData) -> ElectraPretrainer:
    """A freshly initialised tiny ELECTRA in training mode."""
    return make_model(config, data)
