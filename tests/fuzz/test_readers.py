"""Hostile input: readers of raw text and of the config take mutated files, and give a result or an
error that names them.

For a longer series: `pytest tests/fuzz --rounds 20000 --seed 7`.
"""

import bz2
import gzip
import io
import logging
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.config.load import load_config
from pipeline.sources.input_file import Fault, InputFile, Raw
from pipeline.sources.readers import read_file
from tests.pipeline.cases import read_cases
from tests.pipeline.sources.reading import source_of

ROUNDS = 60  # inputs of a reader beside the sound ones
MAX_SECONDS = 30.0  # of one input; nearly all take under a millisecond
_MAX_BYTES, _MAX_LINE_BYTES = 40_000, 5_000
_DEEP = 3_000  # levels: more than Python's stack takes
CASES = read_cases(__file__)
# pieces of formats, byte order marks, what is no UTF-8, controls
_TOKENS: list[bytes] = [
    *(token.encode("utf-8", "surrogatepass") for token in CASES["tokens"]),
    *(b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"9" * 5000),
]


def _table() -> bytes:
    sink = io.BytesIO()
    texts = pa.array(["가나다", None, "c" * 300])
    pq.write_table(pa.table({"text": texts, "n": [1, 2, 3]}), sink, row_group_size=2)
    return sink.getvalue()


_SEEDS = {name: text.encode() for name, text in CASES["seeds"].items()}
# by the ending of the file: the kind, sound inputs, and how a changed one is packed
READERS: dict[str, tuple[str, list[bytes], Callable[[bytes], bytes]]] = {
    "jsonl": ("jsonl", [_SEEDS["lines"], _SEEDS["objects"]], bytes),
    "txt": ("text", [_SEEDS["text"], b"one line\r\n\r\nanother \x0c line\n\n\n\nlast"], bytes),
    "wet.gz": ("wet", [_SEEDS["wet"].replace(b"\n", b"\r\n")], gzip.compress),
    "xml.bz2": ("wikipedia", [_SEEDS["dump"]], bz2.compress),
    "gz": ("wet", [gzip.compress(_SEEDS["wet"].replace(b"\n", b"\r\n"))], bytes),
    "parquet": ("parquet", [_table()], bytes),
    "toml": ("", [_SEEDS["config"]], bytes),
}


def _mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """One to four changes of a sound input. Once in 300 the input gets deep."""
    data = rng.choice(seeds)
    if rng.random() < 1 / 300:
        opening = rng.choice((b"[", b'{"a":', b"<a>", b"{{", b"(", b"a.", b"\t", "가".encode()))
        return data[: rng.randint(0, len(data))] + opening * _DEEP
    for _ in range(rng.choice((1, 1, 2, 4))):
        (start, stop), token = _span(data, rng), rng.choice(_TOKENS)
        piece, other = data[start:stop], rng.choice(seeds)
        flipped = bytes(b ^ (1 << rng.randrange(8)) for b in piece[:2]) + piece[2:]
        spliced = other[slice(*_span(other, rng))]
        repeated = piece * rng.choice((0, 2, 3, 40))
        between = rng.choice((flipped, repeated, spliced, token, piece + token))
        data = data[:start] + between + data[stop:]
    return data[:_MAX_BYTES]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, start + rng.choice((0, 1, 4, 64, len(data)))


def _read(path: Path, kind: str, data: bytes) -> bool:
    """Whether the input is taken; what is not read of raw text is a fault of a known sort."""
    path.write_bytes(data)
    if not kind:
        refusal = None
        try:
            load_config(path)
        except ValueError as error:
            refusal = error
        assert refusal is None or path.name in str(refusal)
        assert not isinstance(refusal, UnicodeError)
        return refusal is None
    last = 0
    source: Any = source_of(kind)
    for item in read_file(InputFile(str(path), len(data)), source, _MAX_LINE_BYTES):
        assert item.row >= last
        last = item.row
        if isinstance(item, Raw):
            assert len(item.text.encode("utf-8", "surrogatepass")) <= 4 * _MAX_LINE_BYTES
        else:
            assert isinstance(item, Fault)
            assert item.reason in CASES["reasons"]
    return True


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    # what it raises is no Exception, so no reader swallows it
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"no end in {MAX_SECONDS} s"))
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.filterwarnings("ignore")
def test_a_reader_gives_a_result_or_a_named_error(
    ending: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind, seeds, pack = READERS[ending]
    path = tmp_path / f"a.{ending}"
    assert all(_read(path, kind, pack(seed)) for seed in seeds)
    rng = random.Random(f"{request.config.getoption('seed')} {ending}")
    for _ in range(request.config.getoption("rounds") or ROUNDS):
        data = pack(_mutated(seeds, rng))
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        try:
            _read(path, kind, data)
        except BaseException as error:  # pyo3's panics are no Exception
            error.add_note(f"input: {data[:400]!r}, {len(data)} bytes")
            raise
