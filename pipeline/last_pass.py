"""The last pass over a group of files: documents and removed rows into files of the corpus."""

from collections.abc import Iterable
from typing import Any

from pipeline.documents import DOCUMENT_SCHEMA, REMOVED_SCHEMA, ParquetParts
from pipeline.duplicates import unpack_clusters
from pipeline.input_file import document_id
from pipeline.second_pass import count_removed
from pipeline.tally import Tally
from pipeline.work_files import current_rows, final_parts, write_tally
from pipeline.work_folder import WorkFolder


def write_group(group: int, packed_near_duplicates: Iterable[bytes], work: WorkFolder) -> None:
    """The work files of a group into documents and removed, both in order."""
    clusters = unpack_clusters(packed_near_duplicates)
    tally = Tally()
    with (
        final_parts(work, "documents", group, DOCUMENT_SCHEMA) as documents,
        final_parts(work, "removed", group, REMOVED_SCHEMA) as removed,
    ):
        for row in current_rows(work, group):
            row["id"] = document_id(row["rank"])
            if found := clusters.kept_of.get(row["rank"]):
                row["reason"] = "near_duplicate"
                row["detail"] = f"of {document_id(found[0])}, similarity {found[1]:.2f}"
                count_removed(row, tally)
            if row["reason"] is None:
                documents.write(_columns(row, documents))
                tally.add_document_kept(row["text"], row["language"], row["source"], row["id"])
            else:
                removed.write(_columns(row, removed))
    for size in clusters.size_of.values():
        tally.add_cluster("near", size)
    write_tally(work, "written", group, tally)


def _columns(row: dict[str, Any], parts: ParquetParts) -> dict[str, Any]:
    return {name: row[name] for name in parts.schema.names}
