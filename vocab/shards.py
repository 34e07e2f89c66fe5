"""Token shards on disk: flat `.npy` arrays that open as memory maps, and an index that binds them.

    index.json
    {train,valid}/<language>/tokens-00000.npy     uint16 or uint32, 1-D
    {train,valid}/<language>/offsets-00000.npy    int64: document starts, then the token count
    {train,valid}/<language>/sentences-00000.npy  int64: sentence starts, then the token count

A document is its WordPiece ids followed by one [SEP]; it never straddles two shards. Every document
start is a sentence start too. The index holds the SHA-256 of each file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.artifacts import file_sha256
from electrify.progress import Progress
from vocab.shard_index import AGAIN, read_index
from vocab.shard_writer import SPLITS
from vocab.stream import Shard, TokenStream

_FILES = ("tokens", "offsets", "sentences")


class TokenShards:
    """A finished shard folder, opened as memory maps; `ValueError` naming the file if damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = read_index(folder)
        self.dtype = np.dtype(self.index["dtype"])
        self.vocab_size: int = self.index["vocab_size"]
        self.tokenizer_sha256: str = self.index["tokenizer_sha256"]
        self.special_token_ids: dict[str, int] = self.index["special_token_ids"]
        self._shards: dict[tuple[str, str], list[Shard]] = {}
        for split, languages in self.index["splits"].items():
            for language, listed in languages.items():
                opened = [self._open(folder / split / language, s) for s in listed["shards"]]
                self._shards[split, language] = opened

    def verify(self, splits: Sequence[str] = SPLITS) -> None:
        """Compare every file of the splits with its checksum: 1 GB/s; `ValueError` naming it."""
        files = [
            (self.folder / split / language / shard[kind], shard["sha256"][kind])
            for split in splits
            for language, listed in self.index["splits"][split].items()
            for shard in listed["shards"]
            for kind in _FILES
        ]
        with Progress("checking shards", len(files), "files") as progress:
            for path, expected in files:
                if file_sha256(path) != expected:
                    raise ValueError(f"{path} has changed since it was written; {AGAIN}")
                progress.update()

    def check_tokenizer(self, sha256: str, path: Path) -> None:
        """`ValueError` unless the tokenizer file with this hash wrote the shards."""
        if sha256 != self.tokenizer_sha256:
            raise ValueError(
                f"{path} is not the tokenizer that the shards in {self.folder} were made with "
                f"(SHA-256 {sha256[:12]}..., theirs {self.tokenizer_sha256[:12]}...): put that one "
                f"back, or {AGAIN}"
            )

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
        shards = [shard for language in wanted for shard in self._shards[split, language]]
        return TokenStream(shards, self.dtype)

    def _open(self, folder: Path, shard: Mapping[str, Any]) -> Shard:
        int64, num_tokens = np.dtype(np.int64), shard["num_tokens"]
        tokens = _open_array(folder / shard["tokens"], self.dtype, num_tokens)
        documents = _open_array(folder / shard["offsets"], int64, shard["num_documents"] + 1)
        sentences = _open_array(folder / shard["sentences"], int64, shard["num_sentences"] + 1)
        for path, starts in ((shard["offsets"], documents), (shard["sentences"], sentences)):
            if starts[0] != 0 or starts[-1] != num_tokens or (np.diff(starts) < 1).any():
                raise ValueError(
                    f"{folder / path} is damaged: its starts do not rise from 0 to {num_tokens}; "
                    f"{AGAIN}"
                )
        return Shard(tokens, documents, sentences)


# of a header that is no header, as numpy parses it
_DAMAGES = (
    ValueError, TypeError, EOFError, OSError, TokenError, SyntaxError, OverflowError,
)  # fmt: skip


def _open_array(path: Path, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing; {AGAIN}") from None
    except _DAMAGES as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}") from None
    if array.dtype != dtype or array.shape != (length,):
        raise ValueError(
            f"{path} holds {array.shape} of {array.dtype}, the index says ({length},) of "
            f"{dtype}; {AGAIN}"
        )
    return array
