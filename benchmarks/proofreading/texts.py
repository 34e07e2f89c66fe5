"""The sentences that mistakes are planted in, and the text that the counting models learn from."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.korean.morphemes import Sentence, analyse, korean_sentences
from benchmarks.proofreading.bigram import Bigrams, Ids
from benchmarks.tasks.texts import texts_of_name
from electrify.system.outcome import UserError
from electrify.system.progress import Progress

_DOCUMENTS = 1000  # tokenised at once
_MAX_CHARACTERS, _MARGIN = 120, 8


def held_out(names: Sequence[str], data_dir: Path, max_positions: int | None) -> list[Sentence]:
    """The Korean sentences of tasks' evaluation rows, or of files; `ValueError` if there is none.

    Every text of a row, and every line of a file, counts as a sentence. A piece has at least one
    character: what is `_MARGIN` shorter than the model's positions fits, even with a mistake.
    """
    max_characters = min(_MAX_CHARACTERS, (max_positions or _MAX_CHARACTERS + _MARGIN) - _MARGIN)
    texts = [
        text
        for name in names
        for found in texts_of_name(name, [data_dir]).values()
        for _, text in found
    ]
    if not (sentences := korean_sentences(texts, max_characters)):
        raise UserError(
            f"no Korean sentence of 4 words to {max_characters} characters in {', '.join(names)}: "
            "name a task such as klue-dp, or a file with one sentence a line"
        )
    return analyse(sentences)


def count_pairs(tokenizer: Any, paths: Sequence[Path]) -> Bigrams:
    """Pairs of pieces in documents: Parquet with a column `text`, or one text a line."""
    return Bigrams(_sequences(tokenizer, paths), len(tokenizer))


def _sequences(tokenizer: Any, paths: Sequence[Path]) -> Iterator[Ids]:
    with Progress("corpus", None, "documents") as progress:
        for path in paths:
            documents = _documents(path)
            while texts := list(islice(documents, _DOCUMENTS)):
                for ids in tokenizer(texts, verbose=False)["input_ids"]:
                    yield np.array(ids)
                progress.update(len(texts))


def _documents(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"no corpus file {path}; give documents-*.parquet of a run's clean folder")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_DOCUMENTS, columns=["text"]):
                yield from batch.column("text").to_pylist()
    else:
        with path.open(encoding="utf-8") as lines:
            yield from filter(str.strip, lines)
