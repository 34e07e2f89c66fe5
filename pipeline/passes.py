"""The two passes over a group of files, as plain functions: they need no Beam.

Every pass writes its files under a temporary name and renames them, so a runner may repeat it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from electrify.config_clean import CleanConfig, Source
from pipeline.documents import DOCUMENT_SCHEMA, REMOVED_SCHEMA, Document, ParquetParts, Removed
from pipeline.documents import read_rows as read_parquet_rows
from pipeline.exact_dedup import pack_hashes, text_hash, unpack_duplicates
from pipeline.filters import Drop, too_short, undecodable
from pipeline.normalize import Rule, clean_text, remove_lost_characters, rules
from pipeline.readers import Fault, Raw, read_file
from pipeline.sources import InputFile, InputGroup, document_id
from pipeline.tally import Tally

# between the passes: kept and removed rows as they were read, `reason` null where kept so far
WORK_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
MALFORMED = "malformed"  # counts under this name are of rows that never became documents


def read_path(work: Path, group_index: int) -> Path:
    """The tally of a group's first pass; it is there once the pass is done."""
    return work / f"read-{group_index:05d}.json"


def written_path(work: Path, group_index: int) -> Path:
    """The tally of a group's second pass; it is there once the pass is done."""
    return work / f"written-{group_index:05d}.json"


def error_path(work: Path, group_index: int) -> Path:
    """The fault that stopped a strict run."""
    return work / f"error-{group_index:05d}.txt"


def clean_group(group: InputGroup, config: CleanConfig, work: Path) -> dict[int, bytes]:
    """First pass: read, clean and filter into the work folder; packed hashes by shard.

    Raises `ValueError` with file and row if the config is strict and a row cannot be read.
    """
    tally = Tally()
    rows = ParquetParts(work, f"group-{group.index:05d}", WORK_SCHEMA, compression="lz4")
    hashes: list[bytes] = []
    ranks: list[int] = []
    chosen = rules(config.remove_html, config.remove_urls)
    for file in group.files:
        for row in _clean_file(file, config, chosen, tally):
            rows.write(row)
            if config.exact_dedup and row["reason"] is None:
                hashes.append(text_hash(row["text"]))
                ranks.append(row["rank"])
    rows.close()
    tally.write(read_path(work, group.index))
    return pack_hashes(hashes, ranks) if hashes else {}


def _clean_file(
    file: InputFile, config: CleanConfig, chosen: Sequence[Rule], tally: Tally
) -> Iterator[dict[str, Any]]:
    source = config.sources[file.source_index]
    num_documents = num_malformed = 0
    for item in read_file(file.path, source, config.max_line_bytes):
        if isinstance(item, Fault):
            num_malformed += 1
            yield _malformed_row(file, source, item, config.strict, tally)
        else:
            num_documents += 1
            yield _clean_row(file, source, item, config.min_characters, chosen, tally)
    tally.files.append({"path": file.path, "documents": num_documents, "malformed": num_malformed})


def _malformed_row(
    file: InputFile, source: Source, fault: Fault, strict: bool, tally: Tally
) -> dict[str, Any]:
    where, detail = f"{file.path}:{fault.row}", _storable(fault.detail)
    if strict:
        raise ValueError(
            f"{where}: {fault.reason}: {detail} (clean.strict = false counts it and goes on)"
        )
    name = source.name or file.stem
    tally.counts[MALFORMED, fault.reason, source.language, name] += 1
    tally.add_example(f"{where}: {fault.reason}: {detail}")
    tally.add_sample(fault.reason, where, fault.text)
    return {
        "rank": file.first_rank + fault.row,
        "text": fault.text,
        "language": source.language,
        "source": name,
        "url": None,
        "licence": None,
        "reason": fault.reason,
        "detail": f"{where}: {detail}",
    }


def _clean_row(
    file: InputFile,
    source: Source,
    raw: Raw,
    min_characters: int,
    chosen: Sequence[Rule],
    tally: Tally,
) -> dict[str, Any]:
    name = _storable(raw.source or "") or source.name or file.stem
    row: dict[str, Any] = {
        "rank": file.first_rank + raw.row,
        "text": raw.text,
        "language": source.language,
        "source": name,
        "url": _storable(raw.url or "") or None,
        "licence": _storable(raw.licence or source.licence or "") or None,
        "reason": None,
        "detail": None,
    }
    where = (source.language, name)
    tally.counts["documents_in", *where] += 1
    tally.counts["characters_in", *where] += len(raw.text)
    drop: Drop | None = undecodable(raw.text)
    if drop is None:
        cleaned = clean_text(raw.text, chosen)
        for rule in cleaned.altered:
            tally.counts["altered", rule] += 1
        drop = too_short(cleaned.text, min_characters)
        if drop is None:
            return row | {"text": cleaned.text}
    tally.counts["removed", drop.reason, *where] += 1
    text = _storable(raw.text)
    tally.add_sample(drop.reason, document_id(row["rank"]), text)
    return row | {"text": text, "reason": drop.reason, "detail": drop.detail}


def write_group(group_index: int, packed_duplicates: Iterable[bytes], work: Path) -> None:
    """Second pass: the work files of a group into documents and removed, both in order."""
    kept_of = unpack_duplicates(packed_duplicates)
    tally = Tally()
    documents = ParquetParts(work, f"documents-{group_index:05d}", DOCUMENT_SCHEMA)
    removed = ParquetParts(work, f"removed-{group_index:05d}", REMOVED_SCHEMA)
    paths = sorted(work.glob(f"group-{group_index:05d}-*.parquet"))
    for row in read_parquet_rows(paths):
        rank, where = row["rank"], (row["language"], row["source"])
        if rank in kept_of:
            row["reason"], row["detail"] = "duplicate", f"of {document_id(kept_of[rank])}"
            tally.counts["removed", "duplicate", *where] += 1
            tally.add_sample("duplicate", f"{document_id(rank)} {row['detail']}", row["text"])
        if row["reason"] is None:
            documents.write(_document(row).row())
            tally.counts["documents_kept", *where] += 1
            tally.counts["characters_kept", *where] += len(row["text"])
            tally.add_sample("kept", document_id(rank), row["text"])
        else:
            removed.write(_removed(row).row())
    documents.close()
    removed.close()
    tally.write(written_path(work, group_index))


def _document(row: dict[str, Any]) -> Document:
    values = {name: row[name] for name in DOCUMENT_SCHEMA.names if name != "id"}
    return Document(id=document_id(row["rank"]), **values)


def _removed(row: dict[str, Any]) -> Removed:
    values = {name: row[name] for name in REMOVED_SCHEMA.names if name != "id"}
    return Removed(id=document_id(row["rank"]), **values)


def _storable(text: str) -> str:
    """UTF-8 cannot hold lone surrogates."""
    return text if text.isascii() else remove_lost_characters(text)
