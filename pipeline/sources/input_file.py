"""One raw file of the corpus, or one part of a big one, and what reading it gives, row by row: a
document with its id, or the fault that hides it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from electrify.config.clean import Source
from electrify.storage.encodings import is_utf8

_PACKED_ENDINGS = (".gz", ".zst", ".zstd", ".bz2", ".xz")
_PACKED_FACTOR = 4  # text is about four times its compressed file
# widths of a rank, see `InputFile.first_rank`
FILE_BITS, ROW_BITS = 22, 32
# Of text, of a part: large beside the cost of opening a file, so small that workers end together.
# A big file has larger ones, for the process that starts the run knows them all.
MIN_PART_BYTES, MAX_PART_BYTES = 8_000_000, 32_000_000
USUAL_PARTS = 32


@dataclass(frozen=True)
class InputFile:
    """One raw file, or a part of one that is read in several.

    `source_index` counts the config's sources; `file_index` a source's files, each part as one.
    """

    # local path as the config has it, address with ://, or the name of a data set on the hub;
    # archive.zip::name for a member of an archive
    path: str
    num_bytes: int  # of the part
    source_index: int = 0
    file_index: int = 0
    part: int = 0
    num_parts: int = 1
    # the part: bytes [start, stop) of a file of lines, row groups of a parquet file; stop 0: to the
    # end. Of a data set a part is a shard
    start: int = 0
    stop: int = 0
    first_row: int = 0  # parquet: rows before the part, for they count through
    label: str = ""  # stands for the file's name as the `source` of its documents
    revision: str = ""  # of a data set
    file_bytes: int = 0  # of the whole file when it was listed; 0: not known
    folder: str = ""  # from which a relative path starts, for workers start elsewhere
    # called with the number of stored bytes just read
    on_read: Callable[[int], None] | None = field(default=None, compare=False, repr=False)

    @property
    def address(self) -> str:
        return self.path if "://" in self.path else os.path.join(self.folder, self.path)

    @property
    def first_rank(self) -> int:
        """Rank of row 0, in the order of (source, file, row), below 2^63."""
        return (self.source_index << FILE_BITS | self.file_index) << ROW_BITS

    @property
    def stem(self) -> str:
        """The file's name without archive, folders and endings: "news.2020" of
        "a/news.2020.jsonl.gz", and of "a.zip::news.2020.jsonl"."""
        if self.label:
            return self.label
        return _unpacked(self.path).stem

    @property
    def text_bytes(self) -> int:
        is_packed = packing(self.path) or text_ending(self.path) == ".parquet"
        return self.num_bytes * (_PACKED_FACTOR if is_packed else 1)

    def where(self, row: int, offset: int | None = None) -> str:
        """A row's place for a person: path:row, or its byte where a part does not know its row."""
        if not self.part or self.first_row:
            return f"{self.path}:{row}"
        if offset is not None:
            return f"{self.path}: byte {offset:,}"
        return f"{self.path}: row {row} of part {self.part + 1} of {self.num_parts}"


@dataclass(frozen=True)
class FileBatch:
    """Consecutive files that one worker reads; their documents are divided into batches."""

    index: int
    files: tuple[InputFile, ...]
    batch_characters: int  # of text, in a batch of documents


# The number of a batch orders batches as batches of files and their documents are ordered. A packed
# file, which one worker must read from its start, makes many.
BATCH_BITS = 16


def batch_number(file_batch: int, index: int) -> int:
    """The number of a batch; `index` counts those of its batch of files."""
    assert index < 1 << BATCH_BITS, f"batch of files {file_batch} makes {index} batches"
    return file_batch << BATCH_BITS | index


def text_ending(path: str) -> str:
    """A file's ending in small letters, without that of its packing: ".txt" of "a/b.TXT.gz"."""
    return _unpacked(path).suffix.lower()


def packing(path: str) -> str:
    """The ending of a packed file in small letters, ".gz" of "a.GZ"; empty for any other file."""
    ending = PurePosixPath(_without_query(path)).suffix.lower()
    return ending if ending in _PACKED_ENDINGS else ""


def _without_query(path: str) -> str:
    """An address of the web has its query behind the name of the file."""
    return path.partition("?")[0] if "http" in path.partition("://")[0] else path


@lru_cache  # asked of each document
def _unpacked(path: str) -> PurePosixPath:
    name = PurePosixPath(_without_query(path).rpartition("::")[2])  # of a member its own
    return name.with_suffix("") if packing(path) else name


def document_id(rank: int) -> str:
    """The id of the document with this rank: source, file, row (1: the first)."""
    return "{:02d}-{:05d}-{:09d}".format(*place_of(rank))


def place_of(rank: int) -> tuple[int, int, int]:
    """The source; its file; and the row there."""
    place, row = divmod(rank, 1 << ROW_BITS)
    source, file = divmod(place, 1 << FILE_BITS)
    return source, file, row


# What reading a file gives.

KNOWN_FIELDS = ("source", "url", "licence", "license")
HEAD_BYTES = 500  # of a row that cannot be read, kept for the record


@dataclass(frozen=True, slots=True)
class Raw:
    """One document as the file has it. `row` counts lines, table rows, pages or records from 1."""

    row: int
    text: str
    source: str | None = None
    url: str | None = None
    licence: str | None = None
    source_id: str | None = None  # the id that the source itself gives
    language: str | None = None  # as the row names it


@dataclass(frozen=True, slots=True)
class Fault:
    """One row, or the rest of a file, that cannot be read."""

    row: int
    reason: str
    detail: str
    text: str = ""
    offset: int | None = None  # of the row's first byte in its file, where lines are read
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for bytes that were read past and not kept."""

    num_bytes: int
    head: bytes
    num_lines: int = 1


def text_of(row: int, data: bytes | TooLong, source: Source, max_bytes: int) -> str | Fault:
    """The text of a row that was made UTF-8, or why it has none."""
    if isinstance(data, TooLong):
        return too_long(row, data, max_bytes)
    if len(data) > max_bytes:
        return too_long(row, TooLong(len(data), data), max_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return bad_row(row, *encoding_fault(error, source), data)


def bad_row(row: int, reason: str, detail: str, data: bytes) -> Fault:
    """A fault that shows how the row begins."""
    return Fault(row, reason, detail, data[:HEAD_BYTES].decode("utf-8", "replace"))


def too_long(row: int, line: TooLong, max_bytes: int) -> Fault:
    """The fault of a row that was read past."""
    detail = f"{line.num_bytes:,} bytes; clean.max_line_bytes = {max_bytes:,}"
    if line.num_lines > 1:
        detail += f"; it has {line.num_lines:,} lines: document = 'line' makes each a document"
    return bad_row(row, "line_too_long", detail, line.head)


def length_fault(row: int, text: str, max_bytes: int) -> Fault | None:
    """The fault of a text that has more bytes than a row may have."""
    if len(text) * 4 > max_bytes:  # UTF-8 has 4 bytes at most
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > max_bytes:
            return too_long(row, TooLong(len(data), data), max_bytes)
    return None


def encoding_fault(error: UnicodeDecodeError, source: Source) -> tuple[str, str]:
    """Reason and detail of a row whose bytes are not of the source's encoding."""
    if is_utf8(source.encoding):
        return "invalid_utf8", str(error)
    return "wrong_encoding", f"bytes that are not {source.encoding}"
