"""Near duplicates: documents that share a band of their MinHash, and who of them is kept.

A document is (batch << 32 | row in the batch's work file), which orders documents as ranks do. Each
batch sends one packed array of keys to each shard of each band. Equal keys make a star:
an edge from the smallest document to each other, so a key that a million documents share makes a
million edges and no more. The order of arrival changes nothing. One worker folds the edges to
components as they come: it holds about two edges, 120 bytes, for each document that shares a band
with another.

Within a component documents are taken from the longest to the shortest, equal ones by rank. A
document is removed if its shingles are similar enough to those of one that is kept already;
otherwise it is kept itself. So a chain of similar documents never removes one that is unlike every
document kept. Cost: a document is compared with at
most `MAX_COMPARED` kept ones, those with which it shares most bands, and a band remembers as many,
so time and memory are linear in the size of a component. Only in a component that keeps more than
`MAX_COMPARED` documents can a pair be missed. One of more than `MAX_COMPONENT`, such as the pages
of one template, is cut into parts by a hash of the document, for one worker takes 2 kB of each; a
part keeps its own.

A document's set of shingles travels as its smallest `sketch_size` hashes: up to that number the
similarity is exact, beyond it the standard error is sqrt(J (1 - J) / size), at J = 0.7 and 2,048
hashes 0.010 (bottom-k sketches: Cohen & Kaplan, 2007).
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from pipeline.dedup.minhash import Halves, Keys, Offsets, splitmix64
from pipeline.dedup.records import REMOVED, first_of_run, gather, pack_by, run_starts, shard_of

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


def pack_bands(keys: Keys, num_keys: Offsets, rows: Offsets, num_shards: int) -> dict[int, bytes]:
    """Packed (key, row) by band and shard.

    `keys` are of the first `num_keys` bands of each document, which stands in one of `rows`.
    """
    bands = np.arange(len(keys)) - np.repeat(np.cumsum(num_keys) - num_keys, num_keys)
    records = np.empty(len(keys), dtype=_KEYED)
    records["key"], records["row"] = keys, np.repeat(rows, num_keys)
    return pack_by(records, bands.astype(np.uint64) * num_shards + shard_of(keys, num_shards))


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
    edges = np.stack((documents[first_of_run(is_first)], documents), axis=1)[~is_first]
    return [edges.tobytes()] if len(edges) else []


def join_edges(parts: Sequence[Edges]) -> Edges:
    """The components of all edges: (smallest document, document) of each document, sorted."""
    edges = np.concatenate([NO_EDGES, *parts])
    if not len(edges):
        return NO_EDGES
    from scipy.sparse import coo_array  # here: most processes never come here
    from scipy.sparse.csgraph import connected_components

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


MAX_COMPARED = 32
MAX_COMPONENT = 1 << 17  # 290 MB of sketches, and up to 1 GB if all are kept
MAX_SKETCH, MIN_SKETCH = 2048, 256
_COMPONENT_HASHES = 1 << 25  # 256 MB: what the sketches of one component may hold, if it can be


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document of a component. `hashes`: the smallest of its distinct shingles, sorted."""

    component: int
    rank: int
    length: int  # characters
    num_shingles: int  # distinct
    bands: Halves
    hashes: Keys


def part_of(component: int, component_size: int, document: int) -> tuple[int, int]:
    """(component, size), or those of the part of a component above `MAX_COMPONENT`."""
    if component_size <= MAX_COMPONENT:
        return component, component_size
    num_parts = 2 * component_size // MAX_COMPONENT  # half full in the mean, so none is too big
    hashes = splitmix64(np.array((document, component), dtype=np.uint64))
    part = shard_of(hashes[:1], num_parts)
    return int(splitmix64(hashes[1:] + part)[0]), component_size // num_parts


