"""The corpus stage: raw files to documents. Its Beam graph wires what pipeline/passes/ has.

Only hashes are shuffled; texts wait in the work folder. Terms:

- source: an entry of `clean.sources`, which stands for many files;
- batch: what one worker takes in a pass. A batch of files, or of parts of big ones, is an element
  on the way in. Its documents make batches of about 8 million characters for the later passes. What
  these leave for each other are files in the work folder (pipeline/passes/files.py);
- shard: all hashes in one range, from all batches. A batch sends each shard one packed array, and a
  shard answers each batch with one;
- output: a file of documents and one of removed rows, of up to 32 batches that follow one another.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow.parquet as pq

from electrify.config.clean import CleanConfig, Source
from electrify.config.run import RunConfig
from electrify.stage.folder import Stage, digest_of, fingerprint, stage_lock
from electrify.stage.plan import clean_stage, earlier_corpora
from electrify.stage.run import run_stage
from electrify.system.machine import keep_little_memory, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.decontaminate.index import read_statistics, write_index
from pipeline.dedup.exact import find_contained, find_duplicates, find_repeated_lines
from pipeline.dedup.near import Join, find_near_duplicates, pack_members, star_edges
from pipeline.dedup.records import earlier_files, num_shards
from pipeline.documents import REMOVED_SCHEMA
from pipeline.passes.annotate import clean_files, notes_plan
from pipeline.passes.calibrate import calibration
from pipeline.passes.compare import (
    compare_batch,
    send_lines,
    send_units,
    sketch_batch,
    write_output,
)
from pipeline.passes.files import (
    BENCHMARK_INDEX,
    BLOCKED_HOSTS,
    hashes_name,
    nums_of_batches,
    tally_name,
)
from pipeline.report.counts import Tally, tally_from_json
from pipeline.report.page import write_report
from pipeline.rules.extra import read_code
from pipeline.rules.hosts import write_hosts
from pipeline.rules.quality_model import read_text
from pipeline.runner import make_pipeline, run_pipeline, watch
from pipeline.sources.files import batch_files, expand_sources, fingerprints
from pipeline.sources.input_file import (
    FileBatch,
    InputFile,
    batch_number,
    output_of_batch,
)
from pipeline.sources.readers import STRUCTURAL
from pipeline.sources.stored import reading
from pipeline.work_folder import WorkFolder, in_shards, work_folder


def build(
    pipeline: beam.Pipeline, batches: Sequence[FileBatch], config: CleanConfig, work: WorkFolder
) -> None:
    """Wire the passes; all workers share `work`.

    Keys are numbers of batches, shards or outputs. What goes to a shard is (batch, packed arrays),
    so that the shard can answer each batch.
    """
    in_pass = _runner(batches, config, work)
    cleaned = build_first(pipeline, batches, config, work)
    duplicates = cleaned.texts | "equal texts" >> in_shards(find_duplicates, work)
    compared = (
        {"done": cleaned.done, "duplicates": duplicates}
        | "by batch" >> beam.CoGroupByKey()
        | "compare" >> in_pass(compare_batch).with_outputs("bands", main="done")
    )
    find_similar = partial(find_near_duplicates, similarity=config.near_dedup.similarity)
    near_duplicates = (
        compared.bands
        | "equal bands" >> in_shards(star_edges, work)
        | "components" >> beam.CombineGlobally(Join())  # type: ignore[no-untyped-call]
        | "members by batch" >> beam.FlatMap(pack_members)
        | "members of a batch" >> beam.GroupByKey()
        | "sketch" >> in_pass(sketch_batch)
        | "similar texts" >> in_shards(find_similar, work)
    )
    answers = {"done": compared.done, "near_duplicates": near_duplicates}
    answers["contained"] = (
        answers
        | "left by batch" >> beam.CoGroupByKey()
        | "units" >> in_pass(send_units)
        | "equal units" >> in_shards(find_contained, work)
    )
    find_lines = partial(find_repeated_lines, max_documents=config.line_dedup.max_documents)
    quotas = (
        answers
        | "whole by batch" >> beam.CoGroupByKey()
        | "lines" >> in_pass(send_lines)
        | "equal lines" >> in_shards(find_lines, work)
        | "with its batch" >> beam.MapTuple(lambda batch, of: (batch, (batch, of)))
    )
    (
        {
            name: of | f"{name} to its output" >> beam.MapTuple(_to_output)
            for name, of in (answers | {"quotas": quotas}).items()
        }
        | "by output" >> beam.CoGroupByKey()
        | "write" >> in_pass(write_output)
    )


def build_first(
    pipeline: beam.Pipeline, batches: Sequence[FileBatch], config: CleanConfig, work: WorkFolder
) -> Any:
    """Wire the first pass; its outputs are those of `clean_files`."""
    clean = _runner(batches, config, work)(clean_files)
    return (
        pipeline
        | "lists" >> beam.Create(_write_lists(batches, work))
        | "files" >> beam.FlatMap(_read_list, work)
        | "to all workers" >> beam.Reshuffle()
        | "clean" >> clean.with_outputs("texts", main="done")
    )


_FILE_BATCHES_A_LIST = 64
_TALLIES_AT_ONCE = 256  # in memory


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
    return [
        FileBatch(**row | {"files": tuple(InputFile(**file) for file in row["files"])})
        for row in json.loads(work.read(name))
    ]


def _runner(
    batches: Sequence[FileBatch], config: CleanConfig, work: WorkFolder
) -> Callable[[Callable[..., Iterable[Any]]], Any]:
    """Makes a transform of a pass."""
    shards = num_shards(sum(file.text_bytes for batch in batches for file in batch.files))
    return lambda run: beam.FlatMap(_run_pass, run, config, work, shards)


def _run_pass(element: Any, run: Callable[..., Iterable[Any]], *shared: Any) -> Iterable[Any]:
    """A pass over a batch or an output; the memory of one is free before the next begins."""
    keep_little_memory()
    return_freed_memory()
    return run(element, *shared)


def _to_output(batch: int, of: Any) -> tuple[int, Any]:
    return output_of_batch(batch), of


# of one core, all passes: decides whether more processes are worth their start
SECONDS_PER_MEGABYTE = 0.25
_PLAN = "plan"
_COPIES = ("duplicate", "near_duplicate", "contained")
_NOTES = re.compile(r"README$|cleaned-\d+\.parquet$|read-\d+\.json$")
_LEFTOVER = re.compile(r"shuffle-|hashes-\d+\.|.*\.tmp$")
_LABELS = ("clean: reading", "clean: comparing", "clean: writing")


def clean(
    config: RunConfig,
    beam_options: Sequence[str],
    overwrite: bool,
    benchmark_texts: Path | None = None,
) -> None:
    """Make the `clean` folder of a run.

    `benchmark_texts` is a folder of the texts that `clean.decontaminate_against` names. Raises
    `ValueError` for a glob that matches nothing, for a file that cannot be read, for a corpus of
    which nothing is left and, if `clean.strict`, for the first row that cannot be read.
    """
    job = _job(config, benchmark_texts)

    def work(folder: Path) -> Mapping[str, Any]:
        with _started(job, config, folder, beam_options) as (pipeline, shared):
            build(pipeline, job.batches, job.options, shared)
            _run(pipeline, job.batches, shared, _LABELS)
            tally = _finish(folder, shared, job.batches, job.options)
            _forget_other(shared, None)
        write_report(tally, folder)
        return _summary(tally)

    run_stage(job.stage, work, overwrite)


def calibrate(
    config: RunConfig, beam_options: Sequence[str], benchmark_texts: Path | None = None
) -> Iterator[str]:
    """Lines on the statistics of the documents beside the limits, see pipeline/passes/calibrate.py.

    Texts and statistics stay for `clean`, which then starts from them if it keeps statistics.
    """
    if not config.clean.keep_statistics:
        warn("clean will read the files again: set clean.keep_statistics = true to start from here")
    config = config.model_copy(
        update={"clean": config.clean.model_copy(update={"keep_statistics": True})}
    )
    job = _job(config, benchmark_texts)
    with (
        stage_lock(job.stage.folder),
        _started(job, config, job.stage.partial, beam_options) as (pipeline, shared),
    ):
        build_first(pipeline, job.batches, job.options, shared)
        _run(pipeline, job.batches, shared, _LABELS[:1])
        batches = [batch for batch in job.batches if not batch.files[0].is_earlier]
        yield from calibration(shared, [batch.index for batch in batches], job.options)


class _Job(NamedTuple):
    """A run of the stage: what it is made from, its work, and the config that workers get."""

    stage: Stage
    batches: list[FileBatch]
    options: CleanConfig
    benchmark_texts: Path | None


def _job(config: RunConfig, benchmark_texts: Path | None) -> _Job:
    if config.clean.decontaminate_against and benchmark_texts is None:
        raise UserError(
            f"clean.decontaminate_against = {list(config.clean.decontaminate_against)}, but no "
            "folder with the texts of these benchmarks was given; run: electrify clean CONFIG"
        )
    earlier_corpora(config)
    files = expand_sources(config.clean.sources)
    _warn_of_files_read_twice(files, config.clean.sources)
    batches = batch_files(files)
    batches += batch_files(earlier_files(config.clean.dedup_against), first_index=len(batches))
    code = read_code(config.clean.extra_rules)
    marks = fingerprints(files) | {path: digest_of(text) for path, text in code.items()}
    quality_text = ""
    if model := config.clean.quality_model:
        marks[model] = digest_of(quality_text := read_text(model))
    if hosts := config.clean.blocked_hosts:
        with reading(hosts):
            marks[hosts] = fingerprint(hosts)
    stage = clean_stage(config, marks, benchmark_texts)
    return _Job(stage, batches, config.clean.with_files(code, quality_text), benchmark_texts)


def _warn_of_files_read_twice(files: Sequence[InputFile], sources: Sequence[Source]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for file in files:
        index = file.source_index
        source = sources[index]
        of_hub = (source.name, source.split) if source.kind == "huggingface" else ()
        place = file.path, file.start, file.part, source.text_field, of_hub
        first = seen.setdefault(place, index)
        if first != index:
            warn(
                f"{file.path} is read twice, by clean.sources number {first + 1} and "
                f"{index + 1}: make their paths match different files"
            )
            return


@contextmanager
def _started(
    job: _Job, config: RunConfig, folder: Path, beam_options: Sequence[str]
) -> Iterator[tuple[beam.Pipeline, WorkFolder]]:
    """A pipeline, and the work folder with what workers need."""
    num_bytes = sum(file.text_bytes for batch in job.batches for file in batch.files)
    pipeline = make_pipeline(config.beam.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    keep_little_memory()
    keep = config.clean.keep_statistics
    notes = notes_plan(job.stage.plan) if keep else job.stage.plan
    with work_folder("clean", config.beam.work_dir, folder, notes, keep) as work:
        _forget_other(work, job.stage.plan)
        _prepare(work, job.benchmark_texts, config.clean.blocked_hosts)
        yield pipeline, work


def _forget_other(work: WorkFolder, plan: Mapping[str, Any] | None) -> None:
    """Remove what a stage of another plan has left but for texts with statistics, which no limit
    decides; and note the plan. None stands for a plan that has left nothing."""
    digest = digest_of(plan).encode()
    if not work.exists(_PLAN) or work.read(_PLAN) != digest:
        work.remove_all([name for name in work.names() if not _NOTES.match(name)])
    if plan is not None:
        work.write(_PLAN, digest)


def _prepare(work: WorkFolder, benchmark_texts: Path | None, hosts: str | None) -> None:
    """Write the indexes of benchmark texts and of hosts, and remove what a stopped attempt has left
    half done: this one makes it again under other names, or would take it for its own."""
    if benchmark_texts is not None:
        with work.scratch() as folder:
            write_index(benchmark_texts, folder / BENCHMARK_INDEX)
            return_freed_memory()
            work.publish(folder / BENCHMARK_INDEX)
    if hosts:
        with work.new_file(BLOCKED_HOSTS) as path:
            write_hosts(Path(hosts), path)
    for name in work.names():
        if _LEFTOVER.match(name):
            work.remove(name)


def _finish(
    folder: Path, work: WorkFolder, batches: Sequence[FileBatch], config: CleanConfig
) -> Tally:
    tally = Tally()
    read = [tally_name("read", batch.index) for batch in batches]
    _, compared, written = _markers(work, batches)
    names = [*read, *compared, *written]
    for start in range(0, len(names), _TALLIES_AT_ONCE):
        for text in work.read_all(names[start : start + _TALLIES_AT_ONCE]):
            tally.add(tally_from_json(text.decode()))
    _refuse_empty(tally, config)
    if work.exists(BENCHMARK_INDEX):
        with work.fetch(BENCHMARK_INDEX) as path:
            for task, num_texts, num_too_short in read_statistics(path):
                tally.count("benchmarks", task=task, texts=num_texts, too_short=num_too_short)
    _name_outputs(work, folder)
    return tally


def _markers(work: WorkFolder, batches: Sequence[FileBatch]) -> Iterator[dict[str, float]]:
    """What is there when each pass is done, with the MB of raw files that it is about.

    Those of the first pass have to be there before the others are known.
    """
    megabytes = {batch.index: sum(f.num_bytes for f in batch.files) / 1e6 for batch in batches}
    yield {hashes_name(index): mb for index, mb in megabytes.items()}
    compared: dict[str, float] = {}
    written: dict[str, float] = defaultdict(float)
    nums = nums_of_batches(work, [*megabytes])
    for (file_batch, mb), num in zip(megabytes.items(), nums, strict=True):
        for batch in (batch_number(file_batch, index) for index in range(num)):
            compared[tally_name("compared", batch)] = mb / num
            written[tally_name("written", output_of_batch(batch))] += mb / num
    yield compared
    yield written


def _run(
    pipeline: beam.Pipeline, batches: Sequence[FileBatch], work: WorkFolder, labels: Sequence[str]
) -> None:
    phases = zip(labels, _markers(work, batches), strict=False)

    def list_names() -> list[str]:
        return_freed_memory()  # of what the runner has handed on
        return work.names()

    with watch(phases, list_names, work.poll_seconds):
        run_pipeline(pipeline)


def _name_outputs(work: WorkFolder, folder: Path) -> None:
    """Number the outputs through, in the order of their batches."""
    there = work.names()
    for prefix in ("documents", "removed"):
        names = [name for name in there if name.startswith(prefix) and name.endswith(".parquet")]
        work.move_out({name: folder / f"{prefix}-{i:05d}.parquet" for i, name in enumerate(names)})
    if not any(folder.glob("removed-*.parquet")):  # so that readers need no special case
        pq.write_table(REMOVED_SCHEMA.empty_table(), folder / "removed-00000.parquet")


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
    examples = "".join(f"\n  {example}" for example in tally.examples[:5])
    num_read = tally.total("documents_in") + tally.total("malformed")
    advice = (
        "Check clean.sources (kind, text_field, document, profile), clean.min_characters and "
        f"clean.quality{examples}"
    )
    if counts and all(reason.removeprefix("earlier_") in _COPIES for reason in counts):
        advice = "Nothing in them is new beside clean.dedup_against"
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
    num_damaged = tally.by_reason("malformed").get("unreadable_file", 0)
    if num_damaged:
        warn(
            f"{num_damaged:,} damaged file(s) were read up to the damage; nobody knows how much is "
            "lost: see unreadable_file in report.html"
        )
    if num_rows := counts["malformed"] - num_damaged:
        warn(
            f"{num_rows:,} row(s) could not be read, the first {tally.examples[0]}; see report.html"
        )
    if empty := [f["path"] for f in tally.files if not f["documents"] + f["malformed"]]:
        warn(f"{len(empty):,} file(s) hold no document, the first {empty[0]}")
    return counts
