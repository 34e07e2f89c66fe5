"""The corpus stage: raw files to documents, as a Beam graph.

Each document is read, cleaned and judged by itself in the first pass (pipeline/document.py). What
only all documents together tell, duplicates and repeated lines, is decided by hashes alone: texts
wait in the work folder until they are written (pipeline/write.py). Terms:

- source: an entry of `clean.sources`, which stands for many files;
- rank: a number that orders documents as sources, files and rows are ordered;
- batch: the documents of one file or of some, which one worker takes in a pass. It makes one file
  of documents and one of removed rows;
- shard: all hashes in one range, from all batches. A batch sends each shard one packed array, and a
  shard answers each batch with the ranks of its documents that go.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput

from electrify.config.clean import CleanConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import digest_of, fingerprint
from electrify.stage.plan import COMPARED, clean_stage
from electrify.stage.run import run_stage
from electrify.system.machine import keep_little_memory, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.decontaminate.index import read_statistics, write_index
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.dedup.batches import (
    HASHED_SCHEMA,
    hash_rows,
    rows_name,
    send_bands,
    send_lines,
    send_sketches,
    send_texts,
)
from pipeline.dedup.exact import find_duplicates, find_repeated_lines
from pipeline.dedup.minhash import CHARACTERS_AT_ONCE, tables
from pipeline.dedup.near import Join, find_near_duplicates, pack_members, star_edges
from pipeline.dedup.records import NumShards, num_shards
from pipeline.document import DocumentCleaner
from pipeline.documents import REMOVED_SCHEMA, in_chunks
from pipeline.report.counts import Tally, tally_from_json
from pipeline.report.page import write_report
from pipeline.rules.extra import read_code
from pipeline.runner import make_pipeline, run_pipeline, watch
from pipeline.sources.files import batch_files, expand_sources, fingerprints
from pipeline.sources.input_file import BATCH_BITS, FileBatch, InputFile, batch_number
from pipeline.sources.readers import STRUCTURAL
from pipeline.work_folder import WorkFolder, check_worker, in_shards, load_once, work_folder
from pipeline.write import write_batch

_BENCHMARK_INDEX = "benchmark-index"  # in the work folder, where there are benchmark texts


def build(
    pipeline: beam.Pipeline, batches: Sequence[FileBatch], config: CleanConfig, work: WorkFolder
) -> None:
    """Wire the passes; all workers share `work`.

    Keys are numbers of batches or shards. What goes to a shard is (batch, where its array lies),
    so that the shard can answer each batch.
    """
    shards = num_shards(sum(file.text_bytes for batch in batches for file in batch.files))
    find_similar = partial(find_near_duplicates, similarity=config.near_dedup.similarity)
    find_lines = partial(find_repeated_lines, max_documents=config.line_dedup.max_documents)

    def in_pass(run: Callable[..., Iterable[Any]]) -> Any:
        return beam.FlatMap(_run_pass, run, config, work, shards)

    cleaned = (
        pipeline
        | "lists" >> beam.Create(_write_lists(batches, work))
        | "files" >> beam.FlatMap(_read_list, work)
        | "to all workers" >> beam.Reshuffle()
        | "clean" >> in_pass(_clean).with_outputs("texts", main="done")
    )
    answers = {"done": cleaned.done}
    answers["duplicates"] = cleaned.texts | "equal texts" >> in_shards(find_duplicates, work)
    answers["near_duplicates"] = (
        answers
        | "different texts" >> beam.CoGroupByKey()
        | "bands" >> in_pass(send_bands)
        | "equal bands" >> in_shards(star_edges, work)
        | "components" >> beam.CombineGlobally(Join())  # type: ignore[no-untyped-call]
        | "members by batch" >> beam.FlatMap(pack_members)
        | "members of a batch" >> beam.GroupByKey()
        | "sketch" >> in_pass(send_sketches)
        | "similar texts" >> in_shards(find_similar, work)
    )
    answers["lines"] = (
        answers
        | "left by batch" >> beam.CoGroupByKey()
        | "lines" >> in_pass(send_lines)
        | "equal lines" >> in_shards(find_lines, work)
    )
    answers | "all answers" >> beam.CoGroupByKey() | "write" >> in_pass(write_batch)


_FILE_BATCHES_A_LIST = 64


def _write_lists(batches: Sequence[FileBatch], work: WorkFolder) -> list[str]:
    """Names of lists of batches in the work folder: a service takes a graph of 10 MB at most."""
    lists = {
        f"files-{start:06d}": [*map(asdict, batches[start : start + _FILE_BATCHES_A_LIST])]
        for start in range(0, len(batches), _FILE_BATCHES_A_LIST)
    }
    for name, rows in lists.items():
        work.write(name, json.dumps(rows).encode())
    return [*lists]


def _read_list(name: str, work: WorkFolder) -> list[FileBatch]:
    check_worker(work.address)
    return [
        FileBatch(**row | {"files": tuple(InputFile(**file) for file in row["files"])})
        for row in json.loads(work.read(name))
    ]


def _run_pass(
    element: Any,
    run: Callable[..., Iterable[Any]],
    config: CleanConfig,
    work: WorkFolder,
    *more: Any,
) -> Iterable[Any]:
    """A pass over a batch; the memory of one is free before the next begins."""
    check_worker(work.address)
    keep_little_memory()
    return_freed_memory()
    return run(element, config, work, *more)


def _clean(
    files: FileBatch, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(batch, b""); "texts": the hashes of the texts of each batch to their shards."""
    if not work.exists(_read_name(files.index)):  # by an earlier attempt
        _write_rows(files, config, work)
    for index in count():
        batch = batch_number(files.index, index)
        if not work.exists(rows_name(batch)):
            return
        for to_shard in send_texts(batch, work, shards) if config.exact_dedup else ():
            yield TaggedOutput("texts", to_shard)
        yield batch, b""


