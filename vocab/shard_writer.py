"""Writes token shards and the index that binds them; `vocab.shards` says what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from electrify.array_file import save_array
from electrify.artifacts import file_sha256, write_json
from vocab.stream import Int64s, Tokens

FORMAT_VERSION = 2
INDEX = "index.json"
SPLITS = ("train", "valid")


@dataclass(frozen=True)
class ShardEntry:
    """One shard's files, as the index lists them."""

    tokens: str  # file names, inside <split>/<language>/
    offsets: str
    sentences: str
    num_documents: int
    num_sentences: int
    num_tokens: int
    sha256: dict[str, str] = field(compare=False)  # of each file


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The narrowest unsigned type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 65_536 else np.uint32)


class ShardWriter:
    """Writes the documents of one split and language; a shard ends once it has `shard_tokens`.

    Documents are added in order as arrays of ids with their offsets; shard borders depend only on
    that order, not on how the documents were grouped into calls.
    """

    def __init__(self, folder: Path, vocab_size: int, shard_tokens: int) -> None:
        self._folder, self._vocab_size, self._shard_tokens = folder, vocab_size, shard_tokens
        self._dtype = token_dtype(vocab_size)
        self._parts: list[Tokens] = []
        self._starts: list[Int64s] = []
        self._sentences: list[Int64s] = []
        self._num_tokens = 0
        self.entries: list[ShardEntry] = []

    def add(self, tokens: Tokens, offsets: Int64s, sentences: Int64s | None = None) -> None:
        """Append documents: ids 1-D; starts of documents and of sentences, each with one last
        entry, the number of ids. Without `sentences`, a document is one sentence."""
        sentences = offsets if sentences is None else sentences
        assert offsets[0] == sentences[0] == 0
        assert offsets[-1] == sentences[-1] == len(tokens)
        assert np.isin(offsets, sentences).all()
        assert not len(tokens) or int(tokens.max()) < self._vocab_size
        start = 0  # of the documents not yet taken
        while start < len(offsets) - 1:
            room = self._shard_tokens - self._num_tokens
            # through the first document that fills the shard
            stop = int(np.searchsorted(offsets, offsets[start] + room, side="left"))
            stop = min(max(stop, start + 1), len(offsets) - 1)
            first, last = offsets[start], offsets[stop]
            inside = sentences[np.searchsorted(sentences, first) : np.searchsorted(sentences, last)]
            self._parts.append(tokens[first:last].astype(self._dtype))
            self._starts.append(offsets[start:stop] - first + self._num_tokens)
            self._sentences.append(inside - first + self._num_tokens)
            self._num_tokens += int(last - first)
            start = stop
            if self._num_tokens >= self._shard_tokens:
                self._flush()

    def close(self) -> list[ShardEntry]:
        """Write what is left; the entries of all shards written."""
        if self._parts:
            self._flush()
        return self.entries

    def _flush(self) -> None:
        end = np.array([self._num_tokens], np.int64)
        arrays = {
            "tokens": np.concatenate(self._parts),
            "offsets": np.concatenate([*self._starts, end]),
            "sentences": np.concatenate([*self._sentences, end]),
        }
        names = {kind: f"{kind}-{len(self.entries):05d}.npy" for kind in arrays}
        self._folder.mkdir(parents=True, exist_ok=True)
        for kind, array in arrays.items():
            save_array(self._folder / names[kind], array)
        self.entries.append(
            ShardEntry(
                **names,
                num_documents=len(arrays["offsets"]) - 1,
                num_sentences=len(arrays["sentences"]) - 1,
                num_tokens=self._num_tokens,
                sha256={kind: file_sha256(self._folder / name) for kind, name in names.items()},
            )
        )
        self._parts, self._starts, self._sentences, self._num_tokens = [], [], [], 0


def write_index(
    folder: Path,
    entries: Mapping[tuple[str, str], Sequence[ShardEntry]],
    vocab_size: int,
    tokenizer_sha256: str,
    special_token_ids: Mapping[str, int],
    counts: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Write index.json from the entries of each (split, language); returns its content.

    `counts` are further figures of each (split, language), such as what was dropped.
    """
    splits: dict[str, dict[str, Any]] = {split: {} for split in SPLITS}
    for (split, language), shards in sorted(entries.items()):
        splits[split][language] = {
            "num_documents": sum(shard.num_documents for shard in shards),
            "num_sentences": sum(shard.num_sentences for shard in shards),
            "num_tokens": sum(shard.num_tokens for shard in shards),
            **(counts or {}).get((split, language), {}),
            "shards": [asdict(shard) for shard in shards],
        }
    index = {
        "format_version": FORMAT_VERSION,
        "dtype": token_dtype(vocab_size).name,
        "vocab_size": vocab_size,
        "tokenizer_sha256": tokenizer_sha256,
        "special_token_ids": dict(special_token_ids),
        "splits": splits,
    }
    write_json(folder / INDEX, index)
    return index
