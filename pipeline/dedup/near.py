"""Near duplicates: documents that share a band of their MinHash, their components, and who is kept.

A document is (group << 32 | row in the group's work file), which orders documents as ranks do. Each
group of files sends one packed array of keys to each shard of each band. Equal keys make a star:
an edge from the smallest document to each other, so a key that a million documents share makes a
million edges and no more. The edges of all bands meet in one accumulator. When many wait there they
are joined: replaced by one edge (smallest document of the component, document) for each document,
so it holds about two edges a document. The order of arrival changes nothing.

Within a component documents are taken from the longest to the shortest, equal ones by rank. A
document is removed if its shingles are similar enough to those of one that is kept already;
otherwise it is kept itself. So a chain of similar documents never removes one that is unlike
every document kept. Cost: a document is compared with at most `MAX_COMPARED` kept ones, those
with which it shares most bands, and a band remembers as many, so time and memory are linear in
the size of a component. Only in a component that keeps more than `MAX_COMPARED` documents can a
pair be missed.

A document's set of shingles travels as its smallest `sketch_size` hashes: up to that number the
similarity is exact, beyond it the standard error is sqrt(J (1 - J) / size), at J = 0.7 and 2,048
hashes 0.010 (bottom-k sketches: Cohen & Kaplan, 2007).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.dedup.groups import by_group, gather, make_records, run_starts
from pipeline.dedup.minhash import Keys, Offsets

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

    A small document (see `is_small`) needs the first band only. Another four bits are in the
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
    """Packed edges from the (group, packed keys) of one shard, in any order of arrival."""
    records, owners = gather(packed, "<u8")
    groups = owners.astype(np.uint64) << _ROW_BITS
    keys, documents = records >> _ROW_BITS, groups | (records & _ROW_MASK)
    order = np.lexsort((documents, keys))
    keys, documents = keys[order], documents[order]
    is_first = run_starts(keys)
    hubs = documents[np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))]
    edges = np.stack((hubs, documents), axis=1)[~is_first]
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
    """(group, packed rows of its documents with their component and its size)."""
    roots, documents = joined[:, 0], joined[:, 1]
    _, numbers, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    members = np.empty(len(joined), dtype=_MEMBER)
    members["row"], members["component"] = documents & _ROW_MASK, roots
    members["size"] = sizes[numbers]
    return by_group(members, documents >> _ROW_BITS)


def unpack_members(packed: Iterable[bytes]) -> dict[int, tuple[int, int]]:
    """By row of the group: (component, its size)."""
    members: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_MEMBER)
    pairs = zip(members["component"].tolist(), members["size"].tolist(), strict=True)
    return dict(zip(members["row"].tolist(), pairs, strict=True))


NUM_SHARDS = 64  # by the component; decides the size of an element, not the result
MAX_COMPARED = 32
MAX_SKETCH, MIN_SKETCH = 2048, 256
_COMPONENT_HASHES = 1 << 25  # 256 MB: what the sketches of one component may hold, if it can be
_HEAD = np.dtype(
    [
        ("component", "<u8"),
        ("rank", "<u8"),
        ("length", "<u4"),
        ("num_shingles", "<u4"),
        ("num_hashes", "<u4"),
    ]
)
Packed = tuple[bytes, bytes, bytes]  # heads, band keys, hashes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document of a component. `hashes`: the smallest of its distinct shingles, sorted."""

    component: int
    rank: int
    length: int  # characters
    num_shingles: int  # distinct
    bands: Keys
    hashes: Keys


