"""Which pieces begin a word or a morpheme, told by the piece alone.

Shards hold ids, neither spaces nor morphemes, so whoever masks whole units has only the pieces to
find them by. A word begins with every piece without `##`: it is what stands between whitespace and
punctuation, and a mark, as every Han ideograph, is a word by itself. Of Korean that is the eojeol
but for those with a mark inside, of which each part is a word.

A morpheme begins with a word, and with every `##` piece that in the training text stands behind a
border of morphemes more often than not. Borders are those that `vocab.morpheme_cuts` names.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from electrify.stage.folder import write_json
from electrify.stage.plan import MASK_UNITS_FILE
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from vocab.counts.words import Batches
from vocab.report import pieces_of
from vocab.tokenizer import load_tokenizer
from vocab.wordpiece.segment import Segmenter, is_continuing

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def write_mask_units(pieces: list[str], batches: Batches, folder: Path) -> dict[str, Any] | None:
    """Write MASK_UNITS_FILE into a vocabulary folder; figures of it, None where no word was cut.

    One pass over the words, in memory of a few numbers a piece.
    """
    found = count_borders(pieces, batches)
    if not found.num_borders:
        return None
    starts = found.behind > found.inside
    write_json(
        folder / MASK_UNITS_FILE,
        {"num_pieces": len(pieces), "morpheme_starts": np.flatnonzero(starts).tolist()},
    )
    return found.figures(starts)


class Borders:
    """How often each `##` piece stands behind a border of morphemes, and how often inside one."""

    def __init__(self, num_pieces: int) -> None:
        self.behind: Counts = np.zeros(num_pieces, np.int64)
        self.inside: Counts = np.zeros(num_pieces, np.int64)
        self.num_borders = 0  # those that pieces lie across included

    def figures(self, starts: Flags) -> dict[str, Any]:
        """How well the pieces tell the borders, by counts of the text.

        Precision: of the pieces taken to begin a morpheme, those that do. Recall: of the borders,
        those where such a piece begins; the most that any such table could reach is the share of
        borders between two pieces.
        """
        hits = int(self.behind[starts].sum())
        taken = hits + int(self.inside[starts].sum())
        borders = self.num_borders
        return {
            "num_pieces": int(starts.sum()),
            "num_borders": borders,
            "precision": round(hits / taken, 6) if taken else 0.0,
            "recall": round(hits / borders, 6),
            "recall_ceiling": round(int(self.behind.sum()) / borders, 6),
        }


def count_borders(pieces: list[str], batches: Batches) -> Borders:
    """Count pieces of all words by whether they stand behind a border; marks in the words say."""
    borders, segmenter = Borders(len(pieces)), Segmenter(pieces)
    continues = np.array([is_continuing(piece) for piece in pieces])
    for batch in batches():
        found = segmenter.segment(batch.words)
        counts = batch.counts[found.word]
        begin = np.append(0, found.end[:-1])
        behind = np.isin(begin, found.cut, kind="sort") & continues[found.ids]
        inside = ~behind & continues[found.ids]
        # counts are sums of integers: `bincount` would add them as doubles
        np.add.at(borders.behind, found.ids[behind], counts[behind])
        np.add.at(borders.inside, found.ids[inside], counts[inside])
        borders.num_borders += int(batch.counts[found.cut_word].sum())
    return borders


def read_unit_starts(vocab_folder: Path, unit: Literal["word", "morpheme"]) -> Flags:
    """Of each piece of a vocabulary folder, whether it begins a unit: (V,) bool.

    Raises:
        ValueError: there is no tokenizer; or, for morphemes, the vocabulary was trained without
            them or its file of them is damaged.
    """
    pieces = pieces_of(load_tokenizer(vocab_folder))
    starts = np.array([not is_continuing(piece) for piece in pieces])
    if unit == "morpheme":
        starts[_morpheme_starts(vocab_folder, len(pieces))] = True
    return starts


def _morpheme_starts(folder: Path, num_pieces: int) -> Counts:
    path = folder / MASK_UNITS_FILE
    if not path.is_file():
        raise UserError(
            f"pretrain.mask_unit = 'morpheme': no {path}, the vocabulary was trained without "
            "morphemes; set vocab.pretokenizer to kiwi and run again: electrify train-vocab CONFIG "
            "--overwrite, or set pretrain.mask_unit to word"
        )
    try:
        found = read_json(path)
        starts = np.array(found["morpheme_starts"], np.int64)
        fits = found["num_pieces"] == num_pieces and starts.ndim == 1
        if not fits or starts.min(initial=0) < 0 or starts.max(initial=0) >= num_pieces:
            raise UserError(f"not of {num_pieces} pieces")
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise UserError(
            f"{path} is damaged ({error}); make it again: electrify train-vocab CONFIG --overwrite"
        ) from None
    return starts
