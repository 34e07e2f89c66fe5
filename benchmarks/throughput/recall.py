"""Which planted pairs were found, and how alike what was removed is to what was kept."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from benchmarks.throughput.corpus import Pair
from benchmarks.throughput.jaccard import jaccard, shingles
from pipeline.documents import document_paths, read_rows

_KEPT = re.compile(r"of (\d{2}-\d{5}-\d{9})")
CLEANED_BANDS = (0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
_DUPLICATE = ("duplicate", "near_duplicate")


@dataclass(frozen=True)
class Outcome:
    """What a deduplication did: removed id -> id it was removed in favour of, and who is left."""

    kept_of: Mapping[str, str]
    kept: frozenset[str]

    def representative(self, document_id: str) -> str:
        """The document that stands for this one in the end."""
        seen = {document_id}
        while (following := self.kept_of.get(document_id)) is not None:
            assert following not in seen, f"{following} was removed in favour of itself"
            seen.add(following)
            document_id = following
        return document_id


@dataclass(frozen=True)
class BandRecall:
    """Planted pairs of one kind and band, without those another rule took a text of."""

    system: str
    kind: str
    band: float
    pairs: int
    together: int  # one stands for the other, or a third document for both
    resolved: int  # not both are left

    @property
    def recall(self) -> float | None:
        """Share of the pairs that ended under one document."""
        return self.together / self.pairs if self.pairs else None


@dataclass(frozen=True)
class Precision:
    """True Jaccard of the removed documents with the one kept: shares at least .5, .7, .8."""

    system: str
    removals: str  # which were looked at
    number: int
    at_least_50: float | None
    at_least_70: float | None
    at_least_80: float | None


def read_outcome(folder: Path) -> Outcome:
    """Of a `clean` folder; `ValueError` for a removal that does not name what was kept."""
    kept = frozenset(row["id"] for row in read_rows(document_paths(folder), ["id"]))
    kept_of: dict[str, str] = {}
    paths = sorted(folder.glob("removed-*.parquet"))
    for row in read_rows(paths, ["id", "reason", "detail"]):
        if row["reason"] in _DUPLICATE:
            found = _KEPT.match(row["detail"])
            if found is None:
                raise ValueError(f"{folder}: {row['id']} {row['reason']}: {row['detail']!r}")
            kept_of[row["id"]] = found[1]
    return Outcome(kept_of, kept)


def read_texts(folder: Path, ids: set[str]) -> dict[str, str]:
    """Texts of a `clean` folder with these ids, as they were compared."""
    paths = [*document_paths(folder), *sorted(folder.glob("removed-*.parquet"))]
    return {r["id"]: r["text"] for r in read_rows(paths, ["id", "text"]) if r["id"] in ids}


def read_peer_outcome(folders: Iterable[Path]) -> Outcome:
    """Of the peer's parts: `kept` and `removed`, whose rows carry the number of their cluster."""
    kept_of: dict[str, str] = {}
    kept: set[str] = set()
    for folder in folders:
        rows = dict(_peer_rows(folder / "kept"))
        kept.update(rows)
        kept_in = {cluster: document_id for document_id, cluster in rows.items() if cluster >= 0}
        kept_of |= {removed_id: kept_in[c] for removed_id, c in _peer_rows(folder / "removed")}
    return Outcome(kept_of, frozenset(kept))


def _peer_rows(folder: Path) -> Iterable[tuple[str, int]]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                row = orjson.loads(line)
                yield row["id"], row["metadata"].get("minhash_cluster_id", -1)


def measure_recall(system: str, pairs: Sequence[Pair], outcome: Outcome) -> list[BandRecall]:
    """Pairs found by kind and band, in this order."""
    counts: dict[tuple[str, float], list[int]] = {}
    for pair in pairs:
        ids = (pair.copy, pair.original)
        count = counts.setdefault((pair.kind, pair.band), [0, 0, 0])
        if any(i not in outcome.kept and i not in outcome.kept_of for i in ids):
            continue  # another rule took it
        count[0] += 1
        count[1] += outcome.representative(ids[0]) == outcome.representative(ids[1])
        count[2] += not all(i in outcome.kept for i in ids)
    return [BandRecall(system, kind, band, *n) for (kind, band), n in sorted(counts.items())]


def measure_cleaned_recall(
    system: str, pairs: Sequence[Pair], outcome: Outcome, texts: Mapping[str, str]
) -> list[BandRecall]:
    """The same pairs by the Jaccard that the rules left them: bands start at their number.

    Rules that take markup, code or lines from both texts change how alike the pair is.
    """
    again = [
        replace(pair, kind="cleaned", band=max(b for b in CLEANED_BANDS if b <= found))
        for pair in pairs
        if all(i in outcome.kept or i in outcome.kept_of for i in (pair.copy, pair.original))
        for found in [jaccard(shingles(texts[pair.copy]), shingles(texts[pair.original]))]
    ]
    return measure_recall(system, again, outcome)


def named_ids(outcome: Outcome) -> set[str]:
    """Ids of the documents that `measure_precision` compares."""
    return set(outcome.kept_of) | {outcome.representative(i) for i in outcome.kept_of}


def measure_precision(system: str, outcome: Outcome, texts: Mapping[str, str]) -> list[Precision]:
    """For all removals, and for those whose text is not that of the document kept."""
    by_kept: dict[str, list[str]] = {}
    for removed in outcome.kept_of:
        by_kept.setdefault(outcome.representative(removed), []).append(removed)
    all_found: list[float] = []
    unequal: list[float] = []
    for kept, many in sorted(by_kept.items()):
        text = texts[kept]
        reference = shingles(text)
        for removed in many:
            found = 1.0 if texts[removed] == text else jaccard(reference, shingles(texts[removed]))
            all_found.append(found)
            if texts[removed] != text:
                unequal.append(found)
    return [
        _precision(system, "all", all_found),
        _precision(system, "texts that differ", unequal),
    ]


def _precision(system: str, removals: str, found: Sequence[float]) -> Precision:
    shares = [
        sum(value >= least for value in found) / len(found) if found else None
        for least in (0.5, 0.7, 0.8)
    ]
    return Precision(system, removals, len(found), *shares)
