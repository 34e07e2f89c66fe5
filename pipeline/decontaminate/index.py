"""Benchmark texts to an index of their letters, in a folder of arrays that workers map.

Items are the texts without doubles. East Asian items and others have an index each, for a gram of
as many letters says more there. An item of few letters stands in any text by chance; it is not
looked for, but counted.

Letters are letters and digits alone, in numpy.

Case, spacing, punctuation, width and decomposed letters (NFKC), HTML entities and blank letters are
put aside, and every letter knows where it stood. A character that NFKC or case folding makes
several of gives its first letter only, and of a letter repeated in a row two are left: laughter of
any length is one laugh. What matters is that corpus and benchmark texts are treated alike.
"""

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.stage.folder import write_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from pipeline.dedup.records import run_starts
from pipeline.rules.characters import code_points
from pipeline.rules.quality import hash_runs

Letters = NDArray[np.uint32]
Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]
BREAK = "\0"  # between texts read at once: a letter that no other text has
_BREAK_LETTER = 1
_WIDE = 0x2E80  # from here on a character is about a syllable or a word: kana, Han, Hangul
_BLANK_LETTERS = (0x115F, 0x1160, 0x3164, 0xFFA0)  # fillers of Hangul
# marks and vowels that join the letter before them
_JOINING = "".join(filter(unicodedata.combining, map(chr, range(0x300, 0x1E900))))
_TOGETHER = re.compile(
    r"&(?:amp;)*(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
    rf"|[^\0][\u1160-\u11ff\ud7b0-\ud7ff{_JOINING}]+|[\uff66-\uff9d][\uff9e\uff9f]"
)
_MIX = 0xD6E8FEB86659FD93
_STATISTICS = "statistics.json"  # of an index, what `read_statistics` reads

# By kind of item: letters of a gram, and of the shortest item that is looked for.
WIDTHS = {"wide": 8, "narrow": 12}
ALONE_LETTERS = {"wide": 12, "narrow": 24}
MIN_DISTINCT_LETTERS = 6  # of an item: "bestbestbestbestbestbest" is anybody's
MAX_ITEMS = 16  # grams of more items say little, and are left out
BITS_PER_GRAM = 16  # of the bitmap: 6 % of other grams pass it


def _kind_of(letters: Letters) -> str:
    """The kind of an item; empty for one of too few letters, or of too few distinct ones."""
    kind = "wide" if 2 * np.count_nonzero(letters >= _WIDE) >= len(letters) else "narrow"
    is_short = len(letters) < ALONE_LETTERS[kind]
    return "" if is_short or len(np.unique(letters)) < MIN_DISTINCT_LETTERS else kind


def write_index(texts_dir: Path, path: Path, are_named: bool = True) -> None:
    """Make the folder `path` from the `*.jsonl` of {task, split, text} in `texts_dir`.

    Raises `UserError` if the user has named them and none can be searched for.
    """
    # of each kind the numbers of the tasks by the letters of an item
    items: dict[str, dict[bytes, list[int]]] = {kind: {} for kind in WIDTHS}
    num_texts: Counter[str] = Counter()
    num_short: Counter[str] = Counter()
    for task, text in _texts(texts_dir):
        num_texts[task] += 1
        letters, _ = read_letters(text)
        kind, number = _kind_of(letters), [*num_texts].index(task)
        num_short[task] += not kind
        tasks = items[kind].setdefault(letters.tobytes(), []) if kind else [number]
        if number not in tasks:
            tasks.append(number)
    _check_lengths(num_texts, num_short, are_named)
    path.mkdir(parents=True, exist_ok=True)
    for kind, of_kind in items.items():
        for name, array in _arrays(of_kind, WIDTHS[kind]).items():
            np.save(path / f"{kind}-{name}.npy", array)
    rows = [{"task": t, "texts": n, "too_short": num_short[t]} for t, n in num_texts.items()]
    write_json(path / _STATISTICS, {"tasks": rows})


def _check_lengths(num_texts: Counter[str], num_short: Counter[str], are_named: bool) -> None:
    for task, num in num_texts.items():
        if num == num_short[task]:
            what = (
                f"clean.decontaminate_against: none of the {num:,} texts of {task} can be looked "
                f"for: each has fewer than {ALONE_LETTERS['wide']} East Asian or "
                f"{ALONE_LETTERS['narrow']} other letters"
            )
            if are_named and num_texts == num_short:
                raise UserError(f"{what}. Is it a file of whole texts?")
            warn(f"{what}; they stay in the corpus")


def read_statistics(path: Path) -> list[tuple[str, int, int]]:
    """(task, texts, texts too short to be looked for) of an index."""
    value = json.loads((path / _STATISTICS).read_text(encoding="utf-8"))
    return [(row["task"], row["texts"], row["too_short"]) for row in value["tasks"]]


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield row["task"], row["text"]


