"""What was counted while cleaning, and an example of each reason and rule: each batch counts and
chooses for itself, then all are added.

Counts are rows of tables with names for their columns (`TABLES`). A report groups these rows.
A row may name any source, such as its own URL: `MAX_SOURCES` of them are told apart.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import nsmallest
from typing import Any

import numpy as np
import xxhash

from pipeline.decontaminate.match import Decontaminated
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import RULES

NUM_FAULTS = 20  # rows that could not be read, named in the report
EXAMPLE_CHARACTERS = 200
TOTALS = ("documents_in", "documents_kept", "characters_in", "characters_kept")
# By table: keys and sums. "characters" is a power of two: so many or more, less than twice as many.
# "kind" of a contamination is how a benchmark text was found (pipeline/decontaminate/match.py), or
# documents_removed, documents_changed, lines_removed for them.
TABLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "documents": (("language", "source", "characters"), TOTALS),
    "removed": (("reason", "language", "source"), ("documents", "characters")),
    "malformed": (("reason", "language", "source"), ("documents",)),
    "licences": (("licence",), ("documents",)),  # of those kept; "" where none is named
    "altered": (("rule",), ("documents", "characters")),  # of documents that stay
    "benchmarks": (("task",), ("texts", "too_short")),
    "contamination": (("task", "kind", "language"), ("count",)),
}
Rows = list[dict[str, Any]]


MAX_SOURCES = 200
OTHER = "other"  # the source of the rows of all others
_FREE = ("source", "licence")  # columns that rows of the corpus may fill as they like


def chosen_sources(sources: Collection[str]) -> Collection[str]:
    """At most `MAX_SOURCES` of them, by a hash.

    Those chosen of all are among those chosen of any part that has them. So their sums are exact,
    and the same however the corpus was divided.
    """
    if len(sources) <= MAX_SOURCES:
        return sources
    ordered = sorted(
        sources, key=lambda source: (xxhash.xxh3_64_intdigest(source.encode()), source)
    )
    return frozenset(ordered[:MAX_SOURCES])


class Table:
    """Sums of rows that agree in their keys."""

    def __init__(self, keys: Sequence[str], sums: Sequence[str]) -> None:
        self.keys, self.sums = keys, sums
        self.counts: dict[tuple[Any, ...], Counter[str]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; a sum that it lacks is 0."""
        key = tuple([row[name] for name in self.keys])
        if (counts := self.counts.get(key)) is None:
            counts = self.counts[key] = Counter(dict.fromkeys(self.sums, 0))
        for name in self.sums:
            if name in row:
                counts[name] += row[name]

    def rows(self) -> Rows:
        """One row for each key, sorted."""
        return [dict(zip(self.keys, k, strict=True)) | self.counts[k] for k in sorted(self.counts)]


def group_by(rows: Iterable[Mapping[str, Any]], keys: Sequence[str], sums: Sequence[str]) -> Rows:
    """Rows that agree in the keys are one, with the sums of the other columns; sorted by key."""
    table = Table(keys, sums)
    for row in rows:
        table.add(row)
    return table.rows()


def sum_by(rows: Iterable[Mapping[str, Any]], key: str, name: str) -> dict[str, int]:
    return {row[key]: row[name] for row in group_by(rows, [key], [name])}


def _mixed(rank: int) -> int:
    """A number below 2^32 by which ranks lie in no order."""
    return rank * 0x9E3779B97F4A7C15 % 2**64 >> 32


# Statistics of some documents beside the limits, so that a limit can be chosen by looking. Only a
# sample is measured, before any limit: all statistics of a text cost more than to clean it.

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_FIRST_CHARACTERS = 50_000  # of a part: all documents up to here are measured, then one of _EACH
_EACH = 32
_MOST_OF_PART, _MOST = 100, 2_000
# those that are no quality rules first
_LIMITS = ("min_characters", "min_language_fraction", *(rule.limit for rule in RULES))
Values = Mapping[str, float | None]  # by limit; None: says nothing about the document


