"""Raw corpora as files that two programs read, and runs of `electrify` on them."""

import gzip
import json
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from electrify.config.clean import CleanRules
from electrify.system.outcome import UserError
from electrify.system.progress import log
from tools.throughput.cost import Cost, run_measured

DATA = Path("data")
SHIPPED = "model/shipped/ko-modern/discriminator"
_FILE_BYTES = 7_000_000  # a file of both systems is one unit of work, and is never split


@dataclass(frozen=True)
class Prepared:
    """What both systems read: `<folder>/NN/*.jsonl`, a folder for each corpus."""

    folder: Path
    languages: Sequence[str]  # of each folder
    num_documents: int
    num_bytes: int  # of text in UTF-8

    def conditions(self) -> dict[str, Any]:
        """What a report says of the texts."""
        return {
            "languages": sorted(set(self.languages)),
            "documents": self.num_documents,
            "megabytes": self.num_bytes / 1e6,
        }


def prepare(
    folder: Path, data_dir: Path, languages: Sequence[str], megabytes: float | None
) -> Prepared:
    """Write the documents, or about so many megabytes of them; `ValueError` if there are none."""
    log("preparing the documents")
    corpora = _find_corpora(data_dir, languages)
    fraction = 1.0
    if megabytes is not None:
        size = sum(len(text.encode()) for _, path in corpora for text in _read(path))
        fraction = megabytes * 1e6 / max(size, 1)
    shutil.rmtree(folder, ignore_errors=True)
    num_documents = num_bytes = 0
    used: list[str] = []  # languages; of a small part of a corpus there may be no text
    for language, path in corpora:
        source = folder / f"{len(used):02d}"
        filled = 0  # bytes of this corpus
        for text in _read(path, fraction):
            source.mkdir(parents=True, exist_ok=True)
            with (source / f"{filled // _FILE_BYTES:05d}.jsonl").open("ab") as file:
                file.write(orjson.dumps({"text": text}) + b"\n")
            filled += len(text.encode())
            num_documents += 1
        num_bytes += filled
        used += [language] if filled else []
    if not used:
        raise UserError(f"no document in {', '.join(str(path) for _, path in corpora)}")
    return Prepared(folder, used, num_documents, num_bytes)


def _find_corpora(data_dir: Path, languages: Sequence[str]) -> list[tuple[str, Path]]:
    """Languages and files, `<data-dir>/corpora/<language>/<name>.jsonl[.gz]`."""
    folder = data_dir / "corpora"
    if not folder.is_dir():
        raise UserError(f"no folder {folder}: give --data-dir DIR with DIR/corpora/<language>/")
    there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    corpora: list[tuple[str, Path]] = []
    for language in there if "all" in languages else languages:
        paths = sorted([*(folder / language).glob("*.jsonl"), *(folder / language).glob("*.gz")])
        if not paths:
            raise UserError(f"no *.jsonl or *.gz in {folder / language}; there are {there}")
        corpora += [(language, path) for path in paths]
    return corpora


def _read(path: Path, fraction: float = 1.0) -> Iterator[str]:
    """A fraction of the texts, spread evenly; `ValueError` for a row without one."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            row = orjson.loads(line)
            if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
                raise UserError(f"{path}:{number}: no field 'text' with a string")
            if zlib.crc32(f"{path.name}/{number}".encode()) < fraction * 2**32:
                yield row["text"]


def write_config(
    prepared: Prepared, work: Path, clean: Mapping[str, Any], further: Sequence[str] = ()
) -> Path:
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
        *(f"{key} = {json.dumps(value)}" for key, value in clean.items()),
        *further,
    ]
    work.mkdir(parents=True, exist_ok=True)
    (work / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return work / "config.toml"


def rules_off() -> dict[str, Any]:
    """Every rule of `[clean]` at the value that does nothing: false, 0, or its default name."""
    return {
        name: type(field.default)(0)
        for name, field in CleanRules.model_fields.items()
        if isinstance(field.default, bool | int | float)
    }


def run_electrify(verb: str, config: Path, *beam_options: str) -> Cost:
    """What a verb costs on a config; `ValueError` if it fails."""
    command = [sys.executable, "-m", "electrify", verb, str(config)]
    command += ["--", *beam_options] if beam_options else []
    return run_measured(command, config.with_name(f"{verb}.log"))
