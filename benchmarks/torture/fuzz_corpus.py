"""Readers of raw text: every kind of source, every packing, and the rules that clean a document."""

import bz2
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.torture.fuzz_corpus_seeds import (
    DOCUMENTS,
    DTD,
    DUMP,
    JSON_LINES,
    TEXTS,
    WET,
    WET_WORDS,
    WIKI_WORDS,
    WIKITEXT,
    XML_WORDS,
)
from benchmarks.torture.fuzz_target import Reader, Target

_MAX_LINE_BYTES = 5_000
_REASONS = {
    "unreadable_file",
    "line_too_long",
    "invalid_utf8",
    "wrong_encoding",
    "malformed_json",
    "malformed_warc",
    "missing_field",
    "wrong_type",
}
_GZIP, _BZIP2, _ZSTD = b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"


def _source(**options: Any) -> Any:
    from electrify.config.clean import Source

    return Source.model_validate({"language": "ko", "path": "x", **options}, strict=False)


def _reader(
    folder: Path,
    name: str,
    seeds: tuple[bytes, ...],
    words: tuple[bytes, ...] = (),
    form: Any = "bytes",
    pack: Callable[[bytes], bytes] | None = None,
    **options: Any,
) -> Reader:
    """A file read as the corpus stage does; nothing is raised, and what is not read is a fault of
    a known sort."""
    from pipeline.sources.input_file import InputFile
    from pipeline.sources.raw import Fault, Raw
    from pipeline.sources.readers import read_file

    path, source = folder / name, _source(**options)

    def read(data: bytes) -> object:
        path.write_bytes(data if pack is None else pack(data))
        last, seen = 0, []
        for item in read_file(InputFile(str(path), len(data), 0, 0), source, _MAX_LINE_BYTES):
            assert item.row >= last, (item.row, last)
            last = item.row
            if isinstance(item, Raw):
                assert len(item.text.encode("utf-8", "surrogatepass")) <= 4 * _MAX_LINE_BYTES
                seen.append("")
            else:
                assert isinstance(item, Fault), item
                assert item.reason in _REASONS, item
                seen.append(item.reason)
        return tuple(seen[:6])

    return Reader(seeds, read, words, form, errors=())