@dataclass
class StatisticsSample:
    """The statistics of documents of one language and profile; `limits` are theirs by option."""

    limits: dict[str, float]
    num_characters: int = 0
    documents: list[tuple[int, Values]] = field(default_factory=list)  # by a random number each

    def wants(self, number: int) -> bool:
        """Whether the document with this random number is to be measured."""
        if len(self.documents) >= _MOST_OF_PART:
            return False
        return self.num_characters < _FIRST_CHARACTERS or number % _EACH == 0

    def add(self, number: int, num_characters: int, values: Values) -> None:
        self.documents.append((number, values))
        self.num_characters += num_characters

    def merge(self, other: "StatisticsSample") -> None:
        """Add the documents of another part, and keep the `_MOST` of the smallest numbers."""
        documents = [*self.documents, *other.documents]
        self.documents = nsmallest(_MOST, documents, key=lambda document: document[0])
        self.num_characters += other.num_characters

    def rows(self) -> Iterator[dict[str, Any]]:
        """For each limit: the statistic's quantiles, and what fraction of the documents breaks the
        limit as it is now."""
        for limit in _LIMITS:
            known = [values.get(limit) for _, values in self.documents]
            values = np.array([value for value in known if value is not None], np.float64)
            if not len(values):
                continue
            now, broken = self.limits.get(limit), None
            if now is not None:
                is_broken = values < now if limit.startswith("min") else values > now
                broken = float(is_broken.sum() / len(known))
            quantiles = zip(QUANTILES, np.quantile(values, QUANTILES).tolist(), strict=True)
            yield {
                "limit": limit,
                "now": now,
                "broken": broken,
                "documents": len(values),
                "quantiles": {f"{fraction:g}": value for fraction, value in quantiles},
            }


