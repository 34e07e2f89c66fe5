"""A tiny run folder with shards, for the trainer's tests."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ElectraConfig, ElectraModel

from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from model.batch import Batch, Noise, SpecialTokens
from model.electra import ElectraPretrainer
from model.layers import Embeddings, Encoder, EncoderShape
from model.masking import num_slots
from model.train.data import SequenceData, noise_probabilities
from tests.vocab.shard_files import write_shards
from vocab.shards.files import TokenShards

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
    "precision": "fp32",  # in processes of their own, too
}

EQUAL = {"generator_hidden_fraction": 1.0}
# each objective, with what it needs to be possible
OBJECTIVES: dict[str, dict[str, object]] = {
    "electra": {},
    "electra-15": {},
    "electra-adversarial": {},
    "electra-two-stage": {"weight_sharing": "none"} | EQUAL,
    "replace-mlm": {},
    "all-tokens-mlm": {},
    "electric": {},
    "mlm": {},
}
# what differs in its networks from all others
VARIANTS: dict[str, dict[str, object]] = {
    **{name: {"objective": name} | needs for name, needs in OBJECTIVES.items()},
    "none": {"weight_sharing": "none"},
    "all": {"weight_sharing": "all"} | EQUAL,
    "gdes": {"weight_sharing": "gdes"},
    "as wide": {"embedding_size": 32},  # no projection
    "uniform": {"generator": "uniform"},
    "replace-mlm gdes": {"objective": "replace-mlm", "weight_sharing": "gdes"},
    "all-tokens-mlm all": {"objective": "all-tokens-mlm", "weight_sharing": "all"} | EQUAL,
    "adversarial all": {"objective": "electra-adversarial", "weight_sharing": "all"} | EQUAL,
    "electric none": {"objective": "electric", "weight_sharing": "none"},
    "electric uniform": {"objective": "electric", "generator": "uniform"},
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


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def random_model(
    seed: int = 3, noise: torch.Tensor | None = None, **pretrain: object
) -> ElectraPretrainer:
    """A tiny model of any objective without dropout, every parameter drawn at random: biases and
    differences too, so that a lost one shows."""
    options = make_config(Path("unused"), **(NO_DROPOUT | pretrain)).pretrain
    model = ElectraPretrainer(options, VOCAB_SIZE, SpecialTokens(0, 2, 3, 4), noise)
    rng = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=rng)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.add_(1.0)  # about 0 it would let little through
    return model


def random_batch(
    model: ElectraPretrainer, rows: int = 5, length: int = 20, seed: int = 0, padded: bool = False
) -> Batch:
    """`[CLS] A [SEP] B [SEP]` of random tokens, [UNK] among them; padded: of any length."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB_SIZE, (rows, length), generator=rng)
    ids[torch.rand(rows, length, generator=rng) < 0.1] = SPECIAL["[UNK]"]
    types = torch.zeros_like(ids)
    for row in range(rows):
        end = int(torch.randint(6, length + 1, (), generator=rng)) if padded else length
        middle = int(torch.randint(2, end - 2, (), generator=rng))
        ids[row, 0], ids[row, middle], ids[row, end - 1] = 2, 3, 3
        types[row, middle + 1 : end] = 1
        ids[row, end:] = 0
    noise = Noise.draw(seed + 1000, rows, length, num_slots(model.config, length))
    return Batch(ids, types, noise, torch.zeros(rows, dtype=torch.int64), packed=not padded)


def electra_model(shape: EncoderShape, embeddings: Embeddings, encoder: Encoder) -> ElectraModel:
    """`transformers`' network with these weights, named by hand."""
    made = ElectraModel(
        ElectraConfig(
            vocab_size=shape.vocab_size,
            embedding_size=shape.embedding_size,
            hidden_size=shape.hidden_size,
            num_hidden_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads,
            intermediate_size=shape.intermediate_size,
            max_position_embeddings=shape.max_position_embeddings,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=shape.layer_norm_eps,
        )
    ).eval()
    made.to(embeddings.word.weight.dtype)
    theirs, ours = made.embeddings, embeddings
    pairs = [
        (theirs.word_embeddings, ours.word),
        (theirs.position_embeddings, ours.position),
        (theirs.token_type_embeddings, ours.token_type),
        (theirs.LayerNorm, ours.norm),
    ]
    if encoder.project is not None:
        pairs.append((made.embeddings_project, encoder.project))
    for their, our in zip(made.encoder.layer, encoder.layers, strict=True):
        pairs += [
            (their.attention.self.query, our.query),
            (their.attention.self.key, our.key),
            (their.attention.self.value, our.value),
            (their.attention.output.dense, our.attention_output),
            (their.attention.output.LayerNorm, our.attention_norm),
            (their.intermediate.dense, our.intermediate),
            (their.output.dense, our.output),
            (their.output.LayerNorm, our.output_norm),
        ]
    for into, of in pairs:
        into.load_state_dict(of.state_dict(), strict=True)
    assert sum(p.numel() for p in made.parameters()) == sum(
        p.numel() for module in (embeddings, encoder) for p in module.parameters()
    )
    return made