def _packed(magic: bytes, pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Of what is packed the container is fuzzed, of what is not what stands in it."""
    return lambda data: data if data.startswith(magic) else pack(data)


def _jsonl(folder: Path) -> Reader:
    return _reader(folder, "a.jsonl", JSON_LINES, form="lines", kind="jsonl")


def _threads(folder: Path) -> Reader:
    seeds = (b"".join(b'{"text": "%d", "thread": %d}\n' % (i, i // 3) for i in range(7)),)
    options: Any = {"kind": "jsonl", "thread_field": "thread"}
    return _reader(folder, "a.jsonl", (*seeds, *JSON_LINES), form="lines", **options)


def _gzip(folder: Path) -> Reader:
    pack = _packed(_GZIP, lambda data: gzip.compress(data, 1))
    seeds = (*JSON_LINES, gzip.compress(JSON_LINES[0]), 2 * gzip.compress(JSON_LINES[1]))
    return _reader(folder, "a.jsonl.gz", seeds, (_GZIP,), pack=pack, kind="jsonl")


def _zstd(folder: Path) -> Reader:
    import pyarrow as pa

    def compress(data: bytes) -> bytes:
        return bytes(pa.compress(data, "zstd", asbytes=True))

    seeds = (*TEXTS, compress(TEXTS[0]), compress(TEXTS[0]) + compress(TEXTS[1]))
    pack = _packed(_ZSTD, compress)
    return _reader(folder, "a.txt.zst", seeds, (_ZSTD,), pack=pack, kind="text")


def _text(document: str) -> Callable[[Path], Reader]:
    return lambda folder: _reader(folder, "a.txt", TEXTS, kind="text", document=document)


def _encoded(encoding: str) -> Callable[[Path], Reader]:
    texts = ("가나다 한국어 글입니다.\nabc\n\n둘째 글", "\ufeffx\ny")
    seeds = tuple(text.encode(encoding, "ignore") for text in texts)

    def make(folder: Path) -> Reader:
        return _reader(
            folder, "a.txt", (*seeds, *TEXTS), kind="text", document="line", encoding=encoding
        )

    return make


def _wet(folder: Path) -> Reader:
    return _reader(folder, "a.wet", (WET,), WET_WORDS, kind="wet")


def _wikipedia(folder: Path) -> Reader:
    return _reader(folder, "a.xml", (DUMP, DTD), XML_WORDS + WIKI_WORDS, kind="wikipedia")


def _wikipedia_bzip2(folder: Path) -> Reader:
    seeds = (DUMP, bz2.compress(DUMP), bz2.compress(DTD))
    pack = _packed(_BZIP2, lambda data: bz2.compress(data, 1))
    return _reader(folder, "a.xml.bz2", seeds, XML_WORDS, pack=pack, kind="wikipedia")


def _wikitext(folder: Path) -> Reader:
    from pipeline.sources.wikitext import plain_text

    def read(data: bytes) -> object:
        text = plain_text(data.decode("utf-8", "surrogateescape"))
        return min(8, text.count("\n"))

    return Reader(WIKITEXT, read, WIKI_WORDS, errors=())


def _tables(folder: Path) -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    for text, options in (
        (pa.array(["가나다", None, "c" * 300]), {"compression": "zstd"}),
        (pa.array(["a", "b", "a"]).dictionary_encode(), {"compression": "snappy"}),
        (pa.array(["x", "", "y\0"], pa.large_string()), {"compression": "none"}),
    ):
        table = pa.table({"text": text, "url": ["u", None, "v"], "n": [1, 2, 3]})
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=2, **options)
        found.append(sink.getvalue())
    return found


def _parquet(folder: Path) -> Reader:
    seeds = tuple(_tables(folder))
    return _reader(folder, "a.parquet", seeds, (b"PAR1",), kind="parquet")


def _documents_parquet(folder: Path) -> Reader:
    """Parts of a parquet file, as the corpus stage cuts it."""
    from electrify.config.clean import Source
    from pipeline.sources.input_file import InputFile
    from pipeline.sources.readers import read_file
    from pipeline.sources.splits import split_file

    path = folder / "b.parquet"
    source: Source = _source(kind="parquet")

    def read(data: bytes) -> object:
        path.write_bytes(data)
        whole = InputFile(str(path), len(data), 0, 0)
        parts = split_file(whole, source, part_bytes=40)
        return sum(len(list(read_file(part, source, _MAX_LINE_BYTES))) for part in parts[:4])

    return Reader(tuple(_tables(folder)), read, (b"PAR1",), errors=())


def _cleaning(folder: Path) -> Reader:
    from electrify.config.load import parse_config
    from pipeline.rules.order import document_rules

    config = parse_config(
        {
            "name": "fuzz",
            "output_dir": "out",
            "pretrain": {"size": "small"},
            "clean": {
                "sources": [{"kind": "text", "language": "ko", "path": "x", "profile": "web"}]
            },
        }
    )
    rules = document_rules(config.clean.sources[0], config.clean)

    def read(data: bytes) -> object:
        outcome = rules.clean(data.decode("utf-8", "surrogatepass"))
        if outcome.drop is None:
            outcome.text.encode()  # what stays can be stored
        return outcome.drop.reason if outcome.drop else "kept"

    return Reader(DOCUMENTS, _of_text(read), errors=())


def _of_text(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Bytes that are no text are none to be cleaned: they are made text."""
    return lambda data: read(data.decode("utf-8", "replace").encode())


def _guess(folder: Path) -> Reader:
    from pipeline.sources.lines import guess_encoding

    seeds = [("한국어 글" * 4).encode(name) for name in ("cp949", "utf-16", "utf-32-le", "utf-8")]
    return Reader(
        (*seeds, b"caf\xe9"), lambda data: guess_encoding(data, "ko"), (b"\0",), errors=()
    )


def _evaluation_texts(folder: Path) -> Reader:
    """Files of texts that a corpus is held against, of any ending."""
    from benchmarks.tasks.data.texts import dump_benchmarks
    from electrify.config.load import parse_config

    paths = [folder / f"texts.{ending}" for ending in ("json", "jsonl", "csv", "tsv")]
    raw: dict[str, Any] = {
        "name": "fuzz",
        "output_dir": str(folder / "out"),
        "pretrain": {"size": "small"},
        "clean": {"sources": [{"kind": "text", "language": "ko", "path": "x"}]},
    }
    configs = []
    for path in paths:
        raw["clean"]["decontaminate_against"] = [str(path)]
        configs.append(parse_config(raw))
    turn = iter(range(1 << 60))

    def read(data: bytes) -> object:
        number = next(turn) % len(paths)
        paths[number].write_bytes(data)
        dump_benchmarks(configs[number])
        return number

    seeds = (
        json.dumps([{"text": "가", "n": [1, "b"]}]).encode(),
        b'a\tb\n"c\nd",e\n',
        *JSON_LINES,
    )
    return Reader(seeds, read, (b'"', b","), "json", named="texts.")


TARGETS = (
    Target("jsonl", _jsonl, 6),
    Target("jsonl-threads", _threads, 3),
    Target("jsonl-gzip", _gzip, 3),
    Target("text-zstd", _zstd, 2),
    Target("text-lines", _text("line"), 2),
    Target("text-blocks", _text("block"), 2),
    Target("text-file", _text("file"), 2),
    Target("text-cp949", _encoded("cp949"), 2),
    Target("text-utf-16", _encoded("utf-16"), 2),
    Target("text-iso2022", _encoded("iso2022_kr"), 1),
    Target("encoding-guess", _guess, 2),
    Target("wet", _wet, 4),
    Target("wikipedia", _wikipedia, 4),
    Target("wikipedia-bzip2", _wikipedia_bzip2, 2),
    Target("wikitext", _wikitext, 8),
    Target("parquet", _parquet, 1),
    Target("parquet-parts", _documents_parquet, 0.5),
    Target("cleaning", _cleaning, 2),
    Target("evaluation-texts", _evaluation_texts, 1),
)
