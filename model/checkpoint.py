"""Checkpoints: whole or not there, checksummed, the last k kept, a damaged one passed over.

`checkpoint-<step>/` holds `model.safetensors`, `optimizer.safetensors` and, written last,
`state.json`: step, checksums, and what the model is and was trained on. There is no generator state
and no loader position to store: both follow from (seed, step, rank). Nor are there figures: a
record of `metrics.jsonl` ends where a checkpoint is written.

A run continues from its own checkpoints, and from one that a run of another length has made while
the steps of both were equal (`prolong`). A copy at an address (`pretrain.checkpoint_dir`), from
which a fresh machine resumes, has the same files and the metrics so far. Its `state.json` is put
there last and removed first, so that it is whole or not there, too.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electrify.config.fields import Section
from electrify.config.load import parse_part
from electrify.config.pretrain import PretrainConfig
from electrify.config.removed import KEYS
from electrify.config.run import RunConfig
from electrify.stage.folder import (
    PLAN,
    canonical,
    difference,
    fingerprint,
    read_manifest,
    recover,
    stage_lock,
    write_json,
)
from electrify.stage.plan import (
    CHECKPOINT_STATE,
    KEEPING_OPTIONS,
    METRICS,
    checkpoint_step,
    checkpoints,
    output_dir,
    pretrain_stage,
    stage_options,
)
from electrify.storage.files import read_json
from electrify.storage.folder import Folder, explained
from electrify.system.bundled import with_bundled
from electrify.system.outcome import UserError
from electrify.system.progress import is_main_process, log, warn
from model.devices.device import overwrite, place
from model.optim import AdamW
from model.plan import learning_rate, phase_at, phases_of, stage_at
from vocab.shards.files import TokenShards

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
FILES = (MODEL, OPTIMIZER)
PRECISION = "precision"  # beside what a checkpoint is of: that which "auto" came to
# what is raised where a file is cut off, changed or not there
DAMAGES = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)
# options that say when something happens, not what a step is
_SCHEDULE = ("num_steps", "warmup_steps", "decay_fraction", "curriculum", "mlm_steps_fraction")
Tensors = dict[str, Tensor]
Kept = Callable[[Sequence[int]], Collection[int]]  # which of checkpoints of rising steps stay


def run_identity(config: RunConfig) -> dict[str, Any]:
    """What a run's checkpoints are of: text, tokenizer, and the options that decide the result."""
    shards = TokenShards(output_dir(config) / "shards")
    return {
        "objective": config.pretrain.objective,
        "vocab_size": shards.vocab_size,
        "tokenizer_sha256": shards.tokenizer_sha256,
        "shards_sha256": fingerprint(str(shards.folder / "index.json")),
        "options": canonical(stage_options(config, "pretrain")),
    }


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: AdamW,
    kept: Kept,
    identity: Mapping[str, Any],
) -> Path:
    """Write `folder/checkpoint-<step>`, which is returned; `UserError` if the disk is full.

    Of those before it the `kept` ones stay. Any after it go: they could not be read, or the run
    would have resumed from them. The first process writes.
    """
    target = folder / f"checkpoint-{step}"
    if not is_main_process():
        return target
    tensors = {
        MODEL: {n: p.detach().cpu().contiguous() for n, p in model.named_parameters()},
        OPTIMIZER: optimizer_tensors(model, optimizer),
    }
    temporary = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name in FILES:
            save_file(tensors[name], temporary / name)
        hashes = {name: fingerprint(str(temporary / name)) for name in FILES}
        state = {"step": step, "identity": dict(identity), "sha256": hashes}
        write_json(temporary / CHECKPOINT_STATE, state)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)  # what is half written fills the disk
        raise UserError(
            f"{target} cannot be written ({error}): make room there; the same command resumes from "
            "the checkpoint before"
        ) from None
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)
    steps = [checkpoint_step(path) for path in checkpoints(folder)]
    for other in set(steps) - set(kept([s for s in steps if s <= step])):
        shutil.rmtree(folder / f"checkpoint-{other}")
    return target


