"""From a run's address into its local folder: what is finished there, and unfinished work.

Everything comes whole: a manifest tells the checksums of its stage's files, and a file has its name
here only when it has that checksum.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, PLAN, SPARSE, Stage, file_sha256, read_manifest
from electrify.stage.lock import recover_run, remove_folder, replace_folder
from electrify.stage.remote import (
    STATE,
    RemoteRun,
    is_address,
    is_data,
    local_folder,
    remember_address,
    remote_run,
)
from electrify.storage.folder import RemoteFile, md5_of
from electrify.system.progress import Progress, is_main_process, log

FETCHED = ".fetched"  # ends names of what is not whole yet
_TRIES = 3  # of a file that comes with another checksum


def open_run(config: RunConfig) -> RunConfig:
    """The config with the local folder as `output_dir`, where that is an address.

    What has been finished at the address counts as finished here, and checkpoints go there unless
    `pretrain.checkpoint_dir` says where else. `ValueError` if the address cannot be read.
    """
    if not is_address(config.output_dir):
        return config
    address = config.output_dir.rstrip("/")
    folder = open_address(address)
    checkpoints = config.pretrain.checkpoint_dir or f"{address}/pretrain.partial"
    pretrain = config.pretrain.model_copy(update={"checkpoint_dir": checkpoints})
    return config.model_copy(update={"output_dir": str(folder), "pretrain": pretrain})


def open_address(address: str) -> Path:
    """The local folder of a run at an address, told what has been finished there."""
    folder = local_folder(address)
    if is_main_process():
        remember_address(folder, address)
        log(f"{address}: work is done in {folder}")
        pull_manifests(folder)
    return folder


def pull_manifests(run: Path) -> None:
    """Take over what is finished at the run's address and not here, or was made otherwise there.

    `ValueError` where a stage was made otherwise on both sides.
    """
    if (remote := remote_run(run)) is None:
        return
    recover_run(run)
    with remote.explained("read"):
        there = {
            name.removesuffix(f"/{MANIFEST}"): file
            for name, file in remote.place.list().items()
            if name.endswith(f"/{MANIFEST}")
        }
        here = {path.parent.name for path in run.glob(f"*/{MANIFEST}")}
        for stage in sorted(filter(_is_stage, {*there, *here})):
            _pull_manifest(remote, stage, stage in here, there.get(stage))


def pull(run: Path, *stages: str) -> None:
    """Make stages of which a part is here whole."""
    if (remote := remote_run(run)) is None:
        return
    with remote.explained("read"):
        for stage in stages:
            if (run / stage / SPARSE).exists():
                _pull_files(remote, stage, lambda name: True)
                (run / stage / SPARSE).unlink()
                log(f"{stage}: copied from {remote.place.url(stage)}")


def pull_figures(run: Path) -> None:
    """Copy what is small of all stages: figures, results, reports, but no data and weights."""
    if (remote := remote_run(run)) is None:
        return
    with remote.explained("read"):
        for marker in sorted(run.glob(f"*/{SPARSE}")):
            _pull_files(remote, marker.parent.name, lambda name: not is_data(name))


def pull_inputs(stage: Stage) -> None:
    """What a stage reads, whole, and what it may look up of others."""
    run = stage.folder.parent
    pull(run, *(folder.name for folder in stage.reads.values()))
    pull_figures(run)


def pull_partial(stage: Stage) -> None:
    """Copy the unfinished work of a resumable stage from the address, if that is more than here.

    Work of another plan comes only where there is none, to be refused or dropped as if it had been
    begun here. Checkpoints are left to pretraining, which takes the newest.
    """
    remote = remote_run(stage.folder.parent)
    if remote is None or not stage.resumable:
        return
    partial = stage.partial
    with remote.explained("read"):
        sizes = {
            name.removeprefix(f"{partial.name}/"): file.size
            for name, file in remote.place.list(partial.name).items()
            if not is_data(name.removeprefix(f"{partial.name}/"))
        }
        if PLAN not in sizes or sum(sizes.values()) <= _num_bytes(partial, sizes):
            return
        plan = partial / PLAN
        theirs = remote.place.read(f"{partial.name}/{PLAN}")
        if plan.exists() and theirs != plan.read_bytes() and not stage.keyed:
            return
        log(f"{stage.name}: copying unfinished work from {remote.place.url(partial.name)}")
        temporary = partial.with_name(partial.name + FETCHED)
        shutil.rmtree(temporary, ignore_errors=True)
        remote.place.get_all({f"{partial.name}/{name}": temporary / name for name in sizes})
        shutil.rmtree(partial, ignore_errors=True)
        temporary.replace(partial)


def _is_stage(name: str) -> bool:
    """Of a folder's name: no `.partial` and the like, and not of another run below this one."""
    return "." not in name and "/" not in name


