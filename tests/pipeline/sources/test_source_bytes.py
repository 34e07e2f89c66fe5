"""A storage that fails is an error that names the file, never a row that was bad."""

import bz2
import gzip
import json
import lzma
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from electrify.system.outcome import UserError
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.input_file import Raw
from tests.pipeline.sources.reading import read_files, source_of, write_rows

_NUMBERS = random.Random(0)
TEXTS = [f"글 {_NUMBERS.randbytes(60).hex()}" for _ in range(1000)]  # no packing makes it small


class _FaultyFile(MemoryFile):
    """Breaks off half way: by an error of a type that no reader knows, or as if it were all."""

    error: Exception | None = None

    def read(self, size=-1):
        """Bytes of the first half."""
        place, half = self.tell(), len(self.getbuffer()) // 2
        if size < 0 or place + size > half:
            if self.error is not None:
                raise self.error
            size = max(0, half - place)
        return super().read(size)


class _FaultyFileSystem(MemoryFileSystem):
    protocol = "faulty"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    breaks = False

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("faulty://"))

    def _open(self, path, mode="rb", **options):
        opened = super()._open(path, mode, **options)
        if self.breaks and mode == "rb":
            opened.__class__ = _FaultyFile
        return opened


@pytest.fixture
def faulty():
    """A file system whose files break off once `breaks` is set."""
    fsspec.register_implementation("faulty", _FaultyFileSystem, clobber=True)
    filesystem = fsspec.filesystem("faulty")
    filesystem.store.clear()
    filesystem.breaks, _FaultyFile.error = False, None
    return filesystem


ROWS = [{"text": text} for text in TEXTS]


def _table():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": TEXTS}), sink, row_group_size=250, use_dictionary=False)
    return sink.getvalue().to_pybytes()


LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PAGE = "<page><title>a</title><ns>0</ns><revision><text>{}</text></revision></page>"
RECORD = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n{}\r\n\r\n"
DUMP = f"<mediawiki>{''.join(map(PAGE.format, TEXTS))}</mediawiki>".encode()
WET = "".join(RECORD.format(len(text.encode()), text) for text in TEXTS).encode()
FILES = {
    "a.jsonl": LINES,
    "a.json": json.dumps(ROWS, indent=1).encode(),
    "a.jsonl.gz": gzip.compress(LINES),
    "a.jsonl.bz2": bz2.compress(LINES),
    "a.jsonl.xz": lzma.compress(LINES),
    "a.jsonl.zst": pa.compress(LINES, "zstd", asbytes=True),
    "a.parquet": _table(),
    "a.xml.bz2": bz2.compress(DUMP),
    "a.wet.gz": gzip.compress(WET),
}
KINDS = {"parquet": "parquet", "xml": "wikipedia", "wet": "wet"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("error", [TimeoutError("no answer"), None])
def test_what_breaks_off_on_its_way_is_an_error(faulty, name, error):
    faulty.pipe(f"/set/{name}", FILES[name])
    source = source_of(KINDS.get(name.split(".")[1], "jsonl"), f"faulty://set/{name}")
    files = expand_sources([source])
    told: list[int] = []
    items = read_files([replace(file, on_read=told.append) for file in files], source)
    assert all(isinstance(item, Raw) for item in items)
    assert len(items) == len(TEXTS)
    size = len(faulty.cat(f"/set/{name}"))
    if name == "a.parquet":  # its footer is read first, and parts of it again
        assert size <= sum(told) < 2 * size
    else:
        assert sum(told) == size
    faulty.breaks, _FaultyFile.error = True, error
    reason = rf"{type(error).__name__}: {error}" if error else "EOFError: it ends after .* bytes"
    with pytest.raises(UserError, match=rf"faulty://.*{name} cannot be read: {reason}"):
        read_files(files, source)
    faulty.rm(f"/set/{name}")
    with pytest.raises(UserError, match=rf"faulty://.*{name} cannot be read: FileNotFoundError"):
        read_files(files, source)
    with pytest.raises(UserError, match="cannot be read: FileNotFoundError"):
        fingerprints(files)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "huggingface"])
def test_relative_paths_are_read_from_where_they_were_listed(tmp_path, monkeypatch, kind):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    path = Path(f"data/a.{kind}")
    source = write_rows(path, kind, ROWS)
    files = expand_sources([source])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [item.text for item in read_files(files, source)] == TEXTS
    assert all(file.where(1).startswith(str(path)) for file in files)  # the same wherever it runs
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ValueError, match=r"cannot be read: .*FileNotFoundError"):
        read_files(files, source)