def _read_name(file_batch: int) -> str:
    """The counts of a batch of files in the work folder: they are there when its rows are."""
    return f"read-{file_batch:06d}.json"


def _write_rows(files: FileBatch, config: CleanConfig, work: WorkFolder) -> None:
    """The cleaned rows of files, with their hashes, in batches of documents."""
    tally = Tally()
    cleaner = DocumentCleaner(config, tally)
    index = None
    if config.decontaminate_against:
        index = load_once(work, _BENCHMARK_INDEX, BenchmarkIndex.load)
    rows = chain.from_iterable(map(cleaner.clean_file, files.files))
    num_batches, num_characters = 0, 0
    with ExitStack() as batch:
        writer = None
        for chunk in in_chunks(rows, lambda row: len(row["text"]), CHARACTERS_AT_ONCE):
            if writer is None or num_characters >= files.batch_characters:
                batch.close()
                name = rows_name(batch_number(files.index, num_batches))
                writer = batch.enter_context(work.new_rows(name, HASHED_SCHEMA))
                num_batches, num_characters = num_batches + 1, 0
            if index is not None:
                cleaner.remove_benchmark_texts(chunk, index)
            writer.write_batch(hash_rows(chunk, config))
            num_characters += sum(len(row["text"]) for row in chunk)
    work.write(_read_name(files.index), tally.to_json().encode())


# of one core, all passes: decides whether more processes are worth their start
SECONDS_PER_MEGABYTE = 0.25
_TALLIES_AT_ONCE = 256  # in memory


