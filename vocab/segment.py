"""What the finished tokenizer does to single words, many at a time, as flat arrays."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordPiece

from pipeline.rules.characters import code_points
from vocab.pretokenize import CUT, MAX_WORD_CHARACTERS, is_isolated

PREFIX = "##"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNK = "[UNK]"
_WORDS_A_TEXT = 1000  # tokenised as one text: ten times faster than a text for each

Ints = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


def wordpiece_model(ids: dict[str, int]) -> Any:
    return WordPiece(
        ids,
        unk_token=UNK,
        max_input_chars_per_word=MAX_WORD_CHARACTERS,
        continuing_subword_prefix=PREFIX,
    )


class Segments(NamedTuple):
    """The pieces of all words in a row."""

    ids: Ints
    word: Ints  # whose piece it is
    end: Ints  # where it ends, in the characters of all words in a row
    cut: Ints  # where parts of words end, in the same characters
    cut_word: Ints

    def crossing(self) -> tuple[Ints, Ints]:
        """Pieces (by position) that lie across a cut, and the cuts they lie across."""
        piece = np.searchsorted(self.end, self.cut, "left")
        crossed = np.flatnonzero(self.end[piece] != self.cut)
        return piece[crossed], crossed


class Segmenter:
    """Cuts normalised, pretokenised words into pieces by longest match."""

    def __init__(self, pieces: Sequence[str]) -> None:
        ids = {piece: index for index, piece in enumerate(pieces)}
        self._tokenizer: Any = Tokenizer(wordpiece_model(ids))
        self._tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self.unknown_id = ids[UNK]
        self._continues = np.array([is_continuing(piece) for piece in pieces])
        self._lengths = np.array([len(surface(piece)) for piece in pieces], np.int64)

    def ids_of(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        """The pieces of all words in a row, and where each word begins in them."""
        texts = [
            " ".join(words[start : start + _WORDS_A_TEXT])
            for start in range(0, len(words), _WORDS_A_TEXT)
        ]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids = np.concatenate([_NONE, *(np.array(encoding.ids, np.int64) for encoding in encodings)])
        starts = np.flatnonzero(~self._continues[ids])
        assert len(starts) == len(words)
        return ids, starts

    def segment(self, marked: Sequence[str]) -> Segments:
        """Pieces of words in which CUT marks where parts meet."""
        ids, starts = self.ids_of(_without_cuts(marked))
        word = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))
        lengths = self._lengths[ids]
        unknown = np.flatnonzero(ids == self.unknown_id)
        for at, row in zip(unknown.tolist(), word[unknown].tolist(), strict=True):
            lengths[at] = len(marked[row]) - marked[row].count(CUT)
        return Segments(ids, word, np.cumsum(lengths), *_cuts(marked))


def _without_cuts(marked: Sequence[str]) -> Sequence[str]:
    joined = "\n".join(marked)
    return joined.replace(CUT, "").split("\n") if CUT in joined else marked


def _cuts(marked: Sequence[str]) -> tuple[Ints, Ints]:
    joined = "\n".join(marked)
    if CUT not in joined:
        return _NONE, _NONE
    points = code_points(joined)
    newline, cut = points == ord("\n"), points == ord(CUT)
    characters = np.cumsum(~(newline | cut))
    return characters[cut], np.cumsum(newline)[cut]


def is_continuing(piece: str) -> bool:
    """Whether the piece continues a word; `##` alone is two marks."""
    return piece.startswith(PREFIX) and len(piece) > len(PREFIX)


def surface(piece: str) -> str:
    return piece[len(PREFIX) :] if is_continuing(piece) else piece


def isolated_pattern(pieces: Iterable[str]) -> str:
    """A regular expression of what is to be a word of its own, so that no word of the pieces'
    characters is [UNK].

    Characters in no piece, in runs; those that only begin pieces, behind the start of a word; and
    `MAX_WORD_CHARACTERS` others in a row, beyond which the model would not look. Words that have
    pieces match nowhere. Read alike by Oniguruma, Python and JavaScript.
    """
    initial, later = set[str](), set[str]()
    for piece in pieces:
        if is_continuing(piece):
            later.update(surface(piece))
        else:
            initial.update(piece[:1])
            later.update(piece[1:])
    if not initial | later:
        return ".+"
    only_initial = {char for char in initial - later if not is_isolated(char)}
    first, *further = _classes(initial | later)
    never = "".join(f"(?!{group})" for group in further) + f"[^{first[1:]}"
    patterns = [f"(?:{never})+"]
    patterns += [f"(?<=.){group}" for group in _classes(only_initial)]
    if others := "|".join(_classes((initial | later) - only_initial)):
        # the look-ahead spares short words most of the time
        times = f"{{{MAX_WORD_CHARACTERS}}}"
        patterns.append(f"(?=.{times})(?:{others}){times}")
    return "|".join(patterns)


_MAX_RANGES = 5_000  # in one class; Oniguruma takes no more than 10,000


def _classes(characters: Iterable[str]) -> list[str]:
    """Character classes that together match the characters, which they list as ranges.

    In order, so there is no "&&", which Oniguruma takes for "and".
    """
    points = np.array(sorted(map(ord, characters)), np.int64)
    is_start = np.diff(points, prepend=-2) > 1
    is_end = np.append(is_start[1:], True)[: len(points)]
    ends = zip(points[is_start].tolist(), points[is_end].tolist(), strict=True)
    escaped = {ord(mark): f"\\{mark}" for mark in "[]\\^-"}
    ranges = [
        "-".join(chr(point).translate(escaped) for point in sorted({first, last}))
        for first, last in ends
    ]
    return [
        f"[{''.join(ranges[start : start + _MAX_RANGES])}]"
        for start in range(0, len(ranges), _MAX_RANGES)
    ]
