"""What the passes send through Beam: packed arrays to shards, and what shards find, to units.

Where the work folder is local, the arrays lie there in files and only their places travel, for
Beam's local runner holds in memory, twice, what it shuffles. Elsewhere the arrays travel.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import apache_beam as beam

from electrify.storage.folder import Folder
from pipeline.dedup.components import (
    Edges,
    add_edges,
    ends_by_shard,
    join_edges,
    large_star,
    open_edges,
    pack_members,
    settle,
    small_star,
    unpack_edges,
    whole_components,
)
from pipeline.sources.input_file import InputFile, InputGroup

_GROUPS_A_FILE = 64
# pairs of large and small star; the smallest documents reach twice as far with each
STAR_ROUNDS = 3
Find = Callable[[Iterable[tuple[int, bytes]]], Iterable[Any]]
Place = tuple[str, int, int]  # file in the work folder, first byte, number of bytes
Packed = bytes | Place


def pack_for_shards(
    by_shard: Mapping[int, bytes], work: Folder, name: str | None = None
) -> list[tuple[int, Packed]]:
    """(shard, its packed array or where that lies); with a name, in a file of that name anyway."""
    if by_shard and (name or work.local):
        name = name or f"shuffle-{uuid4().hex}"
        work.write(name, b"".join(by_shard.values()))
    if work.local is None or name is None:
        return [*by_shard.items()]
    return _in_file(name, [(shard, len(packed)) for shard, packed in by_shard.items()])


def _in_file(
    name: str, sizes: Iterable[tuple[int, int]], content: bytes | None = None
) -> list[tuple[int, Packed]]:
    """Places of the arrays in a file or, with its content, the arrays."""
    packed: list[tuple[int, Packed]] = []
    offset = 0
    for shard, size in sizes:
        place = name, offset, size
        packed.append((shard, place if content is None else content[offset : offset + size]))
        offset += size
    return packed


def once(
    work: Folder, name: str, make: Callable[[], Iterable[Mapping[int, bytes]]]
) -> Iterator[list[tuple[int, Packed]]]:
    """What `make` gives, for shards; files in the work folder keep it for a later attempt.

    The file called `name` is written last: it says that all that `make` writes is there.
    """
    if work.exists(name):
        for number, sizes in enumerate(json.loads(work.read(name))):
            file = f"{name}-{number}"
            yield _in_file(file, sizes, work.read(file) if sizes and work.local is None else None)
        return
    sizes_of_parts = []
    for number, by_shard in enumerate(make()):
        sizes_of_parts.append([(shard, len(packed)) for shard, packed in by_shard.items()])
        yield pack_for_shards(by_shard, work, f"{name}-{number}")
    work.write(name, json.dumps(sizes_of_parts).encode())


def unpack(packed: Packed, work: Folder) -> bytes:
    if isinstance(packed, bytes):
        return packed
    assert work.local is not None
    name, offset, size = packed
    with (work.local / name).open("rb") as file:
        file.seek(offset)
        return file.read(size)


class Groups(beam.PTransform[Any, Any]):
    """The groups of files, spread over the workers. The graph has only the names of their lists,
    for a service takes a graph of 10 MB at most."""

    def __init__(self, groups: Sequence[InputGroup], work: Folder) -> None:
        super().__init__()
        self.groups, self.work = groups, work

    def expand(self, input_or_inputs: Any) -> Any:
        names = []
        for start in range(0, len(self.groups), _GROUPS_A_FILE):
            names.append(f"groups-{start:06d}")
            listed = [asdict(group) for group in self.groups[start : start + _GROUPS_A_FILE]]
            self.work.write(names[-1], json.dumps(listed).encode())
        return (
            input_or_inputs
            | "lists" >> beam.Create(names)
            | "of a list" >> beam.FlatMap(_read_groups, self.work)
            | "to all workers" >> beam.Reshuffle()
        )


def _read_groups(name: str, work: Folder) -> list[InputGroup]:
    return [
        InputGroup(**group | {"files": tuple(InputFile(**file) for file in group["files"])})
        for group in json.loads(work.read(name))
    ]


class Shards(beam.PTransform[Any, Any]):
    """(shard, (unit, packed array)) -> the elements that `find` makes of a shard's pairs."""

    def __init__(self, find: Find, work: Folder) -> None:
        super().__init__()
        self.find, self.work = find, work

    def expand(self, input_or_inputs: Any) -> Any:
        return (
            input_or_inputs
            | "gather" >> beam.GroupByKey()
            | "find" >> beam.FlatMap(_find, self.find, self.work)
        )


