"""The passes over batches of documents, behind the first one (`clean_files` in annotate.py).

- `compare_batch` removes what breaks a limit, exact duplicates, documents inside others, repeated
  lines and benchmark texts, and sends the keys of what is left for near duplicates;
- `sketch_batch` sends the shingles of documents that may be near duplicates;
- `write_output` writes documents and removed rows of some batches into files of the corpus.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.dedup.exact import remove_repeated_lines, unpack_contained, unpack_quotas
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
    removed_row,
)
from pipeline.passes.files import (
    BENCHMARK_INDEX,
    chosen_rows,
    new_rows,
    nums_of_batches,
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
    batches_of_output,
    document_id,
    file_batch_of_output,
    output_of_batch,
)
from pipeline.work_folder import WorkFolder, load_once, once, pack_for_shards

_WAITING_HASHES = 1 << 22  # of sketches that wait to be sent: 32 MB


# columns of the rows that the second pass may change, and of those that are written
_COMPARED = ("rank", "text", "raw", "language", "source", "reason", "detail", "altered")
_WRITTEN = ("rank", "reason", "detail", "altered", *DOCUMENT_SCHEMA.names[1:])
Answers = tuple[int, Mapping[str, Iterable[bytes]]]  # of shards, to a batch or output


def compare_batch(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(output, b""); "bands": (shard, (batch, packed keys)). Changes go into the work folder."""
    batch = answers[0]
    make = partial(_compare, answers, config, work, shards)
    for bands in once(work, f"bands-{batch:010d}", make):
        for shard, packed in bands:
            yield TaggedOutput("bands", (shard, (batch, packed)))
    yield output_of_batch(batch), b""


def _compare(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[dict[int, bytes]]:
    """Apply limits, remove duplicates, repeated lines and benchmark texts, and write the rows that
    change; by shard the packed band keys of the rows that are left."""
    batch, packed = answers
    tally = Tally()
    kept_of, quotas = unpack_removed(packed["duplicates"]), unpack_quotas(packed["quotas"])
    contained = unpack_contained(packed["contained"])
    removed = {*kept_of, *contained}
    rules_of = RulesOf(config)
    drops, live, touched, keys = _find_affected(batch, removed, quotas, rules_of, config, work)
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
                elif longer := contained.get(row["rank"]):
                    _mark(row, _duplicate("contained", longer, config))
            if quotas:
                _remove_lines(_kept(rows), quotas, config, tally)
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
    quotas: Mapping[int, int],
    rules_of: RulesOf,
    config: CleanConfig,
    work: WorkFolder,
) -> tuple[dict[int, Drop], NDArray[np.bool_], set[int], pa.ChunkedArray]:
    """The numbers of the rows of a batch that limits remove; which rows are left; the numbers of
    those that may change; and the keys of all bands."""
    drops: dict[int, Drop] = {}
    removed = np.array([*ranks_removed], np.uint64)
    repeated = np.array([*quotas], np.uint64)
    live, touched, keys = [], [], []
    first = 0
    for rows in read_cleaned(work, batch, [*JUDGED, "line_hashes", "band_keys"]):
        ranks, lines = rows.column("rank").to_numpy(), rows.column("line_hashes")
        of_rows, is_live = drops_of(rows, rules_of)
        drops |= {first + place: drop for place, drop in of_rows.items()}
        first += len(rows)
        is_touched = np.isin(ranks, removed)
        if config.decontaminate_against:
            is_touched[:] = True
        elif len(repeated):
            owners = pc.list_parent_indices(lines).to_numpy()
            is_touched[owners[np.isin(lines.flatten().to_numpy(), repeated)]] = True
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


def write_output(
    answers: Answers, config: CleanConfig, work: WorkFolder, _: NumShards
) -> tuple[()]:
    """The work files of consecutive batches into a file of documents and one of removed rows."""
    output, packed = answers
    kept_of = unpack_removed(packed["near_duplicates"])
    tally, hosts, ngrams = Tally(), Table(*TABLES["hosts"]), NGrams()
    with (
        new_rows(work, "documents", output) as documents,
        new_rows(work, "removed", output) as removed,
    ):
        batches = batches_of_output(output, *nums_of_batches(work, [file_batch_of_output(output)]))
        current = (read_current(work, batch, _WRITTEN) for batch in batches)
        for rows in chain.from_iterable(current):
            if is_earlier(rows.column("rank")[0].as_py()):
                break
            rows = _without_near_duplicates(rows, kept_of, config, tally)
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


def _without_near_duplicates(
    rows: pa.RecordBatch,
    kept_of: Mapping[int, tuple[int, float]],
    config: CleanConfig,
    tally: Tally,
) -> pa.RecordBatch:
    """The rows with the reason of those that are near duplicates; they are counted."""
    ranks, reasons, details = (rows.column(n).to_pylist() for n in ("rank", "reason", "detail"))
    places = [place for place, rank in enumerate(ranks) if rank in kept_of]
    if not places:
        return rows
    for place in places:
        kept, similarity = kept_of[ranks[place]]
        drop = _duplicate("near_duplicate", kept, config)
        reasons[place], details[place] = drop.reason, f"{drop.detail}, similarity {similarity:.2f}"
    rows = with_column(rows, "reason", pa.array(reasons, pa.string()))
    rows = with_column(rows, "detail", pa.array(details, pa.string()))
    for row in rows.take(places).to_pylist():
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
