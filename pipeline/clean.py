"""The corpus stage: raw files to documents. `build` is the whole Beam graph."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq

from electrify.artifacts import run_stage, write_text
from electrify.config import RunConfig
from electrify.config_clean import CleanConfig
from electrify.progress import log, warn
from electrify.stages import clean_stage
from pipeline.clean_report import write_report
from pipeline.decontaminate import write_index
from pipeline.documents import REMOVED_SCHEMA
from pipeline.exact_dedup import find_duplicates
from pipeline.first_pass import clean_group
from pipeline.input_file import InputGroup
from pipeline.last_pass import write_group
from pipeline.line_dedup import find_repeated_lines
from pipeline.near_dedup import Edges, add_edges, join_edges, pack_members, star_edges, unpack_edges
from pipeline.representatives import find_near_duplicates
from pipeline.runner import make_pipeline, run_pipeline
from pipeline.second_pass import compare_group, sketch_group
from pipeline.sources import expand_sources, fingerprints, group_files
from pipeline.tally import Tally, read_tally
from pipeline.watch import watch
from pipeline.work_files import (
    benchmark_index_path,
    compared_tally_path,
    error_path,
    read_tally_path,
    written_tally_path,
)

# of one core, all passes: decides whether more processes are worth their start
SECONDS_PER_MEGABYTE = 0.25
_TALLIES = (read_tally_path, compared_tally_path, written_tally_path)


def clean(
    config: RunConfig,
    beam_options: Sequence[str],
    overwrite: bool,
    benchmark_texts: Path | None = None,
) -> None:
    """Make the `clean` folder of a run.

    `benchmark_texts` is a folder of the texts that `clean.decontaminate_against` names. Raises
    `ValueError` for a glob that matches nothing, for a corpus of which nothing is left and, if
    `clean.strict`, for the first row that cannot be read.
    """
    if config.clean.decontaminate_against and benchmark_texts is None:
        raise ValueError(
            f"clean.decontaminate_against = {list(config.clean.decontaminate_against)}, but no "
            "folder with the texts of these benchmarks was given; run: electrify clean CONFIG"
        )
    files = expand_sources(config.clean.sources)
    groups = group_files(files)
    stage = clean_stage(config, fingerprints(files), benchmark_texts)
    num_bytes = sum(file.text_bytes for file in files)

    def work(folder: Path) -> Mapping[str, Any]:
        work_folder = (folder / "work").absolute()
        work_folder.mkdir()
        if benchmark_texts is not None:
            write_index(benchmark_texts, benchmark_index_path(work_folder))
        pipeline = make_pipeline(config.clean.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        build(pipeline, groups, config.clean, work_folder)
        _run(pipeline, groups, work_folder)
        return _finish(folder, work_folder, groups)

    run_stage(stage, work, overwrite)


def build(
    pipeline: beam.Pipeline, groups: Sequence[InputGroup], config: CleanConfig, work: Path
) -> None:
    """Wire the passes. Only hashes are shuffled; texts wait in `work`, which workers share.

    Keys are numbers of groups or of shards. What goes to a shard is (group, packed arrays), so that
    the shard can answer each group.
    """
    cleaned = (
        pipeline
        | "groups of files" >> beam.Create(groups)
        | "to all workers" >> beam.Reshuffle()
        | "clean"
        >> beam.ParDo(CleanGroup(config, work)).with_outputs("texts", "lines", main="done")
    )
    duplicates = cleaned.texts | "equal texts" >> Shards(find_duplicates)
    most = config.line_dedup.max_documents
    quotas = cleaned.lines | "equal lines" >> Shards(find_repeated_lines, most)
    compared = (
        {"done": cleaned.done, "duplicates": duplicates, "quotas": quotas}
        | "by group" >> beam.CoGroupByKey()
        | "compare" >> beam.ParDo(CompareGroup(config, work)).with_outputs("bands", main="done")
    )
    members = (
        compared.bands
        | "equal bands" >> Shards(star_edges)
        | "components" >> beam.CombineGlobally(Components())  # type: ignore[no-untyped-call]
        | "members by group" >> beam.FlatMap(pack_members)
    )
    near_duplicates = (
        members
        | "members of a group" >> beam.GroupByKey()
        | "sketch" >> beam.ParDo(SketchGroup(config, work))
        | "similar texts" >> Shards(find_near_duplicates, config.near_dedup.similarity)
    )
    (
        {"done": compared.done, "near_duplicates": near_duplicates}
        | "by group again" >> beam.CoGroupByKey()
        | "write" >> beam.ParDo(WriteGroup(work))
    )


class Shards(beam.PTransform[Any, Any]):
    """(shard, (group, packed arrays)) -> the elements that `find` makes of a shard's pairs."""

    def __init__(self, find: Callable[..., Iterable[Any]], *settings: float) -> None:
        super().__init__()
        self.find, self.settings = find, settings

    def expand(self, input_or_inputs: Any) -> Any:
        """Gather each shard and call `find` on it."""
        return (
            input_or_inputs
            | "gather" >> beam.GroupByKey()
            | "pairs" >> beam.Values()
            | "find" >> beam.FlatMap(self.find, *self.settings)
        )


