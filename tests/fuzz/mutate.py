"""Inputs made from sound ones: bytes changed anyhow, and JSON changed as JSON."""

import json
import random
from collections.abc import Sequence
from typing import Any

MAX_BYTES = 20_000  # of an input that goes on into others
_DEEP = 3_000  # levels: more than Python's stack takes
_TOKENS: tuple[bytes, ...] = (
    *b"{ } [ ] , : = # null true NaN -1 0 1e999 ../../x /etc/passwd %s%n <script> ]]>".split(),
    *(b"", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"),
    *(b"\r\n", b"\r", b"\n\n", b"\t", b"\x0c", b"\x1a", b'"', b"\\", b"\\ud800", b"9" * 5000),
    *(text.encode() for text in ("\u0085\u2028", "\u3000", "\u202e", "e\u0301", "각ㄱ", "İß")),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**400, 0.5, float("nan"), float("inf")),
    *("", "0", "\0", "\ud800", "a\nb", "../../x", "가나다", [], {}, [None], {"": 0}, [1, "x"]),
)


def mutated(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """One to four changes of `data`; `other` is what pieces are taken from, `words` what the
    format knows. Once in 300 the input gets deep."""
    if rng.random() < 1 / 300:
        opening = rng.choice((b"[", b'{"a":', b"<a>", b"{{", b"(", b"a.", b"\t", "가".encode()))
        return data[: rng.randint(0, len(data))] + opening * _DEEP
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = _changed(data, other, rng, words)
    return data[: 2 * MAX_BYTES]


def mutated_json(text: bytes, rng: random.Random) -> bytes:
    """One to three values of a JSON text exchanged, removed, doubled or put inside others;
    `ValueError` if it is none."""
    holder: list[Any] = [json.loads(text)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change_value(holder, rng)
    return json.dumps(holder[0], ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def mutated_line(data: bytes, rng: random.Random) -> bytes:
    """As `mutated_json`, of one line of JSON lines."""
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    lines[place] = mutated_json(lines[place], rng)
    return b"\n".join(lines)


def _changed(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    start, stop = _span(data, rng)
    first, last = _span(other, rng)
    way = rng.randrange(6)
    if way == 0:  # bits
        bits = bytes(b ^ (1 << rng.randrange(8)) for b in data[start : start + 2])
        return data[:start] + bits + data[start + len(bits) :]
    if way == 1:
        return data[:start] + data[stop:]
    if way == 2:
        return data[:start] + data[start:stop] * rng.choice((2, 3, 40)) + data[stop:]
    if way == 3:
        return data[:start] + other[first:last] + data[stop:]
    if way == 4:
        lines = data.split(b"\n")
        lines[rng.randrange(len(lines))] = rng.choice((*lines, *words, *_TOKENS))
        return b"\n".join(lines)
    token = rng.choice(words) if words and rng.random() < 0.5 else rng.choice(_TOKENS)
    return data[:start] + token + data[rng.choice((start, stop)) :]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, start + rng.choice((0, 1, 4, 64, len(data)))


def _change_value(holder: list[Any], rng: random.Random) -> None:
    places = [
        (place, key)
        for place in _containers(holder)
        for key in (list(place) if isinstance(place, dict) else range(len(place)))
    ]
    (place, key), (donor, other_key) = rng.choice(places), rng.choice(places)
    way, value = rng.randrange(5), place[key]
    if way == 0 and place is not holder:
        del place[key]
    elif way == 1:
        place[key] = json.loads(json.dumps(donor[other_key]))
    elif way == 2:
        place[key] = [value] if rng.random() < 0.5 else {"a": value}
    elif way == 3 and isinstance(value, dict) and value:
        name = rng.choice(list(value))
        value[rng.choice((name.upper(), "", "../x", "\ud800"))] = value.pop(name)
    elif way == 3 and isinstance(value, str):
        cut = rng.randint(0, len(value))
        place[key] = value[:cut] + rng.choice(("", "\0", "\ud800", "\t", "-", "가")) + value[cut:]
    else:
        place[key] = json.loads(json.dumps(rng.choice(_VALUES)))


def _containers(value: Any) -> list[Any]:
    """All lists and mappings in a value, itself first."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict | list) else []
    return own + [place for each in inner for place in _containers(each)]
