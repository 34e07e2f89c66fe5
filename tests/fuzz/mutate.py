"""Readers with sound inputs, and inputs made from these: bytes changed anyhow."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 40_000
_DEEP = 3_000  # levels: more than Python's stack takes
_TOKENS: tuple[bytes, ...] = (
    *b"{ } [ ] [1] {} , : = # null true NaN -1 0.5 1e999 ../../x /etc/passwd %s%n <b> ]]>".split(),
    *(b"", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"),
    *(b"\r\n", b"\r", b"\n\n", b"\t", b"\x0c", b"\x1a", b'"', b"\\", b"\\ud800", b"9" * 5000),
    *(text.encode() for text in ("\u0085\u2028", "\u3000", "\u202e", "e\u0301", "각ㄱ", "İß")),
)


@dataclass(frozen=True)
class Reader:
    """One reader with all it needs beside the input.

    `read` raises nothing but `errors`, whose message holds `named`. All else is a fault: so is an
    `AssertionError`, by which `read` says that a result is wrong.
    """

    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]
    words: tuple[bytes, ...] = ()  # that the format knows
    named: str = ""
    errors: tuple[type[Exception], ...] = (ValueError,)


Make = Callable[[Path], Reader]  # with a folder of its own


def mutated(reader: Reader, rng: random.Random) -> bytes:
    """One to four changes of a sound input. Once in 300 the input gets deep."""
    data = rng.choice(reader.seeds)
    if rng.random() < 1 / 300:
        opening = rng.choice((b"[", b'{"a":', b"<a>", b"{{", b"(", b"a.", b"\t", "가".encode()))
        return data[: rng.randint(0, len(data))] + opening * _DEEP
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = _changed(data, rng.choice(reader.seeds), rng, reader.words)
    return data[:_MAX_BYTES]


def _changed(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    start, stop = _span(data, rng)
    first, last = _span(other, rng)
    token = rng.choice(words) if words and rng.random() < 0.5 else rng.choice(_TOKENS)
    between = rng.choice(
        (
            bytes(b ^ (1 << rng.randrange(8)) for b in data[start:stop][:2]) + data[start:stop][2:],
            b"",
            data[start:stop] * rng.choice((2, 3, 40)),
            other[first:last],
            token,
            data[start:stop] + token,
        )
    )
    return data[:start] + between + data[stop:]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, start + rng.choice((0, 1, 4, 64, len(data)))