def _arrays(items: Mapping[bytes, list[int]], width: int) -> dict[str, NDArray[Any]]:
    """What `pipeline.decontaminate.match` reads of one kind of items, by their letters."""
    letters = np.frombuffer(b"".join(items), dtype=np.uint32)
    lengths = np.array([len(one) // letters.itemsize for one in items], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    keys, offsets, item_of_offset = _grams(letters, starts, width)
    distinct, counts = np.unique(keys, return_counts=True)
    task_starts = np.concatenate([[0], np.cumsum([*map(len, items.values())])])
    return {
        "letters": letters,
        "starts": starts,
        "keys": distinct,
        "first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "offsets": offsets.astype(np.int32),
        "items": item_of_offset.astype(np.int32),
        "num_grams": np.bincount(item_of_offset, minlength=len(items)).astype(np.int32),
        "tasks": np.array([task for tasks in items.values() for task in tasks], dtype=np.int32),
        "task_starts": task_starts.astype(np.int64),
        "bitmap": make_bitmap(distinct),
    }


def _grams(letters: Letters, starts: Ints, width: int) -> tuple[Keys, Ints, Ints]:
    """The grams that say something, their offsets and items, sorted by gram and offset.

    Each gram of an item counts once. A gram in more than `MAX_ITEMS` is kept only where an item has
    no rarer one, so every item can be found.
    """
    keys = gram_keys(letters, width)
    item_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    offsets = np.flatnonzero(item_of[: len(keys)] == item_of[len(item_of) - len(keys) :])
    order = np.lexsort((offsets, keys[offsets]))  # items are in the order of offsets
    offsets = offsets[order]
    keys, items = keys[offsets], item_of[offsets]
    is_first = run_starts(keys, items)
    keys, offsets, items = keys[is_first], offsets[is_first], items[is_first]
    _, row, counts = np.unique(keys, return_inverse=True, return_counts=True)
    num_items = counts[row]
    rarest = np.lexsort((offsets, num_items, items))
    is_kept = num_items <= MAX_ITEMS
    is_kept[rarest[np.unique(items[rarest], return_index=True)[1]]] = True
    return keys[is_kept], offsets[is_kept], items[is_kept]


def make_bitmap(keys: Keys) -> NDArray[np.uint8]:
    """A bit set for the leading bits of each key."""
    num_bits = max(10, (max(1, len(keys)) * BITS_PER_GRAM - 1).bit_length())
    bits = np.zeros(2**num_bits, dtype=np.uint8)
    bits[keys >> np.uint64(64 - num_bits)] = 1
    return np.packbits(bits, bitorder="little")


def in_bitmap(bitmap: NDArray[np.uint8], keys: Keys) -> NDArray[np.int64]:
    """Positions of the keys whose bit is set."""
    num_bits = len(bitmap).bit_length() + 2
    offsets = keys >> np.uint64(64 - num_bits)
    bits = bitmap[offsets >> np.uint64(3)] >> (offsets & np.uint64(7)).astype(np.uint8)
    return np.flatnonzero(bits & 1)


def read_letters(text: str) -> tuple[Letters, Ints]:
    """The letters of a text, folded, and the offset of each in it."""
    composed, origins = _compose(text)
    folded = _folded_letters()[code_points(composed)]
    offsets = np.flatnonzero(folded)
    letters = folded[offsets]
    if origins is not None:
        offsets = origins[offsets]
    is_kept = np.ones(len(letters), dtype=bool)
    is_kept[2:] = (letters[2:] != letters[1:-1]) | (letters[2:] != letters[:-2])
    return letters[is_kept], offsets[is_kept]


def _compose(text: str) -> tuple[str, Ints | None]:
    """The text with its entities and decomposed letters as one character each, and where each
    character stood; None: where it stands."""
    is_plain = "&" not in text and "\uff9e" not in text and "\uff9f" not in text
    if is_plain and unicodedata.is_normalized("NFC", text):
        return text, None
    pieces: list[str] = []
    origins: list[Ints] = []
    end = 0
    for match in _TOGETHER.finditer(text):
        inner = match[0]
        if inner.startswith("&"):
            inner = html.unescape(inner.replace("&amp;", "&"))
        pieces += [text[end : match.start()], unicodedata.normalize("NFKC", inner)]
        origins.append(np.arange(end, match.start()))
        origins.append(np.full(len(pieces[-1]), match.start()))
        end = match.end()
    return "".join([*pieces, text[end:]]), np.concatenate([*origins, np.arange(end, len(text))])


def gram_keys(letters: Letters, width: int) -> Keys:
    """A hash of each `width` letters in a row, whose first bits are mixed too."""
    keys = hash_runs(letters.astype(np.uint64), width)
    keys = keys ^ (keys >> np.uint64(29))
    keys *= np.uint64(_MIX)
    return keys


@cache
def _folded_letters() -> Letters:
    """By code point: the folded letter or digit, 0 for all else."""
    table = np.zeros(0x110000, dtype=np.uint32)
    for code in range(1, 0x110000):
        if chr(code).isalnum():
            folded = unicodedata.normalize("NFKC", chr(code)).casefold()
            table[code] = next((ord(c) for c in folded if c.isalnum()), 0)
    table[[*_BLANK_LETTERS]] = 0
    table[ord(BREAK)] = _BREAK_LETTER
    return table
