"""The passes over a group of files and its units: what a worker does with its texts.

- `clean_group` reads, cleans and filters, and hashes what only all documents together decide;
- `compare_unit` removes exact duplicates, repeated lines and benchmark texts, and hashes what is
  left for near duplicates;
- `sketch_unit` sends the shingles of documents that may be near duplicates;
- `write_file` writes documents and removed rows of some units into files of the corpus.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from electrify.config.clean import CleanConfig, NearDedupConfig
from electrify.config.fields import without_secrets
from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.dedup.components import is_small, pack_bands, unpack_members
from pipeline.dedup.exact import pack_hashes, text_hash, without_case
from pipeline.dedup.lines import LineCounter, remove_repeated_lines, unpack_quotas
from pipeline.dedup.minhash import BATCH_CHARACTERS, Keys, Shingles, band_keys, shingle
from pipeline.dedup.near import Candidate, pack_candidates, part_of, sketch_size
from pipeline.dedup.records import Clusters, NumShards, unpack_clusters
from pipeline.documents import DOCUMENT_SCHEMA, in_batches
from pipeline.pass_files import (
    BENCHMARK_INDEX,
    ReadingProgress,
    chosen_texts,
    cleaned_batches,
    current_batches,
    nums_of_units,
    parts_of,
    replace_values,
    write_tally,
)
from pipeline.report.counts import RULE, Tally
from pipeline.report.excerpts import excerpt, show_change
from pipeline.rules.normalize import remove_lost_characters
from pipeline.rules.order import Outcome, document_rules
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import Drop, too_short
from pipeline.sources.input_file import (
    ROW_BITS,
    InputFile,
    InputGroup,
    document_id,
    group_of_file,
    unit_number,
    units_of_file,
)
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file

Row = dict[str, Any]
# what waits to be sent: of sketches 32 MB, of band keys 200 MB and, packed, 300 MB more
_WAITING_HASHES = 1 << 22
_WAITING_DOCUMENTS = 1 << 20


def clean_group(
    group: InputGroup, config: CleanConfig, work: Folder, shards: NumShards
) -> Iterator[dict[int, bytes]]:
    """Rows of a group of files into the work folder, by unit.

    Of each unit come packed hashes of texts by shard, then of lines. Raises `ValueError` with file
    and row for a file or, if the config is strict, a row that cannot be read.
    """
    tally = Tally()
    progress = ReadingProgress(work, group.index, sum(file.num_bytes for file in group.files))
    files = (replace(file, on_read=progress.add) for file in group.files)
    rows = chain.from_iterable(_FileCleaner(file, config, tally).rows() for file in files)
    num_characters = 0

    def place(row: Row) -> int:
        nonlocal num_characters
        number = num_characters // group.unit_characters
        num_characters += len(row["text"])
        return number

    for number, (_, unit_rows) in enumerate(groupby(rows, place)):
        yield from _clean_unit(unit_number(group.index, number), unit_rows, config, work, shards)
    write_tally(work, "read", group.index, tally)


def _clean_unit(
    unit: int, rows: Iterable[Row], config: CleanConfig, work: Folder, shards: NumShards
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    hashes, ranks = bytearray(), array("Q")
    lines = LineCounter(config.line_dedup.min_characters, config.line_dedup.max_documents)
    with parts_of(work, "cleaned", unit) as parts:
        for row in rows:
            parts.write(row)
            if row["reason"] is None:
                folded = without_case(row["text"])
                hashes += (of_text := text_hash(folded))
                ranks.append(row["rank"])
                if config.line_dedup.enabled:
                    number = _number(of_text, row["rank"], config.exact_dedup)
                    lines.add(row["text"], folded, number)
    texts = pack_hashes(hashes, ranks, shards.texts) if config.exact_dedup else {}
    return texts, lines.pack(shards.lines)


class _FileCleaner:
    """The rows of one file, cleaned, with the reason of those that are removed."""

    def __init__(self, file: InputFile, config: CleanConfig, tally: Tally) -> None:
        self.file, self.config, self.tally = file, config, tally
        self.source = config.sources[file.source_index]
        self.rules = document_rules(self.source, config)

    def rows(self) -> Iterator[Row]:
        num_documents = num_malformed = 0
        for item in read_file(self.file, self.source, self.config.max_line_bytes):
            if isinstance(item, Fault):
                num_malformed += 1
                yield self._malformed(item)
            else:
                num_documents += 1
                yield self._cleaned(item)
        counts = {"documents": num_documents, "malformed": num_malformed}
        self.tally.files.append({"path": self.file.shown_path} | counts)

    def _row(self, item: Raw | Fault, source: str) -> Row:
        return {
            "rank": self.file.first_rank + item.row,
            "text": item.text,
            "language": self.source.language,
            "source": source,
            "url": None,
            "licence": None,
            "source_id": _storable(item.source_id),
            "reason": None,
            "detail": None,
            "altered": None,
        }

    def _malformed(self, fault: Fault) -> Row:
        where, language = self.file.where(fault.row, fault.offset), self.source.language
        detail = mask_pii(without_secrets(_storable(fault.detail) or ""), language)[0]
        if fault.reason == "unreadable_file":
            if self.config.damaged_files == "stop":
                raise UserError(
                    f"{where}: {detail}. Repair the file, take it out of the sources, or set "
                    'clean.damaged_files = "keep" to take what can be read of it'
                )
        elif self.config.strict:
            raise UserError(
                f"{where}: {fault.reason}: {detail} (clean.strict = false counts it and goes on)"
            )
        name = self.source.name or self.file.stem
        self.tally.add_removed("malformed", fault.reason, where, fault.text, language, name)
        self.tally.add_example(f"{where}: {fault.reason}: {detail}")
        return self._row(fault, name) | {"reason": fault.reason, "detail": f"{where}: {detail}"}

    def _cleaned(self, raw: Raw) -> Row:
        tally = self.tally
        row = self._row(raw, _storable(raw.source) or self.source.name or self.file.stem)
        row["url"], row["licence"] = (
            _storable(raw.url),
            _storable(raw.licence or self.source.licence),
        )
        where = (row["language"], row["source"])
        tally.count_document("in", len(raw.text), *where)
        outcome = self.rules.clean(raw.text)
        for rule, count in outcome.altered.items():
            _note(row, rule, count)
        label = document_id(row["rank"])
        for rule, change in outcome.first_changes.items():
            if tally.wants(RULE + rule, label, *where):
                masked = rule.endswith("_masked")
                shown = change if masked else [self._masked(text, outcome) for text in change]
                tally.add_sample(RULE + rule, label, show_change(rule, *shown), *where)
        if outcome.drop is None:
            return row | {"text": outcome.text}
        text = _storable(raw.text) or ""
        shown_text = self._masked(text, outcome)
        tally.add_removed("removed", outcome.drop.reason, label, shown_text, *where, len(text))
        if self.config.keep_removed == "masked" and shown_text != mask_pii(text, where[0])[0]:
            text = shown_text
        return row | {"text": text, "reason": outcome.drop.reason, "detail": outcome.drop.detail}

    def _masked(self, text: str, outcome: Outcome) -> str:
        """A text of which `outcome` was cleaned, for others to read: masked as documents are.

        Where markup hides personal data in it, the cleaned text stands for it.
        """
        masked = mask_pii(text, self.source.language)[0]
        cleaned, num_masked = mask_pii(outcome.text, self.source.language)
        if num_masked or any(rule.endswith("_masked") for rule in outcome.altered):
            again = self.rules.clean(masked)
            is_hidden = mask_pii(again.text, self.source.language)[1]
            if is_hidden or any(rule.endswith("_masked") for rule in again.altered):
                return cleaned
        return masked


def _note(row: Row, rule: str, count: int) -> None:
    """Note what changed a row; it is counted when the row is kept."""
    row["altered"] = " ".join(filter(None, (row["altered"], f"{rule}={count}")))


def _number(text_hash: bytes, rank: int, exact_dedup: bool) -> int:
    """32 bits that tell documents apart, but not those of which only one is kept."""
    if exact_dedup:
        return int.from_bytes(text_hash[:4])
    return (rank + (rank >> ROW_BITS) * 0x9E3779B1) & 0xFFFFFFFF


def _storable(text: str | None) -> str | None:
    """The text in UTF-8, which cannot hold lone surrogates; None of an empty one."""
    return (text if not text or text.isascii() else remove_lost_characters(text)) or None


# columns the second pass needs
_COMPARED = ("rank", "text", "language", "source", "reason", "altered")


def compare_unit(
    unit: int,
    packed_duplicates: Iterable[bytes],
    packed_quotas: Iterable[bytes],
    config: CleanConfig,
    work: Folder,
    shards: NumShards,
) -> Iterator[dict[int, bytes]]:
    """Changes into the work folder; packed band keys by band and shard, some at a time."""
    tally = Tally()
    clusters = unpack_clusters(packed_duplicates)
    quotas = unpack_quotas(packed_quotas)
    bands: list[tuple[Any, Any, Any]] = []
    num_waiting = 0
    cleaned = cleaned_batches(work, unit, _COMPARED)
    rows_of_unit = chain.from_iterable(batch.to_pylist() for batch in cleaned)
    with parts_of(work, "changed", unit) as changes:
        for batch in _batches(enumerate(rows_of_unit)):
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
                bands.append(_bands(left, config.near_dedup))
                num_waiting += len(left)
            if num_waiting >= _WAITING_DOCUMENTS:
                yield _pack_bands(bands, shards)
                bands, num_waiting = [], 0
    for size in clusters.size_of.values():
        tally.count("clusters", kind="exact", documents=size, clusters=1)
    write_tally(work, "compared", unit, tally)
    if bands:
        yield _pack_bands(bands, shards)


def sketch_unit(
    unit: int,
    packed_members: Iterable[bytes],
    config: CleanConfig,
    work: Folder,
    shards: NumShards,
) -> Iterator[dict[int, bytes]]:
    """The shingles of the documents that share a band with others, by shard, some at a time."""
    members = unpack_members(packed_members)
    candidates: list[Candidate] = []
    num_hashes = 0
    for batch in _batches(chosen_texts(work, unit, members)):
        shingles, keys = _shingles_and_keys([row["text"] for _, row in batch], config.near_dedup)
        for place, (number, row) in enumerate(batch):
            component, component_size = part_of(*members[number], row["rank"])
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
            num_hashes += len(candidates[-1].hashes)
        if num_hashes > _WAITING_HASHES:
            yield pack_candidates(candidates, shards.sketches)
            candidates, num_hashes = [], 0
    yield pack_candidates(candidates, shards.sketches)


def count_removed(row: Row, tally: Tally) -> None:
    """Count a row that has got a reason in a later pass."""
    label = f"{document_id(row['rank'])} {row['detail']}"
    where = (row["language"], row["source"])
    tally.add_removed("removed", row["reason"], label, row["text"], *where)


def _mark_duplicates(rows: Sequence[Row], clusters: Clusters) -> None:
    for row in rows:
        if kept := clusters.kept_of.get(row["rank"]):
            _mark(row, Drop("duplicate", f"of {document_id(kept[0])}"))


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
    decontaminated = index.decontaminate_all([row["text"] for row in rows])
    for row, of_row in zip(rows, decontaminated, strict=True):
        if of_row.matches:
            tally.add_decontaminated(of_row, row["language"])
        if of_row.drop is not None:
            detail = mask_pii(of_row.drop.detail, row["language"])[0]
            _mark(row, replace(of_row.drop, detail=detail))
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
    changed = {name: row.get(name) for name in ("rank", "reason", "detail", "altered")}
    return changed | {"text": text}


def _alter(row: Row, rule: str, text: str, count: int, tally: Tally) -> None:
    """Give the row its changed text; note the change, and show it if it is among those chosen."""
    _note(row, rule, count)
    place = (RULE + rule, document_id(row["rank"]))
    where = (row["language"], row["source"])
    if tally.wants(*place, *where):
        masked = (mask_pii(of, row["language"])[0] for of in (row["text"], text))
        tally.add_sample(*place, excerpt(*masked), *where)
    row["text"] = text


def _mark(row: Row, drop: Drop) -> None:
    row["reason"], row["detail"] = drop.reason, drop.detail


@lru_cache(maxsize=1)
def _benchmark_index(work: Folder) -> BenchmarkIndex:
    """Once a process. What is mapped stays readable when its file is removed."""
    with work.fetch(BENCHMARK_INDEX) as path:
        return BenchmarkIndex.load(path)


def _bands(rows: Sequence[tuple[int, str]], config: NearDedupConfig) -> tuple[Any, Any, Any]:
    """Of the texts that have a shingle: keys by band, numbers, whether one band will do."""
    numbers = np.array([number for number, _ in rows])
    shingles, keys = _shingles_and_keys([text for _, text in rows], config)
    num_shingles = np.diff(shingles.offsets)
    has = num_shingles > 0
    small = is_small(num_shingles, config.similarity)
    return keys[has], numbers[has], small[has]


def _pack_bands(bands: Sequence[tuple[Any, Any, Any]], shards: NumShards) -> dict[int, bytes]:
    keys, numbers, small = map(np.concatenate, zip(*bands, strict=True))
    return pack_bands(keys, numbers, small, shards.bands)


def _shingles_and_keys(texts: Sequence[str], config: NearDedupConfig) -> tuple[Shingles, Keys]:
    shingles = shingle(texts)
    return shingles, band_keys(shingles, config.num_bands, config.rows_per_band)


def _batches(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Rows with their numbers, in batches of about `BATCH_CHARACTERS`."""
    return in_batches(rows, lambda numbered: len(numbered[1]["text"]), BATCH_CHARACTERS)


