"""Documents that share a band of their MinHash, and the components of the graph that they make.

A document is (unit << 32 | row in the unit's work file), which orders documents as ranks do. Each
unit sends one packed array of keys to each shard of each band. Equal keys make a star:
an edge from the smallest document to each other, so a key that a million documents share makes a
million edges and no more. The order of arrival changes nothing.

The components of few documents are found by one worker, which folds edges as they come: it holds
about two edges a document. Those of many are found on shards: `large_star` and `small_star` in turn
join each document to the smallest one that it sees (Kiveris et al., Connected Components in
MapReduce and Beyond, 2014), until most documents hang on the smallest of their component and on no
other. The few edges between the others go to one worker (`open_edges`).
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from electrify.storage.folder import Folder
from pipeline.dedup.minhash import Keys, Offsets, splitmix64
from pipeline.dedup.records import gather, pack_by, run_starts, shard_of
from pipeline.work_folder import Find, Packed, Shards, pack_for_shards

# pairs of large and small star; the smallest documents reach twice as far with each
STAR_ROUNDS = 3
MAX_WAITING_EDGES = 1 << 21  # 32 MB; joining takes about five times as much
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64((1 << 32) - 1)
# A key keeps 64 bits. Of n documents with b bands each, one agrees by chance with n b / 2^bits
# others: at 36 bits, b = 25 and n = 10^9 with 0.36, and such edges join nearly all components once
# a document has three similar ones in the mean. At 64 bits it is 1.4e-9: one edge in all.
_KEYED = np.dtype([("key", "<u8"), ("row", "<u4")])
_MEMBER = np.dtype([("row", "<u4"), ("size", "<u4"), ("component", "<u8")])
Edges = npt.NDArray[np.uint64]  # (edge, 2)
NO_EDGES: Edges = np.zeros((0, 2), dtype=np.uint64)


def pack_bands(
    keys: Keys, rows: Offsets, is_small: npt.NDArray[np.bool_], num_shards: int
) -> dict[int, bytes]:
    """Packed (key, row) by band and shard; `keys` are (document, band).

    A small document (see `is_small`) needs the first band only.
    """
    packed: dict[int, bytes] = {}
    for band in range(keys.shape[1]):
        takes_part = ~is_small if band else np.ones_like(is_small)
        records = np.empty(takes_part.sum(), dtype=_KEYED)
        records["key"], records["row"] = keys[takes_part, band], rows[takes_part]
        of_band = pack_by(records, shard_of(records["key"], num_shards))
        packed |= {band * num_shards + shard: of_shard for shard, of_shard in of_band.items()}
    return packed


def is_small(num_shingles: Offsets, similarity: float) -> npt.NDArray[np.bool_]:
    """Whether so few shingles are similar to the same shingles only: n / (n + 1) < similarity.

    Equal sets agree in every band, so one band finds them. Most comments are so short.
    """
    small: npt.NDArray[np.bool_] = num_shingles < similarity * (num_shingles + 1)
    return small


def star_edges(packed: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Packed edges from the (unit, packed keys) of one shard, in any order of arrival."""
    records, owners = gather(packed, _KEYED)
    units = owners.astype(np.uint64) << _ROW_BITS
    keys, documents = records["key"], units | records["row"]
    order = np.lexsort((documents, keys))
    keys, documents = keys[order], documents[order]
    is_first = run_starts(keys)
    edges = np.stack((_firsts(documents, is_first), documents), axis=1)[~is_first]
    return [edges.tobytes()] if len(edges) else []


def unpack_edges(packed: bytes) -> Edges:
    return np.frombuffer(packed, dtype="<u8").reshape(-1, 2)


def join_edges(parts: Sequence[Edges]) -> Edges:
    """The components of all edges: (smallest document, document) of each document, sorted."""
    edges = np.concatenate([NO_EDGES, *parts])
    if not len(edges):
        return NO_EDGES
    documents, numbers = np.unique(edges, return_inverse=True)
    left, right = numbers.reshape(-1, 2).T
    shape = (len(documents), len(documents))
    graph = coo_array((np.ones(len(left), dtype=bool), (left, right)), shape=shape)
    _, labels = connected_components(graph, directed=False)
    _, firsts = np.unique(labels, return_index=True)  # documents are sorted: the smallest
    return np.stack((documents[firsts][labels], documents), axis=1)


def add_edges(parts: list[Edges], edges: Edges) -> list[Edges]:
    """The parts with more edges, joined to one part when the others hold many."""
    parts.append(edges)
    if sum(map(len, parts[1:])) > max(MAX_WAITING_EDGES, len(parts[0])):
        return [join_edges(parts)]
    return parts


def pack_members(joined: Edges) -> list[tuple[int, bytes]]:
    """(unit, packed rows of its documents with their component and its size)."""
    roots, documents = joined[:, 0], joined[:, 1]
    _, numbers, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    members = np.empty(len(joined), dtype=_MEMBER)
    members["row"], members["component"] = documents & _ROW_MASK, roots
    members["size"] = sizes[numbers]
    return [*pack_by(members, documents >> _ROW_BITS).items()]


def unpack_members(packed: Iterable[bytes]) -> dict[int, tuple[int, int]]:
    """By row of the unit: (component, its size)."""
    members: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_MEMBER)
    pairs = zip(members["component"].tolist(), members["size"].tolist(), strict=True)
    return dict(zip(members["row"].tolist(), pairs, strict=True))


# Components on shards. Edges are (larger document, smaller document) between the steps.


