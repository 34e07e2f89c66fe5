"""Tiny configs, models, batches and run folders, for all tests of the model."""

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from electrify.config.load import parse_config
from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage import trackers
from electrify.stage.folder import Stage
from electrify.stage.run import run_stage
from model.checkpoint import optimizer_tensors
from model.data import SequenceData
from model.log import MetricsWindow
from model.networks.batch import Batch, Noise, SpecialTokens
from model.networks.electra import ElectraPretrainer, at_positions
from model.networks.objectives import make_pretrainer
from model.optim import AdamW
from model.plan import stage_at
from model.pretrain import Result, Update
from tests.vocab.shard_files import write_shards
from vocab.tokenizer import build_tokenizer, save_tokenizer, tokenizer_sha256

VOCAB_SIZE = 60
NUM_WORDS = 6  # a document counts up through these, round and round
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
# of a vocabulary with a tokenizer
PIECES = (
    *SPECIAL,
    *("서", "울", "서울", "##시", "##울", "##에서", "##서", "##에", "봄", "꽃", "[unused0]"),
)

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
MODERN = {"architecture": "modern", "initialization": "mimetic", "layer_norm_eps": 1e-5}
# each objective, with what it needs to be possible
OBJECTIVES: dict[str, dict[str, object]] = {
    "electra": {},
    "electra-15": {},
    "electra-adversarial": {},
    "electra-two-stage": {"weight_sharing": "none"} | EQUAL,
    "replace-mlm": {},
    "all-tokens-mlm": {},
    "mlm": {},
}
# what differs in its networks from all others
VARIANTS: dict[str, dict[str, object]] = {
    **{name: {"objective": name} | needs for name, needs in OBJECTIVES.items()},
    "none": {"weight_sharing": "none"},
    "gdes": {"weight_sharing": "gdes"},
    "as wide": {"embedding_size": 32},  # no projection
    "replace-mlm gdes": {"objective": "replace-mlm", "weight_sharing": "gdes"},
    "modern": MODERN,
    "modern none": MODERN | {"weight_sharing": "none"},
    "modern gdes": MODERN | {"weight_sharing": "gdes"},
    "modern all-tokens-mlm": MODERN | {"objective": "all-tokens-mlm"},
}


def run_of(folder: Path = Path("unused"), **pretrain: object) -> RunConfig:
    """A config with these options of pretraining and no others."""
    source = {"kind": "text", "language": "ko", "path": "none.txt", "licence": "CC BY-SA 4.0"}
    run = {"name": "tiny", "seed": 7, "output_dir": str(folder), "clean": {"sources": [source]}}
    return parse_config(run | {"pretrain": pretrain})


def make_config(folder: Path, **pretrain: object) -> RunConfig:
    """A config of a tiny model whose run folder is `folder`."""
    return run_of(folder, **({"sequence_length": 32} | TINY | pretrain))


def with_pretrain(config: RunConfig, **options: object) -> RunConfig:
    """The same with other options of pretraining."""
    return config.model_copy(update={"pretrain": config.pretrain.model_copy(update=options)})


def tiny(**options: object) -> PretrainConfig:
    """Options of a tiny model."""
    return make_config(Path("unused"), **options).pretrain


def preset(size: str = "small", **options: object) -> PretrainConfig:
    """The paper's options, with these in place."""
    return PretrainConfig.model_validate(SIZE_PRESETS[size] | options)


def write_tiny_shards(folder: Path) -> None:
    """Documents in which each token follows from the one before: there is something to learn."""
    rng, documents = np.random.default_rng(0), {}
    for split, num_documents in (("train", 600), ("valid", 40)):
        starts = rng.integers(0, NUM_WORDS, num_documents)
        lengths = rng.integers(9, 30, num_documents)
        documents[split, "ko"] = [
            [*((start + np.arange(length)) % NUM_WORDS + 5), 3]
            for start, length in zip(starts, lengths, strict=True)
        ]
    write_shards(folder, documents, VOCAB_SIZE, "0" * 64, SPECIAL)


def make_run(folder: Path, pieces: Sequence[str] = PIECES, **pretrain: object) -> RunConfig:
    """A config whose run folder has a finished vocabulary and shards of its words."""
    if not folder.exists():
        shutil.copytree(_inputs(tuple(pieces)), folder)
    return make_config(folder, **pretrain)


