"""Sentences of KLUE-DP, and which word pieces stand for a word.

KLUE-baseline klue_baseline/data/klue_dp.py. A word is what stands between blanks, punctuation
included. The parser reads the first and the last piece of a word and the last of its POS tags.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

POS_TAGS = (
    "NNG",
    "NNP",
    "NNB",
    "NP",
    "NR",
    "VV",
    "VA",
    "VX",
    "VCP",
    "VCN",
    "MMA",
    "MMD",
    "MMN",
    "MAG",
    "MAJ",
    "JC",
    "IC",
    "JKS",
    "JKC",
    "JKG",
    "JKO",
    "JKB",
    "JKV",
    "JKQ",
    "JX",
    "EP",
    "EF",
    "EC",
    "ETN",
    "ETM",
    "XPN",
    "XSN",
    "XSV",
    "XSA",
    "XR",
    "SF",
    "SP",
    "SS",
    "SE",
    "SO",
    "SL",
    "SH",
    "SW",
    "SN",
    "NA",
)
NO_POS = len(POS_TAGS)  # of the root and of padding
_MAX_DIGITS = 9  # of the number of a word
NO_WORD = -1  # head and label where there is no word, or none that could be predicted

Positions = tuple[int, int]  # of the first and the last piece of a word


@dataclass(frozen=True)
class Word:
    """One row of a file; head and label are None in a test file without them."""

    form: str
    pos: str  # the last tag of the word
    head: int | None  # 0: the root; words count from 1
    label: str | None


def read_sentences(path: Path, text: str) -> Iterator[tuple[int, str, list[Word]]]:
    """(line number, id, words) of every sentence of a file.

    A row is INDEX WORD_FORM LEMMA POS HEAD DEPREL between tabs, the last two absent in a test file.
    A "## id<tab>sentence" line stands before each sentence and a blank line behind it; other "##"
    lines tell of the file. Raises `ValueError` with file and line for anything else.
    """
    identity, words, start = "", list[Word](), 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        cells = line.strip().split("\t")
        if line.startswith("##"):
            identity = cells[0].removeprefix("##").strip() if len(cells) == 2 else identity
        elif line.strip():
            start = start or number
            words.append(_word(path, number, cells, len(words) + 1))
        elif words:
            if not identity:
                raise ValueError(f"{path} line {start}: no '## id<tab>sentence' line before it")
            for position, word in enumerate(words):
                if word.head is not None and not 0 <= word.head <= len(words):
                    raise ValueError(
                        f"{path} line {start + position}: head {word.head} of sentence {identity}, "
                        f"which has {len(words)} words"
                    )
            yield start, identity, words
            identity, words, start = "", [], 0


def _word(path: Path, number: int, cells: Sequence[str], index: int) -> Word:
    if len(cells) not in (4, 6) or cells[0] != str(index) or not cells[1]:
        raise ValueError(
            f"{path} line {number}: {cells} is not word {index} of a sentence (INDEX WORD_FORM "
            "LEMMA POS HEAD DEPREL)"
        )
    pos = cells[3].split("+")[-1]
    if pos not in POS_TAGS:
        raise ValueError(
            f"{path} line {number}: unknown POS tag {pos!r} (allowed: {', '.join(POS_TAGS)})"
        )
    if len(cells) == 4:
        return Word(cells[1], pos, None, None)
    if not cells[4].isdecimal() or len(cells[4]) > _MAX_DIGITS:
        raise ValueError(f"{path} line {number}: HEAD is {cells[4]!r}, not the number of a word")
    return Word(cells[1], pos, int(cells[4]), cells[5])


def word_positions(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[Positions]:
    """First and last piece of every word, from the characters of the pieces of the sentence.

    The sentence is the words with one blank between. A piece is of the word its last character
    is of (byte-level pieces begin with the blank before a word). A word of which the tokenizer
    leaves nothing stands at (0, 0), where the root is read.
    """
    ends = np.cumsum([len(word) + 1 for word in words]) - 1  # behind the last character of each
    positions = [(0, 0)] * len(words)
    for piece, (first, last) in enumerate(spans):
        if last > first:  # not of [CLS] and [SEP]
            word = int(np.searchsorted(ends, last, side="left"))
            start, _ = positions[word]
            positions[word] = (start or piece, piece)
    return positions


def num_within(positions: Sequence[Positions], max_length: int) -> int:
    """Leading words of which the last piece stands before [SEP] in a row of `max_length` pieces."""
    return next(
        (n for n, (_, last) in enumerate(positions) if last > max_length - 2), len(positions)
    )


def sentence_words(row: Mapping[str, Any], place: str) -> list[Word]:
    """The words of a row of the hub, a list a column; `ValueError` names `place`."""
    names = ("word_form", "pos", "head", "deprel")
    if missing := [name for name in names if not isinstance(row.get(name), Sequence)]:
        raise ValueError(f"{place}: no list {missing[0]!r} (fields: {', '.join(row)})")
    columns = zip(*(row[name] for name in names), strict=True)
    return [
        _word(Path(place), number, [str(number), form, "", pos, str(head), label], number)
        for number, (form, pos, head, label) in enumerate(columns, start=1)
    ]
