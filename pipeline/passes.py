"""The passes over batches of the corpus: what a worker does with the texts.

- `clean_files` reads, cleans and filters, and hashes what only all documents together decide;
- `compare_batch` removes exact duplicates, repeated lines and benchmark texts, and hashes what is
  left for near duplicates;
- `sketch_batch` sends the shingles of documents that may be near duplicates;
- `write_output` writes documents and removed rows of some batches into files of the corpus.
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

from electrify.config.clean import CleanConfig
from electrify.config.fields import without_secrets
from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.dedup.components import is_small, pack_bands, unpack_members
from pipeline.dedup.earlier import earlier_document, earlier_texts, is_earlier
from pipeline.dedup.exact import (
    LineCounter,
    pack_hashes,
    remove_repeated_lines,
    text_hash,
    unpack_quotas,
    without_case,
)
from pipeline.dedup.minhash import CHARACTERS_AT_ONCE, band_keys, shingle
from pipeline.dedup.near import Candidate, pack_candidates, part_of, sketch_size
from pipeline.dedup.records import Clusters, NumShards, unpack_clusters
from pipeline.documents import DOCUMENT_SCHEMA, in_chunks
from pipeline.pass_files import (
    BENCHMARK_INDEX,
    BLOCKED_HOSTS,
    CLEANED_SCHEMA,
    chosen_texts,
    nums_of_batches,
    parts_of,
    read_cleaned,
    read_current,
    reading_progress,
    replace_values,
    write_tally,
)
from pipeline.report.counts import RULE, Tally, excerpt, mask_excerpt
from pipeline.rules.hosts import BlockedHosts
from pipeline.rules.language import main_language
from pipeline.rules.normalize import remove_lost_characters
from pipeline.rules.order import DocumentRules, Outcome
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import Drop, too_short
from pipeline.sources.input_file import (
    ROW_BITS,
    FileBatch,
    InputFile,
    batch_number,
    batches_of_output,
    document_id,
    file_batch_of_output,
)
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file

Row = dict[str, Any]
_WAITING_HASHES = 1 << 22  # of sketches that wait to be sent: 32 MB


def clean_files(
    files: FileBatch, config: CleanConfig, work: Folder, shards: NumShards
) -> Iterator[dict[int, bytes]]:
    """Rows of a batch of files into the work folder, in batches of documents.

    Of each batch come packed hashes of texts by shard, then of lines. Raises `ValueError` with file
    and row for a file or, if the config is strict, a row that cannot be read.
    """
    tally = Tally()
    add = reading_progress(work, files.index, sum(file.num_bytes for file in files.files))
    hosts = _blocked_hosts(work) if config.blocked_hosts else None
    rows = chain.from_iterable(
        _earlier_rows(file)
        if file.is_earlier
        else _FileCleaner(replace(file, on_read=add), config, tally, hosts).rows()
        for file in files.files
    )
    num_characters = 0

    def index_of(row: Row) -> int:
        nonlocal num_characters
        index = num_characters // files.batch_characters
        num_characters += len(row["text"])
        return index

    for index, (_, batch_rows) in enumerate(groupby(rows, index_of)):
        yield from _clean_batch(batch_number(files.index, index), batch_rows, config, work, shards)
    write_tally(work, "read", files.index, tally)


def _clean_batch(
    batch: int, rows: Iterable[Row], config: CleanConfig, work: Folder, shards: NumShards
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    hashes, ranks = bytearray(), array("Q")
    lines = LineCounter(config.line_dedup.min_characters, config.line_dedup.max_documents)
    with parts_of(work, "cleaned", batch) as parts:
        for row in rows:
            parts.write(row)
            if row["reason"] is None:
                folded = without_case(row["text"])
                hashes += (digest := text_hash(folded))
                ranks.append(row["rank"])
                if config.line_dedup.enabled and not is_earlier(row["rank"]):
                    number = _number(digest, row["rank"], config.exact_dedup)
                    lines.add(row["text"], folded, number)
    texts = pack_hashes(hashes, ranks, shards.texts) if config.exact_dedup else {}
    return texts, lines.pack(shards.lines)


def _number(text_hash: bytes, rank: int, exact_dedup: bool) -> int:
    """32 bits that tell documents apart, but not those of which only one is kept."""
    if exact_dedup:
        return int.from_bytes(text_hash[:4])
    return (rank + (rank >> ROW_BITS) * 0x9E3779B1) & 0xFFFFFFFF


def _earlier_rows(file: InputFile) -> Iterator[Row]:
    for rank, text in earlier_texts(file):
        blank = dict.fromkeys(CLEANED_SCHEMA.names)
        yield blank | {"rank": rank, "text": text, "language": "", "source": ""}


class _FileCleaner:
    """The rows of one file, cleaned, with the reason of those that are removed."""

    def __init__(
        self, file: InputFile, config: CleanConfig, tally: Tally, hosts: BlockedHosts | None = None
    ) -> None:
        self.file, self.config, self.tally, self.hosts = file, config, tally, hosts
        self.source = source = config.sources[file.source_index]
        self.language = source.language  # of the row at hand
        self.rules_of = {
            language: DocumentRules(source.model_copy(update={"language": language}), config)
            for language in (source.language, *source.other_languages)
        }

    def rows(self) -> Iterator[Row]:
        counts = {"documents": 0, "malformed": 0}
        for item in read_file(self.file, self.source, self.config.max_line_bytes):
            if isinstance(item, Fault):
                self.language = self.source.language
                counts["malformed"] += 1
                yield self._malformed(item)
            else:
                self.language = self._language_of(item.text)
                counts["documents"] += 1
                yield self._cleaned(item)
        self.tally.files.append({"path": self.file.shown_path} | counts)

    def _language_of(self, text: str) -> str:
        """The one of the source's other languages that the text is in, else the source's."""
        others = self.source.other_languages
        found = main_language(text) if others else None
        return found if found and found in others else self.source.language

    def _row(self, item: Raw | Fault, source: str) -> Row:
        return {
            "rank": self.file.first_rank + item.row,
            "text": item.text,
            "language": self.language,
            "source": source,
            "source_id": _storable(item.source_id),
            **dict.fromkeys(("url", "licence", "reason", "detail", "altered")),
        }

    def _malformed(self, fault: Fault) -> Row:
        where = self.file.where(fault.row, fault.offset)
        detail = mask_pii(without_secrets(_storable(fault.detail) or ""), self.language)[0]
        if fault.reason == "unreadable_file":
            if self.config.damaged_files == "stop":
                raise UserError(
                    f"{where}: {detail}. Repair the file, take it out of the sources, or set "
                    'clean.damaged_files = "keep" to take what can be read of it'
                )
        elif self.config.strict:
            raise UserError(
                f"{where}: {fault.reason}: {detail} (clean.strict = false counts it and continues)"
            )
        name = self.source.name or self.file.stem
        self.tally.add_removed("malformed", fault.reason, where, fault.text, self.language, name)
        self.tally.add_example(f"{where}: {fault.reason}: {detail}")
        return self._row(fault, name) | {"reason": fault.reason, "detail": f"{where}: {detail}"}

    def _cleaned(self, raw: Raw) -> Row:
        tally, rules = self.tally, self.rules_of[self.language]
        row = self._row(raw, _storable(raw.source) or self.source.name or self.file.stem)
        row["url"] = _storable(raw.url)
        row["licence"] = _storable(raw.licence or self.source.licence)
        label, where = document_id(row["rank"]), (row["language"], row["source"])
        tally.count_document("in", len(raw.text), *where)
        if host := self.hosts and self.hosts.find(raw.url):
            outcome = Outcome(raw.text, {}, Drop("blocked_host", host), {})
        else:
            outcome = rules.clean(raw.text)
        for rule, count in outcome.altered.items():
            _note(row, rule, count)
        for rule, (before, after) in outcome.first_changes.items():
            if not tally.wants(RULE + rule, label, *where):
                continue
            if rule.endswith("_masked"):
                shown = mask_excerpt(before, after, f"<{rule.removesuffix('_masked')}>")
            else:
                shown = excerpt(*(self._masked(text, outcome)[0] for text in (before, after)))
            tally.add_sample(RULE + rule, label, shown, *where)
        if outcome.drop is None:
            return row | {"text": outcome.text}
        text = _storable(raw.text) or ""
        shown, is_hidden = self._masked(text, outcome)
        tally.add_removed("removed", outcome.drop.reason, label, shown, *where, len(text))
        if self.config.keep_removed == "masked" and is_hidden:
            text = shown
        return row | {"text": text, "reason": outcome.drop.reason, "detail": outcome.drop.detail}

    def _masked(self, text: str, outcome: Outcome) -> tuple[str, bool]:
        """A text of which `outcome` was cleaned, for others to read: masked as documents are; and
        whether markup hides personal data in it, so that the cleaned text stands for it."""
        masked = mask_pii(text, self.language)[0]
        cleaned, num_masked = mask_pii(outcome.text, self.language)
        if num_masked or _has_masks(outcome):
            again = self.rules_of[self.language].clean(masked)
            if mask_pii(again.text, self.language)[1] or _has_masks(again):
                return cleaned, True
        return masked, False


def _has_masks(outcome: Outcome) -> bool:
    return any(rule.endswith("_masked") for rule in outcome.altered)


def _note(row: Row, rule: str, count: int) -> None:
    """Note what changed a row; it is counted when the row is kept."""
    row["altered"] = " ".join(filter(None, (row["altered"], f"{rule}={count}")))


def _storable(text: str | None) -> str | None:
    """The text in UTF-8, which cannot hold lone surrogates; None of an empty one."""
    return (text if not text or text.isascii() else remove_lost_characters(text)) or None


# columns the second pass needs
_COMPARED = ("rank", "text", "language", "source", "reason", "altered")


def compare_batch(
    batch: int,
    packed_duplicates: Iterable[bytes],
    packed_quotas: Iterable[bytes],
    config: CleanConfig,
    work: Folder,
    shards: NumShards,
) -> Iterator[dict[int, bytes]]:
    """Changes into the work folder; packed band keys by band and shard."""
    tally = Tally()
    clusters, quotas = unpack_clusters(packed_duplicates), unpack_quotas(packed_quotas)
    bands: list[tuple[Any, Any, Any]] = []
    cleaned = chain.from_iterable(r.to_pylist() for r in read_cleaned(work, batch, _COMPARED))
    with parts_of(work, "changed", batch) as changes:
        for numbered in _chunks(enumerate(cleaned)):
            live = [(number, row) for number, row in numbered if row["reason"] is None]
            rows = [row for _, row in live if not is_earlier(row["rank"])]
            texts = [row["text"] for row in rows]
            for row in rows:
                if kept := clusters.kept_of.get(row["rank"]):
                    _mark(row, _duplicate("duplicate", kept[0], config))
            if quotas:
                _remove_lines(_kept(rows), quotas, config, tally)
            if config.decontaminate_against:
                _decontaminate(_kept(rows), _benchmark_index(work), tally)
            for row, before in zip(rows, texts, strict=True):
                if _settle(row, before, config, tally):
                    text = row["text"] if row["text"] != before else None
                    changes.write(row | {"text": text})
            left = [(number, row["text"]) for number, row in live if row["reason"] is None]
            if left and config.near_dedup.enabled:
                bands.append(_bands(left, config))
    for size in clusters.size_of.values():
        tally.count("clusters", kind="exact", documents=size, clusters=1)
    write_tally(work, "compared", batch, tally)
    if bands:
        keys, numbers, small = map(np.concatenate, zip(*bands, strict=True))
        yield pack_bands(keys, numbers, small, shards.bands)


def _duplicate(reason: str, kept: int, config: CleanConfig) -> Drop:
    if is_earlier(kept):
        return Drop(f"earlier_{reason}", f"of {earlier_document(kept, config.dedup_against)}")
    return Drop(reason, f"of {document_id(kept)}")


def _kept(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["reason"] is None]


def _remove_lines(
    rows: Sequence[Row], quotas: dict[int, int], config: CleanConfig, tally: Tally
) -> None:
    """Remove repeated lines from documents in order; each uses up the quotas of its lines."""
    for row in rows:
        min_characters = config.line_dedup.min_characters
        text, count = remove_repeated_lines(row["text"], min_characters, quotas)
        if not text:
            _mark(row, Drop("repeated_lines", f"{count} lines, each in many documents"))
        elif count:
            _alter(row, "repeated_lines_removed", text, count, tally)


def _decontaminate(rows: Sequence[Row], index: BenchmarkIndex, tally: Tally) -> None:
    results = index.decontaminate_all([row["text"] for row in rows])
    for row, result in zip(rows, results, strict=True):
        if result.matches:
            tally.add_decontaminated(result, row["language"])
        if result.drop is not None:
            detail = mask_pii(result.drop.detail, row["language"])[0]
            _mark(row, replace(result.drop, detail=detail))
        elif result.text != row["text"]:
            _alter(row, "contamination_removed", result.text, result.num_lines_removed, tally)


@lru_cache(maxsize=1)
def _blocked_hosts(work: Folder) -> BlockedHosts:
    """Loaded once by each process."""
    with work.fetch(BLOCKED_HOSTS) as path:
        return BlockedHosts.load(path)


@lru_cache(maxsize=1)
def _benchmark_index(work: Folder) -> BenchmarkIndex:
    """Once a process. What is mapped stays readable when its file is removed."""
    with work.fetch(BENCHMARK_INDEX) as path:
        return BenchmarkIndex.load(path)


def _settle(row: Row, before: str, config: CleanConfig, tally: Tally) -> bool:
    """Whether the row has changed; one that is removed gets its text back and is counted."""
    if row["reason"] is None:
        if row["text"] == before:
            return False
        if drop := too_short(row["text"], config.rules_for(row["language"]).min_characters):
            _mark(row, drop)
    if row["reason"] is not None:
        row["text"] = before
        _count_removed(row, tally)
    return True


def _count_removed(row: Row, tally: Tally) -> None:
    """Count a row that has got a reason in a later pass."""
    label = f"{document_id(row['rank'])} {row['detail']}"
    where = (row["language"], row["source"])
    tally.add_removed("removed", row["reason"], label, row["text"], *where)


def _alter(row: Row, rule: str, text: str, count: int, tally: Tally) -> None:
    """Give the row its changed text; note the change, and show it if it is among those chosen."""
    _note(row, rule, count)
    name, where = (RULE + rule, document_id(row["rank"])), (row["language"], row["source"])
    if tally.wants(*name, *where):
        masked = (mask_pii(of, row["language"])[0] for of in (row["text"], text))
        tally.add_sample(*name, excerpt(*masked), *where)
    row["text"] = text


def _mark(row: Row, drop: Drop) -> None:
    row["reason"], row["detail"] = drop.reason, drop.detail


def _bands(rows: Sequence[tuple[int, str]], config: CleanConfig) -> tuple[Any, Any, Any]:
    """Of the texts that have a shingle: keys by band, numbers, whether one band will do."""
    numbers, texts = zip(*rows, strict=True)
    near = config.near_dedup
    shingles = shingle(texts)
    keys = band_keys(shingles, near.num_bands, near.rows_per_band)
    num_shingles = np.diff(shingles.offsets)
    has = num_shingles > 0
    return keys[has], np.array(numbers)[has], is_small(num_shingles, near.similarity)[has]


def _chunks(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Rows with their numbers, of about `CHARACTERS_AT_ONCE` together."""
    return in_chunks(rows, lambda numbered: len(numbered[1]["text"]), CHARACTERS_AT_ONCE)


