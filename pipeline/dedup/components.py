"""Documents that share a band of their MinHash, and the components of the graph that they make.

A document is (batch << 32 | row in the batch's work file), which orders documents as ranks do. Each
batch sends one packed array of keys to each shard of each band. Equal keys make a star:
an edge from the smallest document to each other, so a key that a million documents share makes a
million edges and no more. The order of arrival changes nothing.

One worker folds the edges to components as they come: it holds about two edges, 120 bytes, for each
document that shares a band with another.
"""

from collections.abc import Iterable, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.dedup.minhash import Keys, Offsets
from pipeline.dedup.records import gather, pack_by, run_starts, shard_of

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
        by_shard = pack_by(records, shard_of(records["key"], num_shards))
        packed |= {band * num_shards + shard: array for shard, array in by_shard.items()}
    return packed


def is_small(num_shingles: Offsets, similarity: float) -> npt.NDArray[np.bool_]:
    """Whether so few shingles are similar to the same shingles only: n / (n + 1) < similarity.

    Equal sets agree in every band, so one band finds them. Most comments are so short.
    """
    small: npt.NDArray[np.bool_] = num_shingles < similarity * (num_shingles + 1)
    return small


def star_edges(packed: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Packed edges from the (batch, packed keys) of one shard, in any order of arrival."""
    records, owners = gather(packed, _KEYED)
    batches = owners.astype(np.uint64) << _ROW_BITS
    keys, documents = records["key"], batches | records["row"]
    order = np.lexsort((documents, keys))
    keys, documents = keys[order], documents[order]
    is_first = run_starts(keys)
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    edges = np.stack((documents[firsts], documents), axis=1)[~is_first]
    return [edges.tobytes()] if len(edges) else []


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


def pack_members(joined: Edges) -> list[tuple[int, bytes]]:
    """(batch, packed rows of its documents with their component and its size)."""
    roots, documents = joined[:, 0], joined[:, 1]
    _, numbers, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    members = np.empty(len(joined), dtype=_MEMBER)
    members["row"], members["component"] = documents & _ROW_MASK, roots
    members["size"] = sizes[numbers]
    return [*pack_by(members, documents >> _ROW_BITS).items()]


def unpack_members(packed: Iterable[bytes]) -> dict[int, tuple[int, int]]:
    """By row of the batch: (component, its size)."""
    members: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_MEMBER)
    pairs = zip(members["component"].tolist(), members["size"].tolist(), strict=True)
    return dict(zip(members["row"].tolist(), pairs, strict=True))


class Join(beam.CombineFn):
    """Packed edges -> the components of the graph that they make, see `join_edges`."""

    def create_accumulator(self) -> list[Edges]:
        return []

    def add_input(self, accumulator: list[Edges], packed: bytes) -> list[Edges]:
        """The parts with more edges, joined to one part when the others hold many."""
        accumulator.append(np.frombuffer(packed, dtype="<u8").reshape(-1, 2))
        if sum(map(len, accumulator[1:])) > max(MAX_WAITING_EDGES, len(accumulator[0])):
            return [join_edges(accumulator)]
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Edges]]) -> list[Edges]:
        return [join_edges([edges for one in accumulators for edges in one])]

    def extract_output(self, accumulator: list[Edges]) -> Edges:
        return join_edges(accumulator)
