"""The raw files of a corpus: what the globs match, in a fixed order, dealt out as work."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import fsspec

from electrify.config_clean import Source

# One element of the pipeline reads about so many bytes of files: large beside Beam's cost of an
# element, small beside a corpus. It decides file boundaries, so it must not follow worker counts.
GROUP_BYTES = 32_000_000
_PACKED_ENDINGS = (".gz", ".zst", ".zstd", ".bz2")
_PACKED_FACTOR = 4  # text is about four times its compressed file
# widths of a rank, see `InputFile.first_rank`
_FILE_BITS, _ROW_BITS = 22, 32


@dataclass(frozen=True)
class InputFile:
    """One raw file. `source_index` and `file_index` count the config's sources and their files."""

    path: str  # local path, or address with ://
    num_bytes: int
    source_index: int
    file_index: int

    def document_id(self, row: int) -> str:
        """The id of the document in one row (1: the first)."""
        return f"{self.source_index:02d}-{self.file_index:05d}-{row:09d}"

    @property
    def first_rank(self) -> int:
        """Rank of row 0: an integer below 2^63 in the order of (source, file, row)."""
        return (self.source_index << _FILE_BITS | self.file_index) << _ROW_BITS

    @property
    def stem(self) -> str:
        """The file's name without folders and endings: "news.2020" of "a/news.2020.jsonl.gz"."""
        name = PurePosixPath(self.path)
        return (name.with_suffix("") if self.path.endswith(_PACKED_ENDINGS) else name).stem

    @property
    def text_bytes(self) -> int:
        """About how many bytes of text the file holds."""
        is_packed = self.path.endswith((*_PACKED_ENDINGS, ".parquet"))
        return self.num_bytes * (_PACKED_FACTOR if is_packed else 1)


@dataclass(frozen=True)
class InputGroup:
    """Consecutive files that one worker reads."""

    index: int
    files: tuple[InputFile, ...]


def document_id(rank: int) -> str:
    """The id of the document with this rank."""
    file = InputFile("", 0, rank >> _FILE_BITS + _ROW_BITS, (rank >> _ROW_BITS) % (1 << _FILE_BITS))
    return file.document_id(rank % (1 << _ROW_BITS))


def expand_sources(sources: Sequence[Source]) -> list[InputFile]:
    """Every file that the sources' globs match, by source and then by path.

    Raises `ValueError` for a glob that matches no file or that cannot be listed.
    """
    if len(sources) > 512:
        raise ValueError(f"{len(sources)} sources; at most 512: let a glob match several files")
    return [
        InputFile(path, num_bytes, source_index, file_index)
        for source_index, source in enumerate(sources)
        for file_index, (path, num_bytes) in enumerate(_match(source, source_index))
    ]


def group_files(files: Sequence[InputFile]) -> list[InputGroup]:
    """Deal files out in order, a group being full at about `GROUP_BYTES` of text."""
    groups: list[InputGroup] = []
    waiting: list[InputFile] = []
    num_bytes = 0
    for file in files:
        if waiting and num_bytes + file.text_bytes > GROUP_BYTES:
            groups.append(InputGroup(len(groups), tuple(waiting)))
            waiting, num_bytes = [], 0
        waiting.append(file)
        num_bytes += file.text_bytes
    if waiting:
        groups.append(InputGroup(len(groups), tuple(waiting)))
    return groups


def _match(source: Source, source_index: int) -> list[tuple[str, int]]:
    where = f"clean.sources[{source_index}].path = {source.path!r}"
    try:
        filesystem, pattern = fsspec.core.url_to_fs(source.path)
        if filesystem.isfile(pattern):  # a name may hold [ or *
            found = {pattern: filesystem.info(pattern)}
        else:
            found = filesystem.glob(pattern, detail=True)
    except (ImportError, OSError, ValueError) as error:
        raise ValueError(f"{where} cannot be listed: {error}") from error
    files = {name: info for name, info in found.items() if info["type"] == "file"}
    if not files:
        raise ValueError(
            f"{where} matches no file (relative paths start at {Path.cwd()})"
            if "://" not in source.path
            else f"{where} matches no file"
        )
    if len(files) >= 1 << _FILE_BITS:
        raise ValueError(f"{where} matches {len(files):,} files; at most {1 << _FILE_BITS:,}")
    is_local = "file" in filesystem.protocol
    return sorted(
        (
            _local(name, source.path) if is_local else filesystem.unstrip_protocol(name),
            info["size"] or 0,  # some web servers do not tell
        )
        for name, info in files.items()
    )


def _local(name: str, pattern: str) -> str:
    """As the config wrote it: a relative glob gives relative paths."""
    return name if pattern.startswith(("/", "file:", "~")) else os.path.relpath(name)
