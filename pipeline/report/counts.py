"""What was counted while cleaning: each group of files counts for itself, then all are added.

Counts have keys of names:

- (documents_in | documents_kept | characters_in | characters_kept, language, source)
- (length_in | length_kept, language, bucket): documents by length, see `length_bucket`
- (removed | malformed, reason, language, source)
- (altered | altered_pieces, rule, language, source): documents a rule changed, and its changes
- (cluster, kind, number of documents): sets of duplicates
- (contamination, task, kind, language): benchmark texts found in documents, by how they were found
  (pipeline/decontaminate/match.py), and documents_removed, documents_changed, lines_removed for
  them
- (benchmark, task, texts | too_short): texts of a task, and those too short to be looked for
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.decontaminate.match import Decontaminated
from pipeline.report.samples import Sample, Samples, read_samples, samples_json, shortened

NUM_EXAMPLES = 20  # rows that could not be read, named in the report
RULE = "rule: "  # before a rule's name, among the names of samples


@dataclass
class Tally:
    """Counts by names, and texts to show by reason, by "rule: " and rule, or "kept"."""

    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    files: list[dict[str, Any]] = field(default_factory=list)  # path, documents, malformed
    examples: list[str] = field(default_factory=list)  # "file:row: reason: detail"
    samples: dict[str, Samples] = field(default_factory=dict)

    def add_document_in(self, text: str, language: str, source: str) -> None:
        """Count a document as it was read."""
        self.counts["documents_in", language, source] += 1
        self.counts["characters_in", language, source] += len(text)
        self.counts["length_in", language, length_bucket(text)] += 1

    def add_document_kept(self, text: str, language: str, source: str, label: str = "") -> None:
        """Count a document as it is written; `label`, its id, makes it a sample."""
        self.counts["documents_kept", language, source] += 1
        self.counts["characters_kept", language, source] += len(text)
        self.counts["length_kept", language, length_bucket(text)] += 1
        if label:
            self.add_sample("kept", label, text, language, source)

    def add_removed(self, reason: str, label: str, text: str, language: str, source: str) -> None:
        """Count a document that is not kept."""
        self.counts["removed", reason, language, source] += 1
        self.add_sample(reason, label, text, language, source)

    def add_malformed(self, reason: str, where: str, text: str, language: str, source: str) -> None:
        """Count a row that never became a document; `where` is "file:row"."""
        self.counts["malformed", reason, language, source] += 1
        self.add_sample(reason, where, text, language, source)

    def add_altered(self, rule: str, count: int, language: str, source: str) -> None:
        """Count a document that a rule changed in `count` places."""
        self.counts["altered", rule, language, source] += 1
        self.counts["altered_pieces", rule, language, source] += count

    def add_cluster(self, kind: str, size: int) -> None:
        """Count one set of duplicates, the kept one included; `kind` is exact or near."""
        self.counts["cluster", kind, str(size)] += 1

    def add_contamination(self, task: str, kind: str, language: str, count: int = 1) -> None:
        """Count a benchmark text that was found in a document, or what was done about it."""
        self.counts["contamination", task, kind, language] += count

    def add_decontaminated(self, found: Decontaminated, language: str) -> None:
        """Count what was found in one document; what was done counts for each task found."""
        for match in found.matches:
            self.add_contamination(match.task, match.kind, language)
        done = "documents_changed" if found.drop is None else "documents_removed"
        for task in {match.task for match in found.matches}:
            self.add_contamination(task, done, language)
            if found.num_lines_removed:
                self.add_contamination(task, "lines_removed", language, found.num_lines_removed)

    def add_benchmark(self, task: str, num_texts: int, num_too_short: int) -> None:
        """Count the texts of a task, and of them those that are too short to be looked for."""
        self.counts["benchmark", task, "texts"] += num_texts
        self.counts["benchmark", task, "too_short"] += num_too_short

    def add_example(self, example: str) -> None:
        """Remember a row that could not be read, while there are few."""
        if len(self.examples) < NUM_EXAMPLES:
            self.examples.append(example)

    def wants_change(self, rule: str, label: str, language: str, source: str) -> bool:
        """Whether `add_change` would keep it: worth running the rules again for an excerpt."""
        found = self.samples.get(RULE + rule)
        return found is None or found.wants(label, language, source)

    def add_change(self, rule: str, label: str, excerpt: str, language: str, source: str) -> None:
        """Show what a rule did to a text, see pipeline/rules/changes.py."""
        self.add_sample(RULE + rule, label, excerpt, language, source)

    def add_sample(
        self, name: str, label: str, text: str, language: str = "", source: str = ""
    ) -> None:
        """Show this text, cut short, if it is among those chosen; `name` is a reason or "kept"."""
        found = self.samples.setdefault(name, Samples())
        if found.wants(label, language, source):
            found.add(Sample(label, shortened(text), language, source))

    def add(self, other: "Tally") -> None:
        """Add the tally of later files."""
        self.counts.update(other.counts)
        self.files += other.files
        for example in other.examples:
            self.add_example(example)
        for name, samples in other.samples.items():
            mine = self.samples.setdefault(name, Samples())
            for sample in samples.listed():
                mine.add(sample)

    def total(self, *names: str) -> int:
        """The sum of all counts whose key starts with `names`."""
        return sum(n for key, n in self.counts.items() if key[: len(names)] == names)

    def by(self, what: str, place: int) -> dict[str, int]:
        """The counts of `what` by the name in one place of the key, sorted."""
        sums: Counter[str] = Counter()
        for key, n in self.counts.items():
            if key[0] == what:
                sums[key[place]] += n
        return dict(sorted(sums.items()))

    def to_json(self) -> str:
        """As `tally_from_json` reads it."""
        value = {
            "counts": sorted([list(key), n] for key, n in self.counts.items()),
            "files": self.files,
            "examples": self.examples,
            "samples": {name: samples_json(found) for name, found in sorted(self.samples.items())},
        }
        return json.dumps(value, ensure_ascii=False)


def length_bucket(text: str) -> str:
    """The power of two at or above which the number of characters is, "00".."63": 1, 2, 4, 8..."""
    return f"{max(1, len(text)).bit_length() - 1:02d}"


def tally_from_json(text: str) -> Tally:
    """Read what `Tally.to_json` made."""
    value = json.loads(text)
    return Tally(
        Counter({tuple(key): n for key, n in value["counts"]}),
        value["files"],
        value["examples"],
        {name: read_samples(rows) for name, rows in value["samples"].items()},
    )


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
        "removed": _by_reason(tally, "removed"),
        "malformed": _by_reason(tally, "malformed"),
        "malformed_examples": tally.examples,
        "altered": tally.by("altered", 1),
        "altered_by_source": _altered_by_source(tally),
        "languages": _languages(tally),
        "lengths": _lengths(tally),
        "clusters": _clusters(tally),
        "benchmarks": _benchmarks(tally),
        "contamination": _contamination(tally),
        "samples": {
            name: [[s.label, s.language, s.source, s.text] for s in found.listed()]
            for name, found in sorted(tally.samples.items())
        },
        "files": tally.files,
    }


def _by_reason(tally: Tally, what: str) -> Rows:
    """Documents by reason, language and source."""
    return [
        {"reason": key[1], "language": key[2], "source": key[3], "documents": n}
        for key, n in sorted(tally.counts.items())
        if key[0] == what
    ]


def _altered_by_source(tally: Tally) -> Rows:
    """Documents that a rule changed and the changes, by rule, language and source."""
    return [
        {
            "rule": key[1],
            "language": key[2],
            "source": key[3],
            "documents": n,
            "pieces": tally.counts["altered_pieces", *key[1:]],
        }
        for key, n in sorted(tally.counts.items())
        if key[0] == "altered"
    ]


def _languages(tally: Tally) -> Rows:
    """Documents and characters of each language, in and kept."""
    sums = {name: tally.by(name, 1) for name in TOTALS}
    return [
        {"language": language} | {name: sums[name].get(language, 0) for name in TOTALS}
        for language in sums["documents_in"]
    ]


def _lengths(tally: Tally) -> Rows:
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


def _clusters(tally: Tally) -> Rows:
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


def _contamination(tally: Tally) -> Rows:
    """What was found of each benchmark task, and what was done: counts by kind and language."""
    return [
        {"task": key[1], "kind": key[2], "language": key[3], "count": n}
        for key, n in sorted(tally.counts.items())
        if key[0] == "contamination"
    ]


def _benchmarks(tally: Tally) -> Rows:
    """Texts of each benchmark task, and of them those too short to be looked for."""
    return [
        {"task": task, "texts": n, "too_short": tally.counts["benchmark", task, "too_short"]}
        for (task, what), n in sorted(
            (key[1:], n) for key, n in tally.counts.items() if key[0] == "benchmark"
        )
        if what == "texts"
    ]


def sums(rows: Rows, key: str, value: str) -> dict[str, int]:
    """The values of rows added up by a key, sorted."""
    found: Counter[str] = Counter()
    for row in rows:
        found[row[key]] += row[value]
    return dict(sorted(found.items()))


def funnel(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(step, rows left after it), from the rows read on, in the order in which a row meets them."""
    left = report["totals"]["documents_in"] + report["totals"]["malformed"]
    steps = [("rows read", left)]
    removed = sums(report["removed"], "reason", "documents")
    late = [reason for reason in LATE_REASONS if reason in removed]
    early = [reason for reason in removed if reason not in LATE_REASONS]
    faults = sums(report["malformed"], "reason", "documents")
    losses = [*faults.items(), *((reason, removed[reason]) for reason in [*early, *late])]
    for reason, n in losses:
        left -= n
        steps.append((f"after {reason}", left))
    return steps
