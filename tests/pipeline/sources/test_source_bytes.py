"""A storage that fails is an error that names the file, never a row that was bad."""

import bz2
import gzip
import json
import logging
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

from electrify.config.clean import Source
from electrify.system.outcome import UserError
from pipeline.clean import clean
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.input_file import Raw
from tests.pipeline.builders import config_of
from tests.pipeline.sources.reading import read_files, write_rows

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


def _lines():
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def _table():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": TEXTS}), sink, row_group_size=250, use_dictionary=False)
    return sink.getvalue().to_pybytes()


def _xml():
    pages = "".join(
        f"<page><title>{i}</title><ns>0</ns><revision><text>{text}</text></revision></page>"
        for i, text in enumerate(TEXTS)
    )
    return f"<mediawiki>{pages}</mediawiki>".encode()


def _wet():
    head = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: "
    records = (f"{head}{len(text.encode())}\r\n\r\n{text}" for text in TEXTS)
    return "\r\n\r\n".join(records).encode()


def _zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


FILES = {
    "a.jsonl": _lines,
    "a.json": lambda: json.dumps(ROWS, indent=1).encode(),
    "a.jsonl.gz": lambda: gzip.compress(_lines()),
    "a.jsonl.bz2": lambda: bz2.compress(_lines()),
    "a.jsonl.xz": lambda: lzma.compress(_lines()),
    "a.jsonl.zst": lambda: _zstd(_lines()),
    "a.parquet": _table,
    "a.xml.bz2": lambda: bz2.compress(_xml()),
    "a.wet.gz": lambda: gzip.compress(_wet()),
}
KINDS = {"parquet": "parquet", "xml": "wikipedia", "wet": "wet"}


def _source(faulty, name):
    kind = KINDS.get(name.split(".")[1], "jsonl")
    faulty.pipe(f"/set/{name}", FILES[name]())
    return Source(kind=kind, language="ko", path=f"faulty://set/{name}")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("error", [TimeoutError("no answer"), None])
def test_what_breaks_off_on_its_way_is_an_error(faulty, name, error):
    source = _source(faulty, name)
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


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "saved", "files"])
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
    if kind != "saved":  # whose files are open
        with pytest.raises(ValueError, match=r"cannot be read: .*FileNotFoundError"):
            read_files(files, source)


def test_a_damaged_file_stops_the_stage_unless_what_is_left_of_it_is_wanted(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(FILES["a.jsonl.gz"]()[:40_000])
    (tmp_path / "b.jsonl").write_text('{"text": "온전한 글 하나가 여기에 있다."}\n')

    def run(**more):
        more["near_dedup"] = {"enabled": False}
        clean(config_of(tmp_path, [tmp_path / "*.jsonl*"], **more), [], overwrite=False)

    message = r'a\.jsonl\.gz:\d+: EOFError: .*clean\.damaged_files = "keep"'
    with pytest.raises(ValueError, match=message):
        run()
    run(strict=True, damaged_files="keep")  # strict is about rows
    manifest = json.loads((tmp_path / "out" / "clean" / "manifest.json").read_text())
    assert manifest["counts"]["malformed"] == 1
    assert "1 damaged file(s) were read up to the damage" in caplog.text
    assert 250 < manifest["counts"]["documents_in"] < len(TEXTS)
