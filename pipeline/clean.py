"""The corpus stage: raw files to documents. Its Beam graph wires the passes of pipeline/passes.py.

Only hashes are shuffled; texts wait in the work folder. Terms:

- source: an entry of `clean.sources`, which stands for many files;
- group: files, or parts of big files, that one worker reads; an element on the way in;
- unit: a bounded part of a group's documents, which one worker takes in each later pass. What the
  passes leave of it for each other are files in the work folder (pipeline/pass_files.py);
- shard: all hashes in one range, from all units. A unit sends each shard one packed array, and a
  shard answers each unit with one;
- file: a file of documents, from the units of one group that follow one another;
- batch: as many documents as a worker has in memory at once.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq

from electrify.config.clean import CleanConfig
from electrify.config.run import RunConfig
from electrify.stage.plan import clean_stage
from electrify.stage.run import run_stage
from electrify.storage.folder import Folder
from electrify.system.machine import keep_little_memory, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.decontaminate.index import read_statistics, write_index
from pipeline.dedup.components import Join, pack_members, star_edges
from pipeline.dedup.exact import find_duplicates
from pipeline.dedup.lines import find_repeated_lines
from pipeline.dedup.near import find_near_duplicates
from pipeline.dedup.records import NumShards, num_shards
from pipeline.documents import REMOVED_SCHEMA
from pipeline.pass_files import (
    BENCHMARK_INDEX,
    error_name,
    hashes_name,
    nums_of_units,
    tally_name,
)
from pipeline.passes import clean_group, compare_unit, sketch_unit, write_file
from pipeline.report.counts import Tally, tally_from_json
from pipeline.report.page import write_report
from pipeline.runner import make_pipeline, run_pipeline, watch
from pipeline.sources.files import expand_sources, fingerprints, group_files
from pipeline.sources.input_file import InputFile, InputGroup, file_of_unit, unit_number
from pipeline.sources.readers import STRUCTURAL
from pipeline.work_folder import Shards, WorkFolder, once, pack_for_shards, work_folder


def build(
    pipeline: beam.Pipeline, groups: Sequence[InputGroup], config: CleanConfig, work: Folder
) -> None:
    """Wire the passes; all workers share `work`.

    Keys are numbers of units, of shards or of files to write. What goes to a shard is (unit, packed
    arrays), so that the shard can answer each unit.
    """
    shards = num_shards(sum(file.text_bytes for group in groups for file in group.files))

    def in_pass(run: Callable[..., Iterable[Any]]) -> beam.ParDo:
        return beam.ParDo(Pass(run, config, work, shards))

    cleaned = (
        pipeline
        | "lists" >> beam.Create(_write_lists(groups, work))
        | "groups" >> beam.FlatMap(_read_groups, work)
        | "to all workers" >> beam.Reshuffle()
        | "clean" >> in_pass(_clean).with_outputs("texts", "lines", main="done")
    )
    find_lines = partial(find_repeated_lines, max_documents=config.line_dedup.max_documents)
    duplicates = cleaned.texts | "equal texts" >> Shards(find_duplicates, work)
    quotas = cleaned.lines | "equal lines" >> Shards(find_lines, work)
    compared = (
        {
            "done": cleaned.done,
            "duplicates": duplicates | "duplicates by unit" >> beam.FlatMap(iter),
            "quotas": quotas | "quotas by unit" >> beam.FlatMap(iter),
        }
        | "by unit" >> beam.CoGroupByKey()
        | "compare" >> in_pass(_compare).with_outputs("bands", main="done")
    )
    find_similar = partial(find_near_duplicates, similarity=config.near_dedup.similarity)
    near_duplicates = (
        compared.bands
        | "equal bands" >> Shards(star_edges, work)
        | "edges" >> beam.FlatMap(iter)
        | "components" >> beam.CombineGlobally(Join())  # type: ignore[no-untyped-call]
        | "members by unit" >> beam.FlatMap(pack_members)
        | "members of a unit" >> beam.GroupByKey()
        | "sketch" >> in_pass(_sketch)
        | "similar texts" >> Shards(find_similar, work)
        | "to its file" >> beam.FlatMap(_by_file)
    )
    (
        {"done": compared.done, "near_duplicates": near_duplicates}
        | "by file" >> beam.CoGroupByKey()
        | "write" >> in_pass(_write)
    )


_GROUPS_A_LIST = 64


def _write_lists(groups: Sequence[InputGroup], work: Folder) -> list[str]:
    """The names of lists of groups in the work folder: a service takes a graph of 10 MB at most."""
    names = []
    for start in range(0, len(groups), _GROUPS_A_LIST):
        names.append(f"groups-{start:06d}")
        listed = [asdict(group) for group in groups[start : start + _GROUPS_A_LIST]]
        work.write(names[-1], json.dumps(listed).encode())
    return names


def _read_groups(name: str, work: Folder) -> list[InputGroup]:
    return [
        InputGroup(**group | {"files": tuple(InputFile(**file) for file in group["files"])})
        for group in json.loads(work.read(name))
    ]


class Pass(beam.DoFn):
    """A pass over groups, units or files; the memory of one is free before the next begins."""

    def __init__(
        self,
        run: Callable[..., Iterable[Any]],
        config: CleanConfig,
        work: Folder,
        shards: NumShards,
    ) -> None:
        self.run, self.config, self.work, self.shards = run, config, work, shards

    def setup(self) -> None:
        keep_little_memory()

    def process(self, element: Any) -> Iterable[Any]:
        return_freed_memory()
        return self.run(element, self.config, self.work, self.shards)


Answers = tuple[int, Mapping[str, Iterable[bytes]]]  # of shards, to a unit or file


def _clean(
    group: InputGroup, config: CleanConfig, work: Folder, shards: NumShards
) -> Iterator[Any]:
    """(unit, b""); "texts" and "lines": (shard, (unit, packed hashes))."""
    clean_once = partial(clean_group, group, config, work, shards)
    hashes = once(work, hashes_name(group.index), clean_once)
    try:
        for place, texts_and_lines in enumerate(zip(hashes, hashes, strict=True)):
            unit = unit_number(group.index, place)
            for tag, for_shards in zip(("texts", "lines"), texts_and_lines, strict=True):
                for shard, packed in for_shards:
                    yield beam.pvalue.TaggedOutput(tag, (shard, (unit, packed)))
            yield unit, b""
    except ValueError as error:  # a runner may not hand the error's type back
        work.write(error_name(group.index), str(error).encode())
        raise


def _compare(
    answers: Answers, config: CleanConfig, work: Folder, shards: NumShards
) -> Iterator[Any]:
    """(file, b""); "bands": (shard, (unit, packed keys))."""
    unit, by_kind = answers
    compare = partial(compare_unit, unit, by_kind["duplicates"], by_kind["quotas"])
    for bands in once(work, f"bands-{unit:010d}", partial(compare, config, work, shards)):
        for shard, packed in bands:
            yield beam.pvalue.TaggedOutput("bands", (shard, (unit, packed)))
    yield file_of_unit(unit), b""


def _sketch(
    members: tuple[int, Iterable[bytes]], config: CleanConfig, work: Folder, shards: NumShards
) -> Iterator[Any]:
    """(shard, (unit, packed sketches)) of the members of components."""
    unit, packed = members
    for sketches in sketch_unit(unit, packed, config, work, shards):
        for shard, of_shard in pack_for_shards(sketches, work):
            yield shard, (unit, of_shard)


def _by_file(units: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return [(file_of_unit(unit), packed) for unit, packed in units]


def _write(answers: Answers, config: CleanConfig, work: Folder, _: NumShards) -> tuple[()]:
    """The documents and removed rows of a file, on disk."""
    write_file(answers[0], answers[1]["near_duplicates"], config, work)
    return ()


# of one core, all passes: decides whether more processes are worth their start
SECONDS_PER_MEGABYTE = 0.25
_LEFTOVER = re.compile(r"error-|shuffle-|hashes-\d+\.|.*\.tmp$")
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
    if config.clean.decontaminate_against and benchmark_texts is None:
        raise UserError(
            f"clean.decontaminate_against = {list(config.clean.decontaminate_against)}, but no "
            "folder with the texts of these benchmarks was given; run: electrify clean CONFIG"
        )
    files = expand_sources(config.clean.sources)
    groups = group_files(files)
    stage = clean_stage(config, fingerprints(files), benchmark_texts)
    num_bytes = sum(file.text_bytes for file in files)

    def work(folder: Path) -> Mapping[str, Any]:
        pipeline = make_pipeline(config.beam.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        keep_little_memory()
        with work_folder("clean", config.beam.work_dir, folder, stage.plan) as shared:
            if benchmark_texts is not None:
                _write_index(benchmark_texts, shared)
            _remove_leftovers(shared)
            build(pipeline, groups, config.clean, shared)
            _run(pipeline, groups, shared)
            tally = _finish(folder, shared, groups, config.clean)
        write_report(tally, folder)
        return _summary(tally)

    run_stage(stage, work, overwrite)


def _write_index(benchmark_texts: Path, work: Folder) -> None:
    with work.scratch() as folder:
        write_index(benchmark_texts, folder / BENCHMARK_INDEX)
        return_freed_memory()
        work.publish(folder / BENCHMARK_INDEX)


def _remove_leftovers(work: Folder) -> None:
    """What a stopped attempt has left half done: this one makes it again under other names, or
    would take it for its own."""
    for name in work.names():
        if _LEFTOVER.match(name):
            work.remove(name)


def _finish(folder: Path, work: Folder, groups: Sequence[InputGroup], config: CleanConfig) -> Tally:
    tally = Tally()
    _, compared, written = _markers(work, groups)
    read = [tally_name("read", group.index) for group in groups]
    for text in work.read_all([*read, *compared, *written]):
        tally.add(tally_from_json(text.decode()))
    _refuse_empty(tally, config)
    if work.exists(BENCHMARK_INDEX):
        with work.fetch(BENCHMARK_INDEX) as path:
            for task, num_texts, num_too_short in read_statistics(path):
                tally.count("benchmarks", task=task, texts=num_texts, too_short=num_too_short)
    _name_files(work, folder)
    return tally


def _markers(work: Folder, groups: Sequence[InputGroup]) -> Iterator[dict[str, float]]:
    """What is there when each pass is done, with the MB of raw files that it is about.

    Those of the first pass have to be there before the others are known.
    """
    megabytes = {group.index: sum(f.num_bytes for f in group.files) / 1e6 for group in groups}
    yield {hashes_name(group): mb for group, mb in megabytes.items()}
    compared: dict[str, float] = {}
    written: dict[str, float] = defaultdict(float)
    for (group, mb), num in zip(megabytes.items(), nums_of_units(work, [*megabytes]), strict=True):
        for unit in (unit_number(group, place) for place in range(num)):
            compared[tally_name("compared", unit)] = mb / num
            written[tally_name("written", file_of_unit(unit))] += mb / num
    yield compared
    yield written


def _run(pipeline: beam.Pipeline, groups: Sequence[InputGroup], work: WorkFolder) -> None:
    phases = zip(_LABELS, _markers(work, groups), strict=True)

    def list_names() -> list[str]:
        return_freed_memory()  # of what the runner has handed on
        return work.names()

    try:
        with watch(phases, "MB", list_names, work.poll_seconds):
            run_pipeline(pipeline)
    except Exception as error:
        there = set(work.names())
        # a group that a runner tried again may have been read in the end
        unread = [g.index for g in groups if hashes_name(g.index) not in there]
        if faults := [name for group in unread if (name := error_name(group)) in there]:
            raise UserError(work.read(faults[0]).decode()) from error
        raise


def _name_files(work: Folder, folder: Path) -> None:
    """Number the groups' files through, in the order of the groups."""
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
    raise UserError(
        f"{what} of {num_read:,} in "
        f"{len(tally.files):,} file(s); removed: {reasons}. Check clean.sources (kind, text_field, "
        f"document) and clean.min_characters{examples}"
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
