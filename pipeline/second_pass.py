"""The middle passes over a group of files: what can be told only beside all other documents.

The second pass removes exact duplicates, repeated lines and benchmark texts and hashes what is left
for near duplicates. Of documents that may be near duplicates a third one sends the shingles.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from electrify.config_clean import CleanConfig, NearDedupConfig
from pipeline.benchmark_index import BenchmarkIndex
from pipeline.changes import excerpt
from pipeline.duplicates import Clusters, unpack_clusters
from pipeline.filters import Drop, too_short
from pipeline.input_file import document_id
from pipeline.line_dedup import remove_repeated_lines, unpack_quotas
from pipeline.minhash import BATCH_CHARACTERS, band_keys, shingle
from pipeline.near_dedup import is_small, pack_bands, unpack_members
from pipeline.representatives import Candidate, Packed, pack_candidates, sketch_size
from pipeline.tally import Tally
from pipeline.work_files import (
    BENCHMARK_INDEX,
    changed_parts,
    chosen_texts,
    cleaned_rows,
    write_tally,
)
from pipeline.work_folder import WorkFolder

Row = dict[str, Any]
_COMPARED = ("rank", "text", "language", "source", "reason")  # columns the second pass needs


def compare_group(
    group: int,
    packed_duplicates: Iterable[bytes],
    packed_quotas: Iterable[bytes],
    config: CleanConfig,
    work: WorkFolder,
) -> dict[int, bytes]:
    """Second pass: the changes go to the work folder; packed band keys by band and shard."""
    tally = Tally()
    clusters = unpack_clusters(packed_duplicates)
    quotas = unpack_quotas(packed_quotas)
    bands: defaultdict[int, list[bytes]] = defaultdict(list)
    with changed_parts(work, group) as changes:
        for batch in _batches(enumerate(cleaned_rows(work, group, "compared", _COMPARED))):
            live = [(number, row) for number, row in batch if row["reason"] is None]
            rows = [row for _, row in live]
            texts = [row["text"] for row in rows]
            _mark_duplicates(rows, clusters)
            _remove_lines(rows, quotas, config, tally)
            if config.decontaminate_against:
                _decontaminate(rows, _benchmark_index(work), tally)
            for row, before in zip(rows, texts, strict=True):
                if _settle(row, before, config, tally):
                    changes.write(_change(row, before))
            left = [(number, row["text"]) for number, row in live if row["reason"] is None]
            if left and config.near_dedup.enabled:
                for shard, packed in _pack_bands(left, config.near_dedup).items():
                    bands[shard].append(packed)
    for size in clusters.size_of.values():
        tally.add_cluster("exact", size)
    write_tally(work, "compared", group, tally)
    return {shard: b"".join(bands.pop(shard)) for shard in sorted(bands)}


def sketch_group(
    group: int, packed_members: Iterable[bytes], config: CleanConfig, work: WorkFolder
) -> dict[int, Packed]:
    """Third pass: the shingles of the documents that share a band with others, by shard."""
    members = unpack_members(packed_members)
    candidates: list[Candidate] = []
    for batch in _batches(chosen_texts(work, group, members)):
        shingles = shingle([row["text"] for _, row in batch])
        near = config.near_dedup
        keys = band_keys(shingles, near.num_bands, near.rows_per_band)
        for place, (number, row) in enumerate(batch):
            component, component_size = members[number]
            hashes = shingles.distinct(place)
            candidates.append(
                Candidate(
                    component=component,
                    rank=row["rank"],
                    length=len(row["text"]),
                    num_shingles=len(hashes),
                    bands=keys[place],
                    hashes=hashes[: sketch_size(component_size)].copy(),  # frees the others
                )
            )
    return pack_candidates(candidates)


def count_removed(row: Row, tally: Tally) -> None:
    """Count a row that has got a reason in a later pass."""
    label = f"{document_id(row['rank'])} {row['detail']}"
    tally.add_removed(row["reason"], label, row["text"], row["language"], row["source"])


def _mark_duplicates(rows: Sequence[Row], clusters: Clusters) -> None:
    for row in rows:
        if found := clusters.kept_of.get(row["rank"]):
            _mark(row, Drop("duplicate", f"of {document_id(found[0])}"))


def _remove_lines(
    rows: Sequence[Row], quotas: dict[int, int], config: CleanConfig, tally: Tally
) -> None:
    """Remove repeated lines from documents in order; each uses up the quotas of its lines."""
    settings = config.line_dedup
    if not quotas:
        return
    for row in rows:
        if row["reason"] is not None:
            continue
        text, count = remove_repeated_lines(row["text"], settings.min_characters, quotas)
        if not text:
            _mark(row, Drop("repeated_lines", f"{count} lines, each in many documents"))
        elif count:
            _alter(row, "repeated_lines_removed", text, count, tally)


def _decontaminate(rows: Sequence[Row], index: BenchmarkIndex, tally: Tally) -> None:
    rows = [row for row in rows if row["reason"] is None]
    found = index.decontaminate_all([row["text"] for row in rows])
    for row, of_row in zip(rows, found, strict=True):
        if of_row.matches:
            tally.add_decontaminated(of_row, row["language"])
        if of_row.drop is not None:
            _mark(row, of_row.drop)
        elif of_row.text != row["text"]:
            _alter(row, "contamination_removed", of_row.text, of_row.num_lines_removed, tally)


def _settle(row: Row, before: str, config: CleanConfig, tally: Tally) -> bool:
    """Whether the row has changed; one that is removed gets its text back and is counted."""
    if row["reason"] is None:
        if row["text"] == before:
            return False
        if drop := too_short(row["text"], config.rules_for(row["language"]).min_characters):
            _mark(row, drop)
    if row["reason"] is not None:
        row["text"] = before
        count_removed(row, tally)
    return True


def _change(row: Row, before: str) -> Row:
    text = row["text"] if row["text"] != before else None
    return {"rank": row["rank"], "text": text, "reason": row["reason"], "detail": row.get("detail")}


def _alter(row: Row, rule: str, text: str, count: int, tally: Tally) -> None:
    """Give the row its changed text; count the change, and show it if it is among those chosen."""
    where = (row["language"], row["source"])
    label = document_id(row["rank"])
    tally.add_altered(rule, count, *where)
    if tally.wants_change(rule, label, *where):
        tally.add_change(rule, label, excerpt(row["text"], text), *where)
    row["text"] = text


def _mark(row: Row, drop: Drop) -> None:
    row["reason"], row["detail"] = drop.reason, drop.detail


@lru_cache(maxsize=1)
def _benchmark_index(work: WorkFolder) -> BenchmarkIndex:
    """Once a process. What is mapped stays readable when its file is removed."""
    with work.fetch(BENCHMARK_INDEX) as path:
        return BenchmarkIndex.load(path)


def _pack_bands(rows: Sequence[tuple[int, str]], config: NearDedupConfig) -> dict[int, bytes]:
    """Packed keys by band and shard of the texts that have a shingle, with their numbers."""
    numbers = np.array([number for number, _ in rows])
    shingles = shingle([text for _, text in rows])
    keys = band_keys(shingles, config.num_bands, config.rows_per_band)
    num_shingles = np.diff(shingles.offsets)
    has = num_shingles > 0
    small = is_small(num_shingles, config.similarity)
    return pack_bands(keys[has], numbers[has], small[has])


def _batches(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Rows with their numbers, in batches of about `BATCH_CHARACTERS`."""
    batch: list[tuple[int, Row]] = []
    characters = 0
    for number, row in rows:
        batch.append((number, row))
        characters += len(row["text"])
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
