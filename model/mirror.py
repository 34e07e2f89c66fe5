"""Copies of checkpoints at an address, from which a fresh machine resumes.

`<pretrain.checkpoint_dir>/checkpoint-<step>/` has the files of the local checkpoint, and the
metrics so far. Its `state.json` is put there last and removed first, so that a checkpoint is whole
or not there. Vocabulary and shards may come from another run: `pretrain.inputs_dir`.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electrify.stage.plan import CHECKPOINT_STATE, METRICS, checkpoint_step, kept_steps
from electrify.stage.remote import copy_stage
from electrify.storage.folder import Folder, explained
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.checkpoint import check_identity, newest_state, read_state

INPUTS = ("vocab", "shards")  # stage folders that pretraining reads
_FILE = re.compile(r"checkpoint-(\d+)/([^/]+)$")


def mirrored_steps(place: Folder) -> dict[int, bool]:
    """The steps of the checkpoints at an address, in their order, and whether each is whole."""
    steps: dict[int, set[str]] = {}
    for match in filter(None, map(_FILE.fullmatch, place.files())):
        steps.setdefault(int(match[1]), set()).add(match[2])
    return {step: CHECKPOINT_STATE in steps[step] for step in sorted(steps)}


def upload_checkpoint(checkpoint: Path, url: str, keep: int, keep_every: int | None = None) -> None:
    """Copy a checkpoint to the address; keep `kept_steps` there, drop any after this one.

    A failure is a warning: the checkpoint is safe here, and the next one is tried again.
    """
    step, metrics = checkpoint_step(checkpoint), checkpoint.parent / METRICS
    sources = [*checkpoint.iterdir(), *([metrics] if metrics.is_file() else [])]
    try:
        place = Folder(url)
        place.put_whole(checkpoint.name, {p.name: p for p in sources}, last=CHECKPOINT_STATE)
        steps = mirrored_steps(place)
        before = [n for n, is_whole in steps.items() if is_whole and n < step]
        for other in steps.keys() - kept_steps([*before, step], keep, keep_every):
            place.remove_folder(f"checkpoint-{other}", first=CHECKPOINT_STATE)
    except Exception as error:  # each file system has errors of its own
        warn(
            f"{checkpoint.name} could not be copied to {url} ({type(error).__name__}: {error}); "
            "training goes on"
        )


def fetch_checkpoint(folder: Path, url: str, identity: Mapping[str, Any]) -> None:
    """Copy the newest sound checkpoint from the address if `folder` has none or only older ones.

    With it come the metrics, in place of those of the older ones. To be called by one process of a
    machine, before any loads. `ValueError` if the address cannot be read, or holds another run's
    checkpoints than `identity` says.
    """
    place = Folder(url)
    own = {folder.resolve(), folder.with_suffix("").resolve()}
    if place.local is not None and place.local.resolve() in own:
        raise UserError(
            f"pretrain.checkpoint_dir = {url!r} is where the run keeps its checkpoints anyway: "
            "leave it out, or give a place that outlives this machine"
        )
    with explained(f"pretrain.checkpoint_dir = {url!r}", "read"):
        steps = mirrored_steps(place)
    newest = newest_state(folder).get("step", 0)
    for step in reversed([step for step, is_whole in steps.items() if is_whole]):
        if step <= newest:
            return
        target = folder / f"checkpoint-{step}"
        temporary = target.with_name(f"{target.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            names = [name.partition("/")[2] for name in place.files(target.name)]
            place.get_all({f"{target.name}/{name}": temporary / name for name in names})
            state = read_state(temporary)
        except Exception as error:  # damaged, or lost on the way
            warn(f"checkpoint-{step} in {url} is damaged ({error}); trying the one before")
            shutil.rmtree(temporary, ignore_errors=True)
            continue
        check_identity(state["identity"], identity, f"{url}/checkpoint-{step}")
        if (temporary / METRICS).exists():
            (temporary / METRICS).replace(folder / METRICS)
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        log(f"copied {target.name} from {url}")
        return


def fetch_inputs(run: Path, url: str) -> None:
    """Copy `vocab/` and `shards/` of the run at the address into the folder `run`.

    A folder that is there stays. To be called by one process of a machine. What was made from what
    is checked later, as for folders that were made here; `UserError` if one cannot be copied.
    """
    place = Folder(url)
    for name in INPUTS:
        if not (run / name).exists():
            with explained(f"pretrain.inputs_dir: the finished stage {url}/{name}", "copied"):
                copy_stage(place, name, run / name)
