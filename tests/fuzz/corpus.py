"""Readers of raw text: every kind of source, every packing, and the rules that clean a document."""

import bz2
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Make, Reader

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
JSON_LINES = (
    '{"text": "한국어 문장입니다.", "source": "news", "url": "https://a.example/1"}\n'
    '{"text": "Second \\u00e9 line", "licence": "CC0", "thread": "a"}\n'
    '{"text": "\\ud83d\\ude00 \\ud83d", "thread": "a", "n": 1e5}\n'.encode(),
    b'{"text": "a"}\r\n\r\n{"text": null}\n{"other": 1}\n[1]\n{"text": "b", "thread": 7}',
)
TEXTS = (
    "첫 줄입니다.\n둘째 줄.\n\n다음 글\n".encode(),
    b"\xef\xbb\xbfone line\r\n\r\nanother \x0c line\n\n\n\nlast",
)
DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="ko">
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
DTD = b"""<?xml version="1.0"?><!DOCTYPE mediawiki [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>
<mediawiki><page><title>&b;</title><ns>0</ns><revision><text>&b; &c;</text></revision></page>
</mediawiki>"""
WIKITEXT = (
    "'''Seoul''' ({{lang|ko|서울}}) is the [[capital city|capital]] of [[Korea]].<ref>a</ref>\n"
    "{| class=x\n|-\n| a || b\n|}\n== History ==\n* one\n* two [http://a.example b]\n"
    "[[File:a.jpg|thumb|A [[b]] c]] <math>x^2</math> <!-- c -->\n\n-{zh-hans:a;zh-hant:b}-\n"
    "== References ==\n<references />\n[[Category:X]]\n".encode(),
    "{{정보|이름=[[서울]]|{{a|{{b}}}}}}\n&nbsp;__NOTOC__ ''기울임'' <nowiki>[[x]]</nowiki>"
    "".encode(),
)
WIKI_WORDS = (
    *(
        b"{{ }} [[ ]] {| |} <ref </ref> <ref/> <!-- --> <nowiki> </nowiki> <math> </math> == "
        b"''' | -{ }- <gallery> </gallery> __TOC__ &#x110000; &#99999999999;"
    ).split(),
    b"\n|}",
    b"\n==",
    b"[http://a ",
)
XML_WORDS = (
    *(
        b"<page> </page> <title> </title> <ns> </ns> <text> </text> <base> </base> "
        b"<redirect/> <mediawiki> </mediawiki> </namespace> ]> &a; <![CDATA[ ]]> <?x?> "
        b"&#xD800; &lt; xmlns:a=''"
    ).split(),
    b"<namespace key='6'>",
    b"<!DOCTYPE a [",
    b'<!ENTITY a "b">',
    b"<?xml version='1.0' encoding='utf-16'?>",
)
WET = "".join(
    f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/{kind}\r\n"
    f"Content-Length: {len(text.encode())}\r\n\r\n{text}\r\n\r\n"
    for kind, text in (("warcinfo", "x: y"), ("conversion", "본문 text\n"), ("conversion", "b"))
).encode()
WET_WORDS = (
    b"WARC/1.0\r\n",
    b"WARC-Type: conversion\r\n",
    b"Content-Length: ",
    b"Content-Length: 99999\r\n",
    b"\r\n\r\n",
    b"\xc2\xb2",
    b"-1",
    b"999999999999999999",
    b"WARC/",
)
DOCUMENTS = (
    "# 제목\n\n이것은 <b>문서</b>입니다. [링크](https://a.example/x?y=1) 전화 010-1234-5678\n"
    "- 하나\n- 둘\n\n```py\nprint(1)\n```\nì•ˆë…• ｆｕｌｌ ㅋㅋㅋㅋㅋㅋ ᄒᆞᆫ글\n"
    "me@a.example.com\n".encode(),
    b"<html><body><p>Terms of use</p><a href='x'>y</a>&amp;lt;</body> Copyright (c) 2020 "
    b"All rights reserved. The quick brown fox jumps over the lazy dog. " * 2,
)


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


def _text(document: str) -> Make:
    return lambda folder: _reader(folder, "a.txt", TEXTS, kind="text", document=document)


def _encoded(encoding: str) -> Make:
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
    from benchmarks.tasks.texts import dump_benchmarks
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


READERS: dict[str, Make] = {
    "jsonl": _jsonl,
    "jsonl-threads": _threads,
    "jsonl-gzip": _gzip,
    "text-zstd": _zstd,
    "text-lines": _text("line"),
    "text-blocks": _text("block"),
    "text-file": _text("file"),
    "text-cp949": _encoded("cp949"),
    "text-utf-16": _encoded("utf-16"),
    "text-iso2022": _encoded("iso2022_kr"),
    "encoding-guess": _guess,
    "wet": _wet,
    "wikipedia": _wikipedia,
    "wikipedia-bzip2": _wikipedia_bzip2,
    "wikitext": _wikitext,
    "parquet": _parquet,
    "parquet-parts": _documents_parquet,
    "cleaning": _cleaning,
    "evaluation-texts": _evaluation_texts,
}
