"""Token shards on disk: flat `.npy` arrays that open as memory maps, and an index that binds them.

    shards/index.json
    shards/{train,valid}/<language>/tokens-00000.npy    uint16 or uint32, 1-D
    shards/{train,valid}/<language>/offsets-00000.npy   int64: document starts, then the token count

A document is its WordPiece ids followed by one [SEP]; it never straddles two shards.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from electrify.artifacts import write_json

FORMAT_VERSION = 1
INDEX = "index.json"
SPLITS = ("train", "valid")

Tokens: TypeAlias = NDArray[np.unsignedinteger[Any]]  # uint16 or uint32


@dataclass(frozen=True)
class ShardEntry:
    """One pair of files, as the index lists it."""

    tokens: str  # file names, inside <split>/<language>/
    offsets: str
    num_documents: int
    num_tokens: int


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
        self._ends: list[NDArray[np.int64]] = []
        self._num_tokens = 0
        self.entries: list[ShardEntry] = []

    def add(self, tokens: Tokens, offsets: NDArray[np.int64]) -> None:
        """Append documents: ids 1-D, and their starts with one last entry, the number of ids."""
        assert offsets[0] == 0
        assert offsets[-1] == len(tokens)
        assert not len(tokens) or int(tokens.max()) < self._vocab_size
        start = 0  # of the documents not yet taken
        while start < len(offsets) - 1:
            room = self._shard_tokens - self._num_tokens
            # through the first document that fills the shard
            stop = int(np.searchsorted(offsets, offsets[start] + room, side="left"))
            stop = min(max(stop, start + 1), len(offsets) - 1)
            self._parts.append(tokens[offsets[start] : offsets[stop]].astype(self._dtype))
            self._ends.append(offsets[start + 1 : stop + 1] - offsets[start] + self._num_tokens)
            self._num_tokens = int(self._ends[-1][-1])
            start = stop
            if self._num_tokens >= self._shard_tokens:
                self._flush()

    def close(self) -> list[ShardEntry]:
        """Write what is left; the entries of all shards written."""
        if self._ends:
            self._flush()
        return self.entries

    def _flush(self) -> None:
        number = len(self.entries)
        names = f"tokens-{number:05d}.npy", f"offsets-{number:05d}.npy"
        self._folder.mkdir(parents=True, exist_ok=True)
        offsets = np.concatenate([np.zeros(1, np.int64), *self._ends])
        np.save(self._folder / names[0], np.concatenate(self._parts))
        np.save(self._folder / names[1], offsets)
        self.entries.append(ShardEntry(*names, len(offsets) - 1, self._num_tokens))
        self._parts, self._ends, self._num_tokens = [], [], 0


def write_index(
    folder: Path,
    entries: Mapping[tuple[str, str], Sequence[ShardEntry]],
    vocab_size: int,
    tokenizer_sha256: str,
    special_token_ids: Mapping[str, int],
) -> dict[str, Any]:
    """Write index.json from the entries of each (split, language); returns its content."""
    splits: dict[str, dict[str, Any]] = {split: {} for split in SPLITS}
    for (split, language), shards in sorted(entries.items()):
        splits[split][language] = {
            "num_documents": sum(shard.num_documents for shard in shards),
            "num_tokens": sum(shard.num_tokens for shard in shards),
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


def write_shards(
    folder: Path,
    documents: Mapping[tuple[str, str], Iterable[Sequence[int]]],
    vocab_size: int,
    tokenizer_sha256: str,
    special_token_ids: Mapping[str, int],
    shard_tokens: int = 33_554_432,
) -> dict[str, Any]:
    """Write shards from the documents (ids with their last [SEP]) of each (split, language)."""
    entries = {}
    for (split, language), sequences in documents.items():
        writer = ShardWriter(folder / split / language, vocab_size, shard_tokens)
        for ids in sequences:
            tokens = np.asarray(ids, token_dtype(vocab_size))
            writer.add(tokens, np.array([0, len(tokens)], np.int64))
        entries[split, language] = writer.close()
    return write_index(folder, entries, vocab_size, tokenizer_sha256, special_token_ids)


class TokenStream:
    """Random access to the tokens of several shards as one contiguous stream."""

    def __init__(self, shards: Sequence[Tokens], num_documents: int, dtype: np.dtype[Any]) -> None:
        self._shards = [shard for shard in shards if len(shard)]
        self._starts = np.cumsum([0, *(len(shard) for shard in self._shards)], dtype=np.int64)
        self._dtype = dtype
        self.num_tokens = int(self._starts[-1])
        self.num_documents = num_documents

    def read(self, start: int, stop: int) -> Tokens:
        """The ids at [start, stop), 1-D, in the dtype of the shards."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start}..{stop} of a stream of {self.num_tokens}")
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts: list[Tokens] = []
        while start < stop:
            first = int(self._starts[shard])
            part = self._shards[shard][start - first : stop - first]
            parts.append(part)
            start, shard = start + len(part), shard + 1
        if len(parts) == 1:  # the common case: a view of the map, no copy
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, self._dtype)


