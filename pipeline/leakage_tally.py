"""What was found of each text, added up over row groups; plain values, as they go into JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from electrify.leakage_report import Chance, Strength
from pipeline.leakage_search import Match
from pipeline.leakage_texts import ControlText, LengthClass

NUM_SHOWN = 3  # documents that are named for a text, those with the largest share of it
_ORDER: tuple[Strength, ...] = ("touched", "possible")


@dataclass
class Hits:
    """The documents that hold one text in one strength, and the best places."""

    documents: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    best: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "Hits") -> None:
        """Take in what was found elsewhere; of equal shares the earlier ones stay."""
        self.documents += other.documents
        self.sources.update(other.sources)
        self.best = sorted([*self.best, *other.best], key=lambda match: -match["share"])[:NUM_SHOWN]


class Found:
    """By number of a text and strength, what was found. A document counts once, as its best."""

    def __init__(self) -> None:
        self.hits: dict[int, dict[Strength, Hits]] = {}

    def add_matches(self, matches: Iterable[Match]) -> None:
        """Take in matches that come document by document."""
        for _, of_document in groupby(matches, key=lambda match: match.document):
            best: dict[int, Match] = {}
            for match in of_document:
                known = best.get(match.number)
                if known is None or _rank(match) < _rank(known):
                    best[match.number] = match
            for number, match in best.items():
                hits = Hits(1, Counter([match.source]), [_shown(match)])
                self._of(number, match.strength).add(hits)

    def add(self, other: "Found") -> None:
        """Take in a later part of the documents."""
        for number, by_strength in other.hits.items():
            for strength, hits in by_strength.items():
                self._of(number, strength).add(hits)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            str(number): {strength: vars(hits) for strength, hits in by_strength.items()}
            for number, by_strength in self.hits.items()
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Found":
        """What `to_json` made."""
        found = cls()
        for number, by_strength in value.items():
            for strength, hits in by_strength.items():
                found._of(int(number), strength).add(
                    Hits(hits["documents"], Counter(hits["sources"]), hits["best"])
                )
        return found

    def _of(self, number: int, strength: Strength) -> Hits:
        return self.hits.setdefault(number, {}).setdefault(strength, Hits())


def _rank(match: Match) -> tuple[int, float]:
    return _ORDER.index(match.strength), -match.share


def _shown(match: Match) -> dict[str, Any]:
    names = ("kind", "share", "document", "source", "excerpt")
    return {name: getattr(match, name) for name in names}


def chances(
    controls: Mapping[int, list[ControlText]], found: Found, num_sources: int
) -> list[Chance]:
    """What chance does, by script and length, in the order of `LengthClass`."""
    counts: dict[LengthClass, Counter[str]] = {}
    for number, equal in controls.items():
        for control in equal:
            of_class = counts.setdefault(control.length, Counter())
            of_class["sentences"] += 1
            for name, sources in _elsewhere(control, equal, found.hits.get(number, {})).items():
                of_class[name] += bool(sources)
                of_class[f"other_{name}"] += bool(sources - {control.source})
    return [
        Chance(
            script=length.script,
            min_letters=length.min_letters,
            sentences=count["sentences"],
            touched=count["touched"],
            found=count["found"],
            other_touched=count["other_touched"] if num_sources > 1 else None,
            other_found=count["other_found"] if num_sources > 1 else None,
        )
        for length, count in sorted(counts.items())
    ]


def _elsewhere(
    control: ControlText, equal: list[ControlText], hits: Mapping[Strength, Hits]
) -> dict[str, set[str]]:
    """The sources of other documents that hold the sentence, "touched" and "found" at all.

    Equal sentences were drawn from other documents, where they stand alone.
    """
    owners = {other.source for other in equal if other.document != control.document}
    touched = set(hits["touched"].sources) if "touched" in hits else set()
    possible = set(hits["possible"].sources) if "possible" in hits else set()
    if control.length.is_sure:
        touched |= owners
    return {"touched": touched, "found": touched | possible | owners}
