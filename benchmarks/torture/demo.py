"""The bundled demo, shortened, as the run that is tortured."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STAGES = ("clean", "vocab", "shards", "pretrain", "export", "evaluate")
VERBS = {
    "clean": "clean",
    "vocab": "train-vocab",
    "shards": "encode",
    "pretrain": "pretrain",
    "export": "export",
    "evaluate": "evaluate",
}
_ROOT = Path(__file__).parent.parent.parent  # configs and the bundled sample are found from here
CONFIG = _ROOT / "configs" / "demo.toml"
_SHORT = (
    "pretrain.num_steps=60",
    "pretrain.warmup_steps=6",
    "pretrain.valid_every_steps=20",
    "pretrain.checkpoint_every_steps=10",
    "pretrain.log_every_steps=5",
    "evaluate.seeds=[0, 1]",
    "evaluate.num_epochs=1.0",
    "evaluate.max_train_examples=64",
)


def arguments(verb: str, output_dir: Path | str, *overrides: str) -> list[str]:
    """The words after `electrify` that run a verb of the shortened demo."""
    words = [verb, str(CONFIG)]
    for override in overrides_of(output_dir, *overrides):
        words += ["--set", override]
    return words


def overrides_of(output_dir: Path | str, *overrides: str) -> list[str]:
    """What the shortened demo changes of `CONFIG`."""
    return [f"output_dir='{output_dir}'", *_SHORT, *overrides]


def start(
    words: Sequence[str],
    log: Path,
    program: Sequence[str] = ("electrify",),
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `electrify` with one thread, in a process group of its own; `log` gets what it says.

    `program` is a module that does the same, and the words before `words`. `before` runs in the
    process before the program does, to take rights from it that its own processes then lack too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *program, *words],
            cwd=_ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | dict(environment or {}),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
        )
