"""The goals of the corpus stage, judged by the figures of a run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchmarks.throughput.figures import Figures, Goal, Step

if TYPE_CHECKING:
    from benchmarks.throughput.recall import BandRecall

OURS = "electrify"
WHOLE_GRAPH = "electrify, whole graph"
_FLAT = 1.25  # the dearest document costs at most so many times the cheapest


def judge(figures: Figures) -> list[Goal]:
    """Every goal, met or not; `met` is None for what this run did not measure."""
    return [
        at_least(
            "near-duplicate removal, documents per CPU second, ours / datatrove at its "
            "fastest setting",
            8.0,
            _against_peer(figures.near),
        ),
        at_least(
            "recall at Jaccard 0.8 and above, lowest band",
            0.99,
            _lowest(figures.recall, lambda band: 0.8 <= band < 1),
        ),
        at_least(
            "recall at Jaccard 0.7 and 0.75, lowest band",
            0.95,
            _lowest(figures.recall, lambda band: 0.7 <= band < 0.8),
        ),
        at_least("recall of exact copies", 1.0, _lowest(figures.recall, lambda band: band == 1)),
        at_least(
            "removals whose kept document has Jaccard 0.7 or more", 0.98, _precise(figures, "all")
        ),
        at_least("the same, of texts that differ", 0.98, _precise(figures, "texts that differ")),
        at_least(
            "whole graph without Kiwi, MB/s on two cores",
            8.0,
            max((s.mb_per_second or 0 for s in figures.whole), default=None),
        ),
        at_most("CPU seconds per document, dearest / cheapest size", _FLAT, _flatness(figures)),
        at_most(
            "peak memory on the largest corpus, MB",
            700.0,
            figures.scale[-1].peak_mb if figures.scale else None,
        ),
    ]


def at_least(name: str, wanted: float, value: float | None) -> Goal:
    """A goal met by large values."""
    return Goal(name, f"≥ {wanted:g}", value, None if value is None else value >= wanted)


def at_most(name: str, wanted: float, value: float | None) -> Goal:
    """A goal met by small values."""
    return Goal(name, f"≤ {wanted:g}", value, None if value is None else value <= wanted)


def _against_peer(near: Sequence[Step]) -> float | None:
    rates = {step.name: step.documents_per_cpu_second or 0.0 for step in near}
    ours = rates.pop(OURS, 0.0)
    fastest = max(rates.values(), default=0.0)
    return ours / fastest if ours and fastest else None


def _lowest(bands: Sequence["BandRecall"], is_meant: Callable[[float], bool]) -> float | None:
    """Words and block pairs of a band count together."""
    of_band: dict[float, list[int]] = {}
    for found in bands:
        if found.system == OURS and is_meant(found.band):
            count = of_band.setdefault(found.band, [0, 0])
            count[0] += found.together
            count[1] += found.pairs
    return min((found / pairs for found, pairs in of_band.values() if pairs), default=None)


def _precise(figures: Figures, removals: str) -> float | None:
    for found in figures.precision:
        if found.system == OURS and found.removals == removals:
            return found.at_least_70
    return None


def _flatness(figures: Figures) -> float | None:
    """Seconds beyond the start of the processes, by document, over the sizes."""
    start = figures.start_cpu_seconds
    if start is None or len(figures.scale) < 2:
        return None
    each = [max(0.0, step.cpu_seconds - start) / step.documents for step in figures.scale]
    return max(each) / min(each) if min(each) else None
