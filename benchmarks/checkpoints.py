"""Scores on the way: every checkpoint of a pretraining on the tasks and seeds of its config."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.evaluate import evaluate
from electrify.config.run import RunConfig
from electrify.stage.folder import read_manifest
from electrify.stage.plan import checkpoint_step, checkpoints, output_dir
from electrify.system.outcome import UserError
from electrify.system.progress import log

Export = Callable[[Path, Path], None]  # checkpoint, folder to write


def evaluate_checkpoints(
    config: RunConfig, steps: Sequence[int], overwrite: bool, export: Export
) -> None:
    """Score checkpoints, the oldest first, each into `evaluate-checkpoint-<step>/`.

    Without `steps` all are scored that stand there, but for the one that `evaluate/` has scored
    as the run's export. The untrained control is left to `evaluate/`: it is the same for all. Of
    `evaluate.train_fractions` the largest counts. Raises `ValueError` where there is no such
    checkpoint, and what `evaluate` raises.
    """
    run = output_dir(config)
    found = {checkpoint_step(path): path for path in run_checkpoints(run)}
    if not found:
        raise UserError(f"no checkpoint in {run}; run first: electrify pretrain CONFIG")
    if unknown := [step for step in steps if step not in found]:
        raise UserError(
            f"no checkpoint-{unknown[0]} in {run}; there are those of steps "
            f"{', '.join(map(str, found))} (pretrain.keep_every_steps keeps more of them)"
        )
    scored = _scored(run)
    if not steps and scored in found:
        log(f"evaluate: checkpoint-{scored} is the export's; its scores are those of evaluate/")
        del found[scored]
    changes = {
        "random_init_control": False,
        "bag_of_words": False,
        "train_fractions": (max(config.evaluate.train_fractions),),
    }
    options = config.evaluate.model_copy(update=changes)
    at_checkpoint = config.model_copy(update={"evaluate": options})
    for step in sorted(set(steps) or found):
        with tempfile.TemporaryDirectory() as scratch:
            export(found[step], Path(scratch))
            evaluate(at_checkpoint, str(found[step]), overwrite, Path(scratch), step)


def run_checkpoints(run: Path) -> list[Path]:
    """Checkpoints of the finished pretraining, else of the one under way."""
    return checkpoints(run / "pretrain") or checkpoints(run / "pretrain.partial")


def _scored(run: Path) -> int | None:
    """The step of the export, if `evaluate/` has scored that very export."""
    try:
        export, scores = read_manifest(run / "export"), read_manifest(run / "evaluate")
    except ValueError:
        return None
    if scores["inputs"].get("export") != export["digest"]:
        return None
    return checkpoint_step(Path(export["counts"]["checkpoint"]))