def ends_by_shard(edges: Edges, num_shards: int, both: bool = True) -> dict[int, bytes]:
    """Packed (document, other end) by shard of the document, for the first end or for both."""
    ends = np.concatenate([edges, edges[:, ::-1]]) if both else edges
    return pack_by(ends, shard_of(splitmix64(ends[:, 0]), num_shards))


def large_star(packed: Iterable[tuple[int, bytes]]) -> Edges:
    """From the ends of one shard: each larger neighbour of a document and the smallest of all.

    The smallest may be the document itself. The components stay what they are.
    """
    documents, others, is_first = _sorted_ends(packed)
    smallest = np.minimum(_firsts(others, is_first), documents)
    is_larger = others > documents
    return np.stack((others[is_larger], smallest[is_larger]), axis=1)


def small_star(packed: Iterable[tuple[int, bytes]]) -> Edges:
    """From the ends of one shard: a document and each of its smaller neighbours, and the smallest
    of these. The components stay what they are."""
    documents, others, is_first = _sorted_ends(packed)
    smallest = _firsts(others, is_first)
    documents = np.where(is_first, documents, others)  # the smallest takes the document's place
    return np.stack((documents, smallest), axis=1)


def open_edges(packed: Iterable[tuple[int, bytes]]) -> tuple[Edges, Edges]:
    """(edges of leaves, other edges) of the documents of one shard, from both ends.

    A leaf has one neighbour, a smaller one. Without the leaves the components stay connected.
    """
    documents, others, is_first = _sorted_ends(packed)
    is_up = others < documents
    is_leaf = is_up & is_first & np.append(is_first[1:], True)
    ends = np.stack((documents, others), axis=1)
    return ends[is_leaf], ends[is_up & ~is_leaf]


def settle(leaves: Edges, joined: Edges) -> Edges:
    """(smallest document of the component, document) of the leaves; `joined`: of the others."""
    if not len(joined):
        return leaves[:, ::-1]
    order = np.argsort(joined[:, 1])
    roots, documents = joined[order].T
    places = np.minimum(np.searchsorted(documents, leaves[:, 1]), len(documents) - 1)
    parents = np.where(documents[places] == leaves[:, 1], roots[places], leaves[:, 1])
    return np.stack((parents, leaves[:, 0]), axis=1)


def whole_components(packed: Iterable[tuple[int, bytes]]) -> Edges:
    """What `join_edges` makes, from the (smallest document, document) pairs of one shard."""
    roots, documents, is_first = _sorted_ends(packed)
    firsts = roots[is_first]
    pairs = np.concatenate([np.stack((roots, documents), 1), np.stack((firsts, firsts), 1)])
    return np.unique(pairs, axis=0)


def _sorted_ends(
    packed: Iterable[tuple[int, bytes]],
) -> tuple[Keys, Keys, npt.NDArray[np.bool_]]:
    """Documents and their other ends, each pair once, in order; where a document is first."""
    ends, _ = gather(packed, "<u8")
    documents, others = ends.reshape(-1, 2).T
    order = np.lexsort((others, documents))
    documents, others = documents[order], others[order]
    is_new = run_starts(documents, others)
    documents, others = documents[is_new], others[is_new]
    return documents, others, run_starts(documents)


def _firsts(values: Keys, is_first: npt.NDArray[np.bool_]) -> Keys:
    """The value where its run starts, for each row."""
    firsts: Keys = values[np.maximum.accumulate(np.where(is_first, np.arange(len(values)), 0))]
    return firsts


class Components(beam.PTransform[Any, Any]):
    """Packed edges -> (unit, packed members of components)."""

    def __init__(self, num_shards: int, work: Folder) -> None:
        super().__init__()
        self.num_shards, self.work = num_shards, work

    def expand(self, input_or_inputs: Any) -> Any:
        edges = input_or_inputs | "unpack" >> beam.Map(unpack_edges)
        join = beam.CombineGlobally(_Join())  # type: ignore[no-untyped-call]
        if self.num_shards == 1:
            joined = edges | "join" >> join
            return joined | "members by unit" >> beam.FlatMap(pack_members)
        for number in range(STAR_ROUNDS):
            edges = edges | f"large star {number}" >> self._by_end(large_star)
            edges = edges | f"small star {number}" >> self._by_end(small_star, both=False)
        opened = edges | "leaves" >> self._by_end(open_edges)
        joined = opened | "others" >> beam.Map(itemgetter(1)) | "join" >> join
        settled = (
            opened
            | "leaves alone" >> beam.Map(itemgetter(0))
            | "settle" >> beam.Map(settle, beam.pvalue.AsSingleton(joined))
        )
        every = (settled, joined) | "every document" >> beam.Flatten()
        whole = every | "whole components" >> self._by_end(whole_components, both=False)
        return whole | "members by unit" >> beam.FlatMap(pack_members)

    def _by_end(self, find: Find, both: bool = True) -> "_ByEnd":
        return _ByEnd(find, self.num_shards, both, self.work)


class _ByEnd(beam.PTransform[Any, Any]):
    """Edges -> what `find` makes of those of each shard of documents."""

    def __init__(self, find: Find, num_shards: int, both: bool, work: Folder) -> None:
        super().__init__()
        self.find, self.num_shards, self.both, self.work = find, num_shards, both, work

    def expand(self, input_or_inputs: Any) -> Any:
        ends = input_or_inputs | "ends" >> beam.FlatMap(
            _ends, self.num_shards, self.both, self.work
        )
        return ends | "shards" >> Shards(self.find, self.work)


def _ends(
    edges: Edges, num_shards: int, both: bool, work: Folder
) -> Iterator[tuple[int, tuple[int, Packed]]]:
    for shard, packed in pack_for_shards(ends_by_shard(edges, num_shards, both), work):
        yield shard, (0, packed)


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
