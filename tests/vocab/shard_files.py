"""Shards of documents that a test makes up; it needs no more than NumPy."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vocab.shards.files import ShardWriter, TokenStream, token_dtype, write_index

SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def write_shards(
    folder: Path,
    documents: Mapping[tuple[str, str], Iterable[Sequence[Sequence[int]] | Sequence[int]]],
    vocab_size: int,
    tokenizer_sha256: str,
    special_token_ids: Mapping[str, int],
    shard_tokens: int = 33_554_432,
) -> dict[str, Any]:
    """Write shards from the documents of each (split, language).

    A document is its ids with their last [SEP], or a list of such sentences, of which the last ends
    with the [SEP].
    """
    entries = {}
    for (split, language), listed in documents.items():
        writer = ShardWriter(folder / split / language, vocab_size, shard_tokens)
        for document in listed:
            sentences = [np.atleast_1d(np.asarray(part)) for part in _sentences_of(document)]
            tokens = np.concatenate(sentences).astype(token_dtype(vocab_size))
            ends = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
            writer.add(tokens, np.array([0, len(tokens)], np.int64), ends)
        entries[split, language] = writer.close()
    return write_index(folder, entries, vocab_size, tokenizer_sha256, special_token_ids)


def read_all(stream: TokenStream) -> list[int]:
    """The tokens of a stream, from its first to its last."""
    tokens: list[int] = stream.take(np.array([0]), np.array([stream.num_tokens])).tolist()
    return tokens


def _sentences_of(document: Sequence[Any]) -> Sequence[Any]:
    return document if isinstance(document[0], Sequence) else [document]