def clean(
    config: RunConfig,
    beam_options: Sequence[str],
    overwrite: bool,
    benchmark_texts: Path | None = None,
) -> None:
    """Make the `clean` folder of a run.

    `benchmark_texts` is a folder of the texts that `clean.decontaminate_against` names, or that are
    scored. Raises `ValueError` for a glob that matches nothing, for a file that cannot be read, and
    for a corpus of which nothing is left.
    """
    assert benchmark_texts or not config.clean.decontaminate_against, "no texts of benchmarks"
    files = expand_sources(config.clean.sources, config.output_dir)
    code = read_code(config.clean.extra_rules)
    marks = fingerprints(files) | {path: digest_of(text) for path, text in code.items()}
    stage = clean_stage(config, marks, benchmark_texts)
    options = config.clean.with_code(code)
    text_files = sorted(benchmark_texts.iterdir()) if benchmark_texts else []
    tasks = tuple(path.stem for path in text_files)
    options = options.model_copy(update={"decontaminate_against": tasks})
    batches = batch_files(files)
    # what is done is of these texts, also where a finished corpus is not bound to them
    texts = {path.name: fingerprint(str(path)) for path in text_files}
    plan = {**stage.plan, "benchmark texts": texts}

    def work(folder: Path) -> Mapping[str, Any]:
        num_bytes = sum(file.text_bytes for file in files)
        if options.near_dedup.enabled:
            tables()  # workers are forks of this process: a third of a second for each
        pipeline = make_pipeline(config.beam.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        keep_little_memory()
        with work_folder("clean", config.beam.work_dir, folder, plan) as shared:
            if benchmark_texts is not None:
                with shared.scratch() as scratch:
                    index = scratch / _BENCHMARK_INDEX
                    write_index(benchmark_texts, index, not config.removes_scored_rows)
                    return_freed_memory()
                    shared.publish(index)
            build(pipeline, batches, options, shared)
            _run(pipeline, batches, shared)
            tally = _finish(folder, shared, batches, options)
        write_report(tally, folder)
        return {**_summary(tally), COMPARED: tasks}

    run_stage(stage, work, overwrite)


_READING = 0.8  # of the time, that the first pass takes
_OF_BATCH = re.compile(r"(rows|written)-(\d{10})(?:\.json)?$")


def _run(pipeline: beam.Pipeline, batches: Sequence[FileBatch], work: WorkFolder) -> None:
    """Run to the end, and say how far it is by the names of the files in the work folder."""
    megabytes = {batch.index: sum(f.num_bytes for f in batch.files) / 1e6 for batch in batches}
    # while a big file is being read, the batches that are there tell how far; two bytes a character
    expected = {
        batch.index: sum(file.text_bytes for file in batch.files) / (2 * batch.batch_characters)
        for batch in batches
    }

    def done(names: Collection[str]) -> float:
        return_freed_memory()  # of what the runner has handed on
        matches = filter(None, map(_OF_BATCH.match, names))
        num = Counter((match[1], int(match[2]) >> BATCH_BITS) for match in matches)
        total = 0.0
        for index, size in megabytes.items():
            num_rows, is_read = num["rows", index], _read_name(index) in names
            read = 1.0 if is_read else min(0.9, num_rows / max(1.0, expected[index]))
            written = num["written", index] / max(1, num_rows) if is_read else 0.0
            total += (_READING * read + (1 - _READING) * written) * size
        return total

    names = {_read_name(index): size for index, size in megabytes.items()}
    with watch("clean", names, work.names, work.poll_seconds, done):
        run_pipeline(pipeline)


def _finish(
    folder: Path, work: WorkFolder, batches: Sequence[FileBatch], config: CleanConfig
) -> Tally:
    """Add up the counts of all batches, and give the files their names."""
    tally, there = Tally(), work.names()
    names = [name for name in there if name.startswith(("read-", "written-"))]
    for start in range(0, len(names), _TALLIES_AT_ONCE):
        for text in work.read_all(names[start : start + _TALLIES_AT_ONCE]):
            tally.add(tally_from_json(text.decode()))
    _refuse_empty(tally, config)
    if _BENCHMARK_INDEX in there:
        with work.fetch(_BENCHMARK_INDEX) as path:
            for task, num_texts, num_too_short in read_statistics(path):
                tally.count("benchmarks", task=task, texts=num_texts, too_short=num_too_short)
    # a run that is stopped while it moves files writes them all again
    work.remove_all([name for name in there if name.startswith("written-")])
    for prefix in ("documents", "removed"):
        names = [name for name in there if name.startswith(prefix) and name.endswith(".parquet")]
        work.move_out({name: folder / f"{prefix}-{i:05d}.parquet" for i, name in enumerate(names)})
    if not any(folder.glob("removed-*.parquet")):  # so that readers need no special case
        pq.write_table(REMOVED_SCHEMA.empty_table(), folder / "removed-00000.parquet")
    return tally


def _refuse_empty(tally: Tally, config: CleanConfig) -> None:
    malformed = tally.by_reason("malformed")
    num_bad = sum(malformed.get(reason, 0) for reason in STRUCTURAL)
    what = "cleaning left no document"
    if tally.total("documents_kept"):
        if num_bad <= tally.total("documents_in") or config.damaged_files == "keep":
            return
        what = f"{num_bad:,} rows or files cannot be read"
    counts = tally.by_reason("removed") | malformed
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in counts.items()) or "the files are empty"
    examples = "".join(f"\n  {example}" for example in tally.faults[:5])
    num_read = tally.total("documents_in") + tally.total("malformed")
    advice = (
        "Check clean.sources (kind, text_field, document, profile), clean.min_characters and "
        f"clean.quality{examples}"
    )
    raise UserError(
        f"{what} of {num_read:,} in {len(tally.files):,} file(s); removed: {reasons}. {advice}"
    )


def _summary(tally: Tally) -> dict[str, int]:
    counts = {
        "files": len(tally.files),
        "documents_in": tally.total("documents_in"),
        "documents": tally.total("documents_kept"),
        "characters": tally.total("characters_kept"),
        "removed": tally.total("removed"),
        "malformed": tally.total("malformed"),
    }
    log(
        f"clean: {counts['documents']:,} of {counts['documents_in']:,} documents kept, "
        f"{counts['characters']:,} characters"
    )
    if num_damaged := tally.by_reason("malformed").get("unreadable_file", 0):
        warn(f"{num_damaged:,} damaged file(s) were read up to the damage; see report.html")
    if num_rows := counts["malformed"] - num_damaged:
        warn(f"{num_rows:,} row(s) could not be read, the first {tally.faults[0]}; see report.html")
    if empty := [f["path"] for f in tally.files if not f["documents"] + f["malformed"]]:
        warn(f"{len(empty):,} file(s) hold no document, the first {empty[0]}")
    return counts
