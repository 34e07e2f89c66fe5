"""A run whose `output_dir` is an address: stages work in a local folder and are copied there.

A finished stage is copied to the address with its manifest last. What another machine has finished
is copied from there when the run is opened, each file compared with the manifest's checksum.
Unfinished work stays local, but for the checkpoints that pretraining copies itself.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import (
    MANIFEST,
    PLAN,
    Stage,
    StageHeldError,
    compared_files,
    file_sha256,
    other_work,
    parse_manifest,
    plan_difference,
    read_manifest,
    recover,
    replace_folder,
    stage_lock,
    write_text,
)
from electrify.storage.folder import Folder, explained
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, is_main_process, log, warn

WORK_DIR = "ELECTRIFY_WORK_DIR"  # environment variable: local folders of such runs go there
REPORTS = ("report.html", "report.md")
_ADDRESS = ".address"  # file of the local folder
SENT = ".sent"  # in a stage folder that stands at the address as it stands here
# of a stage: no `.partial` and the like, and not of another run below this one
_MANIFEST = re.compile(rf"([^./][^/]*(?<!\.partial))/{re.escape(MANIFEST)}")
Run = TypeVar("Run", bound=EvaluationRun)


def is_address(name: str) -> bool:
    """Whether this is an address, not a folder of this machine."""
    return "://" in name


def local_folder(address: str) -> Path:
    """Where a run at an address works: below `ELECTRIFY_WORK_DIR`, else the user's cache folder."""
    address = address.rstrip("/")
    label = hashlib.sha256(address.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "-", address.rpartition("/")[2])
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folders = os.environ.get(WORK_DIR) or f"{cache}/electrify/runs"
    return Path(folders).expanduser().absolute() / label / name


def address_of(folder: Path) -> str | None:
    """The address of the run whose local folder this is."""
    path = folder / _ADDRESS
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def open_run(config: Run) -> Run:
    """The config with the local folder as `output_dir`, where that is an address.

    Checkpoints are copied to the address unless `pretrain.checkpoint_dir` says where else.
    `UserError` if the address cannot be read.
    """
    if not is_address(config.output_dir):
        return config
    address = config.output_dir.rstrip("/")
    changed: dict[str, object] = {"output_dir": str(open_address(address))}
    if isinstance(config, RunConfig):
        checkpoints = config.pretrain.checkpoint_dir or f"{address}/pretrain.partial"
        changed["pretrain"] = config.pretrain.model_copy(update={"checkpoint_dir": checkpoints})
    return config.model_copy(update=changed)


def open_address(address: str) -> Path:
    """The local folder of a run at an address, with the stages that are finished there."""
    folder = local_folder(address)
    if is_main_process():
        if not (folder / _ADDRESS).exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / _ADDRESS, address.rstrip("/"))
        log(f"{address}: work is done in {folder}")
        _fetch(folder)
    return folder


@contextmanager
def _remote_folder(run: Path, doing: str) -> Iterator[Folder | None]:
    """The folder at the address of the run with this local folder; None for a local run.

    `UserError` for what fails there within the block; `doing` is "read" or "written".
    """
    address = address_of(run)
    if address is None:
        yield None
    else:
        with explained(address, doing):
            yield Folder(address)


# --- from the address -----------------------------------------------------------------------------


def _fetch(run: Path) -> None:
    """Copy the stages that are finished at the run's address and missing here, or newer there.

    `UserError` where both sides have made a stage, from different options or inputs.
    """
    with _remote_folder(run, "read") as remote:
        assert remote is not None
        stages = [match[1] for match in map(_MANIFEST.fullmatch, remote.files()) if match]
        for marker in run.glob(f"*/{SENT}"):
            if marker.parent.name not in stages:  # it was removed there, and is sent again
                marker.unlink()
        for stage in stages:
            folder = run / stage
            recover(folder)
            if _is_equal_at(remote, folder):
                (folder / SENT).touch()
                continue
            try:
                with stage_lock(folder):
                    _take(remote, folder)
            except StageHeldError:
                if folder.exists() or not folder.with_name(f"{stage}.partial").exists():
                    raise
                warn(f"{stage} is being added to here, and is left out")


def take_over(folder: Path) -> None:
    """Copy a stage that another machine has finished since the run was opened.

    The caller holds its lock. `UserError` as for `open_run`.
    """
    with _remote_folder(folder.parent, "read") as remote:
        if remote and remote.exists(f"{folder.name}/{MANIFEST}"):
            _take(remote, folder)


