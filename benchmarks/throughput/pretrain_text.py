"""The repository's bundled sample as batches: real text where there is no run to read from."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from benchmarks.throughput.pretrain_data import Pool
from electrify.config.pretrain import PretrainConfig
from model.batch import SpecialTokens
from model.masking import num_slots

SAMPLE = Path(__file__).parents[2] / "pipeline" / "sample"
_FILES = ("ko_life.jsonl", "ko_knowledge.jsonl", "ko_society.jsonl")
_ENGLISH = "en.txt"  # documents between blank lines
_SPECIAL = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_NUM_PIECES = 4000


def sample_texts() -> Iterator[str]:
    """The sample's documents."""
    for name in _FILES:
        for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines():
            yield json.loads(line)["text"]
    yield from filter(None, (SAMPLE / _ENGLISH).read_text(encoding="utf-8").split("\n\n"))


def sample_pool(config: PretrainConfig, batch_size: int, length: int, seed: int = 0) -> Pool:
    """All of the sample, again and again, in full rows `[CLS] A [SEP] B [SEP]`.

    A WordPiece vocabulary is learnt from it on the spot. `ValueError` if it has no whole batch.
    """
    texts = list(sample_texts())
    tokenizer = _tokenizer(texts)
    pieces = tokenizer.get_vocab()
    special = SpecialTokens(**{name: pieces[piece] for name, piece in _SPECIAL.items()})
    cls, sep = special.cls, special.sep
    stream = [i for found in tokenizer.encode_batch(texts) for i in (*found.ids, sep)]
    rows = len(stream) // (length - 3)
    middle = length // 2
    ids = np.full((rows, length), sep)
    ids[:, 0] = cls
    words = np.array(stream[: rows * (length - 3)]).reshape(rows, length - 3)
    ids[:, 1:middle] = words[:, : middle - 1]
    ids[:, middle + 1 : -1] = words[:, middle - 1 :]
    types = np.zeros_like(ids)
    types[:, middle + 1 :] = 1
    order = np.random.default_rng(seed).permutation(rows)
    batches = [order[first : first + batch_size] for first in range(0, rows, batch_size)]
    batches = [rows for rows in batches if len(rows) == batch_size]
    if not batches:
        raise ValueError(
            f"the bundled sample has {rows} sequences of {length} tokens, a step {batch_size}: "
            "read a run's shards (--run DIR)"
        )
    return Pool(
        [torch.from_numpy(ids[rows].astype(np.int64)) for rows in batches],
        [torch.from_numpy(types[rows].astype(np.int64)) for rows in batches],
        True,
        num_slots(config, length),
        len(pieces),
        special,
        "the bundled sample",
    )


def _tokenizer(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=_NUM_PIECES, special_tokens=["[UNK]", *_SPECIAL.values()], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