def sketch_size(component_size: int) -> int:
    """How many hashes a document of a component of that size sends."""
    return min(MAX_SKETCH, max(MIN_SKETCH, _COMPONENT_HASHES // component_size))


def pack_candidates(candidates: Sequence[Candidate], num_shards: int) -> dict[int, bytes]:
    """Packed candidates by shard."""
    components = np.array([candidate.component for candidate in candidates], dtype=np.uint64)
    shards = shard_of(splitmix64(components), num_shards).tolist()
    by_shard: defaultdict[int, list[Candidate]] = defaultdict(list)
    for shard, candidate in zip(shards, candidates, strict=True):
        by_shard[shard].append(candidate)
    return {shard: _pack(members) for shard, members in sorted(by_shard.items())}


# of a packed candidate: component, rank, length, shingles; how many bands and hashes follow
_HEADER = struct.Struct("<QQQQII")


def _pack(candidates: Sequence[Candidate]) -> bytes:
    parts = []
    for c in candidates:
        # a band's key need only tell documents of one component apart
        numbers = c.component, c.rank, c.length, c.num_shingles, len(c.bands), len(c.hashes)
        bands, hashes = c.bands.astype("<u4"), c.hashes.astype("<u8")
        parts += [_HEADER.pack(*numbers), bands.tobytes(), hashes.tobytes()]
    return b"".join(parts)


def _unpack(packed: bytes) -> Iterator[Candidate]:
    """The candidates, whose arrays are views of what is packed."""
    offset = 0
    while offset < len(packed):
        component, rank, length, num, num_bands, num_hashes = _HEADER.unpack_from(packed, offset)
        offset += _HEADER.size
        bands = np.frombuffer(packed, "<u4", num_bands, offset)
        offset += bands.nbytes
        hashes = np.frombuffer(packed, "<u8", num_hashes, offset)
        offset += hashes.nbytes
        yield Candidate(component, rank, length, num, bands, hashes)


def find_near_duplicates(
    packed: Iterable[tuple[int, bytes]], similarity: float
) -> list[tuple[int, bytes]]:
    """(batch, packed records) from the (batch, packed candidates) of one shard, in any order."""
    owned = [(one, batch) for batch, buffer in packed for one in _unpack(buffer)]
    owned.sort(key=lambda pair: (pair[0].component, -pair[0].length, pair[0].rank))
    removed, owners = [], []
    for _, of_component in groupby(owned, key=lambda pair: pair[0].component):
        candidates, batches = zip(*of_component, strict=True)
        for index, representative, similar in choose(candidates, similarity):
            removed.append((candidates[index].rank, candidates[representative].rank, similar))
            owners.append(batches[index])
    return [*pack_by(np.array(removed, REMOVED), np.array(owners, np.int64)).items()]


def choose(candidates: Sequence[Candidate], similarity: float) -> Iterator[tuple[int, int, float]]:
    """(index of a removed document, index of the kept one, similarity); given the longest first."""
    kept = _Kept(num_members=len(candidates))
    for index, candidate in enumerate(candidates):
        for other in kept.nearest(candidate):
            similar = estimate(candidate, candidates[other], similarity)
            if similar >= similarity:
                yield index, other, similar
                break
        else:
            kept.add(index, candidate)


def estimate(one: Candidate, other: Candidate, at_least: float = 0.0) -> float:
    """Jaccard similarity of two sets of shingles; 0 where their sizes rule `at_least` out.

    Counted are the hashes up to the last one that both sketches are sure to know.
    """
    small, large = sorted((one, other), key=lambda candidate: candidate.num_shingles)
    if small.num_shingles < at_least * large.num_shingles:
        return 0.0
    mine, theirs = one.hashes, other.hashes
    limits = [c.hashes[-1] for c in (one, other) if len(c.hashes) < c.num_shingles]
    if limits:
        limit = min(limits)
        mine = mine[: np.searchsorted(mine, limit, side="right")]
        theirs = theirs[: np.searchsorted(theirs, limit, side="right")]
    if not len(mine):
        return 0.0
    indices = np.searchsorted(mine, theirs)
    indices[indices == len(mine)] = 0
    common = int(np.count_nonzero(mine[indices] == theirs))
    return common / (len(mine) + len(theirs) - common)


class _Kept:
    """The kept documents of one component, by band."""

    def __init__(self, num_members: int) -> None:
        self.indices: list[int] = []
        self._is_small = num_members <= MAX_COMPARED
        self._by_band: defaultdict[tuple[int, int], list[int]] = defaultdict(list)

    def add(self, index: int, candidate: Candidate) -> None:
        self.indices.append(index)
        if self._is_small:
            return
        for key in enumerate(candidate.bands.tolist()):
            if len(indices := self._by_band[key]) < MAX_COMPARED:
                indices.append(index)

    def nearest(self, candidate: Candidate) -> list[int]:
        """Places of those to compare with, of most shared bands first, then longest first."""
        if self._is_small:
            return self.indices
        shared: Counter[int] = Counter()
        for key in enumerate(candidate.bands.tolist()):
            shared.update(self._by_band.get(key, ()))
        ordered = sorted(shared, key=lambda index: (-shared[index], index))[:MAX_COMPARED]
        few = self.indices if len(self.indices) <= MAX_COMPARED else ()
        return ordered + [index for index in few if index not in shared]
