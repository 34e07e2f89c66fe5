"""The five import names are ours, and pins are plain versions."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")


@pytest.mark.parametrize("name", PACKAGES)
def test_import_name_belongs_to_this_distribution_alone(name: str):
    """Nobody else claims the name (an editable install itself lists no packages), and importing it
    finds the same checkout as `electrify`."""
    assert set(packages_distributions().get(name, [])) <= {"electrify"}
    assert distribution("electrify").metadata["Name"] == "electrify"
    ours, this = find_spec("electrify"), find_spec(name)
    assert ours is not None
    assert this is not None
    assert Path(str(this.origin)).parents[1] == Path(str(ours.origin)).parents[1]


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "electrify"])
def test_packages_are_marked_by_an_empty_init(name: str):
    assert Path(name, "__init__.py").read_text() == ""


@pytest.mark.parametrize(
    ("target", "folder"), [("setup", ".venv"), ("tpu-env", ".venv-tpu"), ("docs", ".venv-docs")]
)
def test_an_installation_says_what_it_does(target: str, folder: str, tmp_path: Path):
    """`pip -q` says nothing for minutes, and looks as if it hung."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "constraints-tpu.txt"):
        shutil.copy(name, tmp_path)
    python = tmp_path / folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    # installs nothing, has no torch
    python.write_text('#!/bin/sh\necho "$@"\ntest "$*" != "-c import torch"\n')
    python.chmod(0o755)
    words = ["make", "-C", str(tmp_path), target, f"PYTHON={sys.executable}"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    installs = [n for n, line in enumerate(lines) if "pip install" in line]
    assert len(installs) == (2 if target == "setup" else 1)
    for number in installs:
        assert {"-q", "--quiet"}.isdisjoint(lines[number].split())
    assert sum(line.startswith(f"{target} ") for line in lines) == len(installs) + 1
    assert (tmp_path / folder / "ready").exists()


def test_constraints_are_names_and_versions_only():
    lines = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins)
    assert "torch==2.13.0" in pins
