"""A storage that fails is an error that names the file, never a row that was bad."""

import bz2
import gzip
import io
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFile

from electrify.system.outcome import UserError
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.input_file import Raw
from tests.pipeline.sources.reading import PACKERS, read_files, record, source_of, write_rows

_NUMBERS = random.Random(0)
TEXTS = [f"글 {_NUMBERS.randbytes(60).hex()}" for _ in range(1000)]  # no packing makes it small


def break_off(monkeypatch, error: Exception | None) -> None:
    """Files in memory end half way: by an error of a type that no reader knows, or as if it were
    all."""

    def read(self: MemoryFile, size: int = -1) -> bytes:
        place, half = self.tell(), len(self.getbuffer()) // 2
        if size < 0 or place + size > half:
            if error is not None:
                raise error
            size = max(0, half - place)
        return io.BytesIO.read(self, size)

    monkeypatch.setattr(MemoryFile, "read", read)


ROWS = [{"text": text} for text in TEXTS]
TABLE = io.BytesIO()
pq.write_table(pa.table({"text": TEXTS}), TABLE, row_group_size=250, use_dictionary=False)
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PAGE = "<page><title>a</title><ns>0</ns><revision><text>{}</text></revision></page>"
DUMP = f"<mediawiki>{''.join(map(PAGE.format, TEXTS))}</mediawiki>".encode()
WET = b"".join(map(record, TEXTS))
FILES = {
    **{f"a.jsonl{ending}": pack(LINES) for ending, pack in PACKERS.items()},
    "a.json": json.dumps(ROWS, indent=1).encode(),
    "a.parquet": TABLE.getvalue(),
    "a.xml.bz2": bz2.compress(DUMP),
    "a.wet.gz": gzip.compress(WET),
}
KINDS = {"parquet": "parquet", "xml": "wikipedia", "wet": "wet"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("error", [TimeoutError("no answer"), None])
def test_what_breaks_off_on_its_way_is_an_error(monkeypatch, name, error):
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/set/{name}", FILES[name])
    source = source_of(KINDS.get(name.split(".")[1], "jsonl"), f"memory://set/{name}")
    files = expand_sources([source])
    told: list[int] = []
    items = read_files([replace(file, on_read=told.append) for file in files], source)
    assert all(isinstance(item, Raw) for item in items)
    assert len(items) == len(TEXTS)
    size = len(FILES[name])
    if name == "a.parquet":  # its footer is read first, and parts of it again
        assert size <= sum(told) < 2 * size
    else:
        assert sum(told) == size
    break_off(monkeypatch, error)
    reason = rf"{type(error).__name__}: {error}" if error else "EOFError: it ends after .* bytes"
    with pytest.raises(UserError, match=rf"memory://.*{name} cannot be read: {reason}"):
        read_files(files, source)
    memory.rm(f"/set/{name}")
    with pytest.raises(UserError, match=rf"memory://.*{name} cannot be read: FileNotFoundError"):
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
