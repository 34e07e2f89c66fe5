"""Work that must not be done."""

from pathlib import Path


def refuse(folder: Path) -> dict[str, int]:
    raise AssertionError("must not run")
