"""Raw corpora as documents: planted copies among them, or cleaned lightly for a vocabulary.

Light cleaning leaves both systems nearly all of the text: NFC, whitespace runs to one space, empty
lines out. No deduplication, no quality rules.
"""

import gzip
import shutil
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from benchmarks.throughput.copies import Pair, Text, plant
from pipeline.documents import DOCUMENT_SCHEMA, ParquetParts

FILE_BYTES = 8_000_000  # a file of both systems is one unit of work, and is never split


@dataclass(frozen=True)
class Corpus:
    """Raw documents of one kind: `<data-dir>/corpora/<language>/<name>.jsonl[.gz]`."""

    language: str
    name: str
    path: Path


@dataclass(frozen=True)
class Prepared:
    """What both systems read: `<folder>/NN/*.jsonl`, one folder for each of the corpora."""

    folder: Path
    corpora: tuple[Corpus, ...]
    num_documents: int
    num_bytes: int  # of text in UTF-8
    pairs: tuple[Pair, ...]

    def pattern(self, index: int) -> str:
        """The glob of one of the corpora."""
        return str(self.folder / f"{index:02d}" / "*.jsonl")

    def texts(self, ids: set[str]) -> dict[str, str]:
        """The texts with these ids."""
        found = {}
        for path in sorted(self.folder.glob("*/*.jsonl")):
            with path.open("rb") as lines:
                for line in lines:
                    row = orjson.loads(line)
                    if row["id"] in ids:
                        found[row["id"]] = row["text"]
        return found


def find_corpora(data_dir: Path, languages: Sequence[str] | None) -> list[Corpus]:
    """The corpora of these languages, or of all; `ValueError` if one has none."""
    folder = data_dir / "corpora"
    if not folder.is_dir():
        raise ValueError(
            f"no folder {folder}; give --data-dir DIR with DIR/corpora/<language>/*.jsonl.gz"
        )
    there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    found = []
    for language in there if languages is None else languages:
        paths = sorted([*(folder / language).glob("*.jsonl"), *(folder / language).glob("*.gz")])
        if not paths:
            raise ValueError(
                f"no *.jsonl or *.jsonl.gz in {folder / language}; languages there: "
                f"{', '.join(there) or 'none'}"
            )
        found += [Corpus(language, path.name.partition(".")[0], path) for path in paths]
    return found


def prepare(
    folder: Path,
    corpora: Sequence[Corpus],
    num_exact: int = 0,
    num_near: int = 0,
    seed: int = 0,
    share: float = 1.0,
) -> Prepared:
    """Write the input files: a `share` of the documents, spread evenly, and the copies.

    Raises `ValueError` for a row without text and for a corpus too small for the copies.
    """
    texts: list[Text] = []
    pairs: list[Pair] = []
    with closing(_Files(folder)) as files:
        for index, corpus in enumerate(corpora):
            for row, text in enumerate(read_corpus(corpus.path), start=1):
                if not is_chosen(corpus, row, share):
                    continue
                written = Text(files.write(index, text), index, corpus.language, text)
                if num_exact or num_near:
                    texts.append(written)
        for planted in plant(texts, num_exact, num_near, seed) if texts else ():
            copy = files.write(planted.original.source, planted.text)
            pairs.append(Pair(copy, planted.original.id, planted.band, planted.jaccard))
        if not files.num_documents:
            raise ValueError(f"no document in {', '.join(str(c.path) for c in corpora)}")
        count, size = files.num_documents, files.num_bytes
    return Prepared(folder, tuple(corpora), count, size, tuple(pairs))


def read_corpus(path: Path) -> Iterator[str]:
    """The texts of a file; `ValueError` for a row without one."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            row = orjson.loads(line)
            if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
                raise ValueError(f"{path}:{number}: no field 'text' with a string")
            yield row["text"]


def is_chosen(corpus: Corpus, row: int, share: float) -> bool:
    """Whether a row is among a `share` of them, spread evenly and by chance."""
    return zlib.crc32(f"{corpus.language}/{corpus.name}/{row}".encode()) < share * 2**32


class _Files:
    """Documents into files of about `FILE_BYTES`, each with the id the pipeline will give it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_documents = self.num_bytes = 0
        self._open: dict[int, BinaryIO] = {}
        self._places: dict[int, tuple[int, int, int]] = {}  # file, row, bytes of the file

    def write(self, source: int, text: str) -> str:
        """Add a document; its id."""
        file, row, size = self._places.get(source, (0, 0, 0))
        if size >= FILE_BYTES:
            file, row, size = file + 1, 0, 0
        if row == 0:
            self._start(source, file)
        document_id = f"{source:02d}-{file:05d}-{row + 1:09d}"
        self._open[source].write(orjson.dumps({"id": document_id, "text": text}) + b"\n")
        length = len(text.encode())
        self._places[source] = file, row + 1, size + length
        self.num_documents += 1
        self.num_bytes += length
        return document_id

    def close(self) -> None:
        """Finish the files."""
        for file in self._open.values():
            file.close()

    def _start(self, source: int, file: int) -> None:
        if source in self._open:
            self._open[source].close()
        path = self.folder / f"{source:02d}" / f"{file:05d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open[source] = path.open("wb")


@dataclass(frozen=True)
class Documents:
    """A run folder with `clean/documents-*.parquet`."""

    folder: Path
    num_documents: int
    num_bytes: int  # of text in UTF-8

    @property
    def paths(self) -> list[Path]:
        """The documents files."""
        return sorted((self.folder / "clean").glob("documents-*.parquet"))


def prepare_documents(folder: Path, corpora: Sequence[Corpus], share: float = 1.0) -> Documents:
    """Write a `share` of the corpora, spread evenly; `ValueError` if that is no document."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "clean").mkdir(parents=True)
    count = num_bytes = 0
    with ParquetParts(folder / "clean", "documents", DOCUMENT_SCHEMA) as parts:
        for corpus, row, text in _texts(corpora, share):
            name = f"{corpus.language}/{corpus.name}"
            values = (f"{name}/{row}", text, corpus.language, corpus.name, None, None, None)
            parts.write(dict(zip(DOCUMENT_SCHEMA.names, values, strict=True)))
            count += 1
            num_bytes += len(text.encode())
    if not count:
        raise ValueError(f"no document in {share:.3g} of {', '.join(c.name for c in corpora)}")
    return Documents(folder, count, num_bytes)


def clean_lightly(text: str) -> str:
    """NFC, single spaces, no empty lines."""
    composed = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    lines = (" ".join(line.split()) for line in composed.split("\n"))
    return "\n".join(line for line in lines if line)


def _texts(corpora: Sequence[Corpus], share: float) -> Iterator[tuple[Corpus, int, str]]:
    for corpus in corpora:
        for row, text in enumerate(read_corpus(corpus.path), start=1):
            if is_chosen(corpus, row, share) and (cleaned := clean_lightly(text)):
                yield corpus, row, cleaned
