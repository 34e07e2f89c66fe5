"""Shards of documents that a test makes up; it needs no more than NumPy."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vocab.shards.files import ShardWriter, TokenStream, token_dtype, write_index

SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def write_shards(
    folder: Path,
    documents: Mapping[tuple[str, str], Iterable[Sequence[int]]],
    vocab_size: int,
    tokenizer_sha256: str,
    special_token_ids: Mapping[str, int],
    shard_tokens: int = 33_554_432,
) -> dict[str, Any]:
    """Write shards from the documents of each (split, language): ids with their last [SEP]."""
    entries = {}
    for (split, language), listed in documents.items():
        writer = ShardWriter(folder / split / language, vocab_size, shard_tokens)
        for document in listed:
            tokens = np.asarray(document, token_dtype(vocab_size))
            writer.add(tokens, np.array([0, len(tokens)], np.int64))
        entries[split, language] = writer.close()
    return write_index(folder, entries, vocab_size, tokenizer_sha256, special_token_ids)


def read_all(stream: TokenStream) -> list[int]:
    """The tokens of a stream, from its first to its last."""
    tokens: list[int] = stream.take(np.array([0]), np.array([stream.num_tokens])).tolist()
    return tokens
