"""Near duplicates, first half: documents that share a band of their MinHash, and their components.

A document is (group << 32 | row in the group's work file), which orders documents as ranks do. Each
group of files sends one packed array of keys to each shard of each band. Equal keys make a star:
an edge from the smallest document to each other, so a key that a million documents share makes a
million edges and no more. The edges of all bands meet in one accumulator. When many wait there they
are joined: replaced by one edge (smallest document of the component, document) for each document,
so it holds about two edges a document. The order of arrival changes nothing.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.minhash import Keys, Offsets

SHARDS_PER_BAND = 16  # decides the size of an element, not the result
_SHARD_BITS = 4
MAX_WAITING_EDGES = 1 << 21  # 32 MB; joining takes about five times as much
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64((1 << 32) - 1)
_MEMBER = np.dtype([("row", "<u4"), ("size", "<u4"), ("component", "<u8")])
Edges = npt.NDArray[np.uint64]  # (edge, 2)
NO_EDGES: Edges = np.zeros((0, 2), dtype=np.uint64)


def pack_bands(keys: Keys, rows: Offsets, is_small: npt.NDArray[np.bool_]) -> dict[int, bytes]:
    """Packed (32 bits of the key, row) by band and shard; `keys` are (document, band).

    Of a small document (see `is_small`) the first band is enough. Another four bits are in the
    number of the shard. Two documents that agree in 36 bits by chance are told apart when their
    texts are compared.
    """
    packed = {}
    records = (keys << _ROW_BITS) | rows.astype(np.uint64)[:, None]
    shards = (keys >> np.uint64(64 - _SHARD_BITS)).astype(np.uint8)
    for band in range(keys.shape[1]):
        takes_part = ~is_small if band else np.ones_like(is_small)
        of_band, shard_of = records[takes_part, band], shards[takes_part, band]
        for shard in np.unique(shard_of).tolist():
            packed[band * SHARDS_PER_BAND + shard] = of_band[shard_of == shard].tobytes()
    return packed


def is_small(num_shingles: Offsets, similarity: float) -> npt.NDArray[np.bool_]:
    """Whether so few shingles are similar to the same shingles only: n / (n + 1) < similarity.

    Equal sets agree in every band, so one band finds them. Most comments are so short.
    """
    small: npt.NDArray[np.bool_] = num_shingles < similarity * (num_shingles + 1)
    return small


def star_edges(packed: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Of one shard of a band, (group, packed keys): packed edges, if any, whatever their order."""
    groups, buffers = zip(*packed, strict=True)
    parts = [np.frombuffer(buffer, dtype="<u8") for buffer in buffers]
    records = np.concatenate(parts)
    owners = np.repeat(np.array(groups, dtype=np.uint64), [len(part) for part in parts])
    keys, documents = records >> _ROW_BITS, (owners << _ROW_BITS) | (records & _ROW_MASK)
    order = np.lexsort((documents, keys))
    keys, documents = keys[order], documents[order]
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = keys[1:] != keys[:-1]
    hubs = documents[np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))]
    edges = np.stack((hubs, documents), axis=1)[~is_first]
    return [edges.tobytes()] if len(edges) else []


def unpack_edges(packed: bytes) -> Edges:
    """Edges as `star_edges` packed them."""
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
    """(group, packed rows of its documents with their component and its size)."""
    roots, documents = joined[:, 0], joined[:, 1]
    _, numbers, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    members = np.empty(len(joined), dtype=_MEMBER)
    members["row"], members["component"] = documents & _ROW_MASK, roots
    members["size"] = sizes[numbers]
    groups = documents >> _ROW_BITS
    return [(int(g), members[groups == g].tobytes()) for g in np.unique(groups)]


def unpack_members(packed: Iterable[bytes]) -> dict[int, tuple[int, int]]:
    """By row of the group: (component, its size)."""
    members: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_MEMBER)
    pairs = zip(members["component"].tolist(), members["size"].tolist(), strict=True)
    return dict(zip(members["row"].tolist(), pairs, strict=True))
