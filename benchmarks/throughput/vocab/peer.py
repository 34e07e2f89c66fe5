"""The peers of the vocabulary benchmark, each in a process of its own.

python -m benchmarks.throughput.vocab.peer train|encode TASK.json OUTPUT.json
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenizers import BertWordPieceTokenizer, Tokenizer

_TRAINED_AT_ONCE = 64  # documents; more costs the trainer memory
_ENCODED_AT_ONCE = 1000


def train(options: Mapping[str, Any], documents: Sequence[str], output: Path) -> None:
    """Hugging Face's trainer; the output is its tokenizer."""
    tokenizer: Any = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    texts = _batches(documents, _TRAINED_AT_ONCE)
    tokenizer.train_from_iterator(texts, show_progress=False, **options)
    tokenizer.save(str(output))


def encode(options: Mapping[str, Any], documents: Sequence[str], output: Path) -> None:
    """`encode_batch_fast` on texts in memory: no reading, no writing, no cutting.

    The output is wall and processor seconds.
    """
    tokenizer: Any = Tokenizer.from_file(options["tokenizer"])
    batches = list(_batches(documents, _ENCODED_AT_ONCE))
    tokenizer.encode_batch_fast(batches[0][:10], add_special_tokens=False)  # starts the threads
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        tokenizer.encode_batch_fast(batch, add_special_tokens=False)
    seconds = {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }
    output.write_text(json.dumps(seconds), encoding="utf-8")


def _batches(documents: Sequence[str], size: int) -> Iterator[list[str]]:
    for path in documents:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(size, columns=["text"], use_threads=False):
                yield batch.column("text").to_pylist()


def main(arguments: Sequence[str]) -> None:
    """Run one job."""
    job, task, output = arguments
    given = json.loads(Path(task).read_text(encoding="utf-8"))
    run = train if job == "train" else encode
    run(given["options"], given["documents"], Path(output))


if __name__ == "__main__":
    main(sys.argv[1:])
