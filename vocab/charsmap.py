"""A table of characters as `tokenizers` wants it: SentencePiece's precompiled charsmap.

One pass over the text maps every character in it, where a `Replace` for each target would be a
pass each. Format: the size of a trie in bytes (uint32), the trie, then the targets, each ended by
a zero byte. The trie is a double array as Darts-clone writes it (github.com/s-yata/darts-clone):
the child of node `n` by byte `c` is at `n ^ offset ^ c`, with `c` as its label; the value of a key,
here the place of its target, is the child by 0.
"""

from collections.abc import Iterator, Mapping

import numpy as np

_HAS_LEAF = 1 << 8
_IS_VALUE = 1 << 31
_BLOCK = 256


def charsmap(mapping: Mapping[str, str]) -> bytes:
    """The bytes for `normalizers.Precompiled`.

    Keys are characters or, to tell them apart, pairs of at most five bytes that are one grapheme;
    no key may begin another.
    """
    targets, values = b"", dict[bytes, int]()
    for key, target in sorted(mapping.items()):
        values[key.encode()] = len(targets)
        targets += target.encode() + b"\0"
    trie = _double_array(values)
    return len(trie).to_bytes(4, "little") + trie + targets


def _double_array(values: Mapping[bytes, int]) -> bytes:
    children: dict[bytes, list[int]] = {b"": []}
    for key in sorted(values):
        for depth, byte in enumerate(key):
            listed = children.setdefault(key[:depth], [])
            if byte not in listed:
                listed.append(byte)
        assert key not in children, "a key begins another"
        children[key] = [0]
    units = [0]
    taken = {0}
    bases = {0}
    places = {b"": 0}
    for prefix in sorted(children, key=lambda prefix: (len(prefix), prefix)):
        labels, place = children[prefix], places[prefix]
        base = _free_base(labels, taken, bases)
        bases.add(base)
        offset = place ^ base
        assert offset < 1 << 21
        units += [0] * ((base | (_BLOCK - 1)) + 1 - len(units))
        units[place] |= offset << 10 | (_HAS_LEAF if labels == [0] else 0)
        for label in labels:
            taken.add(base ^ label)
            if label == 0:
                units[base] = _IS_VALUE | values[prefix]
            else:
                places[prefix + bytes([label])] = base ^ label
                units[base ^ label] = label
    return np.array(units, "<u4").tobytes()


def _free_base(labels: list[int], taken: set[int], bases: set[int]) -> int:
    base = 1
    while base in bases or any(base ^ label in taken for label in labels):
        base += 1
    return base


def listed(spans: str) -> Iterator[str]:
    """The characters of `a-cx`: a, b, c, x."""
    rest = spans
    while rest:
        if rest[1:2] == "-":
            yield from map(chr, range(ord(rest[0]), ord(rest[2]) + 1))
            rest = rest[3:]
        else:
            yield rest[0]
            rest = rest[1:]