def load_latest(
    folder: Path, model: nn.Module, optimizer: AdamW, identity: Mapping[str, Any]
) -> int:
    """Restore the newest sound checkpoint; the number of finished steps, 0 if there is none.

    A damaged one is passed over with a warning. `UserError` if it is of another run than
    `identity` says, or of a model of another form.
    """
    for path in reversed(checkpoints(folder)):
        try:
            state, weights = read_weights(path)
            moments = load_file(path / OPTIMIZER)
        except DAMAGES as error:
            warn(f"{path} is damaged ({error}); trying the one before")
            continue
        check_identity(state, identity, str(path))
        restore_model(model, weights, path)
        parameters = dict(model.named_parameters())
        optimizer.state.clear()
        for name, value in moments.items():
            optimizer.restore(parameters, name, value)
        step: int = state["step"]
        return step
    return 0


def read_weights(path: Path) -> tuple[dict[str, Any], Tensors]:
    """State and weights of one folder, compared with its checksums; one of `DAMAGES` if it is not
    whole."""
    return read_state(path), load_file(path / MODEL)


def read_state(path: Path) -> dict[str, Any]:
    """`state.json` of a checkpoint folder whose files have the checksums it names."""
    state: dict[str, Any] = read_json(path / CHECKPOINT_STATE)
    step, identity = state["step"], state["identity"]
    if not isinstance(step, int) or not isinstance(identity.get("options", {}), dict):
        raise UserError(f"{CHECKPOINT_STATE} has no step or no table of options")
    for name in FILES:
        if fingerprint(str(path / name)) != state["sha256"][name]:
            raise UserError(f"checksum of {name} differs")
    return state


class _Trained(Section):
    pretrain: PretrainConfig


def trained_options(identity: Mapping[str, Any], path: Path) -> PretrainConfig:
    """What a checkpoint was trained with. `UserError` names an option that this version has not."""
    options = identity.get("options", {}).items()
    known = {key: value for key, value in options if key in PretrainConfig.model_fields}
    where = f"{path} was trained by an earlier version of electrify"
    # what is bundled has one name there, wherever it lies
    return parse_part(with_bundled({"pretrain": known}), where, _Trained).pretrain


