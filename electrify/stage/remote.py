"""A run whose `output_dir` is an address: stages work in a local folder and are copied there.

A finished stage is copied to the address with its manifest last. Of a stage that another machine
has finished, the manifest and what a report reads are copied at once (`NOT_COPIED` says so), and
the data when a stage reads them; each file is compared with the manifest's checksum. Unfinished
work stays local, but for the checkpoints that pretraining copies itself.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import (
    MANIFEST,
    NOT_COPIED,
    PLAN,
    Stage,
    file_sha256,
    other_work,
    parse_manifest,
    plan_difference,
    read_manifest,
    write_text,
)
from electrify.stage.lock import recover, remove_folder, replace_folder
from electrify.storage.folder import Folder, explained
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, duration, is_main_process, log

WORK_DIR = "ELECTRIFY_WORK_DIR"  # environment variable: local folders of such runs go there
REPORTS = ("report.html", "report.md")
_ADDRESS = ".address"  # file of the local folder
_SENT = ".sent"  # in a stage folder that stands at the address as it stands here
_FETCHED = ".fetched"  # ends names of what is not whole yet
# of a stage: no `.partial` and the like, and not of another run below this one
_MANIFEST = re.compile(rf"([^./][^/]*(?<!\.partial))/{re.escape(MANIFEST)}")
# files that take room, which no report reads
_DATA = re.compile(r"(^|/)(checkpoint-\d+|tensorboard|wandb)/|\.(parquet|npy|safetensors|bin)$")


def is_address(place: str) -> bool:
    """Whether a run is named by an address, not by a folder of this machine."""
    return "://" in place


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


Run = TypeVar("Run", bound=EvaluationRun)


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
    """The local folder of a run at an address, with the manifests of what is finished there."""
    folder = local_folder(address)
    if is_main_process():
        if not (folder / _ADDRESS).exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / _ADDRESS, address.rstrip("/"))
        log(f"{address}: work is done in {folder}")
        fetch(folder)
    return folder


@contextmanager
def _place_of(run: Path, doing: str) -> Iterator[Folder | None]:
    """The address of the run with this local folder; None where the folder is the run itself.

    `UserError` for what fails there within the block; `doing` is "read" or "written".
    """
    address = address_of(run)
    if address is None:
        yield None
        return
    with explained(address, doing):
        yield Folder(address)


# --- from the address -----------------------------------------------------------------------------


def fetch(run: Path) -> None:
    """Take over the stages that are finished at the run's address and not here, without their data.

    `UserError` where a stage was made otherwise on both sides.
    """
    with _place_of(run, "read") as place:
        if place is None:
            return
        stages = [match[1] for match in map(_MANIFEST.fullmatch, place.files()) if match]
        contents = place.read_all([f"{stage}/{MANIFEST}" for stage in stages])
        for stage in stages:
            recover(run / stage)
        for marker in run.glob(f"*/{_SENT}"):
            if marker.parent.name not in stages:  # it was removed there
                if (marker.parent / NOT_COPIED).exists():
                    remove_folder(marker.parent)
                else:
                    marker.unlink()
        for stage, content in zip(stages, contents, strict=True):
            _take_over(place, stage, content, run / stage)


def _take_over(place: Folder, stage: str, manifest: bytes, folder: Path) -> None:
    url = place.url(stage)
    try:
        there = parse_manifest(manifest, folder)["digest"]
    except ValueError:
        raise UserError(
            f"{url}/{MANIFEST} is damaged: remove it, and the stage is made again"
        ) from None
    here = read_manifest(folder)["digest"] if folder.exists() else None
    if here != there:
        if here is not None and not (folder / _SENT).exists():
            raise UserError(
                f"{stage} differs here ({folder}) and at {url}: remove the one that you do not "
                "want to keep"
            )
        copy_stage(place, stage, folder, with_data=False)
        log(f"{stage}: finished at {url}")
    (folder / _SENT).touch()


def pull(run: Path, *stages: str) -> None:
    """Copy the data of stages that are finished at the run's address and not copied yet."""
    with _place_of(run, "read") as place:
        for stage in stages:
            if place is not None and (run / stage / NOT_COPIED).exists():
                _copy_files(place, stage, run / stage)
                (run / stage / NOT_COPIED).unlink()
                log(f"{stage}: copied from {place.url(stage)}")


