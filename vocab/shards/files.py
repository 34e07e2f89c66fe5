"""Token shards on disk: flat `.npy` arrays that open as memory maps, and an index that binds them.

    index.json
    {train,valid}/<language>/tokens-00000.npy   uint16 or uint32, 1-D
    {train,valid}/<language>/offsets-00000.npy  int64: document starts, then the token count

A document is its WordPiece ids followed by one [SEP]; it never straddles two shards. The index
holds the SHA-256 of each file, so that its own digest is that of all shards; before a stage reads
them, they are compared with the manifest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from electrify.stage.folder import file_sha256, write_json
from electrify.storage.files import inner_path, read_json
from electrify.system.outcome import UserError
from vocab.segment import SPECIAL_TOKENS

FORMAT_VERSION = 3
_READABLE = (2, FORMAT_VERSION)  # 2 had starts of sentences, too
INDEX = "index.json"
SPLITS = ("train", "valid")
ARRAYS = ("tokens", "offsets")  # of a shard

Tokens: TypeAlias = NDArray[np.unsignedinteger[Any]]  # uint16 or uint32
Int64s: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class ShardEntry:
    """One shard's files, as the index lists them."""

    tokens: str  # names inside <split>/<language>/
    offsets: str
    num_documents: int
    num_tokens: int
    sha256: dict[str, str]  # of both files


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The narrowest unsigned type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 65_536 else np.uint32)


class ShardWriter:
    """Writes the documents of one split and language; a shard ends once it has `shard_tokens`.

    Documents are added in order as arrays of ids with their offsets; shard boundaries depend only
    on that order, not on how the documents were grouped into calls.
    """

    def __init__(self, folder: Path, vocab_size: int, shard_tokens: int) -> None:
        self._folder, self._vocab_size, self._shard_tokens = folder, vocab_size, shard_tokens
        self._dtype = token_dtype(vocab_size)
        self._tokens: list[Tokens] = []
        self._starts: list[Int64s] = []
        self._num_tokens = 0
        self.entries: list[ShardEntry] = []

    def add(self, tokens: Tokens, offsets: Int64s) -> None:
        """Append documents: ids 1-D; starts of documents, and the number of ids."""
        assert offsets[0] == 0
        assert offsets[-1] == len(tokens)
        assert not len(tokens) or int(tokens.max()) < self._vocab_size
        start = 0  # of the documents not yet taken
        while start < len(offsets) - 1:
            room = self._shard_tokens - self._num_tokens
            # through the first document that fills the shard
            stop = int(np.searchsorted(offsets, offsets[start] + room, side="left"))
            stop = min(max(stop, start + 1), len(offsets) - 1)
            first, last = offsets[start], offsets[stop]
            self._tokens.append(tokens[first:last].astype(self._dtype))
            self._starts.append(offsets[start:stop] - first + self._num_tokens)
            self._num_tokens += int(last - first)
            start = stop
            if self._num_tokens >= self._shard_tokens:
                self._flush()

    def close(self) -> list[ShardEntry]:
        """Write what is left; the entries of all shards written."""
        if self._tokens:
            self._flush()
        return self.entries

    def _flush(self) -> None:
        end = np.array([self._num_tokens], np.int64)
        arrays = {
            "tokens": np.concatenate(self._tokens),
            "offsets": np.concatenate([*self._starts, end]),
        }
        names = {kind: f"{kind}-{len(self.entries):05d}.npy" for kind in arrays}
        self._folder.mkdir(parents=True, exist_ok=True)
        for kind, array in arrays.items():
            np.save(self._folder / names[kind], array)
        self.entries.append(
            ShardEntry(
                **names,
                num_documents=len(arrays["offsets"]) - 1,
                num_tokens=self._num_tokens,
                sha256={k: file_sha256(self._folder / name) for k, name in names.items()},
            )
        )
        self._tokens, self._starts, self._num_tokens = [], [], 0


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


AGAIN = "make the shards again: electrify encode CONFIG --overwrite"