def write_file(
    file: int, packed_near_duplicates: Iterable[bytes], config: CleanConfig, work: Folder
) -> None:
    """The work files of consecutive units into a file of documents and one of removed rows."""
    clusters = unpack_clusters(packed_near_duplicates)
    tally = Tally()
    with (
        parts_of(work, "documents", file) as documents,
        parts_of(work, "removed", file) as removed,
    ):
        units = units_of_file(file, nums_of_units(work, [group_of_file(file)])[0])
        for batch in chain.from_iterable(current_batches(work, unit) for unit in units):
            batch = _without_near_duplicates(batch, clusters, tally)
            ids = pa.array(map(document_id, batch.column("rank").to_pylist()))
            batch = batch.append_column(DOCUMENT_SCHEMA.field("id"), ids)
            is_kept = pc.is_null(batch.column("reason"))
            _count_kept(kept := batch.filter(is_kept), tally)
            documents.write_batch(kept)
            removed.write_batch(_without_data(batch.filter(pc.invert(is_kept)), config))
    for size in clusters.size_of.values():
        tally.count("clusters", kind="near", documents=size, clusters=1)
    write_tally(work, "written", file, tally)


def _without_near_duplicates(
    batch: pa.RecordBatch, clusters: Clusters, tally: Tally
) -> pa.RecordBatch:
    """The batch with the reason of those that it has; they are counted."""
    ranks = batch.column("rank").to_pylist()
    details = {
        place: f"of {document_id(kept[0])}, similarity {kept[1]:.2f}"
        for place, rank in enumerate(ranks)
        if (kept := clusters.kept_of.get(rank))
    }
    reasons = dict.fromkeys(details, "near_duplicate")
    batch = replace_values(replace_values(batch, "reason", reasons), "detail", details)
    for row in batch.take([*details]).to_pylist() if details else ():
        count_removed(row, tally)
    return batch