def _pull_manifest(remote: RemoteRun, stage: str, is_here: bool, there: RemoteFile | None) -> None:
    manifest = remote.folder / stage / MANIFEST
    if there is None:
        if (remote.folder / stage / SPARSE).exists():  # it was taken away there
            remove_folder(remote.folder / stage)
        return remote.forget(stage)
    content = None if there.md5 else remote.place.read(f"{stage}/{MANIFEST}")
    mark = there.md5 or hashlib.md5(content or b"", usedforsecurity=False).hexdigest()
    if is_here and mark == md5_of(manifest):
        return remote.note(stage, mark)
    if is_here and mark == remote.known_there(stage):  # changed here since: it is sent later
        return None
    content = content or remote.place.read(f"{stage}/{MANIFEST}")
    made = _parse(remote, stage, content)
    if is_here and read_manifest(manifest.parent)["digest"] == made["digest"]:
        # the same but for times: of two that made it, each keeps its own
        return remote.note(stage, mark)
    if is_here and not remote.is_known(stage):
        raise ValueError(
            f"{stage} was made here ({manifest.parent}) and otherwise at "
            f"{remote.place.url(stage)}: remove the one that is not to be kept"
        )
    _place_manifest(remote, stage, content)
    return remote.note(stage, mark)


def _parse(remote: RemoteRun, stage: str, content: bytes) -> Mapping[str, Any]:
    temporary = remote.folder / STATE / f"{stage}{FETCHED}"
    temporary.mkdir(parents=True, exist_ok=True)
    (temporary / MANIFEST).write_bytes(content)
    try:
        return read_manifest(temporary)
    except ValueError:
        raise ValueError(
            f"{remote.place.url(stage)}/{MANIFEST} is damaged: remove it, and the stage is made "
            "again"
        ) from None
    finally:
        shutil.rmtree(temporary)


def _place_manifest(remote: RemoteRun, stage: str, content: bytes) -> None:
    folder = remote.folder / stage
    temporary = folder.with_name(stage + FETCHED)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    (temporary / SPARSE).touch()
    (temporary / MANIFEST).write_bytes(content)
    replace_folder(folder, temporary)
    log(f"{stage}: finished at {remote.place.url(stage)}")


def _pull_files(remote: RemoteRun, stage: str, is_wanted: Callable[[str], bool]) -> None:
    """Copy files of a stage that are not here; each is whole under its name."""
    folder = remote.folder / stage
    manifest = read_manifest(folder)
    files = {n: e for n, e in manifest["files"].items() if is_wanted(n)}
    anew = manifest.get("rewritten", ())
    missing = [name for name in files if not (folder / name).exists()]
    if not missing:
        return
    num_bytes = sum(files[name]["bytes"] for name in missing)
    with Progress(f"fetching {stage}", num_bytes, "bytes") as progress:
        for _ in range(_TRIES):
            targets = {name: folder / f"{name}{FETCHED}" for name in missing}
            remote.place.get_all({f"{stage}/{name}": path for name, path in targets.items()})
            for name, path in targets.items():
                if name in anew or file_sha256(path) == files[name]["sha256"]:
                    path.replace(folder / name)
                    progress.update(files[name]["bytes"])
            missing = [name for name in missing if not (folder / name).exists()]
            if not missing:
                return
    raise ValueError(
        f"{remote.place.url(stage)}/{missing[0]} is damaged, its checksum is not that of the "
        f"manifest: put the old object back, or remove {remote.place.url(stage)}/{MANIFEST} to "
        "have the stage made again"
    )


def _num_bytes(folder: Path, names: Mapping[str, int]) -> int:
    return sum((folder / n).stat().st_size for n in names if (folder / n).is_file())
