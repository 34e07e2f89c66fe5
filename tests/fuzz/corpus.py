"""Readers of raw text and of the config."""

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import Make, Reader

_MAX_LINE_BYTES = 5_000
_REASONS = {
    "unreadable_file",
    "line_too_long",
    "invalid_utf8",
    "wrong_encoding",
    "malformed_json",
    "missing_field",
    "wrong_type",
}
_JSON_LINES = (
    '{"text": "한국어 문장입니다.", "source": "news", "url": "https://a.example/1"}\n'
    '{"text": "Second \\u00e9 line", "licence": "CC0"}\n'
    '{"text": "\\ud83d\\ude00 \\ud83d", "n": 1e5}\n'.encode(),
    b'{"text": "a"}\r\n\r\n{"text": null}\n{"other": 1}\n[1]\n{"text": "b"}',
)
_TEXTS = (
    "첫 줄입니다.\n둘째 줄.\n\n다음 글\n".encode(),
    b"\xef\xbb\xbfone line\r\n\r\nanother \x0c line\n\n\n\nlast",
)
_DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="ko">
<siteinfo><base>https://ko.example.org/wiki/Main</base><namespaces>
<namespace key="0" /><namespace key="6">파일</namespace><namespace key="14">분류</namespace>
</namespaces></siteinfo>
<page><title>한국</title><ns>0</ns><revision><text bytes="9">'''한국'''은 [[나라|나라]]다.
{{틀|a=b}} == 역사 ==
[[분류:나라]] &lt;ref&gt;x&lt;/ref&gt;</text></revision></page>
<page><title>R</title><ns>0</ns><redirect title="한국" /><revision><text>#REDIRECT [[한국]]</text>
</revision></page><page><title>T:x</title><ns>10</ns><revision><text>no</text></revision></page>
</mediawiki>
""".encode()
_MARKUP = (
    b"{{ }} [[ ]] {| |} <ref </ref> <!-- --> <nowiki> <math> == ''' -{ }- &#x110000; <page> "
    b"</page> <text> </text> <redirect/> ]> &a; <![CDATA[ <?x?> &#xD800; <!DOCTYPE"
).split()
_WET = "".join(
    f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/{kind}\r\n"
    f"Content-Length: {len(text.encode())}\r\n\r\n{text}\r\n\r\n"
    for kind, text in (("warcinfo", "x: y"), ("conversion", "본문 text\n"), ("conversion", "b"))
).encode()
_WET_WORDS = [b"WARC/1.0\r\n", b"Content-Length: 99999\r\n", b"\r\n\r\n", b"\xc2\xb2", b"-1"]
_TOML = b"""name = "fuzz"
seed = 3
output_dir = "out/fuzz"
[clean]
sources = [
    { kind = "jsonl", language = "ko", path = "a/*.jsonl", profile = "web", max_documents = 3 },
    { kind = "text", language = "en", path = "b.txt", document = "block", encoding = "cp949" },
]
[clean.language.ko]
quality = { max_top_2gram = 0.2 }
[vocab]
size = 900
[pretrain]
size = "small"
curriculum = [{ sequence_length = 32, steps_fraction = 0.5 }]
[evaluate]
suites = ["glue"]
tasks_options = { klue-ynat = { batch_size = 4 } }
"""
_TOML_WORDS = (
    *b"[ ] [[ ]] = . { } inf -nan 0x10 [clean] [[clean.sources]] pretrain.size=7 encode=1".split(),
    *(b'output_dir = "\\u0000"\n', b"seed = -1\n", b'encoding = "rot13"', b'language = "../x"'),
)


def _source(
    name: str,
    *seeds: bytes,
    words: list[bytes] | None = None,
    pack: Callable[[bytes], bytes] | None = None,
    **options: Any,
) -> Make:
    """A file read as the corpus stage does; nothing is raised, and what is not read is a fault of
    a known sort. Of what is packed already the container is changed, else what `pack` packs."""
    magic = pack(b"")[:2] if pack else b""

    def make(folder: Path) -> Reader:
        from electrify.config.clean import Source
        from pipeline.sources.input_file import Fault, InputFile, Raw
        from pipeline.sources.readers import read_file

        path = folder / name
        source = Source.model_validate({"language": "ko", "path": "x", **options}, strict=False)

        def read(data: bytes) -> None:
            path.write_bytes(data if pack is None or data.startswith(magic) else pack(data))
            last = 0
            for item in read_file(InputFile(str(path), len(data)), source, _MAX_LINE_BYTES):
                assert item.row >= last, (item.row, last)
                last = item.row
                if isinstance(item, Raw):
                    assert len(item.text.encode("utf-8", "surrogatepass")) <= 4 * _MAX_LINE_BYTES
                else:
                    assert isinstance(item, Fault), item
                    assert item.reason in _REASONS, item

        packed = [pack(seed) for seed in seeds[:1]] if pack else []
        return Reader((*seeds, *packed), read, tuple(words or ()), errors=())

    return make


def _parquet(folder: Path) -> Reader:
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    for text, compression in (
        (pa.array(["가나다", None, "c" * 300]), "zstd"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "snappy"),
    ):
        sink = io.BytesIO()
        table = pa.table({"text": text, "url": ["u", None, "v"], "n": [1, 2, 3]})
        pq.write_table(table, sink, row_group_size=2, compression=compression)
        seeds.append(sink.getvalue())
    return _source("a.parquet", *seeds, words=[b"PAR1"], kind="parquet")(folder)


def _toml(folder: Path) -> Reader:
    from electrify.config.load import load_config

    path = folder / "run.toml"

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return load_config(path)

    return Reader((_TOML,), read, _TOML_WORDS, named=path.name)


READERS: dict[str, Make] = {
    "jsonl": _source("a.jsonl", *_JSON_LINES, kind="jsonl"),
    "text-blocks": _source("a.txt", *_TEXTS, kind="text", document="block"),
    "wet": _source("a.wet.gz", _WET, words=_WET_WORDS, pack=gzip.compress, kind="wet"),
    "wikipedia": _source("a.xml.bz2", _DUMP, words=_MARKUP, pack=bz2.compress, kind="wikipedia"),
    "parquet": _parquet,
    "config": _toml,
}
