"""Another end for a run: a longer or shorter one goes on from a checkpoint that both have."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import (
    PLAN,
    canonical,
    difference,
    read_manifest,
    recover,
    stage_lock,
    write_json,
)
from electrify.stage.plan import (
    CHECKPOINT_STATE,
    METRICS,
    checkpoint_step,
    checkpoints,
    output_dir,
    pretrain_stage,
)
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import is_main_process, log
from model.checkpoint import DAMAGES, read_state, run_identity, trained_options
from model.plan import learning_rate, phase_at, phases_of, stage_at

# options that say when something happens, not what a step is
_SCHEDULE = (
    "num_steps",
    "warmup_steps",
    "decay_fraction",
    "curriculum",
    "mlm_steps_fraction",
)


def prolong(config: RunConfig) -> bool:
    """Whether `pretrain/` is of a run with another schedule that this one continues.

    A finished folder stays until the new one is whole: the newest checkpoint that both runs have is
    copied into `pretrain.partial`. Unfinished work goes on in place where both runs have all of it.
    To be called by every process, before any of them trains. `UserError` where the two have no such
    checkpoint, which says how to begin a run from the last one.
    """
    run = output_dir(config)
    recover(run / "pretrain")
    is_finished, plan = (run / "pretrain").exists(), run / "pretrain.partial" / PLAN
    if not is_finished and not plan.exists():
        return False
    stage = pretrain_stage(config)
    made = read_manifest(stage.folder) if is_finished else read_json(plan)
    wanted = canonical(stage.plan)
    options = {*made["config"], *wanted["config"]}
    changed = {n for n in options if made["config"].get(n) != wanted["config"].get(n)}
    if made["inputs"] != wanted["inputs"] or not changed or changed - {*_SCHEDULE}:
        return False
    if is_finished and stage.partial.exists():  # begun before, or of a third schedule
        if not plan.exists():
            return False
        begun = read_json(plan)
        num_begun = begun["config"].get("num_steps")
        if num_begun != wanted["config"]["num_steps"]:
            raise UserError(
                f"{stage.partial} goes on from {stage.folder} to step {num_begun}: finish it with "
                f"pretrain.num_steps = {num_begun}, or remove that folder"
            )
        return difference(begun, stage) is None
    folder = stage.folder if is_finished else stage.partial
    there = [path for path in checkpoints(folder) if _is_sound(path)]
    theirs = trained_options({"options": made["config"]}, folder)
    num_shared = shared_steps(theirs, config.pretrain)
    usable = [path for path in there if checkpoint_step(path) <= num_shared]
    if not usable or not (is_finished or usable == there):
        raise UserError(_refusal(folder, theirs, config.pretrain, num_shared, there))
    if is_main_process():
        identity = run_identity(config)
        with stage_lock(stage.folder):
            target, ours = stage.partial, there
            if is_finished:
                target = stage.partial.with_name(f"{stage.partial.name}.new")
                shutil.rmtree(target, ignore_errors=True)
                ours = [target / usable[-1].name]
                shutil.copytree(usable[-1], ours[0])
                shutil.copyfile(folder / METRICS, target / METRICS)
            for path in ours:
                _rename(path, identity)
            write_json(target / PLAN, wanted)
            if is_finished:
                target.replace(stage.partial)
        log(
            f"pretrain: goes on to step {config.pretrain.num_steps:,} from {usable[-1]}, which a "
            f"run of {theirs.num_steps:,} steps made"
        )
    return is_finished


def shared_steps(first: PretrainConfig, second: PretrainConfig) -> int:
    """The number of steps from the start that are equal in two runs of different schedules: in
    learning rate, in what is trained, and in the form of the batches."""

    def step_of(config: PretrainConfig, phases: Any, step: int) -> object:
        phase = replace(phase_at(phases, step), first_step=0, num_steps=0)
        return learning_rate(step, config), stage_at(config, step), phase

    both = [(config, phases_of(config)) for config in (first, second)]
    shortest = min(first.num_steps, second.num_steps)
    steps = (n for n in range(shortest) if step_of(*both[0], n) != step_of(*both[1], n))
    return next(steps, shortest)


def _is_sound(checkpoint: Path) -> bool:
    with suppress(*DAMAGES):
        return bool(read_state(checkpoint))
    return False


def _rename(checkpoint: Path, identity: Mapping[str, Any]) -> None:
    """Let a checkpoint be one of another run; what "auto" precision came to stays."""
    state = read_state(checkpoint)
    write_json(
        checkpoint / CHECKPOINT_STATE, state | {"identity": {**state["identity"], **identity}}
    )


def _refusal(
    folder: Path,
    theirs: PretrainConfig,
    ours: PretrainConfig,
    num_shared: int,
    there: list[Path],
) -> str:
    same = {
        "warmup_steps": theirs.warmup_steps,
        "mlm_steps_fraction": round(theirs.mlm_steps / ours.num_steps, 6),
    }
    changes = {name: value for name, value in same.items() if getattr(ours, name) != value}
    num_then = shared_steps(theirs, ours.model_copy(update=changes))
    hint = ""
    if changes and any(num_shared < checkpoint_step(path) <= num_then for path in there):
        sets = " and ".join(f"`pretrain.{name}={value:g}`" for name, value in changes.items())
        hint = f" With {sets} it has its first {num_then:,} and goes on."
    elif theirs.decay_fraction == 1:
        hint = " With decay_fraction = 1 the rate falls to 0 from the start."
    return (
        f"{folder} is of a run of {theirs.num_steps:,} steps. One of {ours.num_steps:,} has only "
        f"its first {num_shared:,} steps, and no checkpoint is from there.{hint} To train on from "
        "the last one, give a run of its own: another output_dir, and pretrain.initial_model = "
        f'"{there[-1] if there else folder}". `overwrite` trains all again'
    )
