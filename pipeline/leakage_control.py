"""Sentences of the corpus itself, looked for in its other documents: what chance finds.

No benchmark holds these sentences, so what is found of them is commonplaces, quotations and
boilerplate. A benchmark's texts are found as often without any leak, if they are like the corpus.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

import xxhash

from pipeline.benchmark_index import unit_ends
from pipeline.documents import RowGroup
from pipeline.leakage_search import read_group
from pipeline.leakage_texts import ControlText, LengthClass, length_class
from pipeline.letters import read_letters

NUM_A_CLASS = 200  # sentences of each script and length
MAX_GROUPS = 32  # row groups that are read for them, evenly spread
_DOCUMENTS_A_GROUP = 200
_SENTENCES_A_DOCUMENT = 12


class _Drawn(NamedTuple):
    """Ordered by a hash of where it stands, so that the draw is the same in any order."""

    rank: int
    text: str
    document: str
    source: str


class _Smallest:
    """The sentences of smallest rank, of equal ones (letter by letter) one."""

    def __init__(self, num: int) -> None:
        self._num = num
        self._heap: list[tuple[int, bytes, _Drawn]] = []
        self._letters: set[bytes] = set()

    def add(self, letters: bytes, drawn: _Drawn) -> None:
        if letters in self._letters:
            return
        self._letters.add(letters)
        heapq.heappush(self._heap, (-drawn.rank, letters, drawn))
        if len(self._heap) > self._num:
            self._letters.remove(heapq.heappop(self._heap)[1])

    def in_order(self) -> list[_Drawn]:
        return sorted(drawn for *_, drawn in self._heap)


def draw_control(groups: Sequence[RowGroup], num: int = NUM_A_CLASS) -> list[ControlText]:
    """At most `num` sentences a class of script and length, the same for the same documents.

    Every source gives as many as any other, where it has them: the largest may be statutes that
    repeat each other.
    """
    drawn: dict[LengthClass, dict[str, _Smallest]] = {}
    step = max(1, -(-len(groups) // MAX_GROUPS))
    for group in groups[::step]:
        for sentence in _sentences(group):
            letters, _ = read_letters(sentence.text)
            length = length_class(letters)
            if length is not None:
                of_source = drawn.setdefault(length, {}).setdefault(sentence.source, _Smallest(num))
                of_source.add(letters.tobytes(), sentence)
    return [
        ControlText(one.text, one.document, one.source, length)
        for length, by_source in sorted(drawn.items())
        for one in _in_turn([by_source[source].in_order() for source in sorted(by_source)])[:num]
    ]


def _in_turn(lists: Sequence[Sequence[_Drawn]]) -> list[_Drawn]:
    """The first of each, then the second of each that has one, and so on."""
    return [one for row in zip_longest(*lists) for one in row if one is not None]


def _sentences(group: RowGroup) -> Iterator[_Drawn]:
    """Some sentences of some documents of a row group."""
    ids = (row["id"] for row in read_group(group, ["id"]))
    chosen = set(heapq.nsmallest(_DOCUMENTS_A_GROUP, ids, key=_rank))
    for row in read_group(group, ["id", "text", "source"]):
        if row["id"] not in chosen:
            continue
        ends = [0, *unit_ends(row["text"])]
        places = heapq.nsmallest(
            _SENTENCES_A_DOCUMENT,
            ((_rank(f"{row['id']} {begin}"), begin, end) for begin, end in pairwise(ends)),
        )
        for rank, begin, end in places:
            yield _Drawn(rank, row["text"][begin:end].strip(), row["id"], row["source"])


def _rank(label: str) -> int:
    return xxhash.xxh3_64_intdigest(label.encode("utf-8", "surrogatepass"))