def copy_stage(place: Folder, stage: str, target: Path, with_data: bool = True) -> None:
    """Copy a finished stage of the run at an address, in place of what is at the target.

    `UserError` if it is not finished there, or damaged.
    """
    temporary = target.with_name(target.name + _FETCHED)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        place.get_all({f"{stage}/{MANIFEST}": temporary / MANIFEST})
        _copy_files(place, stage, temporary, with_data)
        if not with_data:
            (temporary / NOT_COPIED).touch()
        replace_folder(target, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy_files(place: Folder, stage: str, folder: Path, with_data: bool = True) -> None:
    """Copy the files of a manifest that are not here; each is whole under its name."""
    manifest = read_manifest(folder)
    files = manifest["files"]
    missing = [
        name
        for name in files
        if not (folder / name).exists() and (with_data or not _DATA.search(name))
    ]
    targets = {f"{stage}/{name}": folder / f"{name}.{os.getpid()}{_FETCHED}" for name in missing}
    num_bytes = sum(files[name]["bytes"] for name in missing)
    with Progress(f"fetching {stage}", num_bytes, "bytes") as progress:
        place.get_all(targets, lambda path: progress.update(path.stat().st_size))
    for (url, path), name in zip(targets.items(), missing, strict=True):
        is_new = name in manifest.get("rewritten", ())
        if not is_new and file_sha256(path) != files[name]["sha256"]:
            raise UserError(
                f"{place.url(url)} is damaged, its checksum is not that of the manifest: put the "
                f"old file back, or remove {place.url(stage)}/{MANIFEST} to have the stage made "
                "again"
            )
        path.replace(folder / name)


# --- to the address -------------------------------------------------------------------------------


def claim(stage: Stage, overwrite: bool) -> None:
    """Say at the address what the checkpoints there are a part of.

    Those of another plan are dropped with `overwrite`, else `UserError`.
    """
    below = stage.partial.name
    plan = f"{below}/{PLAN}"
    with _place_of(stage.folder.parent, "written") as place:
        if place is None or not stage.resumable or stage.keyed:
            return
        if place.exists(plan):
            if (change := plan_difference(place.read(plan), stage)) is None:
                return
            if not overwrite:
                raise other_work(place.url(below), change)
            place.remove_folder(below, first=PLAN)
        place.put(stage.partial / PLAN, plan)


def withdraw(folder: Path) -> None:
    """Let a stage that is replaced here no longer count as finished at the address."""
    with _place_of(folder.parent, "written") as place:
        if place:
            (folder / _SENT).unlink(missing_ok=True)
            place.remove(f"{folder.name}/{MANIFEST}")


def is_sent(folder: Path) -> bool:
    """Whether a finished stage stands at its run's address, where it has one."""
    return address_of(folder.parent) is None or (folder / _SENT).exists()


def push(folder: Path) -> None:
    """Put a finished stage at its run's address, unless it is there."""
    if is_sent(folder):
        return
    stage, start = folder.name, time.monotonic()
    with _place_of(folder.parent, "written") as place:
        assert place is not None
        sources = {name: folder / name for name in (*read_manifest(folder)["files"], MANIFEST)}
        num_bytes = place.put_whole(stage, sources, last=MANIFEST)
        (folder / _SENT).touch()
        if place.exists(f"{stage}.partial"):
            place.remove_folder(f"{stage}.partial", first=PLAN)
        seconds = duration(time.monotonic() - start)
        log(f"{stage}: {num_bytes / 1e6:,.1f} MB sent to {place.url(stage)} in {seconds}")


def push_rewritten(folder: Path) -> None:
    """Put those files of a stage at its run's address that later verbs have written anew."""
    _push_files(folder.parent, [f"{folder.name}/{n}" for n in read_manifest(folder)["rewritten"]])


def push_report(run: Path) -> None:
    _push_files(run, [name for name in REPORTS if (run / name).is_file()])


def _push_files(run: Path, names: Sequence[str]) -> None:
    with _place_of(run, "written") as place:
        if place:
            place.put_all({name: run / name for name in names})
            log(f"{', '.join(names)}: sent to {place.address}")
