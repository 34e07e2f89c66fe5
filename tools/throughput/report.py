"""What a benchmark measured: conditions and tables, as Markdown and as JSON."""

import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks.results.table import Table
from electrify.page.page import markdown_text
from electrify.system.machine import cpu_name, num_cores

Row = Mapping[str, Any]  # a cell by the name of its column; None where it was not measured


@dataclass
class Report:
    """Everything of one run."""

    title: str
    packages: Sequence[str]  # whose versions are told
    conditions: dict[str, Any]  # what the figures are of
    # title, meaning and rows
    tables: dict[str, tuple[str, str, Sequence[Row]]] = field(default_factory=dict)

    def add(self, name: str, title: str, meaning: str, rows: Sequence[Row]) -> None:
        """Append a table; none if there are no rows."""
        if rows:
            self.tables[name] = title, " ".join(meaning.split()), rows

    def as_json(self) -> dict[str, Any]:
        """All of it, with the machine and versions; what is not known is null."""
        tables = {name: rows for name, (_, _, rows) in self.tables.items()}
        whole = {"machine": self._machine(), "conditions": self.conditions, "tables": tables}
        text = json.dumps(whole)
        found: dict[str, Any] = json.loads(text, parse_constant=lambda constant: None)
        return found

    def markdown(self) -> str:
        """All of it as GitHub's Markdown."""
        about = self._machine()
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        conditions = [
            (name.replace("_", " "), ", ".join(map(str, v)) if isinstance(v, list | tuple) else v)
            for name, v in self.conditions.items()
            if v is not None
        ]
        blocks = [
            f"# {markdown_text(self.title)}",
            f"{about['date']}, {about['cores']} cores of {about['processor']}, {about['system']}, "
            f"Python {about['python']}, {versions}.",
            "\n".join(Table(("condition", ""), conditions).markdown()),
        ]
        for title, meaning, rows in self.tables.values():
            columns = dict.fromkeys(name for row in rows for name in row)
            shown = [c for c in columns if any(row.get(c) is not None for row in rows)]
            cells = [[row.get(name) for name in shown] for row in rows]
            lines = Table([name.replace("_", " ") for name in shown], cells).markdown()
            blocks += [f"## {markdown_text(title)}", meaning, "\n".join(lines)]
        return "\n\n".join(blocks) + "\n"

    def _machine(self) -> dict[str, Any]:
        """Where and when, and the versions; no paths and no host name."""
        return {
            "cores": num_cores(),
            "processor": cpu_name(),
            "python": platform.python_version(),
            "system": platform.system(),
            "date": datetime.now(UTC).date().isoformat(),
            "versions": {name: importlib.metadata.version(name) for name in self.packages},
        }