class TokenShards:
    """A finished shard folder, opened as memory maps; `ValueError` naming the file if damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = _read_index(folder / INDEX)
        self.dtype = np.dtype(self.index["dtype"])
        self.vocab_size: int = self.index["vocab_size"]
        self.tokenizer_sha256: str = self.index["tokenizer_sha256"]
        self.special_token_ids: dict[str, int] = self.index["special_token_ids"]
        self._tokens: dict[tuple[str, str], list[Tokens]] = {}
        for split, languages in self.index["splits"].items():
            for language, listed in languages.items():
                opened = [self._open(folder / split / language, s) for s in listed["shards"]]
                self._tokens[split, language] = opened

    def languages(self, split: str) -> list[str]:
        """The languages of a split, sorted."""
        return sorted(self.index["splits"].get(split, {}))

    def stream(self, split: str, languages: Sequence[str] | None = None) -> TokenStream:
        """All tokens of a split, language after language in sorted order (None: every language)."""
        known = self.languages(split)
        wanted = known if languages is None else sorted(set(languages))
        for language in wanted:
            if language not in known:
                raise ValueError(
                    f"{self.folder / split} has no language {language!r}; it has {known}"
                )
        shards = [tokens for language in wanted for tokens in self._tokens[split, language]]
        counts = [self.index["splits"][split][language]["num_documents"] for language in wanted]
        return TokenStream(shards, sum(counts), self.dtype)

    def _open(self, folder: Path, shard: Mapping[str, Any]) -> Tokens:
        tokens = _open_array(folder / shard["tokens"], self.dtype, shard["num_tokens"])
        path = folder / shard["offsets"]
        offsets = _open_array(path, np.dtype(np.int64), shard["num_documents"] + 1)
        if offsets[0] != 0 or offsets[-1] != len(tokens) or (np.diff(offsets) < 1).any():
            raise ValueError(
                f"{path} is damaged: its document starts do not rise from 0 to {len(tokens)}; "
                f"{_AGAIN}"
            )
        return tokens


_AGAIN = "make the shards again: electrify encode CONFIG --overwrite"


def _read_index(path: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = index["format_version"]
        index["splits"], index["vocab_size"], index["tokenizer_sha256"], index["special_token_ids"]
        dtype = index["dtype"]
    except FileNotFoundError:
        raise ValueError(f"no {path}; run first: electrify encode CONFIG") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error!r}); {_AGAIN}") from None
    if found != FORMAT_VERSION:
        raise ValueError(f"{path} has format_version {found}, not {FORMAT_VERSION}; {_AGAIN}")
    if dtype != token_dtype(index["vocab_size"]).name:
        raise ValueError(
            f"{path} has dtype {dtype!r}, which does not fit vocab_size {index['vocab_size']}; "
            f"{_AGAIN}"
        )
    return index


def _open_array(path: Path, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing; {_AGAIN}") from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}); {_AGAIN}") from None
    if array.dtype != dtype or array.shape != (length,):
        raise ValueError(
            f"{path} holds {array.shape} of {array.dtype}, the index says ({length},) of "
            f"{dtype}; {_AGAIN}"
        )
    return array