def read_index(folder: Path) -> dict[str, Any]:
    """The index as it was written; `UserError` if it is missing, damaged or of another format."""
    path = folder / INDEX
    try:
        index: dict[str, Any] = read_json(path)
        version = index["format_version"]
    except FileNotFoundError:
        raise UserError(f"no {path}; run first: electrify encode CONFIG") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}); {AGAIN}") from None
    if version not in _READABLE:
        raise UserError(f"{path} has format_version {version}, not {FORMAT_VERSION}; {AGAIN}")
    return index


@dataclass(frozen=True)
class Shard:
    """One shard, opened. `documents` are starts in `tokens`, and then the number of tokens."""

    tokens: Tokens
    documents: Int64s


class TokenStream:
    """Random access to several shards as one contiguous stream of tokens.

    Each document is its tokens and a last [SEP].
    """

    def __init__(self, shards: Sequence[Shard], dtype: np.dtype[Any]) -> None:
        self.shards = [shard for shard in shards if len(shard.tokens)]
        self.dtype = dtype
        # plain views: slicing an np.memmap itself costs five times as much
        self._arrays = [np.asarray(shard.tokens) for shard in self.shards]
        self.starts = np.cumsum([0, *map(len, self._arrays)], dtype=np.int64)  # and the end
        self.num_tokens = int(self.starts[-1])

    def take(self, starts: Int64s, lengths: Int64s) -> Tokens:
        """The ranges [start, start + length) one after the other; all inside the stream.

        A slice for each range and one call that joins them: 0.3 us a range, however many shards
        there are. A gather would need the position of every entry.
        """
        if not len(starts) or not self.num_tokens:
            assert not lengths.any()
            return np.zeros(0, self.dtype)
        stops = starts + lengths
        assert starts.min() >= 0
        assert stops.max() <= self.num_tokens
        number = np.searchsorted(self.starts[:-1], starts, side="right") - 1
        first, arrays = self.starts[number], self._arrays
        ranges = (number.tolist(), (starts - first).tolist(), (stops - first).tolist())
        pieces = [arrays[n][start:stop] for n, start, stop in zip(*ranges, strict=True)]
        for cut in np.flatnonzero(stops > self.starts[number + 1]).tolist():  # on into other shards
            after = int(np.searchsorted(self.starts, stops[cut]))
            others = range(int(number[cut]) + 1, after)
            rest = (arrays[n][: stops[cut] - self.starts[n]] for n in others)
            pieces[cut] = np.concatenate([pieces[cut], *rest])
        return np.concatenate(pieces)


class TokenShards:
    """A finished shard folder, opened as memory maps.

    `ValueError` naming the file that cannot be read. The stages that read shards compare all bytes
    with the manifest before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = read_index(folder)
        try:
            self.dtype = np.dtype(self.index["dtype"])
            self.vocab_size: int = self.index["vocab_size"]
            self.tokenizer_sha256: str = self.index["tokenizer_sha256"]
            ids: dict[str, int] = self.index["special_token_ids"]
            self.special_token_ids = {token: ids[token] for token in SPECIAL_TOKENS}
            paths_of_shards: dict[tuple[str, str], list[list[Path]]] = {}
            for split in SPLITS:
                for language, entry in self.index["splits"][split].items():
                    inner = inner_path(folder / split, language)
                    paths_of_shards[split, language] = [
                        [inner_path(inner, shard[kind]) for kind in ARRAYS]
                        for shard in entry["shards"]
                    ]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / INDEX} is damaged ({error!r}); {AGAIN}") from None
        self._shards = {
            key: [Shard(*map(_open_array, paths)) for paths in shards]
            for key, shards in paths_of_shards.items()
        }

    def check_tokenizer(self, sha256: str, path: Path) -> None:
        """`ValueError` unless the tokenizer file with this hash wrote the shards."""
        if sha256 != self.tokenizer_sha256:
            raise UserError(
                f"{path} is not the tokenizer that the shards in {self.folder} were made with "
                f"(SHA-256 {sha256[:12]}..., theirs {self.tokenizer_sha256[:12]}...): put that one "
                f"back, or {AGAIN}"
            )

    def languages(self, split: str) -> list[str]:
        return sorted(self.index["splits"].get(split, {}))

    def stream(self, split: str, language: str) -> TokenStream:
        return TokenStream(self._shards[split, language], self.dtype)


def _open_array(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError) as error:
        raise UserError(f"{path} cannot be read ({error}); {AGAIN}") from None
    return array
