"""Whether two runs of one config made the same, but for what clocks and process ids say."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results.results import MEASURED, RESULTS
from benchmarks.torture.demo import STAGES
from electrify.stage.folder import check_files, read_manifest
from electrify.stage.plan import METRICS, TIMINGS

# keys of records that time, memory and place decide, with the checksum of a record that holds them
_UNCOMPARED_KEYS = {*TIMINGS, *MEASURED, "model_path", "sha256"}
_LINES = (f"pretrain/{METRICS}", f"evaluate/{RESULTS}")
_RECORDS = ("pretrain/summary.json",)
# names with host, process id and time, which TensorBoard gives
_UNCOMPARED = ("tensorboard/",)


def differences(one: Path, two: Path) -> list[str]:
    """What is not the same in two finished run folders, in words; empty if nothing.

    Equal digests say that all files but the volatile ones are the same bytes.
    """
    return [*_stage_differences(one, two), *_volatile_differences(one, two), *leftovers(two)]


def leftovers(run: Path) -> list[str]:
    """What a stopped run must not leave once it is finished."""
    return [
        f"{path} is left"
        for path in sorted(run.rglob("*"))
        if path.name.endswith((".partial", ".tmp", ".lock"))
    ]


def unsound(run: Path) -> list[str]:
    """What is wrong with the stage folders that have their final name."""
    found = []
    for stage in STAGES:
        if (run / stage).exists():
            try:
                check_files(run / stage, stage)
            except ValueError as error:
                found.append(str(error))
    return found


def _stage_differences(one: Path, two: Path) -> Iterator[str]:
    for stage in STAGES:
        first, second = read_manifest(one / stage), read_manifest(two / stage)
        if first["digest"] != second["digest"]:
            yield f"{stage}: {_first_difference(first, second)}"
        names = [_compared(manifest["files"]) for manifest in (first, second)]
        if names[0] != names[1]:
            yield f"{stage}: other files: {sorted(names[0] ^ names[1])}"


def _compared(names: Mapping[str, Any]) -> set[str]:
    return {name for name in names if not name.startswith(_UNCOMPARED)}


def _first_difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    for name, entry in first["files"].items():
        if second["files"].get(name) != entry:
            return f"{name} differs"
    return "its config or inputs differ"


def _volatile_differences(one: Path, two: Path) -> Iterator[str]:
    for name in (*_LINES, *_RECORDS):
        first, second = (_records(run / name) for run in (one, two))
        if len(first) != len(second):
            yield f"{name}: {len(first)} records against {len(second)}"
        for number, (a, b) in enumerate(zip(first, second, strict=False), start=1):
            if a != b:
                keys = [key for key in {**a, **b} if a.get(key) != b.get(key)]
                yield f"{name}, record {number}: {', '.join(keys)} differ"


def _records(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    return [_without_clocks(json.loads(line)) for line in lines]


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_clocks(entry)
            for key, entry in value.items()
            if key not in _UNCOMPARED_KEYS
        }
    return [_without_clocks(entry) for entry in value] if isinstance(value, list) else value
