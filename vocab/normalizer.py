"""The normaliser that tokenizer.json freezes: text to the form that documents are cleaned to.

It is BERT's cleaning, NFC, and what `pipeline.rules.hangul` does, made of steps that `tokenizers`
has.
A `Replace` has one target; one for each of the 200 characters that map would cost more than all of
tokenisation. So one `Replace` puts a break before each character that maps only where it stands,
another a joiner behind it, and one table takes the characters so marked and those that always map.
Break and joiner have been removed from the text itself. That the first step is a class, not BERT's
own removal of control characters, saves half of what the others cost: tokenisation takes 8 to 15 %
more time than with BERT's cleaning and NFC alone.

Where it differs from BERT's cleaning followed by `pipeline.rules.hangul.normalise_hangul`:
- the fourth vowel or tail of one Old Korean syllable, and jamo behind it, are taken for lone ones;
- full-width marks behind Old Korean become narrow, and those behind MAX_RUN others stay;
- an accent on a full-width or half-width letter is lost, and a mark or jamo with one stays;
- the combining grapheme joiner, which is invisible, is removed;
- white space stays as it is: the pre-tokenizer cuts at all of it.

The table is SentencePiece's precompiled charsmap: one pass over the text maps every character in
it, where a `Replace` for each target would be a pass each. Format: the size of a trie in bytes
(uint32), the trie, then the targets, each ended by a zero byte. The trie is a double array as
Darts-clone writes it (github.com/s-yata/darts-clone): the child of node `n` by byte `c` is at
`n ^ offset ^ c`, with `c` as its label; the value of a key, here the place of its target, is the
child by 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from tokenizers import Regex, normalizers

from pipeline.rules.hangul import normalise_hangul

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


MAX_RUN = 16  # full-width marks in a row behind Hangul
_BREAK = "\u00ad"  # a grapheme by itself, whatever stands beside it
_JOINER = "\u034f"  # one grapheme with what it follows, as the table needs it
# What BERT's clean_text removes: control, format and private-use characters but tab and line ends
# (so U+0085 and U+000B, too), and U+FFFD.
_REMOVED = (
    (0x0, 0x8),
    (0xB, 0xC),
    (0xE, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0xE000, 0xF8FF),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xFFFD, 0xFFFD),
    (0x110BD, 0x110BD),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0001, 0xE0001),
    (0xE0020, 0xE007F),
    (0xF0000, 0xFFFFD),
    (0x100000, 0x10FFFD),
)
_FILLERS_AND_JOINER = ((0x115F, 0x1160), (0x34F, 0x34F))
# Jamo: modern ones, and all that can lead, follow or end a syllable
_MODERN = ("\u1100-\u1112", "\u1161-\u1175", "\u11a8-\u11c2")
_LEAD, _VOWEL, _TAIL = (
    "[\u1100-\u115e\ua960-\ua97c]",
    "[\u1161-\u11a7\ud7b0-\ud7c6]",
    "[\u11a8-\u11ff\ud7cb-\ud7fb]",
)
_MARKS = "！-／：-＠［-｀｛-～"
_DOTS = "\u30fb\uff65\u2027\u2219\u22c5\u2022"
_ARAEA = "\u318d"
_WIDE = "０-９Ａ-Ｚａ-ｚ"
_HALF = "\uffa1-\uffbe\uffc2-\uffc7\uffca-\uffcf\uffd2-\uffd7\uffda-\uffdc"
_HALF_BLANKS = "\u3164\uffa0"
_LETTERS = f"ㄱ-\u3163\u3165-ㆎ{_HALF}"  # compatibility jamo, now or when mapped
_HANGUL = f"가-힣{_LETTERS}{''.join(_MODERN)}"

# Punctuation that is normalised by its neighbours: a text is not to be cut there.
LOOK_AROUND = frozenset((*listed(_MARKS), *_DOTS))


@lru_cache(maxsize=2)
def normalizer(lowercase: bool) -> Any:
    """BERT's cleaning, every CJK ideograph between spaces, lower case if asked, NFC, Hangul.

    Accents stay: BERT's accent stripping decomposes to NFD, which tears Hangul into jamo. NFC comes
    after what is removed, because that can bring a letter and its accent together.
    """
    bert = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    return normalizers.Sequence(
        [
            normalizers.Replace(Regex(f"[{_removed()}]+"), ""),
            bert,
            normalizers.NFC(),
            # inserting before the first character, `tokenizers` would lose track of offsets
            normalizers.Prepend(_BREAK),
            normalizers.Replace(Regex(_mapped_here()), _BREAK),
            normalizers.Replace(Regex(f"{_BREAK}(?<!\\A{_BREAK}).\\K"), _JOINER),
            normalizers.Precompiled(charsmap(_table())),
            normalizers.Replace(_BREAK, ""),
        ]
    )


def _removed() -> str:
    return "".join(
        f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in (*_REMOVED, *_FILLERS_AND_JOINER)
    )


def _mapped_here() -> str:
    """The empty string before each character that maps where it stands."""
    cases = [*_lone_jamo(), _mark_behind_hangul(), _dot(), _araea_as_dot()]
    return f"(?=[{''.join(_MODERN)}{_MARKS}{_DOTS}{_ARAEA}])(?:{'|'.join(cases)})"


def _lone_jamo() -> Iterable[str]:
    """Modern jamo outside of Old Korean syllables (lead+ vowel+ tail*), which NFC has left."""
    lead, vowel, tail = _MODERN
    yield f"(?=[{lead}])(?!{_LEAD}+{_VOWEL})"
    before_vowel = [_LEAD, _LEAD + _VOWEL, _LEAD + 2 * _VOWEL]
    yield f"(?=[{vowel}])" + _not_behind(before_vowel)
    before_tail = [_LEAD + v * _VOWEL + t * _TAIL for v, t in product((1, 2, 3), (0, 1, 2))]
    yield f"(?=[{tail}])" + _not_behind(before_tail)


def _mark_behind_hangul() -> str:
    """Full-width punctuation behind Hangul, or behind such punctuation."""
    return f"(?=[{_MARKS}])(?<=[{_HANGUL}{_MARKS}]){_behind_run(0)}"


def _behind_run(shortest: int) -> str:
    """Behind a run of full-width marks that stands behind Hangul."""
    runs = (f"(?<=[{_HANGUL}][{_MARKS}]{{{n}}})" for n in range(shortest, MAX_RUN))
    return f"(?:{'|'.join(runs)})"  # look-behind takes one length in one alternative


def _dot() -> str:
    before = f"(?:(?<=[가-힣0-9A-Za-z{_WIDE})」’”])|(?<=）){_behind_run(1)})"
    other = f"(?<=[가-힣])(?=.[0-9A-Za-z{_WIDE}(「‘“])"
    return f"(?=[{_DOTS}])(?:{before}(?=.[가-힣])|{other})"


def _araea_as_dot() -> str:
    """U+318D but between jamo, where it is a vowel."""
    letters = f"[{_LETTERS}\u1100-\u11ff]"
    return f"(?={_ARAEA})(?<!{letters})(?!.{letters})"


def _not_behind(each: Iterable[str]) -> str:
    return "".join(f"(?<!{one})" for one in each)


def _table() -> dict[str, str]:
    """What each character becomes: asked of `pipeline.rules.hangul`, so that the two agree."""
    always = {c: normalise_hangul(c) for c in listed(_WIDE + _HALF + _HALF_BLANKS)}
    here = {c: normalise_hangul(c) for c in listed("".join(_MODERN) + _ARAEA)}
    here |= {c: normalise_hangul(f"가{c}")[1:] for c in listed(_MARKS)}
    here |= {c: normalise_hangul(f"가{c}가")[1:-1] for c in _DOTS}
    return always | {c + _JOINER: target for c, target in here.items()}