def sketch_size(component_size: int) -> int:
    """How many hashes a document of a component of that size sends."""
    return min(MAX_SKETCH, max(MIN_SKETCH, _COMPONENT_HASHES // component_size))


def pack_candidates(candidates: Sequence[Candidate]) -> dict[int, Packed]:
    """Packed candidates by shard."""
    by_shard: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        # components are (group << 32 | row): rows alone would do, were groups not often small
        by_shard[(candidate.component ^ candidate.component >> 32) % NUM_SHARDS].append(candidate)
    return {shard: _pack(of_shard) for shard, of_shard in sorted(by_shard.items())}


def _pack(candidates: Sequence[Candidate]) -> Packed:
    heads = np.array(
        [(c.component, c.rank, c.length, c.num_shingles, len(c.hashes)) for c in candidates],
        dtype=_HEAD,
    )
    # a band's key need only tell documents of one component apart
    bands = np.stack([c.bands for c in candidates]).astype("<u4")
    return heads.tobytes(), bands.tobytes(), b"".join(c.hashes.tobytes() for c in candidates)


def find_near_duplicates(
    packed: Iterable[tuple[int, Packed]], similarity: float
) -> list[tuple[int, bytes]]:
    """(group, packed records) from the (group, packed candidates) of one shard, in any order."""
    groups, parts = zip(*packed, strict=True)
    heads = np.frombuffer(b"".join(part[0] for part in parts), dtype=_HEAD)
    bands = np.frombuffer(b"".join(part[1] for part in parts), dtype="<u4").reshape(len(heads), -1)
    hashes = np.frombuffer(b"".join(part[2] for part in parts), dtype="<u8")
    owners = np.repeat(np.array(groups), [len(part[0]) // _HEAD.itemsize for part in parts])
    starts = np.concatenate(([0], np.cumsum(heads["num_hashes"], dtype=np.int64)))
    order = np.lexsort((heads["rank"], -heads["length"].astype(np.int64), heads["component"]))
    kept = np.arange(len(heads))
    similarities = np.ones(len(heads), dtype=np.float32)
    for members in _components(order, heads["component"][order]):
        candidates = [
            Candidate(
                component=int(heads["component"][i]),
                rank=int(heads["rank"][i]),
                length=int(heads["length"][i]),
                num_shingles=int(heads["num_shingles"][i]),
                bands=bands[i],
                hashes=hashes[starts[i] : starts[i + 1]],
            )
            for i in members.tolist()
        ]
        for place, representative, similar in choose(candidates, similarity):
            kept[members[place]] = members[representative]
            similarities[members[place]] = similar
    sizes = np.bincount(kept, minlength=len(heads))
    is_sent = (kept != np.arange(len(heads))) | (sizes > 1)
    ranks = heads["rank"]
    records = make_records(ranks, ranks[kept], similarities, sizes)[is_sent]
    return by_group(records, owners[is_sent])


def choose(candidates: Sequence[Candidate], similarity: float) -> Iterator[tuple[int, int, float]]:
    """(place of a removed document, place of the kept one, similarity); longest first given."""
    kept = _Kept(num_members=len(candidates))
    for place, candidate in enumerate(candidates):
        for other in kept.nearest(candidate):
            found = estimate(candidate, candidates[other], similarity)
            if found >= similarity:
                yield place, other, found
                break
        else:
            kept.add(place, candidate)


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
    places = np.searchsorted(mine, theirs)
    places[places == len(mine)] = 0
    common = int(np.count_nonzero(mine[places] == theirs))
    return common / (len(mine) + len(theirs) - common)


class _Kept:
    """The kept documents of one component, by band."""

    def __init__(self, num_members: int) -> None:
        self.places: list[int] = []
        self._is_small = num_members <= MAX_COMPARED
        self._by_band: defaultdict[tuple[int, int], list[int]] = defaultdict(list)

    def add(self, place: int, candidate: Candidate) -> None:
        self.places.append(place)
        if self._is_small:
            return
        for key in enumerate(candidate.bands.tolist()):
            if len(of_band := self._by_band[key]) < MAX_COMPARED:
                of_band.append(place)

    def nearest(self, candidate: Candidate) -> list[int]:
        """Places of those to compare with, of most shared bands first, then longest first."""
        if self._is_small:
            return self.places
        shared: Counter[int] = Counter()
        for key in enumerate(candidate.bands.tolist()):
            shared.update(self._by_band.get(key, ()))
        ordered = sorted(shared, key=lambda place: (-shared[place], place))[:MAX_COMPARED]
        few = self.places if len(self.places) <= MAX_COMPARED else ()
        return ordered + [place for place in few if place not in shared]


def _components(
    order: npt.NDArray[np.int64], sorted_components: npt.NDArray[np.uint64]
) -> Iterator[npt.NDArray[np.int64]]:
    yield from np.split(order, np.flatnonzero(run_starts(sorted_components))[1:])
