"""Raw text, configs and runs of the corpus stage, for tests of several modules."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from pipeline.clean import clean
from pipeline.documents import DOCUMENT_SCHEMA, document_paths, row_writer

Row = dict[str, Any]
KOREAN = "국회는 오늘 본회의를 열어 새해 예산안을 처리했다고 밝혔다."
ENGLISH = "The house met today and passed the budget of the coming year after a long debate."
RUSSIAN = "Сегодня парламент принял бюджет на следующий год после долгого обсуждения."


def config_of(
    tmp_path: Path,
    paths: Iterable[object],
    source: Row | None = None,
    work_dir: str | None = None,
    **options: Any,
) -> RunConfig:
    source = {"kind": "jsonl", "language": "ko"} | (source or {})
    run = {"name": "test", "output_dir": str(tmp_path / "out"), "beam": {"work_dir": work_dir}}
    sources = [source | {"path": str(path)} for path in paths]
    return parse_config(run | {"clean": {"sources": sources} | options})


def write_texts(path: Path, texts: Iterable[str], **fields: str) -> Path:
    """JSON lines, each with a text and the fields."""
    rows = (json.dumps({"text": text} | fields, ensure_ascii=False) for text in texts)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def sentence(number: int) -> str:
    """Five words; the first tells it from others, as a number would not."""
    return f"{chr(0xAC00 + number)}번째 문장은 다른 문장과 다르다."


def clean_afresh(config: RunConfig, options: Sequence[str] = ()) -> Path:
    """Run the stage from the raw files though it may be done already; its folder."""
    folder = Path(config.output_dir) / "clean"
    for made in (folder, folder.with_name(".work")):
        shutil.rmtree(made, ignore_errors=True)
    clean(config, options, overwrite=False)
    return folder


def write_documents(
    folder: Path, rows: Iterable[Row], number: int = 0, **options: Any
) -> list[Path]:
    """A file as the corpus stage leaves it; a row needs no more than its text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"documents-{number:05d}.parquet"
    with row_writer(path, DOCUMENT_SCHEMA, **options) as writer:
        for place, row in enumerate(rows):
            plain = {"id": f"{number:02d}-{place}", "language": "ko", "source": "test"}
            whole = dict.fromkeys(DOCUMENT_SCHEMA.names) | plain | row
            writer.write_batch(pa.RecordBatch.from_pylist([whole], schema=DOCUMENT_SCHEMA))
    return [path]


def documents(folder: Path) -> list[Row]:
    return pq.read_table(document_paths(folder)).to_pylist()


def removed(folder: Path) -> list[Row]:
    return pq.read_table(sorted(folder.glob("removed-*.parquet"))).to_pylist()


def report(folder: Path) -> Row:
    made: Row = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return made


def manifest(folder: Path) -> Row:
    made: Row = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return made


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, and of the manifest, which tells times, the digest."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files["manifest.json"] = manifest(folder)["digest"].encode()
    return files