def _without_data(removed: pa.RecordBatch, config: CleanConfig) -> pa.RecordBatch:
    """The rows with the texts that they may keep."""
    if config.keep_removed is True:
        return removed
    texts, languages = (removed.column(name).to_pylist() for name in ("text", "language"))
    if config.keep_removed == "masked":
        kept = [mask_pii(*of)[0] for of in zip(texts, languages, strict=True)]
    else:
        kept = [""] * len(texts)
    place = removed.schema.get_field_index("text")
    return removed.set_column(place, removed.schema.field(place), pa.array(kept, pa.string()))


def _count_kept(kept: pa.RecordBatch, tally: Tally) -> None:
    lengths = pc.utf8_length(kept.column("text")).to_pylist()
    columns = [kept.column(name).to_pylist() for name in ("id", "language", "source")]
    for place, (label, *where) in enumerate(zip(*columns, strict=True)):
        tally.count_document("kept", lengths[place], *where)
        if tally.wants("kept", label, *where):
            tally.add_sample("kept", label, kept.column("text")[place].as_py(), *where)
    for value in pc.value_counts(kept.column("licence")).to_pylist():
        tally.count("licences", licence=value["values"] or "", documents=value["counts"])
    notes = zip(kept.column("altered").to_pylist(), *columns[1:], strict=True)
    for (altered, language, source), documents in Counter(notes).items():
        for rule, _, count in (note.partition("=") for note in (altered or "").split()):
            sums = {"documents": documents, "pieces": documents * int(count)}
            tally.count("altered_by_source", rule=rule, language=language, source=source, **sums)