class Components(beam.CombineFn):
    """Packed edges of all shards -> the components of the graph, see pipeline/near_dedup.py."""

    def create_accumulator(self) -> list[Edges]:
        """No edges."""
        return []

    def add_input(self, accumulator: list[Edges], packed: bytes) -> list[Edges]:
        """Add edges; join them when there are many."""
        return add_edges(accumulator, unpack_edges(packed))

    def merge_accumulators(self, accumulators: Iterable[list[Edges]]) -> list[Edges]:
        """Join the edges of all."""
        return [join_edges([edges for one in accumulators for edges in one])]

    def extract_output(self, accumulator: list[Edges]) -> Edges:
        """(smallest document of the component, document) of each document."""
        return join_edges(accumulator)


class CleanGroup(beam.DoFn):
    """InputGroup -> (group, b""); "texts" and "lines": (shard, (group, packed hashes))."""

    def __init__(self, config: CleanConfig, work: Path) -> None:
        self.config, self.work = config, work

    def process(self, group: InputGroup) -> Iterator[Any]:
        """Clean one group of files."""
        try:
            hashes = clean_group(group, self.config, self.work)
        except ValueError as error:  # a runner may not hand the error's type back
            write_text(error_path(self.work, group.index), str(error))
            raise
        for tag, by_shard in (("texts", hashes.documents), ("lines", hashes.lines)):
            for shard, packed in by_shard.items():
                yield beam.pvalue.TaggedOutput(tag, (shard, (group.index, packed)))
        yield group.index, b""


class CompareGroup(beam.DoFn):
    """(group, what was found of it) -> (group, b""); "bands": (shard, (group, packed keys))."""

    def __init__(self, config: CleanConfig, work: Path) -> None:
        self.config, self.work = config, work

    def process(self, found: tuple[int, Mapping[str, Iterable[bytes]]]) -> Iterator[Any]:
        """Remove from one group of files what stands elsewhere."""
        group, of_group = found
        duplicates, quotas = of_group["duplicates"], of_group["quotas"]
        bands = compare_group(group, duplicates, quotas, self.config, self.work)
        for shard, packed in bands.items():
            yield beam.pvalue.TaggedOutput("bands", (shard, (group, packed)))
        yield group, b""


class SketchGroup(beam.DoFn):
    """(group, packed members of components) -> (shard, (group, packed sketches))."""

    def __init__(self, config: CleanConfig, work: Path) -> None:
        self.config, self.work = config, work

    def process(self, found: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Sketch the documents of one group that share a band with others."""
        group, members = found
        for shard, packed in sketch_group(group, members, self.config, self.work).items():
            yield shard, (group, packed)


class WriteGroup(beam.DoFn):
    """(group, its near duplicates) -> the group's documents, on disk."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def process(self, found: tuple[int, Mapping[str, Iterable[bytes]]]) -> None:
        """Write one group of files."""
        write_group(found[0], found[1]["near_duplicates"], self.work)


def _finish(folder: Path, work: Path, groups: Sequence[InputGroup]) -> Mapping[str, Any]:
    tally = Tally()
    for make_path in _TALLIES:
        for group in groups:
            tally.add(read_tally(make_path(work, group.index)))
    _refuse_empty(tally)
    _name_files(work, folder)
    shutil.rmtree(work)
    write_report(tally, folder)
    return _summary(tally)


def _run(pipeline: beam.Pipeline, groups: Sequence[InputGroup], work: Path) -> None:
    sizes = [sum(file.num_bytes for file in group.files) / 1e6 for group in groups]
    labels = ("clean: reading", "clean: comparing", "clean: writing")
    phases = [
        (label, {path(work, g.index): size for g, size in zip(groups, sizes, strict=True)})
        for label, path in zip(labels, _TALLIES, strict=True)
    ]
    try:
        with watch(phases, "MB"):
            run_pipeline(pipeline)
    except Exception as error:
        for group in groups:
            if (path := error_path(work, group.index)).exists():
                raise ValueError(path.read_text(encoding="utf-8")) from error
        raise


def _name_files(work: Path, folder: Path) -> None:
    """Number the groups' files through, in the order of the groups."""
    for prefix in ("documents", "removed"):
        for number, path in enumerate(sorted(work.glob(f"{prefix}-*.parquet"))):
            path.replace(folder / f"{prefix}-{number:05d}.parquet")
    if not any(folder.glob("removed-*.parquet")):  # so that readers need no special case
        pq.write_table(REMOVED_SCHEMA.empty_table(), folder / "removed-00000.parquet")


def _refuse_empty(tally: Tally) -> None:
    if tally.total("documents_kept"):
        return
    removed = tally.by("removed", 1) | tally.by("malformed", 1)
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in removed.items()) or "the files are empty"
    examples = "".join(f"\n  {example}" for example in tally.examples[:5])
    raise ValueError(
        f"cleaning left no document of {tally.total('documents_in'):,} in "
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
    if counts["malformed"]:
        warn(
            f"{counts['malformed']:,} row(s) could not be read, the first {tally.examples[0]}; "
            "see report.html"
        )
    if empty := [f["path"] for f in tally.files if not f["documents"] + f["malformed"]]:
        warn(f"{len(empty):,} file(s) hold no document, the first {empty[0]}")
    return counts