@cache
def _inputs(pieces: tuple[str, ...]) -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    ids = {token: pieces.index(token) for token in SPECIAL}

    def vocab(target: Path) -> dict[str, int]:
        save_tokenizer(build_tokenizer(pieces, lowercase=False), target, lowercase=False)
        return {}

    def shards(target: Path) -> dict[str, int]:
        rng = np.random.default_rng(0)
        words = [n for n, piece in enumerate(pieces) if piece not in SPECIAL]
        documents = {
            (split, "ko"): [[*rng.choice(words, 20), ids["[SEP]"]] for _ in range(60)]
            for split in ("train", "valid")
        }
        sha256 = tokenizer_sha256(folder / "vocab")
        write_shards(target, documents, len(pieces), sha256, ids)
        return {}

    run_stage(Stage("train-vocab", folder / "vocab", {}), vocab)
    run_stage(Stage("encode", folder / "shards", {}), shards)
    return folder


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import takes seconds; test_trackers.py has it."""
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """A tiny config whose run folder already holds shards (without a manifest)."""
    write_tiny_shards(tmp_path / "shards")
    return make_config(tmp_path)


@pytest.fixture
def data(config: RunConfig) -> SequenceData:
    """The train split of the tiny run."""
    return SequenceData(config, "train")


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def random_model(seed: int = 3, **pretrain: object) -> ElectraPretrainer:
    """A tiny model of any objective without dropout, every parameter drawn at random: biases and
    differences too, so that a lost one shows."""
    config = tiny(**(NO_DROPOUT | pretrain))
    model = make_pretrainer(config, VOCAB_SIZE, SpecialTokens(0, 2, 3, 4))
    rng = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=rng)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.add_(1.0)  # about 0 it would let little through
    return model


def model_of(objective: str, **options: object) -> ElectraPretrainer:
    """A random one of this objective."""
    return random_model(objective=objective, **(OBJECTIVES[objective] | options))


def batch_from(
    config: PretrainConfig, ids: torch.Tensor, types: torch.Tensor | None = None, seed: int = 1
) -> Batch:
    """A batch of these ids (B, L), with the draws of a seed; by default of one segment each."""
    noise = Noise.draw(seed, *ids.shape, config.num_masked(ids.shape[1]))
    types = torch.zeros_like(ids) if types is None else types
    return Batch(ids, types, noise, torch.zeros(len(ids), dtype=torch.int64))


def random_batch(model: ElectraPretrainer, rows: int = 5, length: int = 20, seed: int = 0) -> Batch:
    """`[CLS] A [SEP] B [SEP]` of random tokens, [UNK] among them."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB_SIZE, (rows, length), generator=rng)
    ids[torch.rand(rows, length, generator=rng) < 0.1] = SPECIAL["[UNK]"]
    types = torch.zeros_like(ids)
    for row in range(rows):
        middle = int(torch.randint(2, length - 2, (), generator=rng))
        ids[row, 0], ids[row, middle], ids[row, -1] = 2, 3, 3
        types[row, middle + 1 :] = 1
    return batch_from(model.config, ids, types, seed=seed + 1000)


def predict(
    model: ElectraPretrainer,
    ids: torch.Tensor,
    types: torch.Tensor,
    positions: torch.Tensor,
    *context: torch.Tensor | None,
    network: str = "main",
) -> torch.Tensor:
    """Logits (B, N, V) over the vocabulary at `positions` (B, N), of the main network or the
    generator."""
    hidden = getattr(model, f"{network}_states")(ids, types, *context)
    output = model.language_output() if network == "main" else model.generator_output()
    return output.logits(at_positions(hidden, positions))


generate = partial(predict, network="generator")


def discriminate(
    model: ElectraPretrainer, ids: torch.Tensor, types: torch.Tensor, *context: torch.Tensor | None
) -> torch.Tensor:
    """Discriminator logits (B, L); high means replaced."""
    return model.detection_logits(model.main_states(ids, types, *context))


def train_step(
    model: ElectraPretrainer, optimizer: AdamW, batches: Sequence[Batch], step: int, seed: int = 0
) -> Result:
    """An update as it is written: nothing is compiled or recorded."""
    update = Update(model, optimizer, model.config, MetricsWindow(["ko"]), seed)
    update.prepare(step)
    return update.update(batches, stage_at(model.config, step))


def idle_optimizer(model: nn.Module, rate: float = 0.0) -> AdamW:
    """One that took no step yet."""
    return AdamW([{"params": [*model.parameters()], "lr": rate}], (0.9, 0.999), 1e-6, True)


def everything(model: nn.Module, optimizer: AdamW) -> dict[str, torch.Tensor]:
    """Copies of all weights, and of what the optimiser holds."""
    moments = optimizer_tensors(model, optimizer)
    return {k: of.detach().clone() for k, of in (*model.named_parameters(), *moments.items())}
