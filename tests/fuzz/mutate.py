"""Inputs made from sound ones: bytes changed anyhow, and JSON changed as JSON."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MAX_BYTES = 20_000  # of an input that goes on into others
_DEEP = 3_000  # levels: more than Python's stack takes
_LONG = 70_000  # characters of a long line, longer than what a header or title may have
_SEEDED = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

TOKENS: tuple[bytes, ...] = (
    *(
        b"' { } [ ] , : = # ## - null true NaN -Infinity 1e999 -1 0 1e-400 ../../x "
        b"/etc/passwd %s%n ${x} <script> ]]> &amp; &#0; <!--"
    ).split(),
    b"",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"\r\n",
    b"\r",
    b"\n",
    b"\n\n",
    b"\t",
    b"\t\t",
    b"\x0b",
    b"\x0c",
    b"\x1a",
    b"\x1c",
    b"\x85",
    "\u0085\u2028\u2029".encode(),
    "\u00a0\u3000\u200b".encode(),
    "\u202e\u2066".encode(),
    "e\u0301\u1100\u1161\u11a8".encode(),
    "가각힣ㄱ".encode(),
    "\U0010ffff".encode(),
    "İıſẞ".encode(),
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"9" * 30,
    b"C:\\",
)
NUMBERS: tuple[bytes, ...] = (
    *(
        b"-1 0 1 2 255 65536 2147483648 9223372036854775808 18446744073709551616 "
        b"-9223372036854775809 1e308 1e999 NaN 0.1 00"
    ).split(),
    b"9" * 400,
    b"1" * 5000,
    b"",
    "٣".encode(),
    "²".encode(),
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    -(2**64),
    10**400,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "0",
    "\0",
    "\ud800",
    "\ufeff",
    "a\nb",
    "a\tb",
    "../../x",
    "/etc/passwd",
    "nan",
    "가나다",
    " ",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    {"": 0},
    ["a", "b"],
    [1, 2.5, "x"],
)


def mutated(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """One to four changes of `data`; `other` is what pieces are taken from, `words` what the
    format knows. Once in 300 one of them makes the input deep or long."""
    if rng.random() < 1 / 300:
        return _extreme(data, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        change = rng.choice(_CHANGES)
        data = change(data, other, rng, words)
    return data


def mutated_json(text: bytes, rng: random.Random) -> bytes:
    """One to three values of a JSON text exchanged, taken out, doubled or put inside others;
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


def _flip(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _byte(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    value = rng.choice((0, 1, 9, 10, 13, 0x20, 0x7F, 0x80, 0xC2, 0xFE, 0xFF, rng.randrange(256)))
    return data[:place] + bytes((value,)) + data[place + 1 :]


def _cut(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    start, stop = _span(data, rng)
    return rng.choice((data[:start], data[stop:], data[:start] + data[stop:]))


def _double(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    start, stop = _span(data, rng)
    times = rng.choice((2, 2, 3, 40))
    return (data[:start] + data[start:stop] * times + data[stop:])[: 2 * MAX_BYTES]


def _splice(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    start, stop = _span(data, rng)
    first, last = _span(other, rng)
    return data[:start] + other[first:last] + data[rng.choice((start, stop)) :]


def _insert(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    token = rng.choice(words) if words and rng.random() < 0.5 else rng.choice(TOKENS)
    start, stop = _span(data, rng)
    return data[:start] + token + data[rng.choice((start, start, stop)) :]


def _number(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    found = list(_SEEDED.finditer(data, 0, MAX_BYTES))
    if not found:
        return _insert(data, other, rng, words)
    number = rng.choice(found)
    return data[: number.start()] + rng.choice(NUMBERS) + data[number.end() :]


def _line(data: bytes, other: bytes, rng: random.Random, words: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        lines[a], lines[b] = lines[b], lines[a]
    elif way == 1:
        lines.insert(a, lines[b])
    elif way == 2:
        del lines[a]
    elif way == 3:
        lines[a] += b"\r"
    else:
        lines[a] = rng.choice(words or TOKENS)
    return b"\n".join(lines)[: 2 * MAX_BYTES]


Change = Callable[[bytes, bytes, random.Random, Sequence[bytes]], bytes]
_CHANGES: tuple[Change, ...] = (
    _flip,
    _byte,
    _cut,
    _double,
    _splice,
    _insert,
    _insert,
    _number,
    _line,
)


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    length = rng.choice((0, 1, 2, 4, 16, 64, len(data)))
    return start, min(len(data), start + rng.randint(0, length))


def _extreme(data: bytes, rng: random.Random) -> bytes:
    start, stop = _span(data, rng)
    opening, closing = rng.choice(
        (
            (b"[", b"]"),
            (b'{"a":', b"}"),
            (b"<a>", b"</a>"),
            (b"{{", b"}}"),
            (b"[[", b"]]"),
            (b"(", b")"),
            (b"a.", b""),
            (b"x", b""),
            ("가".encode(), b""),
            (b"\t", b""),
            (b"\n", b""),
            (b"<ref>", b""),
            (b"{|\n", b""),
            (b" ", b""),
            (b"\\", b""),
            (b"\xff", b""),
            (b"'", b""),
        )
    )
    times = rng.choice((_DEEP, _DEEP, _LONG // len(opening)))
    inner = rng.choice((data[start:stop], b"1", b""))
    return data[:start] + opening * times + inner + closing * times + data[stop:]


def _change_value(holder: list[Any], rng: random.Random) -> None:
    places = list(_places(holder))
    place, key = rng.choice(places)
    way = rng.randrange(6)
    value = place[key]
    if way <= 1:
        place[key] = _copied(rng.choice(VALUES))
    elif way == 2 and place is not holder:
        del place[key]
    elif way == 3:
        donor, from_key = rng.choice(places)
        place[key] = _copied(donor[from_key])
    elif way == 4:
        place[key] = [value] if rng.random() < 0.5 else {"a": value}
    elif isinstance(value, list) and value:
        value.insert(rng.randint(0, len(value)), _copied(rng.choice(value)))
    elif isinstance(value, dict) and value:
        name = rng.choice(list(value))
        value[rng.choice((name + " ", name.upper(), "", "../x", "\ud800"))] = value.pop(name)
    elif isinstance(value, str) and value:
        cut = rng.randint(0, len(value))
        token = rng.choice(("", "\0", "\ud800", "\t", "\n", "-", " ", "가", "\u200b"))
        place[key] = value[:cut] + token + value[cut:]
    else:
        place[key] = _copied(rng.choice(VALUES))


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, list | dict) else value


def _places(holder: list[Any]) -> list[tuple[Any, Any]]:
    """(list or mapping, key) of every value inside, `holder[0]` first."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [holder]
    while waiting:
        place = waiting.pop()
        keys = list(place) if isinstance(place, dict) else range(len(place))
        for key in keys:
            found.append((place, key))
            if isinstance(place[key], list | dict):
                waiting.append(place[key])
    return found