def sketch_batch(
    batch: int,
    packed_members: Iterable[bytes],
    config: CleanConfig,
    work: Folder,
    shards: NumShards,
) -> Iterator[dict[int, bytes]]:
    """The shingles of the documents that share a band with others, by shard, some at a time."""
    members = unpack_members(packed_members)
    candidates: list[Candidate] = []
    num_hashes = 0
    for numbered in _chunks(chosen_texts(work, batch, members)):
        shingles = shingle([row["text"] for _, row in numbered])
        keys = band_keys(shingles, config.near_dedup.num_bands, config.near_dedup.rows_per_band)
        for place, (number, row) in enumerate(numbered):
            component, component_size = part_of(*members[number], row["rank"])
            distinct = shingles.distinct(place)
            hashes = distinct[: sketch_size(component_size)].copy()  # frees the others
            num_hashes += len(hashes)
            length, num_shingles = len(row["text"]), len(distinct)
            candidates.append(
                Candidate(component, row["rank"], length, num_shingles, keys[place], hashes)
            )
        if num_hashes > _WAITING_HASHES:
            yield pack_candidates(candidates, shards.sketches)
            candidates, num_hashes = [], 0
    yield pack_candidates(candidates, shards.sketches)


def write_output(
    output: int, packed_near_duplicates: Iterable[bytes], config: CleanConfig, work: Folder
) -> None:
    """The work files of consecutive batches into a file of documents and one of removed rows."""
    clusters = unpack_clusters(packed_near_duplicates)
    tally = Tally()
    with (
        parts_of(work, "documents", output) as documents,
        parts_of(work, "removed", output) as removed,
    ):
        batches = batches_of_output(output, *nums_of_batches(work, [file_batch_of_output(output)]))
        for rows in chain.from_iterable(read_current(work, batch) for batch in batches):
            if is_earlier(rows.column("rank")[0].as_py()):
                break
            rows = _without_near_duplicates(rows, clusters, config, tally)
            ids = pa.array(map(document_id, rows.column("rank").to_pylist()))
            rows = rows.append_column(DOCUMENT_SCHEMA.field("id"), ids)
            is_kept = pc.is_null(rows.column("reason"))
            _count_kept(kept := rows.filter(is_kept), tally)
            documents.write_batch(kept)
            removed.write_batch(_without_data(rows.filter(pc.invert(is_kept)), config))
    for size in clusters.size_of.values():
        tally.count("clusters", kind="near", documents=size, clusters=1)
    write_tally(work, "written", output, tally)


def _without_near_duplicates(
    rows: pa.RecordBatch, clusters: Clusters, config: CleanConfig, tally: Tally
) -> pa.RecordBatch:
    """The rows with the reason of those that are near duplicates; they are counted."""
    reasons, details = {}, {}
    for place, rank in enumerate(rows.column("rank").to_pylist()):
        if kept := clusters.kept_of.get(rank):
            drop = _duplicate("near_duplicate", kept[0], config)
            reasons[place], details[place] = drop.reason, f"{drop.detail}, similarity {kept[1]:.2f}"
    rows = replace_values(replace_values(rows, "reason", reasons), "detail", details)
    for row in rows.take([*details]).to_pylist() if details else ():
        _count_removed(row, tally)
    return rows


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
