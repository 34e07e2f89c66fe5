"""The Beam graph of the corpus stage. Only hashes are shuffled; texts wait in the work folder."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from electrify.config_clean import CleanConfig
from pipeline.exact_dedup import find_duplicates
from pipeline.first_pass import clean_group
from pipeline.input_file import InputGroup
from pipeline.last_pass import write_group
from pipeline.line_dedup import find_repeated_lines
from pipeline.memory import keep_little_memory, return_memory
from pipeline.near_dedup import Edges, add_edges, join_edges, pack_members, star_edges, unpack_edges
from pipeline.representatives import find_near_duplicates
from pipeline.second_pass import compare_group, sketch_group
from pipeline.work_files import error_name
from pipeline.work_folder import WorkFolder


def build(
    pipeline: beam.Pipeline, groups: Sequence[InputGroup], config: CleanConfig, work: WorkFolder
) -> None:
    """Wire the passes; all workers share `work`.

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


class GroupPass(beam.DoFn):
    """A pass over groups of files; the memory of one is free before the next begins."""

    def setup(self) -> None:
        """Once in each worker."""
        keep_little_memory()


class CleanGroup(GroupPass):
    """InputGroup -> (group, b""); "texts" and "lines": (shard, (group, packed hashes))."""

    def __init__(self, config: CleanConfig, work: WorkFolder) -> None:
        self.config, self.work = config, work

    def process(self, group: InputGroup) -> Iterator[Any]:
        """Clean one group of files."""
        return_memory()
        try:
            hashes = clean_group(group, self.config, self.work)
        except ValueError as error:  # a runner may not hand the error's type back
            self.work.write_text(error_name(group.index), str(error))
            raise
        for tag, by_shard in (("texts", hashes.documents), ("lines", hashes.lines)):
            for shard, packed in by_shard.items():
                yield beam.pvalue.TaggedOutput(tag, (shard, (group.index, packed)))
        yield group.index, b""


class CompareGroup(GroupPass):
    """(group, what was found of it) -> (group, b""); "bands": (shard, (group, packed keys))."""

    def __init__(self, config: CleanConfig, work: WorkFolder) -> None:
        self.config, self.work = config, work

    def process(self, found: tuple[int, Mapping[str, Iterable[bytes]]]) -> Iterator[Any]:
        """Remove from one group of files what stands elsewhere."""
        return_memory()
        group, of_group = found
        duplicates, quotas = of_group["duplicates"], of_group["quotas"]
        bands = compare_group(group, duplicates, quotas, self.config, self.work)
        for shard, packed in bands.items():
            yield beam.pvalue.TaggedOutput("bands", (shard, (group, packed)))
        yield group, b""


class SketchGroup(GroupPass):
    """(group, packed members of components) -> (shard, (group, packed sketches))."""

    def __init__(self, config: CleanConfig, work: WorkFolder) -> None:
        self.config, self.work = config, work

    def process(self, found: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Sketch the documents of one group that share a band with others."""
        return_memory()
        group, members = found
        for shard, packed in sketch_group(group, members, self.config, self.work).items():
            yield shard, (group, packed)


class WriteGroup(GroupPass):
    """(group, its near duplicates) -> the group's documents, on disk."""

    def __init__(self, work: WorkFolder) -> None:
        self.work = work

    def process(self, found: tuple[int, Mapping[str, Iterable[bytes]]]) -> None:
        """Write one group of files."""
        return_memory()
        write_group(found[0], found[1]["near_duplicates"], self.work)
