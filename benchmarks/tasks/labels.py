"""Long lists of labels, from `labels.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

LABELS: Mapping[str, tuple[str, ...]] = {
    name: tuple(labels)
    for name, labels in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
