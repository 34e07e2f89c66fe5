"""The trainer of `tokenizers` over documents: `tokenizers_peer TASK.json OUTPUT.json`."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenizers import BertWordPieceTokenizer

_TRAINED_AT_ONCE = 64  # documents; more costs the trainer memory


def _batches(documents: Sequence[str]) -> Iterator[list[str]]:
    for path in documents:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_TRAINED_AT_ONCE, columns=["text"], use_threads=False):
                yield batch.column("text").to_pylist()


if __name__ == "__main__":
    task, output = sys.argv[1:]
    given = json.loads(Path(task).read_text(encoding="utf-8"))
    tokenizer: Any = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    texts = _batches(given["documents"])
    tokenizer.train_from_iterator(texts, show_progress=False, **given["options"])
    tokenizer.save(output)
