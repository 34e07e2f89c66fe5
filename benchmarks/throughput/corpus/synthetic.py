"""A corpus of any size from a seed: words by Zipf's law, planted copies that are known.

A document is made from the seed and its number alone, so no other is held in memory, and a corpus
of more documents begins with those of fewer.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.throughput.corpus.corpora import FILE_BYTES, Corpus, Pair, Prepared, jaccard

EXACT, NEAR = 0.1, 0.2  # shares of the documents that are copies of an earlier one
MOST_CHANGED = 0.08  # of the words of a near copy
NOTICES = 0.3  # share of the originals that begin with one of a few lines
_NUM_NOTICES = 40
_VOCABULARY = 50_000
_MEAN_WORDS, _SPREAD = 4.5, 0.7  # of the logarithm: 115 words in the mean, about 1 kB
_LINE_WORDS = 20
_MOST_PAIRS = 5_000  # whose similarity is computed


@dataclass(frozen=True)
class Synthetic:
    """The documents 0, 1, 2... of a seed."""

    seed: int

    def text(self, number: int) -> str:
        original, changed = self.copy_of(number)
        if changed is None:
            return self._original(number)
        text = self._original(original)
        if not changed:
            return text
        rng = np.random.default_rng((self.seed, number, 1))
        pieces = text.replace("\n", " \n ").split(" ")
        places = [place for place, piece in enumerate(pieces) if piece != "\n"]
        for place in rng.choice(places, 1 + int(changed * len(places)), replace=False).tolist():
            pieces[place] = _words()[rng.integers(_VOCABULARY)]
        return " ".join(pieces).replace(" \n ", "\n")

    def copy_of(self, number: int) -> tuple[int, float | None]:
        """(original, share of its words that were changed); (number, None) of an original."""
        rng = np.random.default_rng((self.seed, number))
        kind = rng.random()
        if number == 0 or kind >= EXACT + NEAR:
            return number, None
        original, changed = int(rng.integers(number)), 0.0 if kind < EXACT else rng.random()
        while (earlier := self.copy_of(original)[0]) != original:
            original = earlier
        return original, changed * MOST_CHANGED

    def _original(self, number: int) -> str:
        rng = np.random.default_rng((self.seed, number, 0))
        length = 5 + int(rng.lognormal(_MEAN_WORDS, _SPREAD))
        drawn = np.searchsorted(_shares()[:-1], rng.random(length)).tolist()
        words = [_words()[place] for place in drawn]
        lines = [" ".join(words[i : i + _LINE_WORDS]) for i in range(0, length, _LINE_WORDS)]
        if rng.random() < NOTICES:
            notice = int(rng.integers(_NUM_NOTICES))
            lines.insert(0, " ".join(_words()[notice * 9 : notice * 9 + 9]))
        return "\n".join(lines)


def write_corpus(folder: Path, num_documents: int, seed: int) -> Prepared:
    """Files of the first documents of a seed; the copies among some of them, with similarity."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "00").mkdir(parents=True)
    corpus = Synthetic(seed)
    num_bytes, ids = 0, []
    step = max(1, round(num_documents * (EXACT + NEAR) / _MOST_PAIRS))
    for file, lines in enumerate(_in_files(corpus, num_documents)):
        (folder / "00" / f"{file:05d}.jsonl").write_bytes(b"".join(lines))
        num_bytes += sum(map(len, lines))
        ids += [f"00-{file:05d}-{row + 1:09d}" for row in range(len(lines))]
    pairs = []
    for number in range(0, num_documents, step):
        original, changed = corpus.copy_of(number)
        if changed is not None:
            similarity = jaccard(corpus.text(number), corpus.text(original))
            pairs.append(Pair(ids[number], ids[original], similarity))
    about = (Corpus("ko", "synthetic", folder),)
    return Prepared(folder, about, num_documents, num_bytes, tuple(pairs))


def _in_files(corpus: Synthetic, num_documents: int) -> Iterator[list[bytes]]:
    lines, size = [], 0
    for number in range(num_documents):
        lines.append(orjson.dumps({"text": corpus.text(number)}) + b"\n")
        size += len(lines[-1])
        if size >= FILE_BYTES or number == num_documents - 1:
            yield lines
            lines, size = [], 0


@cache
def _words() -> list[str]:
    """Of one to four Hangul syllables, the frequent ones shorter."""
    rng = np.random.default_rng(0)
    lengths = 1 + np.minimum(3, np.arange(_VOCABULARY) // 500 + rng.integers(2, size=_VOCABULARY))
    syllables = (0xAC00 + rng.integers(11_172, size=(_VOCABULARY, 4))).tolist()
    return [
        "".join(map(chr, of[:length]))
        for of, length in zip(syllables, lengths.tolist(), strict=True)
    ]


@cache
def _shares() -> npt.NDArray[np.float64]:
    """Sums of Zipf-Mandelbrot probabilities, 1 / (rank + 2.7)."""
    shares = 1 / (np.arange(_VOCABULARY) + 3.7)
    sums: npt.NDArray[np.float64] = np.cumsum(shares / shares.sum())
    return sums
