"""Statistics of some documents beside the limits, so that a limit can be chosen by looking.

Only a sample is measured, before any limit: all statistics of a text cost more than to clean it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

import numpy as np

from pipeline.rules.quality import RULES

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_FIRST_CHARACTERS = 50_000  # of a part: all documents up to here are measured, then one of _EACH
_EACH = 32
_MOST_OF_PART, _MOST = 100, 2_000
# limit, statistic: those that are no quality rules first
_LIMITS = [
    ("min_characters", "characters"),
    ("min_language_fraction", "language_fraction"),
    *((rule.limit, rule.name) for rule in RULES),
]
Values = Mapping[str, float | None]  # None: says nothing about the document


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
        for limit, statistic in _LIMITS:
            known = [values.get(statistic) for _, values in self.documents]
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
                "quantiles": {f"{of:g}": value for of, value in quantiles},
            }
