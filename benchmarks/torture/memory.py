"""The corpus stage under a limit of memory: the same documents as without one, byte for byte.

The limit is of addresses (`ulimit -v`), of the first process and of each worker: nobody can have
more memory than addresses, and libraries that reserve much and use little are found out. One line
too long for any document, plain and packed, is read past under the same limit.
"""

import gzip
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.torture.compare import unsound
from benchmarks.torture.demo import arguments, start
from electrify.stage.folder import read_manifest
from electrify.system.progress import log

SAMPLE_SECONDS = 0.1
_WRITTEN_BYTES = 1 << 20
_SHORT = (
    "The first of two documents beside a line that no memory holds.",
    "Here stands the second one, after that line; both are to be kept.",
)


@dataclass
class Cost:
    """Of a run with all its processes; memory in MB of 10^6 bytes."""

    seconds: float = 0.0
    num_processes: int = 0
    resident_mb: float = 0.0  # the largest process's peak
    addresses_mb: float = 0.0  # likewise
    all_resident_mb: float = 0.0  # of all at once, pages that they share counted in each


@dataclass
class MemoryFigures:
    """What the runs cost, and what was wrong."""

    limit_mb: int
    num_files: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # of the limited run
    costs: dict[str, Cost] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def torture_by_limit(
    data_dir: Path, limit_mb: int, line_bytes: int, work: Path, beam_options: Sequence[str] = ()
) -> MemoryFigures:
    """Clean `data_dir/<language>/*.jsonl[.gz]`, and a line of `line_bytes`, in the folder `work`.

    `ValueError` for a folder without corpora and for an unlimited run that fails.
    """
    shutil.rmtree(work, ignore_errors=True)
    figures = MemoryFigures(limit_mb)
    corpora = sorted([*data_dir.glob("*/*.jsonl"), *data_dir.glob("*/*.jsonl.gz")])
    if not corpora:
        raise ValueError(f"no {data_dir}/<language>/*.jsonl[.gz]; give --data-dir FOLDER")
    figures.num_files = len(corpora)
    sources = [_source(path.parent.name, path) for path in corpora]
    free, bound = work / "free", work / "bound"
    log(f"memory: {len(corpora)} files without a limit")
    if _clean(free, sources, None, figures, beam_options):
        raise ValueError(f"the run without a limit failed: {'; '.join(figures.faults)}")
    log(f"memory: the same under {limit_mb:,} MB")
    if not _clean(bound, sources, limit_mb, figures, beam_options):
        figures.counts = read_manifest(bound / "clean")["counts"]
        figures.faults += [*unsound(bound), *_differences(free, bound)]
    if line_bytes:
        _clean_line(line_bytes, work, figures)
    return figures


def _clean_line(line_bytes: int, work: Path, figures: MemoryFigures) -> None:
    """Between two documents that must be kept, in a plain file and in a packed one."""
    run = work / "line"
    paths = [work / "line.jsonl", work / "line.jsonl.gz"]
    log(f"memory: a line of {line_bytes:,} bytes, plain and packed")
    for path in paths:
        with path.open("wb") if path.suffix == ".jsonl" else gzip.open(path, "wb", 1) as file:
            for piece in _lines(line_bytes):
                file.write(piece)
    # the same documents stand in both files: those of the second are copies
    if not _clean(run, [_source("en", path) for path in paths], figures.limit_mb, figures):
        counts = read_manifest(run / "clean")["counts"]
        wanted = {"documents_in": 4, "documents": 2, "malformed": 2}
        if counts != counts | wanted:
            figures.faults.append(f"line: counts {counts}, not {wanted}")
    for path in paths:
        path.unlink()


def _lines(line_bytes: int) -> Iterator[bytes]:
    first, second = (b'{"text": "%s"}\n' % text.encode() for text in _SHORT)
    yield first + b'{"text": "'
    for begin in range(0, line_bytes, _WRITTEN_BYTES):
        yield b"a" * min(_WRITTEN_BYTES, line_bytes - begin)
    yield b'"}\n' + second


def _source(language: str, path: Path) -> str:
    return f"{{ kind = 'jsonl', language = '{language}', path = '{path.resolve()}' }}"


def _clean(
    run: Path,
    sources: Sequence[str],
    limit_mb: int | None,
    figures: MemoryFigures,
    beam_options: Sequence[str] = (),
) -> bool:
    """Whether it failed, which is a fault; its cost goes into the figures."""
    words = arguments("clean", run, f"clean.sources=[{', '.join(sources)}]")
    words += ["--", *beam_options] if beam_options else []
    output = run.with_name(f"{run.name}.log")
    process = start(words, output, before=None if limit_mb is None else partial(_limit, limit_mb))
    figures.costs[run.name], breaches = _watch(process, limit_mb)
    figures.faults += [f"{run.name}: {breach}" for breach in breaches]
    if process.returncode != 0:
        printed = output.read_text(encoding="utf-8", errors="replace")
        figures.faults.append(f"{run.name}: status {process.returncode}: {printed[-2000:]}")
    return process.returncode != 0


def _limit(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1_000_000,) * 2)


def _watch(process: subprocess.Popen[bytes], limit_mb: int | None) -> tuple[Cost, set[str]]:
    cost, seen, breaches, begin = Cost(), set[int](), set[str](), time.monotonic()
    while process.poll() is None:
        resident = 0.0
        for pid in _group(process.pid):
            status = _status(pid)
            if not status:  # it ended meanwhile
                continue
            seen.add(pid)
            resident += status["VmRSS"]
            cost.resident_mb = max(cost.resident_mb, status["VmHWM"])
            cost.addresses_mb = max(cost.addresses_mb, status["VmPeak"])
            if limit_mb is not None and resource.prlimit(pid, resource.RLIMIT_AS)[0] < 0:
                breaches.add(f"process {pid} has no limit")
        cost.all_resident_mb = max(cost.all_resident_mb, resident)
        time.sleep(SAMPLE_SECONDS)
    cost.seconds, cost.num_processes = time.monotonic() - begin, len(seen)
    return cost, breaches


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


def _differences(free: Path, bound: Path) -> Iterator[str]:
    """Manifests hold the checksum of every file, which `unsound` has compared with the bytes."""
    files = [read_manifest(run / "clean")["files"] for run in (free, bound)]
    for name in sorted({*files[0], *files[1]}):
        if name.endswith(".parquet") and files[0].get(name) != files[1].get(name):
            yield f"{name} is not the same under the limit"
