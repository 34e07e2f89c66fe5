"""What code made a result: versions of the libraries that shape it, and the commit."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
