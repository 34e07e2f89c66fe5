"""What the vocabulary benchmark measures, each a process of its own.

    python -m benchmarks.throughput.vocab_jobs JOB TASK.json

TASK.json holds the arguments of the job and `output`, where it may write what it found.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electrify.stage.folder import write_json
from electrify.system.progress import setup_logging

Task = Mapping[str, Any]
_PEER_DOCUMENTS = 64  # handed to the trainer at once; more costs it memory


def train(task: Task) -> None:
    """Count and learn as `electrify train-vocab` does, until tokenizer.json is written."""
    from electrify.config.load import parse_config
    from vocab.train import learn_vocabulary

    folder = _fresh(task["folder"])
    learn_vocabulary(parse_config(task["config"]), _paths(task), task["beam_options"], folder)


def train_peer(task: Task) -> None:
    """Hugging Face's trainer on the same texts with the same options."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer: Any = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    tokenizer.train_from_iterator(
        _batches(task, _PEER_DOCUMENTS),
        vocab_size=task["size"],
        min_frequency=task["min_frequency"],
        limit_alphabet=task["limit_alphabet"],
        show_progress=False,
    )
    tokenizer.save(str(_fresh(task["folder"]) / "tokenizer.json"))


def encode(task: Task) -> None:
    """Documents to token shards as `electrify encode` does."""
    from electrify.config.load import parse_config
    from vocab.encode import write_token_shards

    folder = _fresh(task["folder"])
    write_token_shards(parse_config(task["config"]), task["beam_options"], folder)


def encode_alone(task: Task) -> None:
    """`encode_batch_fast` on texts in memory: no reading, no writing, no cutting."""
    from vocab.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(Path(task["vocab"]))
    batches = list(_batches(task, 1000))
    tokenizer.encode_batch_fast(batches[0][:10], add_special_tokens=False)  # starts the threads
    seconds = _timed(
        lambda: [
            len(tokenizer.encode_batch_fast(batch, add_special_tokens=False)) for batch in batches
        ]
    )
    write_json(Path(task["output"]), seconds)


def measure_spans(task: Task) -> None:
    """Fertility and span-alignment ceiling of vocabularies on files of answers and entities."""
    from vocab.compare import load_reference, read_spans, span_report

    spans = {path.name: read_spans(path) for path in map(Path, task["files"])}
    found = []
    for name, folder in task["vocabularies"]:
        tokenizer = load_reference(Path(folder))
        for data, texts in spans.items():
            row = {"name": name, "data": data, "pieces": tokenizer.get_vocab_size()}
            found.append(row | span_report(tokenizer, texts))
    write_json(Path(task["output"]), {"rows": found})


JOBS: dict[str, Callable[[Task], None]] = {
    job.__name__: job for job in (train, train_peer, encode, encode_alone, measure_spans)
}


def main(arguments: Sequence[str]) -> None:
    """Run one job."""
    name, path = arguments
    setup_logging()
    JOBS[name](json.loads(Path(path).read_text(encoding="utf-8")))


def _paths(task: Task) -> list[Path]:
    return [Path(path) for path in task["documents"]]


def _batches(task: Task, size: int) -> Iterator[list[str]]:
    import pyarrow.parquet as pq

    for path in _paths(task):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(size, columns=["text"], use_threads=False):
                yield batch.column("text").to_pylist()


def _timed(work: Callable[[], object]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def _fresh(folder: str) -> Path:
    path = Path(folder)
    path.mkdir(parents=True)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
