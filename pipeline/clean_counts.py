"""What a tally says, as plain tables: `report.json` of the corpus stage."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.tally import Tally

TOTALS = ("documents_in", "documents_kept", "characters_in", "characters_kept")
# reasons that come after the text rules, in the order in which a document meets them
LATE_REASONS = ("duplicate", "repeated_lines", "contaminated", "near_duplicate")
Rows = list[dict[str, Any]]


def report_json(tally: Tally) -> dict[str, Any]:
    """Everything that was counted; the same tally makes the same object."""
    places = sorted({key[1:] for key in tally.counts if key[0] == "documents_in"})
    return {
        "totals": {name: tally.total(name) for name in (*TOTALS, "removed", "malformed")},
        "sources": [
            {"language": language, "source": source}
            | {name: tally.counts[name, language, source] for name in TOTALS}
            for language, source in places
        ],
        "removed": by_reason(tally, "removed"),
        "malformed": by_reason(tally, "malformed"),
        "malformed_examples": tally.examples,
        "altered": tally.by("altered", 1),
        "altered_by_source": altered_by_source(tally),
        "languages": languages(tally),
        "lengths": lengths(tally),
        "clusters": clusters(tally),
        "benchmarks": benchmarks(tally),
        "contamination": contamination(tally),
        "samples": {
            name: [[s.label, s.language, s.source, s.text] for s in found.listed()]
            for name, found in sorted(tally.samples.items())
        },
        "files": tally.files,
    }


def by_reason(tally: Tally, what: str) -> Rows:
    """Documents by reason, language and source."""
    return [
        {"reason": key[1], "language": key[2], "source": key[3], "documents": n}
        for key, n in sorted(tally.counts.items())
        if key[0] == what
    ]


def altered_by_source(tally: Tally) -> Rows:
    """Documents that a rule changed and the changes, by rule, language and source."""
    return [
        {
            "rule": key[1], "language": key[2], "source": key[3], "documents": n,
            "pieces": tally.counts["altered_pieces", *key[1:]],
        }
        for key, n in sorted(tally.counts.items())
        if key[0] == "altered" and len(key) == 4
    ]  # fmt: skip


def languages(tally: Tally) -> Rows:
    """Documents and characters of each language, in and kept."""
    sums = {name: tally.by(name, 1) for name in TOTALS}
    return [
        {"language": language} | {name: sums[name].get(language, 0) for name in TOTALS}
        for language in sums["documents_in"]
    ]


def lengths(tally: Tally) -> Rows:
    """Documents in and kept by language and length: `characters` up to twice as many."""
    found = sorted({key[1:] for key in tally.counts if key[0] in ("length_in", "length_kept")})
    return [
        {
            "language": language,
            "characters": 2 ** int(bucket),
            "documents_in": tally.counts["length_in", language, bucket],
            "documents_kept": tally.counts["length_kept", language, bucket],
        }
        for language, bucket in found
    ]


def clusters(tally: Tally) -> Rows:
    """How many sets of duplicates there are of each kind and size."""
    keys = [key for key in tally.counts if key[0] == "cluster"]
    return [
        {"kind": key[1], "documents": int(key[2]), "clusters": tally.counts[key]}
        for key in sorted(keys, key=lambda key: (key[1], int(key[2])))
    ]


def cluster_ranges(rows: Rows) -> tuple[list[str], dict[str, list[int]]]:
    """Labels such as "4-7" and, for each kind, the clusters of so many documents."""
    sums: Counter[tuple[str, int]] = Counter()
    for row in rows:
        sums[row["kind"], row["documents"].bit_length() - 1] += row["clusters"]
    last = max((bits for _, bits in sums), default=0)
    powers = range(1, last + 1)
    labels = ["2-3" if p == 1 else f"{2**p:,}-{2 ** (p + 1) - 1:,}" for p in powers]
    kinds = sorted({kind for kind, _ in sums})
    return labels, {kind: [sums[kind, p] for p in powers] for kind in kinds}


def contamination(tally: Tally) -> Rows:
    """What was found of each benchmark task, and what was done: counts by kind and language."""
    return [
        {"task": key[1], "kind": key[2], "language": key[3], "count": n}
        for key, n in sorted(tally.counts.items())
        if key[0] == "contamination"
    ]


def benchmarks(tally: Tally) -> Rows:
    """Texts of each benchmark task, and of them those too short to be looked for."""
    return [
        {"task": task, "texts": n, "too_short": tally.counts["benchmark", task, "too_short"]}
        for (task, what), n in sorted(
            (key[1:], n) for key, n in tally.counts.items() if key[0] == "benchmark"
        )
        if what == "texts"
    ]


def funnel(tally: Tally) -> list[tuple[str, int]]:
    """(step, rows left after it), from the rows read on, in the order in which a row meets them."""
    left = tally.total("documents_in") + tally.total("malformed")
    steps = [("rows read", left)]
    removed = tally.by("removed", 1)
    late = [reason for reason in LATE_REASONS if reason in removed]
    early = [reason for reason in removed if reason not in LATE_REASONS]
    faults = tally.by("malformed", 1)
    losses: Sequence[tuple[str, int]] = [
        *faults.items(), *((reason, removed[reason]) for reason in [*early, *late])
    ]  # fmt: skip
    for reason, n in losses:
        left -= n
        steps.append((f"after {reason}", left))
    return steps