def _take(remote: Folder, folder: Path) -> None:
    if not _is_equal_at(remote, folder):
        if folder.exists() and not (folder / SENT).exists():
            raise UserError(
                f"{folder.name} differs here ({folder}) and at {remote.url(folder.name)}: remove "
                "the one that you do not want to keep"
            )
        copy_stage(remote, folder.name, folder)
    (folder / SENT).touch()


def _is_equal_at(remote: Folder, folder: Path) -> bool:
    digest = read_manifest(folder)["digest"] if folder.exists() else None
    return bool(digest == _manifest_at(remote, folder.name)["digest"])


def _manifest_at(remote: Folder, stage: str) -> dict[str, Any]:
    return parse_manifest(remote.read(f"{stage}/{MANIFEST}"), remote.url(stage))


def copy_stage(remote: Folder, stage: str, target: Path) -> None:
    """Copy a finished stage of the run at an address, in place of what is at the target.

    `UserError` if it is damaged.
    """
    manifest = _manifest_at(remote, stage)
    temporary = target.with_name(f"{target.name}.fetched")
    paths = {f"{stage}/{name}": temporary / name for name in (*manifest["files"], MANIFEST)}
    num_bytes = sum(entry["bytes"] for entry in manifest["files"].values())
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with Progress(f"fetching {stage}", num_bytes, "bytes") as progress:
            remote.get_all(paths, lambda path: progress.update(path.stat().st_size))
        for name, entry in compared_files(manifest).items():
            if file_sha256(temporary / name) != entry["sha256"]:
                raise UserError(
                    f"{remote.url(stage)}/{name} is damaged, its checksum is not that of the "
                    f"manifest: put the old file back, or remove {remote.url(stage)} to have the "
                    "stage made again"
                )
        replace_folder(target, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    log(f"{stage}: copied from {remote.url(stage)}")


# --- to the address -------------------------------------------------------------------------------


def claim(stage: Stage, overwrite: bool) -> None:
    """Write the stage's plan to the address, beside the checkpoints there.

    Checkpoints of another plan are removed with `overwrite`; without it they are a `UserError`.
    """
    below = stage.partial.name
    plan = f"{below}/{PLAN}"
    with _remote_folder(stage.folder.parent, "written") as remote:
        if remote is None or not stage.resumable or stage.keyed:
            return
        if remote.exists(plan):
            if (change := plan_difference(remote.read(plan), stage)) is None:
                return
            if not overwrite:
                raise other_work(remote.url(below), change)
            remote.remove_folder(below, first=PLAN)
        remote.put(stage.partial / PLAN, plan)


def withdraw(folder: Path) -> None:
    """Remove the manifest of a stage at the address before the stage is replaced here."""
    with _remote_folder(folder.parent, "written") as remote:
        if remote:
            (folder / SENT).unlink(missing_ok=True)
            remote.remove(f"{folder.name}/{MANIFEST}")


def is_sent(folder: Path) -> bool:
    """Whether a finished stage stands at its run's address, where it has one."""
    return address_of(folder.parent) is None or (folder / SENT).exists()


def push(folder: Path) -> None:
    """Put a finished stage at its run's address, unless it is there."""
    if is_sent(folder):
        return
    stage = folder.name
    with _remote_folder(folder.parent, "written") as remote:
        assert remote is not None
        names = (*read_manifest(folder)["files"], MANIFEST)
        remote.put_whole(stage, {name: folder / name for name in names}, last=MANIFEST)
        (folder / SENT).touch()
        remote.remove_folder(f"{stage}.partial", first=PLAN)
        log(f"{stage}: sent to {remote.url(stage)}")


def push_rewritten(folder: Path) -> None:
    """Send the files of a stage that later verbs have rewritten to the run's address."""
    _push_files(folder.parent, [f"{folder.name}/{n}" for n in read_manifest(folder)["rewritten"]])


def push_report(run: Path) -> None:
    _push_files(run, [name for name in REPORTS if (run / name).is_file()])


def _push_files(run: Path, names: Sequence[str]) -> None:
    with _remote_folder(run, "written") as remote:
        if remote:
            remote.put_all({name: run / name for name in names})
            log(f"{', '.join(names)}: sent to {remote.address}")
