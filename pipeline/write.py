"""The last pass: the rows of a batch, without what its shards have answered, as documents, removed
rows and counts."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from electrify.config.clean import CleanConfig
from pipeline.dedup.batches import HASHED_SCHEMA, Answers, rows_name
from pipeline.dedup.exact import remove_repeated_lines, unpack_quotas
from pipeline.dedup.records import NumShards, unpack_removed
from pipeline.documents import DOCUMENT_SCHEMA, REMOVED_SCHEMA, Row, note_change, row_writer
from pipeline.report.counts import Tally
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import Drop, too_short
from pipeline.sources.input_file import document_id
from pipeline.work_folder import WorkFolder

_COLUMNS = ("rank", *DOCUMENT_SCHEMA.names[1:], "reason", "detail", "altered", "line_hashes")
_CHANGED = ("text", "reason", "detail", "altered")


def written_name(batch: int) -> str:
    """The counts of a batch in the work folder: they are there when its files are."""
    return f"written-{batch:010d}.json"


def write_batch(
    of_batch: Answers, config: CleanConfig, work: WorkFolder, _: NumShards
) -> tuple[()]:
    """Write `documents-*` and `removed-*` of a batch into the work folder, and then its counts.

    The answers are records of "duplicates" and "near_duplicates", and quotas of "lines".
    """
    batch, answers = of_batch
    if work.exists(written_name(batch)):  # by an earlier attempt
        return ()
    drops, quotas, tally = _drops(answers), unpack_quotas(answers["lines"]), Tally()
    number = f"{batch:010d}.parquet"
    with (
        work.new_file(f"documents-{number}") as documents_path,
        work.new_file(f"removed-{number}") as removed_path,
        row_writer(documents_path, DOCUMENT_SCHEMA) as documents,
        row_writer(removed_path, REMOVED_SCHEMA) as removed,
    ):
        for rows in work.read_rows(rows_name(batch), HASHED_SCHEMA, _COLUMNS):
            rows = _decided(rows, drops, quotas, config, tally)
            ids = [*map(document_id, rows.column("rank").to_pylist())]
            rows = rows.append_column("id", pa.array(ids, pa.string()))
            is_kept = pc.is_null(rows.column("reason"))
            _count_kept(kept := rows.filter(is_kept), tally)
            documents.write_batch(kept)
            removed.write_batch(rows.filter(pc.invert(is_kept)))
    for name, writer in (("documents", documents), ("removed", removed)):
        if not writer.num_rows:
            work.remove(f"{name}-{number}")
    work.write(written_name(batch), tally.to_json().encode())
    return ()


def _drops(answers: Mapping[str, Iterable[bytes]]) -> dict[int, Drop]:
    """By rank why documents are removed as duplicates."""
    drops: dict[int, Drop] = {}
    for reason in ("duplicate", "near_duplicate"):
        for rank, (kept, similarity) in unpack_removed(answers[f"{reason}s"]).items():
            detail = f"of {document_id(kept)}"
            if reason == "near_duplicate":
                detail += f", similarity {similarity:.2f}"
            drops[rank] = Drop(reason, detail)
    return drops


def _decided(
    rows: pa.RecordBatch,
    drops: Mapping[int, Drop],
    quotas: dict[int, int],
    config: CleanConfig,
    tally: Tally,
) -> pa.RecordBatch:
    """The rows with the reasons of duplicates and without repeated lines; what is removed is
    counted. Call it for the rows of a batch in order: a line that stays uses up its quota."""
    lines = rows.column("line_hashes")
    owners = pc.list_parent_indices(lines).to_numpy()
    repeated = np.isin(lines.flatten(), np.array([*quotas], np.uint64))
    is_affected = np.isin(rows.column("rank"), np.array([*drops], np.uint64))
    is_affected[owners[repeated]] = True
    is_affected &= rows.column("reason").is_null().to_numpy(zero_copy_only=False)
    changed: list[Row] = rows.take(pa.array(np.flatnonzero(is_affected))).to_pylist()
    rules_of = {name: config.rules_for(name) for name in {row["language"] for row in changed}}
    for row in changed:
        whole = row["text"]
        drop = drops.get(row["rank"]) or _remove_lines(row, quotas, config)
        rules = rules_of[row["language"]]
        if drop is None and row["text"] != whole:
            drop = too_short(len(row["text"]), rules.min_characters)
        if drop is not None:
            text = whole if rules.mask_pii else mask_pii(whole, row["language"])[0]
            row |= {"text": text, "reason": drop.reason, "detail": drop.detail}
            tally.add_removed("removed", row, len(whole))
    for name in _CHANGED if changed else ():
        values = pa.array([row[name] for row in changed], pa.string())
        column = pc.replace_with_mask(rows.column(name), pa.array(is_affected), values)
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def _remove_lines(row: Row, quotas: dict[int, int], config: CleanConfig) -> Drop | None:
    """Take repeated lines out of the text; the reason if no line is left."""
    least = config.line_dedup.min_characters
    text, count = remove_repeated_lines(row["text"], row["line_hashes"], least, quotas)
    if not text:
        return Drop("repeated_lines", f"{count} lines, each in many documents")
    if count:
        note_change(row, "repeated_lines_removed", len(row["text"]) - len(text))
        row["text"] = text
    return None


def _count_kept(kept: pa.RecordBatch, tally: Tally) -> None:
    lengths = pc.utf8_length(kept.column("text")).to_pylist()
    columns = [kept.column(name).to_pylist() for name in ("language", "source")]
    alike = Counter(zip(lengths, *columns, strict=True))
    for (length, language, source), num in alike.items():
        tally.count_document("kept", length, language, source, num)
    for value in pc.value_counts(kept.column("licence")).to_pylist():
        tally.count("licences", licence=value["values"] or "", documents=value["counts"])
    for altered, documents in Counter(kept.column("altered").to_pylist()).items():
        for rule, _, lost in (note.partition("=") for note in (altered or "").split()):
            characters = documents * int(lost)
            tally.count("altered", rule=rule, documents=documents, characters=characters)
