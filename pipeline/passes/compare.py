"""The passes over batches of documents, behind the first one (`clean_files` in annotate.py).

- `compare_batch` removes what breaks a limit, exact duplicates and benchmark texts, and sends the
  keys of what is left for near duplicates;
- `sketch_batch` sends the shingles of documents that may be near duplicates;
- `send_units` sends the units of what is then left, for documents inside others;
- `send_lines` sends the lines of what is left after that;
- `write_output` removes near duplicates, documents inside others and repeated lines, and writes
  documents and removed rows of some batches into files of the corpus.

So what a removed document says is in a document that stays, or is one of the lines that do.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.dedup.exact import (
    pack_lines,
    pack_units,
    remove_repeated_lines,
    unpack_contained,
    unpack_quotas,
    without_case,
)
from pipeline.dedup.minhash import band_keys, shingle
from pipeline.dedup.near import (
    Candidate,
    pack_bands,
    pack_candidates,
    part_of,
    sketch_size,
    unpack_members,
)
from pipeline.dedup.records import (
    NumShards,
    are_earlier,
    earlier_document,
    is_earlier,
    unpack_removed,
)
from pipeline.documents import DOCUMENT_SCHEMA
from pipeline.passes.annotate import (
    JUDGED,
    Row,
    RulesOf,
    bands_of,
    drops_of,
    flat,
    in_texts,
    note,
    parts_of,
    removed_row,
)
from pipeline.passes.files import (
    BENCHMARK_INDEX,
    chosen_rows,
    new_rows,
    nums_of_batches,
    read_changed_texts,
    read_cleaned,
    read_current,
    with_column,
    write_tally,
)
from pipeline.report.counts import (
    NUM_HOSTS,
    RULE_PREFIX,
    TABLES,
    NGrams,
    Table,
    Tally,
    excerpt,
    largest,
    source_group,
)
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import Drop, too_short
from pipeline.sources.input_file import (
    ROW_BITS,
    batches_of_output,
    document_id,
    file_batch_of_output,
)
from pipeline.work_folder import WorkFolder, load_once, once, pack_for_shards

_WAITING_HASHES = 1 << 22  # of sketches that wait to be sent: 32 MB


# columns of the rows that the second pass may change, and of those that are written
_COMPARED = ("rank", "text", "raw", "language", "source", "reason", "detail", "altered")
_WRITTEN = ("rank", "reason", "detail", "altered", *DOCUMENT_SCHEMA.names[1:])
Answers = tuple[int, Mapping[str, Iterable[Any]]]  # of shards, to a batch or output


def compare_batch(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(batch, b""); "bands": (shard, (batch, packed keys)). Changes go into the work folder."""
    batch = answers[0]
    make = partial(_compare, answers, config, work, shards)
    for bands in once(work, f"bands-{batch:010d}", make):
        for shard, packed in bands:
            yield TaggedOutput("bands", (shard, (batch, packed)))
    yield batch, b""


