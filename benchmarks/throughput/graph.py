"""Runs of `electrify clean` with parts of the graph switched off, each a process of its own."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electrify
from benchmarks.throughput.corpus import Corpus, Prepared
from benchmarks.throughput.measure import Cost, run_measured
from electrify.config.clean import CleanRules

# the quality rules that suit a corpus, by a word of its name
_PROFILES = {
    "reviews": "comments",
    "comments": "comments",
    "docs": "documentation",
    "mdn": "documentation",
    "tutorials": "documentation",
    "wikitext": "encyclopaedia",
}


@dataclass(frozen=True)
class Parts:
    """Which parts of the graph are on."""

    rules: bool = False
    exact: bool = False
    lines: bool = False
    near: bool = False


WHOLE = Parts(rules=True, exact=True, lines=True, near=True)


@dataclass(frozen=True)
class GraphRun:
    """A finished run and the `clean` folder it wrote."""

    cost: Cost
    folder: Path


def run_graph(prepared: Prepared, parts: Parts, work: Path, num_workers: int = 1) -> GraphRun:
    """Clean the documents with these parts of the graph; `ValueError` if the command fails."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config = write_config(prepared, parts, work)
    mode = "multi_processing" if num_workers > 1 else "in_memory"
    command = [
        sys.executable,
        "-m",
        "electrify",
        "clean",
        str(config),
        "--",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={num_workers}",
    ]
    cost = run_measured(command, work / "log.txt", Path(electrify.__file__).parents[1])
    return GraphRun(cost, work / "out" / "clean")


def write_config(prepared: Prepared, parts: Parts, work: Path) -> Path:
    """The TOML of a run into the folder `work`."""
    clean = {
        "exact_dedup": parts.exact,
        "line_dedup.enabled": parts.lines,
        "near_dedup.enabled": parts.near,
        **({} if parts.rules else _rules_off()),
    }
    sources = ",\n".join(
        _inline(_source(prepared, index, corpus, parts.rules))
        for index, corpus in enumerate(prepared.corpora)
    )
    lines = [
        'name = "throughput"',
        f"output_dir = {json.dumps(str(work / 'out'))}",
        "[clean]",
        f"sources = [\n{sources},\n]",
        *(f"{key} = {json.dumps(value)}" for key, value in clean.items()),
        "[encode]",
        "[pretrain]",
    ]
    path = work / "config.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _source(prepared: Prepared, index: int, corpus: Corpus, with_rules: bool) -> dict[str, str]:
    profiles = (value for word, value in _PROFILES.items() if word in corpus.name)
    return {
        "kind": "jsonl",
        "language": corpus.language,
        "path": prepared.pattern(index),
        "name": corpus.name,
        "profile": next(profiles, "none") if with_rules else "none",
    }


def _rules_off() -> dict[str, Any]:
    """Every rule of `[clean]` at the value that does nothing: false, 0, or its default name."""
    off: dict[str, Any] = {}
    for name, field in CleanRules.model_fields.items():
        if isinstance(field.default, bool | int | float):
            off[name] = type(field.default)(0)
    return off


def _inline(values: dict[str, str]) -> str:
    return "    { " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in values.items()) + " }"


def profile_words(corpora: Sequence[Corpus]) -> str:
    """Which profile each corpus is judged by, for the report."""
    return ", ".join(
        f"{c.language}/{c.name}: {next((v for w, v in _PROFILES.items() if w in c.name), 'none')}"
        for c in corpora
    )
