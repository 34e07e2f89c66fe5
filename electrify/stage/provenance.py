"""What code made a result: versions of the libraries that shape it, and the commit."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

_VERSIONED = (
    "electrify",
    "apache-beam",
    "datasets",
    "ftfy",
    "kiwipiepy",
    "numpy",
    "orjson",
    "py3langid",
    "pyarrow",
    "pycld2",
    "scikit-learn",
    "scipy",
    "tokenizers",
    "torch",
    "transformers",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that shape results, where installed."""
    numbers = {"python": sys.version.split()[0]}
    for name in _VERSIONED:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            continue
    return numbers


def unmet_requirements(extra: str) -> list[str]:
    """What an extra of `pyproject.toml` asks for and this Python lacks, or has in another version.

    The extra `electrify[another]` in it counts with all that it asks for.
    """
    try:
        wanted = [Requirement(line) for line in requires("electrify") or ()]
    except PackageNotFoundError:
        return ["electrify itself is not installed"]
    return list(dict.fromkeys(_unmet(wanted, extra)))


def _unmet(wanted: list[Requirement], extra: str) -> Iterator[str]:
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        if one.name == "electrify":
            for inner in one.extras:
                yield from _unmet(wanted, inner)
            continue
        needed = f"{one.name}{one.specifier}"
        try:
            found = version(one.name)
        except PackageNotFoundError:
            yield f"{needed} is missing"
        else:
            if not one.specifier.contains(found, prereleases=True):
                yield f"{needed} is needed, {found} is installed"


def git_commit() -> str | None:
    """The commit of the code, with '+' if it has uncommitted changes; None outside a checkout of
    it, or without git."""

    def git(*arguments: str) -> str:
        root = str(Path(__file__).parent.parent)
        command = ["git", "--no-optional-locks", "-C", root, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    # installed into an environment within another project's checkout, it is not of that commit
    commit = git("rev-parse", "--short=12", "HEAD") if git("ls-files", "--", __file__) else ""
    return commit + ("+" if git("status", "--porcelain") else "") if commit else None
