"""The bundled demo, shortened: the run that is killed, damaged and starved; and whether two runs
made the same."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results.results import RESULTS
from electrify.stage.folder import MANIFEST, check_files, read_manifest
from electrify.stage.plan import METRICS, VERBS
from tests.benchmarks.records import MEASURED
from tests.model.trained import TIMINGS

STAGES = tuple(VERBS)
REPORT = "report"
MAX_SECONDS = 3600.0  # of one start, beside other programs; then it hangs
POLL_SECONDS = 0.0005
# what begins to be written, by stage
WRITTEN: Mapping[str, tuple[str, ...]] = {
    "clean": ("clean.partial/*.parquet", "clean.partial/manifest.json.*"),
    "vocab": ("vocab.partial/*.json*", "vocab.partial/manifest.json.*"),
    "shards": ("shards.partial/*/*/*.npy", "shards.partial/manifest.json.*"),
    "pretrain": ("pretrain.partial/checkpoint-*.tmp", "pretrain.partial/manifest.json.*"),
    "export": ("export.partial/*/*.safetensors", "export.partial/manifest.json.*"),
    "evaluate": ("evaluate.partial/predictions/*/*", "evaluate.partial/manifest.json.*"),
    REPORT: ("report.*.tmp",),
}
_ROOT = Path(__file__).parents[2]  # configs and the bundled sample are found from here
_CONFIG = _ROOT / "configs" / "scratch.toml"
_SHORT = (
    "pretrain.num_steps=60",
    "pretrain.warmup_steps=6",
    "pretrain.valid_every_steps=20",
    "pretrain.checkpoint_every_steps=10",
    "pretrain.keep_checkpoints=9",
    "pretrain.log_every_steps=5",
    "evaluate.seeds=[0, 1]",
    "evaluate.num_epochs=1.0",
    "evaluate.min_steps=1",
    "evaluate.max_train_examples=64",
    "evaluate.precision='fp32'",  # what is scored within pytest has no bf16
)
# keys of records that time, memory and place decide, with the checksum of a record that holds them;
# a commit may be made meanwhile
_UNCOMPARED_KEYS = {*TIMINGS, *MEASURED, "model_path", "git_commit", "sha256"}
_RECORDS = ("pretrain/summary.json", f"pretrain/{METRICS}", f"evaluate/{RESULTS}")


def arguments(verb: str, output_dir: Path | str, *overrides: str) -> list[str]:
    """The words after `electrify` that run a verb of the shortened demo."""
    words = [verb, str(_CONFIG)]
    for override in (f"output_dir='{output_dir}'", *_SHORT, *overrides):
        words += ["--set", override]
    return words


def start(
    words: Sequence[str],
    log: Path,
    program: Sequence[str] = ("-m", "electrify"),
    before: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `electrify` with one thread, in a process group of its own, and print into `log`.

    `program` is what else Python runs. `before` runs in the process before the program does, to
    take rights from it that its own processes then lack too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, *program, *words],
            cwd=_ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
        )


def printed(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def finish(words: Sequence[str], log: Path) -> None:
    """Run `electrify` to its end, which must be a success."""
    status = start(words, log).wait(timeout=MAX_SECONDS)
    assert status == 0, f"status {status}: {printed(log)[-2000:]}"


def differences(one: Path, two: Path) -> list[str]:
    """What is not the same in two finished run folders, in words.

    Equal digests say that all files but the volatile ones have the same names and bytes.
    """
    digests = [{of: read_manifest(run / of)["digest"] for of in STAGES} for run in (one, two)]
    stages = [stage for stage in STAGES if digests[0][stage] != digests[1][stage]]
    records = [name for name in _RECORDS if _records(one / name) != _records(two / name)]
    return [*(f"{name} differs" for name in stages + records), *leftovers(two)]


def leftovers(run: Path) -> list[str]:
    """What a stopped run must not leave once it is finished."""
    paths, endings = sorted(run.rglob("*")), (".partial", ".tmp", ".lock")
    return [f"{path} is left" for path in paths if path.name.endswith(endings)]


def finished(run: Path) -> dict[str, tuple[bytes, int]]:
    """The manifest of each finished stage, and when it was written."""
    paths = {stage: run / stage / MANIFEST for stage in STAGES if (run / stage / MANIFEST).exists()}
    return {stage: (path.read_bytes(), path.stat().st_mtime_ns) for stage, path in paths.items()}


def unsound(run: Path) -> list[str]:
    """What is wrong with the stage folders that have their final name."""
    wrong = []
    for stage in STAGES:
        if (run / stage).exists():
            try:
                check_files(run / stage, stage)
            except ValueError as error:
                wrong.append(str(error))
    return wrong


def _records(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    return [_without_clocks(json.loads(line)) for line in lines]


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clocks(value[key]) for key in value.keys() - _UNCOMPARED_KEYS}
    return [_without_clocks(entry) for entry in value] if isinstance(value, list) else value