@dataclass
class Tally:
    """Sums by table and key, and a text to show by reason or rule."""

    tables: dict[str, Table] = field(
        default_factory=lambda: {name: Table(*columns) for name, columns in TABLES.items()}
    )
    files: list[dict[str, Any]] = field(default_factory=list)  # path, documents, malformed
    faults: list[str] = field(default_factory=list)  # "file:row: reason: detail"
    # of the document whose rank is the first as mixed: the same however the corpus was divided
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    # by language and profile
    statistics: dict[tuple[str, str], StatisticsSample] = field(default_factory=dict)

    def count(self, table: str, **row: str | int) -> None:
        """Add a row to a table; a sum that it lacks is 0."""
        self.tables[table].add(row)

    def count_document(
        self, state: str, num_characters: int, language: str, source: str, num: int = 1
    ) -> None:
        """Count a document, or `num` alike, as it is read ("in") or written ("kept")."""
        size = 1 << max(1, num_characters).bit_length() - 1
        sums = {f"documents_{state}": num, f"characters_{state}": num * num_characters}
        self.count("documents", language=language, source=source, characters=size, **sums)

    def _merge_others(self) -> None:
        """Give the rows of all sources and licences but the chosen ones to the name `OTHER`."""
        for column in _FREE:
            tables = [table for table in self.tables.values() if column in table.keys]
            names = {key[table.keys.index(column)] for table in tables for key in table.counts}
            kept = {*chosen_sources(names - {OTHER}), OTHER}
            for table in tables if names - kept else ():
                rows, table.counts = table.rows(), {}
                for row in rows:
                    table.add(row if row[column] in kept else row | {column: OTHER})

    def add_removed(
        self, table: str, row: Mapping[str, Any], num_characters: int | None = None
    ) -> None:
        """Count and show a document that is "removed", or a row that is "malformed".

        `num_characters` is the length of a document of which the row has another text.
        """
        where = row["language"], row["source"]
        counts = {"documents": 1, "characters": num_characters or len(row["text"])}
        self.count(table, reason=row["reason"], language=where[0], source=where[1], **counts)
        self.add_example(row["reason"], row["rank"], lambda: row["text"], row["language"])

    def add_decontaminated(self, decontaminated: Decontaminated, language: str) -> None:
        """Count the matches in one document; what was done counts for each of their tasks."""
        done = "documents_changed" if decontaminated.drop is None else "documents_removed"
        tasks = {match.task for match in decontaminated.matches}
        counts = [(match.task, match.kind, 1) for match in decontaminated.matches]
        counts += [(task, done, 1) for task in tasks]
        if decontaminated.num_lines_removed:
            counts += [(task, "lines_removed", decontaminated.num_lines_removed) for task in tasks]
        for task, kind, count in counts:
            self.count("contamination", task=task, kind=kind, language=language, count=count)

    def add_statistics(
        self,
        language: str,
        profile: str,
        rank: int,
        num_characters: int,
        limits: Callable[[], dict[str, float]],
        measure: Callable[[], Values],
    ) -> None:
        """Measure a document if it is among those chosen."""
        key = language, profile
        if key not in self.statistics:
            self.statistics[key] = StatisticsSample(limits())
        if self.statistics[key].wants(number := _mixed(rank)):
            self.statistics[key].add(number, num_characters, measure())

    def add_fault(self, fault: str) -> None:
        """Remember a row that could not be read, while there are few."""
        if len(self.faults) < NUM_FAULTS:
            self.faults.append(fault)

    def add_example(self, name: str, rank: int, show: Callable[[], str], language: str) -> None:
        """Take a text of a reason or rule, masked and cut short, if its rank is the one chosen."""
        number = _mixed(rank)
        if name not in self.examples or number < self.examples[name][0]:
            text = mask_pii(show(), language)[0]
            cut = f"{text[:EXAMPLE_CHARACTERS]}…" if len(text) > EXAMPLE_CHARACTERS else text
            self.examples[name] = number, cut

    def add(self, other: "Tally") -> None:
        """Add the tally of later files."""
        for name in TABLES:
            for row in other.rows(name):
                self.tables[name].add(row)
        self._merge_others()
        for file in other.files:
            if self.files and self.files[-1]["path"] == file["path"]:  # another part of it
                self.files[-1]["documents"] += file["documents"]
                self.files[-1]["malformed"] += file["malformed"]
            else:
                self.files.append(dict(file))
        for fault in other.faults:
            self.add_fault(fault)
        for name, example in other.examples.items():
            self.examples[name] = min(example, self.examples.get(name, example))
        for key, of_key in other.statistics.items():
            self.statistics.setdefault(key, StatisticsSample(of_key.limits)).merge(of_key)

    def rows(self, table: str) -> Rows:
        """The rows of a table, sorted by their keys."""
        self._merge_others()
        return self.tables[table].rows()

    def by_reason(self, table: str) -> dict[str, int]:
        """Documents that were "removed", or rows "malformed", by reason."""
        return sum_by(self.rows(table), "reason", "documents")

    def total(self, name: str) -> int:
        """The sum of a column of "documents", or all documents of "removed" or "malformed"."""
        table, column = ("documents", name) if name in TOTALS else (name, "documents")
        return sum(row[column] for row in self.rows(table))

    def to_json(self) -> str:
        value = {
            "rows": {name: self.rows(name) for name in TABLES},
            "files": self.files,
            "faults": self.faults,
            "examples": dict(sorted(self.examples.items())),
            "statistics": [
                [*key, asdict(of_key)] for key, of_key in sorted(self.statistics.items())
            ],
        }
        return json.dumps(value, ensure_ascii=False)


def tally_from_json(text: str) -> Tally:
    value = json.loads(text)
    examples = {name: (number, text) for name, (number, text) in value["examples"].items()}
    tally = Tally(files=value["files"], faults=value["faults"], examples=examples)
    for table, rows in value["rows"].items():
        for row in rows:
            tally.tables[table].add(row)
    for language, profile, sample in value["statistics"]:
        tally.statistics[language, profile] = StatisticsSample(**sample)
    return tally


def report_json(tally: Tally) -> dict[str, Any]:
    """Everything that was counted; the same tally makes the same object."""
    documents = tally.rows("documents")
    return {
        "totals": {name: tally.total(name) for name in (*TOTALS, "removed", "malformed")},
        "sources": group_by(documents, ["language", "source"], TOTALS),
        "lengths": group_by(documents, ["characters"], TOTALS[:2]),
        **{name: tally.rows(name) for name in TABLES if name != "documents"},
        "statistics": [
            {"language": language, "profile": profile} | row
            for (language, profile), sample in sorted(tally.statistics.items())
            for row in sample.rows()
        ],
        "faults": tally.faults,
        "examples": {name: text for name, (_, text) in sorted(tally.examples.items())},
        "files": tally.files,
    }
