"""The corpus stage under a limit of memory: the same documents as without one, byte for byte.

The limit is of addresses (`ulimit -v`), of the first process and of each worker: nobody can have
more memory than addresses, and libraries that reserve much and use little are found out. One line
too long for any document, plain and packed, is read past under the same limit.
"""

import gzip
import json
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from electrify.stage.folder import read_manifest
from tests.slow.runs import arguments, printed, start, unsound

ROUNDS = 1500  # steps of a training that is watched
LIMIT_MB = 1400
LINE_BYTES = 200_000_000  # clean.max_line_bytes is 20,000,000
MAX_GROWTH_FRACTION = 0.02  # of resident memory
SAMPLE_SECONDS = 0.1
_SHORT = [
    "The first of two documents beside a line that no memory holds.",
    "Here stands the second one, after that line; both are to be kept.",
]
_TINY = (
    "pretrain.num_hidden_layers=1",
    "pretrain.hidden_size=32",
    "pretrain.intermediate_size=64",
    "pretrain.num_attention_heads=1",
    "pretrain.embedding_size=32",
    "pretrain.batch_size=4",
    "pretrain.sequence_length=16",
    "pretrain.log_every_steps=100",
    "pretrain.valid_every_steps=1000",
    "pretrain.num_valid_batches=2",
    "pretrain.checkpoint_every_steps=500",
    "pretrain.warmup_steps=100",
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are Linux's")


def test_a_limit_changes_no_document_and_a_line_that_no_memory_holds_is_read_past(
    tmp_path: Path,
) -> None:
    """Between two documents that must be kept, in a plain file and in a packed one."""
    short = tmp_path / "short.jsonl"
    short.write_text("".join(json.dumps({"text": text}) + "\n" for text in _SHORT))
    first, second = short.read_bytes().splitlines(keepends=True)
    paths = [tmp_path / "line.jsonl", tmp_path / "line.jsonl.gz"]
    for path in paths:
        with path.open("wb") if path.suffix == ".jsonl" else gzip.open(path, "wb", 1) as file:
            file.write(first + b'{"text": "')
            for _ in range(LINE_BYTES // 1_000_000):
                file.write(b"a" * 1_000_000)
            file.write(b'"}\n' + second)
    peak_mb = _clean(tmp_path / "short", [short], LIMIT_MB)["peak_memory_mb"]
    manifest = _clean(tmp_path / "long", paths, LIMIT_MB)
    print(peak_mb, manifest["peak_memory_mb"])
    documents, same = (
        {name: entry for name, entry in of["files"].items() if name.endswith(".parquet")}
        for of in (_clean(tmp_path / "free", paths, None), manifest)
    )
    assert documents == same
    assert manifest["peak_memory_mb"] < peak_mb + LINE_BYTES / 2e6
    # the same documents stand in both files: those of the second are copies
    counts = manifest["counts"]
    assert counts == counts | {"documents_in": 4, "documents": 2, "malformed": 2}


def test_training_grows_in_no_memory_and_no_open_files(
    rounds: int, sound: Path, tmp_path: Path
) -> None:
    """The medians of the last quarter beside those of the second."""
    run, output = tmp_path / "run", tmp_path / "log"
    for stage in ("vocab", "shards"):
        shutil.copytree(sound / stage, run / stage)
    process = start(arguments("pretrain", run, *_TINY, f"pretrain.num_steps={rounds}"), output)
    seen, samples = psutil.Process(process.pid), list[tuple[int, int]]()
    while process.poll() is None:
        if (run / "pretrain.partial" / "metrics.jsonl").exists():  # else it is still beginning
            with suppress(psutil.Error):  # it ended meanwhile
                samples.append((seen.memory_info().rss, seen.num_fds()))
        time.sleep(SAMPLE_SECONDS)
    assert process.wait() == 0, printed(output)[-2000:]
    size = len(samples) // 4
    memory, files = (
        [statistics.median(values[q * size : (q + 1) * size]) for q in range(4)]
        for values in zip(*samples, strict=True)
    )
    print(f"by quarter: {memory} bytes, {files} open files")
    assert memory[3] <= memory[1] * (1 + MAX_GROWTH_FRACTION)
    assert files[3] <= files[1]


def _clean(run: Path, paths: Sequence[Path], limit_mb: int | None) -> dict[str, Any]:
    """The manifest of the stage, run under the limit."""
    sources = [f"{{ kind = 'jsonl', language = 'en', path = '{path}' }}" for path in paths]
    words = arguments("clean", run, f"clean.sources=[{', '.join(sources)}]")
    output = run.with_name(f"{run.name}.log")
    process = start(words, output, before=None if limit_mb is None else partial(_limit, limit_mb))
    assert process.wait() == 0, printed(output)[-2000:]
    assert unsound(run) == []
    return read_manifest(run / "clean")


def _limit(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1_000_000,) * 2)
