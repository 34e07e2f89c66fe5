"""Each extra, and the wheel without any, does what it promises where nothing else is installed."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distributions, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# refuses what another environment would not have; workers of Beam find it on their path, too
BLOCKER = """
import importlib.metadata, json, os
from importlib.machinery import PathFinder

modules, distributions = map(frozenset, json.loads(os.environ["BLOCKED"]))
find_spec, from_name = PathFinder.find_spec, importlib.metadata.Distribution.from_name

def allowed_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in modules else find_spec(name, path, target)

def allowed_distribution(name):
    if name.lower().replace("_", "-") in distributions:
        raise importlib.metadata.PackageNotFoundError(name)
    return from_name(name)

PathFinder.find_spec = staticmethod(allowed_spec)
importlib.metadata.Distribution.from_name = allowed_distribution
"""

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
OURS = PROJECT["optional-dependencies"] | {"": PROJECT["dependencies"]}


def normal(name: str) -> str:
    return name.lower().replace("_", "-")


def needed(extra: str) -> set[str]:
    """The distributions that `electrify[extra]` brings."""
    found: set[tuple[str, str]] = set()
    waiting = [("electrify", extra), ("electrify", "")]
    while waiting:
        name, of = waiting.pop()
        if (name, of) in found:
            continue
        found.add((name, of))
        try:
            lines = OURS.get(of, []) if name == "electrify" else requires(name) or []
        except PackageNotFoundError:  # for another system
            continue
        for line in lines:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": of}):
                waiting += [(normal(wanted.name), each) for each in ("", *wanted.extras)]
    return {name for name, _ in found}


@pytest.fixture
def run(tmp_path: Path):
    """`electrify WORDS` with the distributions of an extra alone."""

    def run(extra: str, *words: str, status: int = 0) -> str:
        allowed = needed(extra)
        owners = {module: set(map(normal, of)) for module, of in packages_distributions().items()}
        modules = [module for module, names in owners.items() if not allowed & names]
        blocked = [modules, sorted(set().union(*owners.values()) - allowed)]
        (tmp_path / "blocker").mkdir(exist_ok=True)
        (tmp_path / "blocker" / "sitecustomize.py").write_text(BLOCKER)
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "BLOCKED": json.dumps(blocked),
            "PYTHONPATH": f"{tmp_path / 'blocker'}:{Path.cwd()}",
        }
        command = [sys.executable, "-m", "electrify", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


def test_the_wheel_alone_looks_at_texts_and_checks_configs(run, tmp_path: Path):
    assert "torch" not in needed("")
    (tmp_path / "texts").mkdir()
    line = json.dumps({"text": "오늘은 날씨가 좋아서 공원에서 책을 읽었다."})
    (tmp_path / "texts" / "a.jsonl").write_text(f"{line}\n" * 20)
    config = tmp_path / "mine.toml"
    assert "demo" in run("", "ls")
    assert "GiB free" in run("", "doctor")
    run("", "init", str(tmp_path / "texts"), "--output", str(config))
    assert "can be run" in run("", "validate", str(config))
    start = 'pretrain.initial_model="klue/roberta-small"'  # the hub is not asked for its licence
    printed = run("", "validate", "configs/scratch.toml", "--set", start)
    assert "can be run" in printed
    assert "passes over the text" in printed


@pytest.mark.slow
def test_each_extra_is_enough_for_its_stages(run, tmp_path: Path):
    small = [
        f"output_dir={json.dumps(str(tmp_path / 'out'))}",
        'vocab.pretokenizer="whitespace"',
        "pretrain.num_steps=2",
        "pretrain.warmup_steps=1",
        "evaluate.seeds=[0]",
        "evaluate.num_epochs=0.1",
    ]
    options = [word for option in small for word in ("--set", option)]
    verbs = {"pipeline": ["clean", "train-vocab", "encode"], "model": ["pretrain", "export"]}
    verbs["benchmarks"] = ["evaluate"]
    for extra, names in verbs.items():
        for name in names:
            run(extra, name, "configs/scratch.toml", *options)
    assert (tmp_path / "out" / "evaluate" / "scores.csv").exists()
    run("benchmarks", "report", str(tmp_path / "out"))


def test_constraints_pin_all_that_an_installation_brings():
    lines = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    brought = {re.sub(r"[-_.]+", "-", name) for name in needed("dev")}
    installed = {re.sub(r"[-_.]+", "-", each.name).lower() for each in distributions()}
    assert (brought & installed) - pinned == {"electrify"}


def test_no_other_distribution_has_our_import_names():
    owners = packages_distributions()  # an editable install itself lists none
    for name in ("electrify", "pipeline", "vocab", "model", "benchmarks"):
        assert set(owners.get(name, [])) <= {"electrify"}
