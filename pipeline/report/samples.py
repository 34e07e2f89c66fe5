"""A few texts of each kind for a reader, chosen alike however the corpus was divided among workers.

A sample's place is (how many of its own language and source have a smaller hash, its hash), and the
first places are kept. So sources and languages take turns. Adding other samples never moves one
towards the front of its group; hence whatever fell out of a part would have fallen out of the
whole, and adding parts in any order equals choosing from all at once. The tests hold that law.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import xxhash

NUM_SAMPLES = 20
SAMPLE_CHARACTERS = 200
_Ordered = tuple[int, str, str]  # hash of the label, label, text
_Group = tuple[str, str]  # language, source


class Sample(NamedTuple):
    """A text, cut short, and where it stood."""

    label: str
    language: str
    source: str
    text: str


@dataclass
class Samples:
    """At most `NUM_SAMPLES` samples of one kind."""

    groups: dict[_Group, list[_Ordered]] = field(default_factory=dict)
    _last: tuple[int, int, str] | None = None  # place of the last one, where there are enough

    @classmethod
    def of(cls, several: Iterable[Sample]) -> Self:
        """Those of the samples that are chosen."""
        samples = cls()
        for sample in several:
            samples.add(sample)
        return samples

    def wants(self, label: str, language: str, source: str) -> bool:
        """Whether a text of this label would be kept; cheaper than making the text to show."""
        if self._last is None:
            return True
        number = _number(label)
        before = bisect_left(self.groups.get((language, source), []), (number, label, ""))
        return (before, number, label) <= self._last

    def add(self, sample: Sample) -> None:
        """Keep the sample if its place is among the first."""
        if not self.wants(sample.label, sample.language, sample.source):
            return
        ordered = (_number(sample.label), sample.label, sample.text)
        group = self.groups.setdefault((sample.language, sample.source), [])
        if ordered in group:
            return
        insort(group, ordered)
        places = self._places()
        for *_, last_group in places[NUM_SAMPLES:]:
            self.groups[last_group].pop()
            if not self.groups[last_group]:
                del self.groups[last_group]
        if len(places) >= NUM_SAMPLES:
            self._last = places[NUM_SAMPLES - 1][:3]

    def listed(self) -> list[Sample]:
        """In order of language, source and label."""
        return sorted(
            (
                Sample(label, *group, text)
                for group, ordered in self.groups.items()
                for _, label, text in ordered
            ),
            key=lambda sample: (sample.language, sample.source, sample.label, sample.text),
        )

    def _places(self) -> list[tuple[int, int, str, str, _Group]]:
        return sorted(
            (place, *ordered, group)
            for group, members in self.groups.items()
            for place, ordered in enumerate(members)
        )


def _number(label: str) -> int:
    return xxhash.xxh3_64_intdigest(label.encode("utf-8", "surrogatepass"))


def shortened(text: str, num_characters: int = SAMPLE_CHARACTERS) -> str:
    """The beginning of a text, with a sign that it goes on."""
    return text if len(text) <= num_characters else text[:num_characters] + "…"
