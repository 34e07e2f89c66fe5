"""Raw corpora as files that two programs read, with planted copies of known similarity.

The similarity of two texts is the Jaccard of their sets of word 5-grams.
"""

import gzip
import random
import re
import shutil
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

FILE_BYTES = 7_000_000  # a file of both systems is one unit of work, and is never split
SHINGLE_WORDS = 5
MIN_WORDS, MAX_WORDS = 100, 3000  # of an original; longer ones would outweigh the real text
_MOST_CHANGED = 0.08  # of the words of a near copy: 5-grams then have a Jaccard of about .5
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_SPACE = re.compile(r"(\s+)")


@dataclass(frozen=True)
class Corpus:
    """Raw documents of one kind: `<data-dir>/corpora/<language>/<name>.jsonl[.gz]`."""

    language: str
    name: str
    path: Path

    def texts(self, share: float = 1.0) -> Iterator[str]:
        """A share of the texts, spread evenly; `ValueError` for a row without one."""
        with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                row = orjson.loads(line)
                if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
                    raise ValueError(f"{self.path}:{number}: no field 'text' with a string")
                if zlib.crc32(f"{self.language}/{self.name}/{number}".encode()) < share * 2**32:
                    yield row["text"]


class Pair(NamedTuple):
    """A planted copy and its original, by id."""

    copy: str
    original: str
    jaccard: float


@dataclass(frozen=True)
class Prepared:
    """What both systems read: `<folder>/NN/*.jsonl`, one folder for each of the corpora."""

    folder: Path
    corpora: tuple[Corpus, ...]
    num_documents: int
    num_bytes: int  # of text in UTF-8
    pairs: tuple[Pair, ...]

    def texts(self, ids: set[str]) -> dict[str, str]:
        """The texts with these ids."""
        rows = (row for path in self.folder.glob("*/*.jsonl") for row in read_lines(path))
        return {row["id"]: row["text"] for row in rows if row["id"] in ids}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    with path.open("rb") as lines:
        yield from map(orjson.loads, lines)


def find_corpora(data_dir: Path, languages: Sequence[str] | None) -> tuple[Corpus, ...]:
    """The corpora of these languages, or of all; `ValueError` if one has none."""
    folder = data_dir / "corpora"
    if not folder.is_dir():
        raise ValueError(
            f"no folder {folder}; give --data-dir DIR with DIR/corpora/<language>/*.jsonl.gz"
        )
    there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    corpora: list[Corpus] = []
    for language in languages or there:
        paths = sorted([*(folder / language).glob("*.jsonl"), *(folder / language).glob("*.gz")])
        if not paths:
            raise ValueError(
                f"no *.jsonl or *.jsonl.gz in {folder / language}; languages there: "
                f"{', '.join(there) or 'none'}"
            )
        corpora += [Corpus(language, path.name.partition(".")[0], path) for path in paths]
    return tuple(corpora)


def prepare(
    folder: Path,
    corpora: Sequence[Corpus],
    megabytes: float | None = None,
    num_exact: int = 0,
    num_near: int = 0,
    seed: int = 0,
) -> Prepared:
    """Write the input files: the documents, or about so many megabytes of them, and the copies.

    Documents have the ids that the pipeline will give them. Raises `ValueError` for a row without
    text, where there is no document, and for a corpus too small for the copies.
    """
    share = 1.0
    if megabytes is not None:
        size = sum(len(text.encode()) for corpus in corpora for text in corpus.texts())
        share = megabytes * 1e6 / max(size, 1)
    texts = [list(corpus.texts(share)) for corpus in corpora]
    if not any(texts):
        raise ValueError(f"no document in {', '.join(str(c.path) for c in corpora)}")
    copies = plant(texts, num_exact, num_near, random.Random(seed))
    places = []  # of each copy in the texts of its corpus
    for copy in copies:
        places.append(len(texts[copy.corpus]))
        texts[copy.corpus].append(copy.text)
    shutil.rmtree(folder, ignore_errors=True)
    ids = [_write(folder, f"{index:02d}", of) for index, of in enumerate(texts)]
    pairs = tuple(
        Pair(ids[copy.corpus][place], ids[copy.corpus][copy.original], copy.jaccard)
        for copy, place in zip(copies, places, strict=True)
    )
    size = sum(len(text.encode()) for of in texts for text in of)
    return Prepared(folder, tuple(corpora), sum(map(len, texts)), size, pairs)


def _write(folder: Path, source: str, texts: Sequence[str]) -> list[str]:
    """Documents into files of about `FILE_BYTES`; the ids that the pipeline will give them."""
    (folder / source).mkdir(parents=True)
    ids: list[str] = []
    lines: list[bytes] = []
    file = size = 0
    for number, text in enumerate(texts, start=1):
        ids.append(f"{source}-{file:05d}-{len(lines) + 1:09d}")
        lines.append(orjson.dumps({"id": ids[-1], "text": text}) + b"\n")
        size += len(lines[-1])
        if size >= FILE_BYTES or number == len(texts):
            (folder / source / f"{file:05d}.jsonl").write_bytes(b"".join(lines))
            lines, file, size = [], file + 1, 0
    return ids


# Planted copies.


class Copy(NamedTuple):
    """A text made of the text with the number `original` of a corpus."""

    corpus: int
    original: int
    text: str
    jaccard: float


def shingles(text: str) -> frozenset[int]:
    """Hashes of the distinct word 5-grams; of a shorter text, of all its words as one.

    Case, compatibility forms, punctuation and the value of numbers do not count, as in both
    systems. Hashes are Python's, so they hold within one process only.
    """
    plain = _NUMBER.sub("0", unicodedata.normalize("NFKC", text).lower())
    words = _WORD.findall(plain)
    last = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(hash(tuple(words[i : i + SHINGLE_WORDS])) for i in range(last))


def jaccard(one: str, other: str) -> float:
    """Size of the intersection of the 5-grams of two texts over that of their union."""
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second)


def plant(
    texts: Sequence[Sequence[str]], num_exact: int, num_near: int, rng: random.Random
) -> list[Copy]:
    """Copies of as many originals; in a near one some words are replaced by others of its own.

    `ValueError` if there are too few originals.
    """
    originals = [
        (corpus, number)
        for corpus, of in enumerate(texts)
        for number, text in enumerate(of)
        if MIN_WORDS <= len(text.split()) <= MAX_WORDS
    ]
    if len(originals) < num_exact + num_near:
        raise ValueError(
            f"{num_exact + num_near:,} copies need as many documents of {MIN_WORDS} to {MAX_WORDS} "
            f"words, the corpus has {len(originals):,}; give fewer with --exact and --near"
        )
    copies = []
    for place, (corpus, number) in enumerate(rng.sample(originals, num_exact + num_near)):
        text = texts[corpus][number]
        copy = text if place < num_exact else _with_words_replaced(text, rng)
        copies.append(Copy(corpus, number, copy, jaccard(text, copy)))
    return copies


def _with_words_replaced(text: str, rng: random.Random) -> str:
    pieces = _SPACE.split(text.strip())  # words and spaces in turn
    words = pieces[::2]
    for place in rng.sample(range(len(words)), 1 + int(rng.random() * _MOST_CHANGED * len(words))):
        pieces[2 * place] = rng.choice(words)
    return "".join(pieces)
