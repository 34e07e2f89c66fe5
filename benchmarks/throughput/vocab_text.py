"""The documents of the vocabulary benchmark: the raw corpora as `electrify clean` lays them out.

Cleaning is light, so that both systems get nearly all of the text: NFC, whitespace runs to one
space, empty lines out. No deduplication, no quality rules.
"""

import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.throughput.corpus import Corpus, is_chosen, read_corpus
from pipeline.documents import DOCUMENT_SCHEMA, Document, ParquetParts


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
            document = Document(f"{name}/{row}", text, corpus.language, corpus.name, None, None)
            parts.write(document.row())
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