def _compare(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[dict[int, bytes]]:
    """Apply limits, remove duplicates and benchmark texts, and write the rows that change; by shard
    the packed band keys of the rows that are left."""
    batch, packed = answers
    tally = Tally()
    kept_of, rules_of = unpack_removed(packed["duplicates"]), RulesOf(config)
    drops, live, touched, keys = _find_affected(batch, kept_of, rules_of, config, work)
    wanted = touched | drops.keys()
    anew: dict[int, NDArray[np.uint64]] = {}  # by number of a row the keys of its changed text
    with new_rows(work, "changed", batch) as changes:
        cleaned = read_cleaned(work, batch, _COMPARED)
        for numbered in in_texts(chosen_rows(cleaned, wanted) if wanted else ()):
            rows = [row for _, row in numbered]
            texts = [row["text"] for row in rows]
            for number, row in numbered:
                if drop := drops.get(number):
                    row |= removed_row(row, drop, rules_of, config, tally)
                elif kept := kept_of.get(row["rank"]):
                    _mark(row, _duplicate("duplicate", kept[0], config))
            if config.decontaminate_against:
                index = load_once(work, BENCHMARK_INDEX, BenchmarkIndex.load)
                _decontaminate(_kept(rows), index, tally)
            changed = [
                (number, row)
                for (number, row), before in zip(numbered, texts, strict=True)
                if number in drops or _finish_row(row, before, config, tally)
            ]
            changes.write([row for _, row in changed])
            live[[number for number, _ in changed]] = False
            if left := [(number, row["text"]) for number, row in changed if row["reason"] is None]:
                numbers, changed_texts = zip(*left, strict=True)
                anew |= zip(numbers, bands_of(changed_texts, config), strict=True)
    write_tally(work, "compared", batch, tally)
    if config.near_dedup.enabled:
        places = np.array([*np.flatnonzero(live).tolist(), *anew])
        stored, num_stored = flat(keys.filter(pa.array(live)))
        all_keys = np.concatenate([stored, *anew.values()])
        num_keys = np.concatenate([num_stored, [*map(len, anew.values())]])
        yield pack_bands(all_keys, num_keys.astype(np.int64), places, shards.bands)


def _find_affected(
    batch: int,
    ranks_removed: Collection[int],
    rules_of: RulesOf,
    config: CleanConfig,
    work: WorkFolder,
) -> tuple[dict[int, Drop], NDArray[np.bool_], set[int], pa.ChunkedArray]:
    """The numbers of the rows of a batch that limits remove; which rows are left; the numbers of
    those that may change; and the keys of all bands."""
    drops: dict[int, Drop] = {}
    removed = np.array([*ranks_removed], np.uint64)
    live, touched, keys = [], [], []
    first = 0
    for rows in read_cleaned(work, batch, [*JUDGED, "band_keys"]):
        ranks = rows.column("rank").to_numpy()
        of_rows, is_live = drops_of(rows, rules_of)
        drops |= {first + place: drop for place, drop in of_rows.items()}
        first += len(rows)
        is_touched = np.isin(ranks, removed)
        if config.decontaminate_against:
            is_touched[:] = True
        live.append(is_live)
        touched.append(is_touched & is_live & ~are_earlier(ranks))
        keys.append(rows.column("band_keys"))
    numbers = set(np.flatnonzero(np.concatenate(touched)).tolist())
    return drops, np.concatenate(live), numbers, pa.chunked_array(keys)


def _duplicate(reason: str, kept: int, config: CleanConfig) -> Drop:
    if is_earlier(kept):
        return Drop(f"earlier_{reason}", f"of {earlier_document(kept, config.dedup_against)}")
    return Drop(reason, f"of {document_id(kept)}")


def _kept(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["reason"] is None]


def _decontaminate(rows: Sequence[Row], index: BenchmarkIndex, tally: Tally) -> None:
    results = index.decontaminate([row["text"] for row in rows])
    for row, result in zip(rows, results, strict=True):
        if result.matches:
            tally.add_decontaminated(result, row["language"])
        if result.drop is not None:
            detail = mask_pii(result.drop.detail, row["language"])[0]
            _mark(row, replace(result.drop, detail=detail))
        elif result.text != row["text"]:
            _alter(row, "contamination_removed", result.text, result.num_lines_removed, tally)


def _finish_row(row: Row, before: str, config: CleanConfig, tally: Tally) -> bool:
    """Whether the row has changed; one that is removed gets its text back and is counted."""
    if row["reason"] is None:
        if row["text"] == before:
            return False
        if drop := too_short(len(row["text"]), config.rules_for(row["language"]).min_characters):
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
    note(row, rule, count)
    name, where = (RULE_PREFIX + rule, document_id(row["rank"])), (row["language"], row["source"])
    if tally.wants(*name, *where):
        masked = (mask_pii(of, row["language"])[0] for of in (row["text"], text))
        tally.add_sample(*name, excerpt(*masked), *where)
    row["text"] = text


def _mark(row: Row, drop: Drop) -> None:
    row["reason"], row["detail"] = drop.reason, drop.detail


def sketch_batch(
    members: tuple[int, Iterable[bytes]], config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(shard, (batch, packed shingles)) of the documents that share a band with others."""
    batch, packed = members
    component_of = unpack_members(packed)
    candidates: list[Candidate] = []
    num_hashes = 0
    of_batch = read_current(work, batch, ["rank", "text"])
    for numbered in in_texts(chosen_rows(of_batch, component_of)):
        shingles = shingle([row["text"] for _, row in numbered])
        keys = band_keys(shingles, config.near_dedup.num_bands, config.near_dedup.rows_per_band)
        for place, (number, row) in enumerate(numbered):
            component, component_size = part_of(*component_of[number], row["rank"])
            distinct = shingles.distinct(place)
            hashes = distinct[: sketch_size(component_size)].copy()  # frees the others
            num_hashes += len(hashes)
            length, num_shingles = len(row["text"]), len(distinct)
            candidates.append(
                Candidate(component, row["rank"], length, num_shingles, keys[place], hashes)
            )
        if num_hashes > _WAITING_HASHES:
            yield from _sent(candidates, batch, work, shards)
            candidates, num_hashes = [], 0
    yield from _sent(candidates, batch, work, shards)


def _sent(
    candidates: Sequence[Candidate], batch: int, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    for shard, packed in pack_for_shards(pack_candidates(candidates, shards.sketches), work):
        yield shard, (batch, packed)


def send_units(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(shard, (batch, packed units)) of the documents that are no near duplicates."""
    batch, packed = answers
    gone = unpack_removed(packed["near_duplicates"])
    ranks, units, counts = _parts_left(work, batch, "unit_hashes", gone, config)
    for shard, of in pack_for_shards(pack_units(units, ranks, counts, shards.units), work):
        yield shard, (batch, of)


def send_lines(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(shard, (batch, packed lines)) of the documents that are in no other."""
    batch, packed = answers
    gone = unpack_removed(packed["near_duplicates"]) | unpack_contained(packed["contained"])
    ranks, lines, counts = _parts_left(work, batch, "line_hashes", gone, config)
    # 32 bits that tell documents apart
    numbers = (ranks + (ranks >> np.uint64(ROW_BITS)) * np.uint64(0x9E3779B1)).astype(np.uint32)
    max_documents = config.line_dedup.max_documents
    by_shard = pack_lines(lines, np.repeat(numbers, counts), max_documents, shards.lines)
    for shard, of in pack_for_shards(by_shard, work):
        yield shard, (batch, of)


def _parts_left(
    work: WorkFolder, batch: int, column: str, gone: Collection[int], config: CleanConfig
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Ranks of the rows of a batch that are left, and the hashes of their parts with how many each
    has."""
    changed = read_changed_texts(work, batch)
    removed = np.array([*gone, *changed], np.uint64)  # the hashes of a changed text are others now
    left = pa.Table.from_batches(
        rows.filter(
            pc.and_(
                pc.is_null(rows.column("reason")),
                pa.array(~np.isin(rows.column("rank").to_numpy(), removed)),
            )
        )
        for rows in read_current(work, batch, ["rank", "reason", column])
    )
    hashes, counts = flat(left[column])
    anew = {
        rank: parts_of(rank, text, without_case(text), config).get(column, [])
        for rank, text in changed.items()
        if rank not in gone
    }
    return (
        np.concatenate([left["rank"].to_numpy(), np.array([*anew], np.uint64)]),
        np.concatenate([hashes, *(np.array(of, np.uint64) for of in anew.values())]),
        np.concatenate([counts, np.array([*map(len, anew.values())], np.int64)]),
    )


def write_output(
    answers: Answers, config: CleanConfig, work: WorkFolder, _: NumShards
) -> tuple[()]:
    """The work files of consecutive batches into a file of documents and one of removed rows."""
    output, packed = answers
    drops = _similar(packed, config)
    quotas_of: dict[int, list[bytes]] = defaultdict(list)
    for batch, of in packed["quotas"]:
        quotas_of[batch].append(of)
    tally, hosts, ngrams = Tally(), Table(*TABLES["hosts"]), NGrams()
    with (
        new_rows(work, "documents", output) as documents,
        new_rows(work, "removed", output) as removed,
    ):
        for batch in batches_of_output(
            output, *nums_of_batches(work, [file_batch_of_output(output)])
        ):
            quotas = unpack_quotas(quotas_of[batch])
            for rows in read_current(work, batch, (*_WRITTEN, "line_hashes")):
                if is_earlier(rows.column("rank")[0].as_py()):
                    break
                rows = _rewritten(rows, drops, quotas, config, tally)
                ids = pa.array(map(document_id, rows.column("rank").to_pylist()))
                rows = rows.append_column(DOCUMENT_SCHEMA.field("id"), ids)
                is_kept = pc.is_null(rows.column("reason"))
                _count_kept(kept := rows.filter(is_kept), tally, hosts, ngrams)
                documents.write_batch(kept)
                removed.write_batch(_without_data(rows.filter(pc.invert(is_kept)), config))
    for row in largest(hosts.rows(), "documents", 4 * NUM_HOSTS):  # what is frequent in all is here
        tally.count("hosts", **row)
    for language, ngram, count in ngrams.frequent():
        tally.count("ngrams", language=language, ngram=ngram, count=count)
    write_tally(work, "written", output, tally)
    return ()


def _similar(packed: Mapping[str, Iterable[Any]], config: CleanConfig) -> dict[int, Drop]:
    """By rank why near duplicates and documents inside others are removed."""
    drops: dict[int, Drop] = {}
    for rank, (kept, similarity) in unpack_removed(packed["near_duplicates"]).items():
        drop = _duplicate("near_duplicate", kept, config)
        drops[rank] = replace(drop, detail=f"{drop.detail}, similarity {similarity:.2f}")
    for rank, longer in unpack_contained(packed["contained"]).items():
        drops[rank] = _duplicate("contained", longer, config)
    return drops


def _rewritten(
    rows: pa.RecordBatch,
    drops: Mapping[int, Drop],
    quotas: dict[int, int],
    config: CleanConfig,
    tally: Tally,
) -> pa.RecordBatch:
    """The rows without repeated lines, and with the reasons of those that are removed; both are
    counted. Call it for the rows of a batch in order: a line that stays uses up its quota."""
    lines = rows.column("line_hashes")
    owners = pc.list_parent_indices(lines).to_numpy()
    repeated = np.isin(lines.flatten().to_numpy(), np.array([*quotas], np.uint64))
    is_affected = np.array([rank in drops for rank in rows.column("rank").to_pylist()], np.bool_)
    is_affected[owners[repeated]] = True
    is_affected &= rows.column("reason").is_null().to_numpy(zero_copy_only=False)
    changed: list[Row] = rows.take(pa.array(np.flatnonzero(is_affected))).to_pylist()
    for row in changed:
        before = row["text"]
        if drop := drops.get(row["rank"]):
            _mark(row, drop)
        else:
            _remove_lines(row, quotas, config, tally)
        _finish_row(row, before, config, tally)
    for name in ("text", "reason", "detail", "altered") if changed else ():
        values = pa.array([row[name] for row in changed], pa.string())
        column = pc.replace_with_mask(rows.column(name), pa.array(is_affected), values)
        rows = with_column(rows, name, column)
    return rows


def _remove_lines(row: Row, quotas: dict[int, int], config: CleanConfig, tally: Tally) -> None:
    text, count = remove_repeated_lines(row["text"], config.line_dedup.min_characters, quotas)
    if not text:
        _mark(row, Drop("repeated_lines", f"{count} lines, each in many documents"))
    elif count:
        _alter(row, "repeated_lines_removed", text, count, tally)


def _without_data(removed: pa.RecordBatch, config: CleanConfig) -> pa.RecordBatch:
    """The rows with the texts that they may keep."""
    if config.keep_removed is True:
        return removed
    texts, languages = (removed.column(name).to_pylist() for name in ("text", "language"))
    if config.keep_removed == "masked":
        kept = [mask_pii(*of)[0] for of in zip(texts, languages, strict=True)]
    else:
        kept = [""] * len(texts)
    return with_column(removed, "text", pa.array(kept, pa.string()))


def _count_kept(kept: pa.RecordBatch, tally: Tally, hosts: Table, ngrams: NGrams) -> None:
    lengths = pc.utf8_length(kept.column("text")).to_pylist()
    columns = [kept.column(name).to_pylist() for name in ("id", "language", "source")]
    alike = Counter(zip(lengths, *columns[1:], strict=True))
    for (length, language, source), num in alike.items():
        tally.count_document("kept", length, language, source, num)
    for place, (label, *where) in enumerate(zip(*columns, strict=True)):
        if tally.wants("kept", label, *where):
            tally.add_sample("kept", label, kept.column("text")[place].as_py(), *where)
        if ngrams.wants(label):
            ngrams.add(kept.column("text")[place].as_py(), where[0])
    for url, length in zip(kept.column("url").to_pylist(), lengths, strict=True):
        if url:
            hosts.add({"host": source_group(url), "documents": 1, "characters": length})
    for value in pc.value_counts(kept.column("licence")).to_pylist():
        tally.count("licences", licence=value["values"] or "", documents=value["counts"])
    notes = zip(kept.column("altered").to_pylist(), *columns[1:], strict=True)
    for (altered, language, source), documents in Counter(notes).items():
        for rule, _, count in (of.partition("=") for of in (altered or "").split()):
            sums = {"documents": documents, "pieces": documents * int(count)}
            tally.count("altered_by_source", rule=rule, language=language, source=source, **sums)
