"""Near duplicates: of documents that share a band of their MinHash, who is kept.

Within a component documents of an earlier corpus come first and stay all. The others are taken from
the longest to the shortest, equal ones by rank. A
document is removed if its shingles are similar enough to those of one that is kept already;
otherwise it is kept itself. So a chain of similar documents never removes one that is unlike
every document kept. Cost: a document is compared with at most `MAX_COMPARED` kept ones, those
with which it shares most bands, and a band remembers as many, so time and memory are linear in
the size of a component. Only in a component that keeps more than `MAX_COMPARED` documents can a
pair be missed. One of more than `MAX_COMPONENT`, such as the pages of one template, is cut
into parts by a hash of the document, for one worker takes 2 kB of each; a part keeps its own.

A document's set of shingles travels as its smallest `sketch_size` hashes: up to that number the
similarity is exact, beyond it the standard error is sqrt(J (1 - J) / size), at J = 0.7 and 2,048
hashes 0.010 (bottom-k sketches: Cohen & Kaplan, 2007).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.dedup.earlier import are_earlier, is_earlier
from pipeline.dedup.minhash import Keys, splitmix64
from pipeline.dedup.records import make_records, pack_by, run_starts, shard_of

MAX_COMPARED = 32
MAX_COMPONENT = 1 << 17  # 290 MB of sketches, and up to 1 GB if all are kept
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
_COUNTS = np.dtype([("candidates", "<u8"), ("hashes", "<u8")])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document of a component. `hashes`: the smallest of its distinct shingles, sorted."""

    component: int
    rank: int
    length: int  # characters
    num_shingles: int  # distinct
    bands: Keys
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
    """Packed candidates by shard: counts, hashes, heads and keys of bands."""
    components = np.array([candidate.component for candidate in candidates], dtype=np.uint64)
    shards = shard_of(splitmix64(components), num_shards).tolist()
    by_shard: defaultdict[int, list[Candidate]] = defaultdict(list)
    for shard, candidate in zip(shards, candidates, strict=True):
        by_shard[shard].append(candidate)
    return {shard: _pack(members) for shard, members in sorted(by_shard.items())}


def _pack(candidates: Sequence[Candidate]) -> bytes:
    heads = np.array(
        [(c.component, c.rank, c.length, c.num_shingles, len(c.hashes)) for c in candidates],
        dtype=_HEAD,
    )
    # a band's key need only tell documents of one component apart
    bands = np.stack([c.bands for c in candidates]).astype("<u4")
    counts = np.array((len(candidates), heads["num_hashes"].sum()), dtype=_COUNTS)
    arrays = (counts, *(c.hashes for c in candidates), heads, bands)
    return b"".join(one.tobytes() for one in arrays)


class _Part(NamedTuple):
    """The candidates of one batch in a shard."""

    heads: npt.NDArray[np.void]
    bands: npt.NDArray[np.uint32]  # (candidate, band)
    hashes: Keys
    ends: npt.NDArray[np.int64]  # of each candidate's hashes

    @classmethod
    def unpack(cls, packed: bytes) -> "_Part":
        num, num_hashes = np.frombuffer(packed, _COUNTS, 1)[0].item()
        hashes = np.frombuffer(packed, "<u8", num_hashes, _COUNTS.itemsize)
        start = _COUNTS.itemsize + hashes.nbytes
        heads: npt.NDArray[np.void] = np.frombuffer(packed, _HEAD, num, start)
        bands = np.frombuffer(packed, "<u4", offset=start + heads.nbytes).reshape(num, -1)
        return cls(heads, bands, hashes, np.cumsum(heads["num_hashes"], dtype=np.int64))

    def candidate(self, place: int) -> Candidate:
        component, rank, length, num_shingles, num_hashes = self.heads[place].item()
        end = self.ends[place]
        hashes = self.hashes[end - num_hashes : end]
        return Candidate(component, rank, length, num_shingles, self.bands[place], hashes)


def find_near_duplicates(
    packed: Iterable[tuple[int, bytes]], similarity: float
) -> list[tuple[int, bytes]]:
    """(batch, packed records) from the (batch, packed candidates) of one shard, in any order."""
    batches, buffers = zip(*packed, strict=True)
    parts = [_Part.unpack(buffer) for buffer in buffers]
    lengths = [len(part.heads) for part in parts]
    heads = np.concatenate([part.heads for part in parts])
    owner_of = np.repeat(np.arange(len(parts)), lengths)
    place_of = np.concatenate([np.arange(length) for length in lengths])
    lengths_down, is_new = -heads["length"].astype(np.int64), ~are_earlier(heads["rank"])
    order = np.lexsort((heads["rank"], lengths_down, is_new, heads["component"]))
    kept = np.arange(len(heads))
    similarities = np.ones(len(heads), dtype=np.float32)
    starts = np.flatnonzero(run_starts(heads["component"][order]))
    for members in np.split(order, starts[1:]):
        candidates = [parts[owner_of[i]].candidate(place_of[i]) for i in members]
        for place, representative, similar in choose(candidates, similarity):
            kept[members[place]] = members[representative]
            similarities[members[place]] = similar
    sizes = np.bincount(kept, minlength=len(heads))
    is_sent = (kept != np.arange(len(heads))) | (sizes > 1)
    ranks = heads["rank"]
    records = make_records(ranks, ranks[kept], similarities, sizes)[is_sent]
    return [*pack_by(records, np.array(batches)[owner_of][is_sent]).items()]


def choose(candidates: Sequence[Candidate], similarity: float) -> Iterator[tuple[int, int, float]]:
    """(place of a removed document, place of the kept one, similarity); given are those of an
    earlier corpus, then the longest first."""
    kept = _Kept(num_members=len(candidates))
    for place, candidate in enumerate(candidates):
        is_new = not is_earlier(candidate.rank)
        for other in kept.nearest(candidate) if is_new else ():
            similar = estimate(candidate, candidates[other], similarity)
            if similar >= similarity:
                yield place, other, similar
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
    if not len(mine):
        return 0.0
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
            if len(places := self._by_band[key]) < MAX_COMPARED:
                places.append(place)

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
