"""Raw corpora as files that two programs read, and runs of `electrify` on them."""

import gzip
import json
import random
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from electrify.system.outcome import UserError
from electrify.system.progress import log
from tools.throughput.cost import CHECKOUT, Cost, run_measured

SHIPPED = "model/shipped/ko-modern/discriminator"
_FILE_BYTES = 7_000_000  # a file of both systems is one unit of work, and is never split
_MADE_UP_BYTES = 20e6


@dataclass(frozen=True)
class Prepared:
    """What both systems read: `<folder>/NN/*.jsonl`, a folder for each corpus."""

    folder: Path
    languages: Sequence[str]  # of each folder
    num_documents: int
    num_bytes: int  # of JSON Lines
    is_made_up: bool

    def conditions(self) -> dict[str, Any]:
        """What a report says of the texts."""
        return {
            "texts": "made up" if self.is_made_up else "real",
            "languages": sorted(set(self.languages)),
            "documents": self.num_documents,
            "megabytes": self.num_bytes / 1e6,
        }


def prepare(
    folder: Path, data_dir: Path | None, names: Sequence[str], megabytes: float | None
) -> Prepared:
    """Write rows of the corpora of these names, or about so many megabytes of them.

    Without `data_dir` the texts are made up. `UserError` if there are none.
    """
    log("preparing the documents")
    if data_dir is None:
        corpora = {("ko", Path("made-up")): _made_up_rows(megabytes or _MADE_UP_BYTES / 1e6)}
    else:
        files, fraction = _find_corpora(data_dir, names), 1.0
        if megabytes is not None:
            size = sum(len(row) for _, path in files for row in _read(path))
            fraction = megabytes * 1e6 / max(size, 1)
        corpora = {(language, path): _read(path, fraction) for language, path in files}
    shutil.rmtree(folder, ignore_errors=True)
    num_documents = num_bytes = 0
    used: list[str] = []  # languages; of a small part of a corpus there may be no text
    for (language, _), rows in corpora.items():
        source = folder / f"{len(used):02d}"
        filled = 0  # bytes of this corpus
        for row in rows:
            source.mkdir(parents=True, exist_ok=True)
            with (source / f"{filled // _FILE_BYTES:05d}.jsonl").open("ab") as file:
                file.write(row)
            filled += len(row)
            num_documents += 1
        num_bytes += filled
        used += [language] if filled else []
    if not used:
        raise UserError(f"no document in {', '.join(str(path) for _, path in corpora)}")
    return Prepared(folder, used, num_documents, num_bytes, data_dir is None)


def _sample_words() -> list[str]:
    """The words of the Korean sample, in its order."""
    folder = CHECKOUT / "pipeline" / "sample"
    paths = [folder / f"ko_{name}.jsonl" for name in ("knowledge", "life", "society")]
    rows = (orjson.loads(line) for path in paths for line in path.read_bytes().splitlines())
    return [word for row in rows for word in row["text"].split()]


def _made_up_rows(megabytes: float) -> Iterator[bytes]:
    """Words of the sample in random order, a tenth of them with the end of another, so that new
    words never end; every tenth document is nearly the one before."""
    words, draw, num_bytes, lines = _sample_words(), random.Random(0), 0, [""]

    def line() -> str:
        chosen, others = draw.choices(words, k=12), draw.choices(words, k=12)
        for index in draw.sample(range(12), k=draw.randint(0, 2)):
            chosen[index] += others[index][len(others[index]) // 2 :]
        return " ".join(chosen)

    while num_bytes < megabytes * 1e6:
        if draw.random() < 0.1:
            lines[-1] = line()
        else:
            lines = [line() for _ in range(draw.randint(1, 40))]
        row = orjson.dumps({"text": "\n".join(lines)}) + b"\n"
        num_bytes += len(row)
        yield row


def _find_corpora(data_dir: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    """Languages and files, `<data-dir>/corpora/<language>/<name>.jsonl[.gz]`."""
    folder = data_dir / "corpora"
    if not folder.is_dir():
        raise UserError(f"no folder {folder}: give --data-dir DIR with DIR/corpora/<language>/")
    there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    corpora: list[tuple[str, Path]] = []
    for name in there if "all" in names else names:
        files = name if "/" in name else f"{name}/*"
        paths = sorted([*folder.glob(f"{files}.jsonl"), *folder.glob(f"{files}.jsonl.gz")])
        if not paths:
            raise UserError(f"no {files}.jsonl or .jsonl.gz in {folder}; there are {there}")
        corpora += [(name.partition("/")[0], path) for path in paths]
    return corpora


def _read(path: Path, fraction: float = 1.0) -> Iterator[bytes]:
    """A fraction of the rows, spread evenly; `UserError` for a row without a text."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            row = orjson.loads(line)
            if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
                raise UserError(f"{path}:{number}: no field 'text' with a string")
            if zlib.crc32(f"{path.name}/{number}".encode()) < fraction * 2**32:
                yield line.rstrip(b"\n") + b"\n"


def write_config(prepared: Prepared, work: Path, further: Sequence[str] = ()) -> Path:
    """The TOML of a run into the folder `work`, which loses what an earlier run left there."""
    shutil.rmtree(work / "out", ignore_errors=True)
    sources = [
        f'{{ kind = "jsonl", language = "{language}", path = "{prepared.folder}/{n:02d}/*.jsonl" }}'
        for n, language in enumerate(prepared.languages)
    ]
    lines = [
        'name = "throughput"',
        f"output_dir = {json.dumps(str(work / 'out'))}",
        "[clean]",
        f"sources = [{', '.join(sources)}]",
        *further,
    ]
    work.mkdir(parents=True, exist_ok=True)
    (work / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return work / "config.toml"


def run_electrify(
    verb: str, config: Path, *words: str, checkout: Path = CHECKOUT, **environment: str
) -> Cost:
    """What a verb of a checkout costs on a config; `UserError` if it fails."""
    command = [sys.executable, "-m", "electrify", verb, str(config), *words]
    return run_measured(command, config.with_name(f"{verb}.log"), checkout, **environment)