def _find(
    shard: tuple[int, Iterable[tuple[int, Packed]]], find: Find, work: Folder
) -> Iterable[Any]:
    return find([(unit, unpack(packed, work)) for unit, packed in shard[1]])


class Components(beam.PTransform[Any, Any]):
    """Packed edges -> (unit, packed members of components), see pipeline/dedup/components.py."""

    def __init__(self, num_shards: int, work: Folder) -> None:
        super().__init__()
        self.num_shards, self.work = num_shards, work

    def expand(self, input_or_inputs: Any) -> Any:
        edges = input_or_inputs | "unpack" >> beam.Map(unpack_edges)
        if self.num_shards == 1:
            joined = edges | "join" >> beam.CombineGlobally(_Join())  # type: ignore[no-untyped-call]
            return joined | "members by unit" >> beam.FlatMap(pack_members)
        for number in range(STAR_ROUNDS):
            edges = self._by_end(edges, f"large star {number}", _large_star)
            edges = self._by_end(edges, f"small star {number}", _small_star, both=False)
        leaves = self._by_end(edges, "leaves", _open_edges, tags=("others",))
        joined = leaves.others | "join" >> beam.CombineGlobally(_Join())  # type: ignore[no-untyped-call]
        settled = leaves.leaves | "settle" >> beam.Map(settle, beam.pvalue.AsSingleton(joined))
        every = (settled, joined) | "every document" >> beam.Flatten()
        return self._by_end(every, "members by unit", _members, both=False)

    def _by_end(
        self,
        edges: Any,
        label: str,
        find: Find,
        both: bool = True,
        tags: Sequence[str] = (),
    ) -> Any:
        ends = edges | f"{label}: ends" >> beam.FlatMap(_ends, self.num_shards, both, self.work)
        gathered = ends | f"{label}: gather" >> beam.GroupByKey()
        found = f"{label}: find" >> beam.FlatMap(_find, find, self.work)
        return gathered | (found.with_outputs(*tags, main="leaves") if tags else found)


def _ends(
    edges: Edges, num_shards: int, both: bool, work: Folder
) -> Iterator[tuple[int, tuple[int, Packed]]]:
    for shard, packed in pack_for_shards(ends_by_shard(edges, num_shards, both), work):
        yield shard, (0, packed)


def _large_star(packed: Iterable[tuple[int, bytes]]) -> list[Edges]:
    return [large_star(packed)]


def _small_star(packed: Iterable[tuple[int, bytes]]) -> list[Edges]:
    return [small_star(packed)]


def _open_edges(packed: Iterable[tuple[int, bytes]]) -> list[Any]:
    leaves, others = open_edges(packed)
    return [leaves, beam.pvalue.TaggedOutput("others", others)]


def _members(packed: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return pack_members(whole_components(packed))


class _Join(beam.CombineFn):
    """Edges -> the components of the graph that they make."""

    def create_accumulator(self) -> list[Edges]:
        return []

    def add_input(self, accumulator: list[Edges], edges: Edges) -> list[Edges]:
        return add_edges(accumulator, edges)

    def merge_accumulators(self, accumulators: Iterable[list[Edges]]) -> list[Edges]:
        return [join_edges([edges for one in accumulators for edges in one])]

    def extract_output(self, accumulator: list[Edges]) -> Edges:
        return join_edges(accumulator)