def check_identity(state: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """`UserError` naming the first thing in which a checkpoint is of another run. One of a run of
    another length is not, where the steps until then are equal."""
    theirs = state["identity"]
    pairs = [(name, theirs.get(name), wanted[name]) for name in wanted if name != "options"]
    there, here = theirs.get("options", {}), wanted.get("options", {})
    changed = {name for name in {*there, *here} if there.get(name) != here.get(name)}
    # some were not of those earlier, or are gone
    changed -= {*KEEPING_OPTIONS, *(n for n in there.keys() - here if f"pretrain.{n}" in KEYS)}
    if changed and changed <= {*_SCHEDULE}:
        both = (trained_options(identity, Path(where)) for identity in (theirs, wanted))
        changed = set() if state["step"] <= shared_steps(*both) else changed
    pairs += [(f"option {k}", there.get(k), here.get(k)) for k in sorted(changed)]
    for name, is_there, should_be in pairs:
        if is_there != should_be:
            raise UserError(
                f"{where} belongs to another run: its {name} is {is_there!r}, this run's is "
                f"{should_be!r}. Give this run folders of its own (output_dir, "
                "pretrain.checkpoint_dir), or pretrain.initial_model to train on from that one"
            )


def load_model(path: Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into a model of its form; `UserError` if it is damaged."""
    try:
        _, tensors = read_weights(path)
    except DAMAGES as error:
        raise UserError(
            f"{path} is damaged ({error}): put its files back from a copy, or remove {path.parent} "
            "and run again: electrify pretrain CONFIG"
        ) from None
    restore_model(model, tensors, path)


def sound_states(folder: Path) -> Iterator[dict[str, Any]]:
    """`state.json` of the checkpoints whose files are what was written, the newest first."""
    for path in reversed(checkpoints(folder)):
        with suppress(*DAMAGES):
            yield read_state(path)


def newest_state(folder: Path) -> dict[str, Any]:
    """Of the newest sound checkpoint; {} if there is none."""
    return next(sound_states(folder), {})


def newest(folder: Path) -> Path:
    """The newest checkpoint folder; `UserError` if there is none."""
    paths = checkpoints(folder)
    if not paths:
        raise UserError(f"no checkpoint in {folder}; run first: electrify pretrain CONFIG")
    return paths[-1]


def optimizer_tensors(model: nn.Module, optimizer: AdamW) -> Tensors:
    """Moments by parameter name, so that they survive another parameter order."""
    tensors = optimizer.tensors(dict(model.named_parameters()))
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


@torch.no_grad()
def restore_model(model: nn.Module, tensors: Mapping[str, Tensor], where: object) -> None:
    """Copy tensors into the model; `UserError` before anything is changed if they do not fit.

    `where` they are from is for the error.
    """
    own = dict(model.named_parameters())
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    there = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted({*wanted, *there}):
        if wanted.get(name) != there.get(name):
            raise UserError(
                f"{where} does not fit the model of this config: {name} has the shape "
                f"{there.get(name)} there and {wanted.get(name)} here (None: it is not there). "
                "Pretrain with the config that it was made with"
            )
    for name, tensor in own.items():
        overwrite(tensor, place(tensors[name], tensor.device))


# --- runs of another length ---------------------------------------------------------------------


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
    if is_finished and stage.partial.exists():  # it is begun, or of a third schedule
        return plan.exists() and difference(read_json(plan), stage) is None
    folder = stage.folder if is_finished else stage.partial
    steps = [state["step"] for state in sound_states(folder)]
    theirs = trained_options({"options": made["config"]}, folder)
    num_shared = shared_steps(theirs, config.pretrain)
    last = next((step for step in steps if step <= num_shared), None)
    if last is None or not (is_finished or last == steps[0]):
        raise UserError(_refusal(folder, theirs, config.pretrain, steps))
    if is_main_process():
        with stage_lock(stage.folder):
            if is_finished:
                new = stage.partial.with_name(f"{stage.partial.name}.new")
                shutil.rmtree(new, ignore_errors=True)
                for step in [step for step in steps if step <= last]:
                    shutil.copytree(folder / f"checkpoint-{step}", new / f"checkpoint-{step}")
                shutil.copyfile(folder / METRICS, new / METRICS)
                write_json(new / PLAN, wanted)
                new.replace(stage.partial)
            write_json(plan, wanted)
        log(
            f"pretrain: goes on to step {config.pretrain.num_steps:,} from checkpoint-{last}, "
            f"which a run of {theirs.num_steps:,} steps made"
        )
    return is_finished


def shared_steps(first: PretrainConfig, second: PretrainConfig) -> int:
    """The number of steps from the start that are equal in two runs of different schedules: in
    learning rate, in what is trained, and in the batches, whatever a pass has of these."""

    def step_of(config: PretrainConfig, phases: Any, step: int) -> object:
        phase = replace(phase_at(phases, step), first_step=0, num_steps=0, micro_batch_size=0)
        return learning_rate(step, config), stage_at(config, step), phase

    both = [(config, phases_of(config)) for config in (first, second)]
    shortest = min(first.num_steps, second.num_steps)
    steps = (n for n in range(shortest) if step_of(*both[0], n) != step_of(*both[1], n))
    return next(steps, shortest)


def _refusal(
    folder: Path, theirs: PretrainConfig, ours: PretrainConfig, steps: Sequence[int]
) -> str:
    same = {
        "warmup_steps": theirs.warmup_steps,
        "mlm_steps_fraction": round(theirs.mlm_steps / ours.num_steps, 6),
    }
    changes = {name: value for name, value in same.items() if getattr(ours, name) != value}
    num_shared = shared_steps(theirs, ours)
    num_then = shared_steps(theirs, ours.model_copy(update=changes))
    hint = ""
    if any(num_shared < step <= num_then for step in steps):
        sets = " and ".join(f"`pretrain.{name}={value:g}`" for name, value in changes.items())
        hint = f" With {sets} it has its first {num_then:,} and goes on."
    elif theirs.decay_fraction == 1:
        hint = " With decay_fraction = 1 the rate falls to 0 from the start."
    last = folder / f"checkpoint-{steps[0]}" if steps else folder
    return (
        f"{folder} is of a run of {theirs.num_steps:,} steps. One of {ours.num_steps:,} has only "
        f"its first {num_shared:,} steps, and no checkpoint is from there.{hint} To train on from "
        "the last one, give a run of its own: another output_dir, and pretrain.initial_model = "
        f'"{last}". `overwrite` trains all again'
    )


# --- copies at an address -------------------------------------------------------------------------

_FILE = re.compile(r"checkpoint-(\d+)/([^/]+)$")


def mirrored_steps(remote: Folder) -> dict[int, bool]:
    """The steps of the checkpoints at an address, in their order, and whether each is whole."""
    steps: dict[int, set[str]] = {}
    for match in filter(None, map(_FILE.fullmatch, remote.files())):
        steps.setdefault(int(match[1]), set()).add(match[2])
    return {step: CHECKPOINT_STATE in steps[step] for step in sorted(steps)}


def upload_checkpoint(checkpoint: Path, url: str, kept: Kept) -> None:
    """Copy a checkpoint to the address; of those there the `kept` ones stay, any after it go.

    A failure is a warning: the checkpoint is safe here, and the next one is tried again.
    """
    step, metrics = checkpoint_step(checkpoint), checkpoint.parent / METRICS
    sources = [*checkpoint.iterdir(), *([metrics] if metrics.is_file() else [])]
    try:
        remote = Folder(url)
        remote.put_whole(checkpoint.name, {p.name: p for p in sources}, last=CHECKPOINT_STATE)
        steps = mirrored_steps(remote)
        before = [n for n, is_whole in steps.items() if is_whole and n < step]
        for other in steps.keys() - set(kept([*before, step])):
            remote.remove_folder(f"checkpoint-{other}", first=CHECKPOINT_STATE)
    except Exception as error:  # each file system has errors of its own
        warn(
            f"{checkpoint.name} could not be copied to {url} ({type(error).__name__}: {error}); "
            "training goes on"
        )


def fetch_checkpoints(folder: Path, url: str, identity: Mapping[str, Any]) -> None:
    """Copy the sound checkpoints from the address that are newer than all in `folder`.

    With the newest come the metrics, in place of those of older ones. To be called by one process
    of a machine, before any loads. `ValueError` if the address cannot be read, or holds another
    run's checkpoints than `identity` says.
    """
    remote = Folder(url)
    own = {folder.resolve(), folder.with_suffix("").resolve()}
    if remote.local is not None and remote.local.resolve() in own:
        raise UserError(
            f"pretrain.checkpoint_dir = {url!r} is where the run keeps its checkpoints anyway: "
            "leave it out, or give a place that outlives this machine"
        )
    with explained(f"pretrain.checkpoint_dir = {url!r}", "read"):
        steps = mirrored_steps(remote)
    newest, fetched = newest_state(folder).get("step", 0), False
    of_another: UserError | None = None
    for step in reversed([step for step, is_whole in steps.items() if is_whole]):
        if step <= newest:
            break
        target = folder / f"checkpoint-{step}"
        temporary = target.with_name(f"{target.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            names = [name.partition("/")[2] for name in remote.files(target.name)]
            remote.get_all({f"{target.name}/{name}": temporary / name for name in names})
            state = read_state(temporary)
        except Exception as error:  # damaged, or lost on the way
            warn(f"checkpoint-{step} in {url} is damaged ({error}); trying the one before")
            shutil.rmtree(temporary, ignore_errors=True)
            continue
        try:
            check_identity(state, identity, f"{url}/checkpoint-{step}")
        except UserError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            warn(f"{error}; it is left there")  # of the run that this one prolongs
            of_another = error
            continue
        metrics = temporary / METRICS
        if fetched:
            metrics.unlink(missing_ok=True)
        elif metrics.exists():
            metrics.replace(folder / METRICS)
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        log(f"copied {target.name} from {url}")
        fetched = True
    if of_another and not newest and not fetched:
        raise of_another
