"""Sources at gs:// addresses, against a local emulator of Google Cloud Storage."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.config.clean import Source
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file
from pipeline.sources.source_bytes import SourceError

gcsfs = pytest.importorskip("gcsfs")

LINE_BYTES = 1_000_000


def _source(kind, path, **options):
    return Source(kind=kind, language="ko", path=path, **options)


def _read(source):
    files = expand_sources([source])
    return files, [item for file in files for item in read_file(file, source, LINE_BYTES)]


def test_packed_lines_and_tables(bucket):
    rows = [{"text": f"글 {i}", "url": "u"} for i in range(500)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    bucket.pipe("corpus/news/b.jsonl.gz", gzip.compress(lines))
    bucket.pipe("corpus/news/a.jsonl", b'{"text": "first"}\nbroken\n')
    with bucket.open("corpus/table.parquet", "wb") as file:
        pq.write_table(pa.Table.from_pylist(rows), file)

    files, items = _read(_source("jsonl", "gs://corpus/news/*.jsonl*"))
    assert [file.path for file in files] == [
        "gs://corpus/news/a.jsonl",
        "gs://corpus/news/b.jsonl.gz",
    ]
    assert items[0] == Raw(1, "first")
    assert isinstance(items[1], Fault)
    assert [item.text for item in items[2:]] == [row["text"] for row in rows]
    assert len(set(fingerprints(files).values())) == 2

    _, items = _read(_source("parquet", "gs://corpus/table.parquet"))
    assert items == [Raw(i + 1, row["text"], url="u") for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gs://corpus/none-*.jsonl", "matches no file"),
        ("gs://no-such-bucket/*.jsonl", r"clean\.sources\[0\]\.path = 'gs://no-such-bucket/"),
    ],
)
def test_an_address_with_nothing_behind_it(bucket, path, message):
    with pytest.raises(ValueError, match=message):
        expand_sources([_source("jsonl", path)])


def test_a_file_that_went_away_is_an_error(bucket):
    bucket.pipe("corpus/gone.jsonl", b'{"text": "a"}\n')
    source = _source("jsonl", "gs://corpus/gone.jsonl")
    (file,) = expand_sources([source])
    bucket.rm("corpus/gone.jsonl")
    with pytest.raises(SourceError, match=r"gs://corpus/gone\.jsonl cannot be read: FileNotFound"):
        list(read_file(file, source, LINE_BYTES))
