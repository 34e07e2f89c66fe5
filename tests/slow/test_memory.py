"""The corpus stage under a limit of memory: the same documents as without one, byte for byte.

The limit is of addresses (`ulimit -v`), of the first process and of each worker: nobody can have
more memory than addresses, and libraries that reserve much and use little are found out. One line
too long for any document, plain and packed, is read past under the same limit.
"""

import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from electrify.stage.folder import read_manifest
from tests.slow.runs import VERBS, arguments, finish, printed, start, unsound

ROUNDS = 1500  # steps of a training that is watched
LIMIT_MB = 1400
LINE_BYTES = 200_000_000  # clean.max_line_bytes is 20,000,000
MAX_GROWTH_FRACTION = 0.02  # of resident memory
SAMPLE_SECONDS = 0.1
_WRITTEN_BYTES = 1 << 20
_SHORT = (
    "The first of two documents beside a line that no memory holds.",
    "Here stands the second one, after that line; both are to be kept.",
)


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
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's")


@dataclass
class Cost:
    """Of a run: the peaks of its largest process, in MB of 10^6 bytes."""

    resident_mb: float = 0.0
    addresses_mb: float = 0.0


def _corpus(folder: Path) -> Path:
    rng, path = random.Random(1), folder / "a.jsonl"
    words = ("river", "mountain", "stone", "light", "village", "winter", "the", "of", "by", "in")
    texts = [" ".join(rng.choices(words, k=30)).capitalize() + "." for _ in range(2000)]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    return path


def test_a_limit_changes_no_document(tmp_path: Path) -> None:
    sources = [_source("en", _corpus(tmp_path))]
    free, bound = tmp_path / "free", tmp_path / "bound"
    print(_clean(free, sources, None))
    cost = _clean(bound, sources, LIMIT_MB)
    print(cost)
    assert cost.addresses_mb < LIMIT_MB
    manifests = [read_manifest(run / "clean") for run in (free, bound)]
    assert manifests[0]["counts"]["documents"] > 0
    documents = [
        {name: entry for name, entry in manifest["files"].items() if name.endswith(".parquet")}
        for manifest in manifests
    ]
    assert documents[0] == documents[1]


def test_a_line_that_no_memory_holds_is_read_past(tmp_path: Path) -> None:
    """Between two documents that must be kept, in a plain file and in a packed one."""
    paths = [tmp_path / "line.jsonl", tmp_path / "line.jsonl.gz"]
    for path in paths:
        with path.open("wb") if path.suffix == ".jsonl" else gzip.open(path, "wb", 1) as file:
            for piece in _lines():
                file.write(piece)
    cost = _clean(tmp_path / "short", [_source("en", _short(tmp_path))], LIMIT_MB)
    cost_of_line = _clean(tmp_path / "long", [_source("en", path) for path in paths], LIMIT_MB)
    print(cost, cost_of_line)
    assert cost_of_line.resident_mb < cost.resident_mb + LINE_BYTES / 2e6
    counts = read_manifest(tmp_path / "long" / "clean")["counts"]
    # the same documents stand in both files: those of the second are copies
    assert counts == counts | {"documents_in": 4, "documents": 2, "malformed": 2}


def test_training_grows_in_no_memory_and_no_open_files(rounds: int, tmp_path: Path) -> None:
    """The medians of the last quarter beside those of the second."""
    run, output = tmp_path / "run", tmp_path / "log"
    overrides = (*_TINY, f"pretrain.num_steps={rounds}")
    for stage in ("clean", "vocab", "shards"):
        finish(arguments(VERBS[stage], run, *overrides), output)
    process = start(arguments("pretrain", run, *overrides), output)
    resident_mb, open_files = list[float](), list[int]()
    while process.poll() is None:
        if (run / "pretrain.partial" / "metrics.jsonl").exists():  # else it is still beginning
            try:
                open_files.append(len(os.listdir(f"/proc/{process.pid}/fd")))
                resident_mb.append(_status(process.pid)["VmRSS"])
            except (OSError, KeyError):  # it ended meanwhile
                break
        time.sleep(SAMPLE_SECONDS)
    assert process.wait() == 0, printed(output)[-2000:]
    memory, files = (
        [statistics.median(values[q * size : (q + 1) * size]) for q in range(4)]
        for values, size in (
            (resident_mb, len(resident_mb) // 4),
            (open_files, len(open_files) // 4),
        )
    )
    print(f"by quarter: {memory} MB, {files} open files")
    assert memory[3] <= memory[1] * (1 + MAX_GROWTH_FRACTION)
    assert files[3] <= files[1]


def _short(folder: Path) -> Path:
    path = folder / "short.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in _SHORT), encoding="utf-8")
    return path


def _lines() -> Iterator[bytes]:
    first, second = (b'{"text": "%s"}\n' % text.encode() for text in _SHORT)
    yield first + b'{"text": "'
    for begin in range(0, LINE_BYTES, _WRITTEN_BYTES):
        yield b"a" * min(_WRITTEN_BYTES, LINE_BYTES - begin)
    yield b'"}\n' + second


def _source(language: str, path: Path) -> str:
    return f"{{ kind = 'jsonl', language = '{language}', path = '{path.resolve()}' }}"


def _clean(run: Path, sources: Sequence[str], limit_mb: int | None) -> Cost:
    words = arguments("clean", run, f"clean.sources=[{', '.join(sources)}]")
    output = run.with_name(f"{run.name}.log")
    process = start(words, output, before=None if limit_mb is None else partial(_limit, limit_mb))
    cost = _watch(process, limit_mb)
    assert process.returncode == 0, printed(output)[-2000:]
    assert unsound(run) == []
    return cost


def _limit(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1_000_000,) * 2)


def _watch(process: subprocess.Popen[bytes], limit_mb: int | None) -> Cost:
    cost = Cost()
    while process.poll() is None:
        for pid in _group(process.pid):
            status = _status(pid)
            if not status:  # it ended meanwhile
                continue
            cost.resident_mb = max(cost.resident_mb, status["VmHWM"])
            cost.addresses_mb = max(cost.addresses_mb, status["VmPeak"])
            if limit_mb is not None:
                assert resource.prlimit(pid, resource.RLIMIT_AS)[0] >= 0, "a process has no limit"
        time.sleep(SAMPLE_SECONDS)
    return cost


def _group(leader: int) -> Iterator[int]:
    """The processes of a process group."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getpgid(int(name)) == leader:
                    yield int(name)
            except OSError:  # it ended meanwhile
                continue


def _status(pid: int) -> Mapping[str, float]:
    """The sizes of a process by the kernel's names, in MB; empty if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines if line.startswith("Vm"))
    return {name.rstrip(":"): int(kibibytes) * 1024 / 1e6 for name, kibibytes, _ in pairs}
