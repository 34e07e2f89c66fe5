"""What `validate`, `ls` and `doctor` show."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from electrify.artifacts import MANIFEST, read_manifest
from electrify.config import RunConfig
from electrify.config_file import load_config
from electrify.provenance import versions
from electrify.remote_run import address_of, local_folders, names_below
from electrify.toml_text import toml_key, toml_value

_FOLDERS = ("clean", "vocab", "shards", "pretrain", "export", "masked", "evaluate", "leakage")
_EXTRAS = {
    "pipeline": ("apache_beam", "pyarrow", "kiwipiepy", "tokenizers", "xxhash"),
    "model": ("torch", "transformers", "safetensors"),
    "benchmarks": ("torch", "transformers", "sklearn", "matplotlib"),
}


def describe_config(config: RunConfig) -> list[str]:
    """Every key of a config with its resolved value, a line each, as `--set` takes it.

    Of what is not set the line is a comment; tables in a list (`clean.sources[0]`) are set whole.
    """
    return [
        f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
        for key, value in _flatten(config.model_dump(mode="json"), "")
    ]


def list_runs(configs: Path, runs: Path, address: str | None = None) -> list[str]:
    """Configs with what they are, then run folders with the stages done, then runs at addresses.

    Of the latter those that work in folders of this machine, as far as it knows, and all below
    `address`. `ValueError` if that cannot be read.
    """
    lines = ["configs"]
    for path in sorted(configs.glob("*.toml")):
        try:
            config = load_config(path)
            what = f"{config.pretrain.size}, {config.pretrain.num_steps:,} steps"
        except ValueError as error:
            what = f"INVALID: {error}"
        lines.append(f"  {path}  {what}")
    lines += ["", "runs"]
    for run in sorted(p for p in runs.glob("*") if p.is_dir()):
        lines += _run_lines(run, str(run))
    for run in sorted(local_folders().glob("*/*")):
        if found := address_of(run):
            lines += _run_lines(run, found)
    return [*lines, *(_lines_below(address) if address else ())]


def _run_lines(run: Path, name: str) -> list[str]:
    done = [stage for stage in _FOLDERS if (run / stage / MANIFEST).exists()]
    partial = [f"{stage} (partial)" for stage in _FOLDERS if (run / f"{stage}.partial").exists()]
    lines = [f"  {name}  {', '.join(done + partial) or 'nothing done'}"]
    for stage in done:
        manifest = read_manifest(run / stage)
        lines.append(f"    {stage:9} {manifest['finished_at']}  {manifest['seconds']:,.0f} s")
    return lines


def _lines_below(address: str) -> list[str]:
    """Runs that stand below an address, or at it, with what is finished and begun of each."""
    found: dict[str, list[str]] = {}
    for name in names_below(address):
        run, _, stage = f"/{name}".removesuffix(f"/{MANIFEST}").rpartition("/")
        if name.endswith(f"/{MANIFEST}") and stage in _FOLDERS:
            found.setdefault(run, []).append(stage)
    lines = ["", f"runs at {address.rstrip('/')}"]
    for run, stages in sorted(found.items()):
        done = [stage for stage in _FOLDERS if stage in stages]
        lines.append(f"  {address.rstrip('/')}{run}  {', '.join(done)}")
    return lines if found else [*lines, "  none"]


def check_machine() -> tuple[list[str], bool]:
    """Facts about this machine and what is installed; False if something needed is missing."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        f"python {sys.version.split()[0]}, {os.cpu_count()} cores, {memory:.0f} GiB memory, "
        f"{shutil.disk_usage('.').free / 2**30:.0f} GiB free here"
    ]
    sound = True
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        lines.append("PROBLEM: Python 3.11 or 3.12 is needed")
        sound = False
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        sound &= not missing
        fix = f"missing {', '.join(missing)}: pip install -e '.[{extra}]'" if missing else "ok"
        lines.append(f"[{extra}] {fix}")
    lines += [f"  {name} {number}" for name, number in versions().items()]
    return lines, sound


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            pair
            for key, inner in value.items()
            for pair in _flatten(inner, f"{prefix}.{toml_key(key)}" if prefix else key)
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [pair for i, inner in enumerate(value) for pair in _flatten(inner, f"{prefix}[{i}]")]
    return [(prefix, value)]
