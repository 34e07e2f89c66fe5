"""What was counted while cleaning: each group of files counts for itself, then all are added."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electrify.artifacts import write_text

NUM_EXAMPLES = 20  # rows that could not be read, named in the report
NUM_SAMPLES = 5  # texts shown of each reason
SAMPLE_CHARACTERS = 200


@dataclass
class Tally:
    """Counts by (what, names...), such as ("removed", reason, language, source)."""

    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    files: list[dict[str, Any]] = field(default_factory=list)  # path, documents, malformed
    examples: list[str] = field(default_factory=list)  # "file:row: reason: detail"
    samples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # reason: (label, text)

    def add_example(self, example: str) -> None:
        """Remember a row that could not be read, while there are few."""
        if len(self.examples) < NUM_EXAMPLES:
            self.examples.append(example)

    def add_sample(self, reason: str, label: str, text: str) -> None:
        """Remember a text of a reason, while there are few."""
        found = self.samples.setdefault(reason, [])
        if len(found) < NUM_SAMPLES:
            ending = "…" if len(text) > SAMPLE_CHARACTERS else ""
            found.append((label, text[:SAMPLE_CHARACTERS] + ending))

    def add(self, other: "Tally") -> None:
        """Add the tally of later files."""
        self.counts.update(other.counts)
        self.files += other.files
        for example in other.examples:
            self.add_example(example)
        for reason, found in other.samples.items():
            for label, text in found:
                mine = self.samples.setdefault(reason, [])
                if len(mine) < NUM_SAMPLES:
                    mine.append((label, text))

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

    def write(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        value = {
            "counts": sorted([list(key), n] for key, n in self.counts.items()),
            "files": self.files,
            "examples": self.examples,
            "samples": self.samples,
        }
        write_text(path, json.dumps(value, ensure_ascii=False))


def read_tally(path: Path) -> Tally:
    """Read what `Tally.write` wrote."""
    value = json.loads(path.read_text(encoding="utf-8"))
    return Tally(
        Counter({tuple(key): n for key, n in value["counts"]}),
        value["files"],
        value["examples"],
        {reason: [(a, b) for a, b in found] for reason, found in value["samples"].items()},
    )
