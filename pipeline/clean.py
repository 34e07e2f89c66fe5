"""The corpus stage: raw files to documents. `build` is the whole Beam graph."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from pipeline.documents import REMOVED_SCHEMA
from pipeline.exact_dedup import find_duplicates
from pipeline.passes import (
    MALFORMED,
    clean_group,
    error_path,
    read_path,
    write_group,
    written_path,
)
from pipeline.runner import make_pipeline, run_pipeline
from pipeline.sources import InputGroup, expand_sources, group_files
from pipeline.tally import Tally, read_tally
from pipeline.watch import watch


def clean(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Make the `clean` folder of a run.

    Raises `ValueError` for a glob that matches nothing, for a corpus of which nothing is left and,
    if `clean.strict`, for the first row that cannot be read.
    """
    files = expand_sources(config.clean.sources)
    groups = group_files(files)
    stage = clean_stage(config, [file.path for file in files])
    num_bytes = sum(file.text_bytes for file in files)

    def work(folder: Path) -> Mapping[str, Any]:
        pipeline = make_pipeline(config.clean.runner, beam_options, num_bytes)
        return _clean_into(folder, pipeline, groups, config.clean)

    run_stage(stage, work, overwrite)


def build(
    pipeline: beam.Pipeline, groups: Sequence[InputGroup], config: CleanConfig, work: Path
) -> None:
    """Wire the two passes. Only hashes are shuffled; texts wait in `work`, which workers share."""
    first = (
        pipeline
        | "groups of files" >> beam.Create(groups)
        | "to all workers" >> beam.Reshuffle()
        | "clean" >> beam.ParDo(CleanGroup(config, work)).with_outputs("hashes", main="cleaned")
    )
    duplicates = (
        first.hashes
        | "by hash shard" >> beam.GroupByKey()
        | "hashes of a shard" >> beam.Values()
        | "find duplicates" >> beam.FlatMap(find_duplicates)
    )
    (
        {"cleaned": first.cleaned, "duplicates": duplicates}
        | "by group" >> beam.CoGroupByKey()
        | "write" >> beam.ParDo(WriteGroup(work))
    )


class CleanGroup(beam.DoFn):
    """InputGroup -> (group index, b"done"), and "hashes": (shard, (group index, packed hashes))."""

    def __init__(self, config: CleanConfig, work: Path) -> None:
        self.config, self.work = config, work

    def process(self, group: InputGroup) -> Iterator[Any]:
        """Clean one group of files."""
        try:
            by_shard = clean_group(group, self.config, self.work)
        except ValueError as error:  # a runner may not hand the error's type back
            write_text(error_path(self.work, group.index), str(error))
            raise
        for shard, packed in by_shard.items():
            yield beam.pvalue.TaggedOutput("hashes", (shard, (group.index, packed)))
        yield group.index, b"done"


class WriteGroup(beam.DoFn):
    """(group index, {"duplicates": [packed duplicates]}) -> the group's documents, on disk."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def process(self, group: tuple[int, Mapping[str, Iterable[bytes]]]) -> None:
        """Write one group of files."""
        write_group(group[0], group[1]["duplicates"], self.work)


def _clean_into(
    folder: Path, pipeline: beam.Pipeline, groups: Sequence[InputGroup], config: CleanConfig
) -> Mapping[str, Any]:
    work = (folder / "work").absolute()
    work.mkdir()
    build(pipeline, groups, config, work)
    _run(pipeline, groups, work)
    tally = Tally()
    for make_path in (read_path, written_path):
        for group in groups:
            tally.add(read_tally(make_path(work, group.index)))
    _refuse_empty(tally)
    _name_files(work, folder)
    shutil.rmtree(work)
    write_report(tally, folder)
    return _summary(tally)


def _run(pipeline: beam.Pipeline, groups: Sequence[InputGroup], work: Path) -> None:
    sizes = [sum(file.num_bytes for file in group.files) / 1e6 for group in groups]
    read = {read_path(work, g.index): size for g, size in zip(groups, sizes, strict=True)}
    written = {written_path(work, g.index): size for g, size in zip(groups, sizes, strict=True)}
    try:
        with watch([("clean: reading", read), ("clean: writing", written)], "MB"):
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
    removed = tally.by("removed", 1) | tally.by(MALFORMED, 1)
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
        "malformed": tally.total(MALFORMED),
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
