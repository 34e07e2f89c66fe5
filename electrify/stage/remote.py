"""A run whose `output_dir` is an address: stages work in a local folder, and are kept there.

The local folder is a copy in part: of a stage that stands at the address alone it has the manifest
and what is small, and all of it once a stage reads it (`SPARSE`). A manifest tells the checksums
of its stage's files, and a file has its name here only when it has that checksum. There a stage's
manifest is the last of its files to go up and the first to be removed.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import (
    MANIFEST,
    PLAN,
    SPARSE,
    Stage,
    file_sha256,
    other_work,
    parse_manifest,
    plan_difference,
    read_manifest,
    write_text,
)
from electrify.stage.lock import recover_run, remove_folder, replace_folder, stage_lock
from electrify.storage.folder import Folder, explained
from electrify.storage.lock import lock_at
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, duration, is_main_process, log, warn

WORK_DIR = "ELECTRIFY_WORK_DIR"  # environment variable: local folders of such runs go there
FETCHED = ".fetched"  # ends names of what is not whole yet
REPORTS = ("report.html", "report.md")
PARTIAL_SECONDS = 30.0  # between two copies of an unfinished evaluation
# in the local folder: the address, a name of this folder, and the digests of stages that were the
# same here and there when they were last compared
_STATE, _ADDRESS, _LOCAL_ID = ".remote", "address", "id"
# what takes room; figures and texts are the rest
_DATA = re.compile(r"(^|/)(checkpoint-\d+|tensorboard|wandb)/|\.(parquet|npy|safetensors|bin)$")


class _RemoteRun:
    """A run at an address, its local folder, and what this process knows of both."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.place = folder, Folder(address)
        self.break_lock = False
        self.checks: dict[str, Callable[[], None]] = {}  # of held locks, by stage
        self.sent: dict[str, tuple[int, int]] = {}  # size and time of files sent, by name
        self.last_sent: float | None = None  # of an unfinished stage, as `time.monotonic` says

    def explained(self, done: str) -> AbstractContextManager[None]:
        hint = f". What is finished here stays in {self.folder}"
        return explained(self.place.address, done, hint)

    def is_known(self, stage: str) -> bool:
        """Whether the stage of here stands there, as far as is known."""
        return self.common(stage) == str(read_manifest(self.folder / stage)["digest"])

    def common(self, stage: str) -> str | None:
        """The digest that a stage last had on both sides."""
        return _read_text(self.folder / _STATE / stage)

    def note(self, stage: str, digest: str) -> None:
        write_text(self.folder / _STATE / stage, digest)


def is_address(place: str) -> bool:
    """Whether a run is named by an address, not by a folder of this machine."""
    return "://" in place


def local_folder(address: str) -> Path:
    """Where a run at an address works: below `ELECTRIFY_WORK_DIR`, else the user's cache folder."""
    address = address.rstrip("/")
    label = hashlib.sha256(address.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "-", address.rpartition("/")[2])
    return local_folders() / label / name


def local_folders() -> Path:
    """The folder of all runs at addresses, each two levels below."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get(WORK_DIR) or f"{cache}/electrify/runs").expanduser().absolute()


def address_of(folder: Path) -> str | None:
    """The address of the run whose local folder this is."""
    return _read_text(folder / _STATE / _ADDRESS)


def names_below(address: str) -> list[str]:
    """The names of all files below an address; `ValueError` if it cannot be read."""
    place = Folder(address)
    with explained(address, "read"):
        return [*place.files()]


Run = TypeVar("Run", bound=EvaluationRun)


def open_run(config: Run, break_lock: bool = False) -> Run:
    """The config with the local folder as `output_dir`, where that is an address.

    What has been finished at the address counts as finished here, and checkpoints go there unless
    `pretrain.checkpoint_dir` says where else. `ValueError` if the address cannot be read.
    """
    if not is_address(config.output_dir):
        return config
    address = config.output_dir.rstrip("/")
    folder = open_address(address, break_lock)
    changed: dict[str, object] = {"output_dir": str(folder)}
    if isinstance(config, RunConfig):
        checkpoints = config.pretrain.checkpoint_dir or f"{address}/pretrain.partial"
        changed["pretrain"] = config.pretrain.model_copy(update={"checkpoint_dir": checkpoints})
    return config.model_copy(update=changed)


def open_address(address: str, break_lock: bool = False) -> Path:
    """The local folder of a run at an address, told what has been finished there.

    With `break_lock` this process takes a stage over from whoever has locked it.
    """
    folder = local_folder(address)
    if is_main_process():
        for name, value in ((_ADDRESS, address.rstrip("/")), (_LOCAL_ID, uuid4().hex)):
            if not (path := folder / _STATE / name).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, value)
        log(f"{address}: work is done in {folder}")
        if remote := _remote_run(folder):
            remote.break_lock = break_lock
        fetch(folder)
    return folder


def _remote_run(folder: Path) -> _RemoteRun | None:
    """The run that has this local folder; None where the folder is the run itself."""
    address = address_of(folder)
    return None if address is None else _of_process(folder, address)


# it remembers what it has locked and sent
_of_process = lru_cache(_RemoteRun)


# --- from the address -----------------------------------------------------------------------------


def fetch(run: Path) -> None:
    """Take over what is finished at the run's address and not here, or was made otherwise there:
    manifests, figures and texts.

    `ValueError` where a stage was made otherwise on both sides.
    """
    if (remote := _remote_run(run)) is None:
        return
    recover_run(run)
    with remote.explained("read"):
        stages = [n.removesuffix(f"/{MANIFEST}") for n in remote.place.files() if _is_manifest(n)]
        contents = remote.place.read_all([f"{stage}/{MANIFEST}" for stage in stages])
    for stage, content in zip(stages, contents, strict=True):
        _pull_manifest(remote, stage, content)
    for marker in run.glob(f"*/{SPARSE}"):
        if marker.parent.name not in stages:  # it was removed there
            remove_folder(marker.parent)
    for path in run.glob(f"*/{MANIFEST}"):
        if path.parent.name not in stages:
            (run / _STATE / path.parent.name).unlink(missing_ok=True)
    with remote.explained("read"):
        for marker in sorted(run.glob(f"*/{SPARSE}")):
            _pull_files(remote.place, marker.parent, marker.parent.name, with_data=False)


def pull(run: Path, *stages: str) -> None:
    """Make stages of which a part is here whole."""
    if (remote := _remote_run(run)) is None:
        return
    with remote.explained("read"):
        for stage in stages:
            if (run / stage / SPARSE).exists():
                _pull_files(remote.place, run / stage, stage)
                (run / stage / SPARSE).unlink()
                log(f"{stage}: copied from {remote.place.url(stage)}")


def pull_partial(stage: Stage) -> None:
    """Copy the unfinished work of a resumable stage from the address, if that is more than here.

    Work of another plan comes only where there is none, to be refused or dropped as if it had been
    begun here. Checkpoints are left to pretraining, which takes the newest.
    """
    remote, partial = _remote_run(stage.folder.parent), stage.partial
    if remote is None or not stage.resumable:
        return
    with remote.explained("read"):
        sizes = {
            name: file.size
            for name, file in remote.place.files(partial.name).items()
            if not _is_data(name)
        }
        here = [partial.parent / name for name in sizes]
        if f"{partial.name}/{PLAN}" not in sizes or sum(sizes.values()) <= sum(
            path.stat().st_size for path in here if path.is_file()
        ):
            return
        plan = partial / PLAN
        theirs = remote.place.read(f"{partial.name}/{PLAN}")
        if plan.exists() and theirs != plan.read_bytes() and not stage.keyed:
            return
        log(f"{stage.name}: copying unfinished work from {remote.place.url(partial.name)}")
        temporary = partial.with_name(partial.name + FETCHED)
        shutil.rmtree(temporary, ignore_errors=True)
        remote.place.get_all({n: temporary / n.partition("/")[2] for n in sizes})
        shutil.rmtree(partial, ignore_errors=True)
        temporary.replace(partial)


def copy_stage(place: Folder, stage: str, target: Path) -> None:
    """Copy a finished stage of the run at an address; each file has its checksum.

    `ValueError` if it is not finished there, or damaged.
    """
    temporary = target.with_name(target.name + FETCHED)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        place.get_all({f"{stage}/{MANIFEST}": temporary / MANIFEST})
        _pull_files(place, temporary, stage)
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_manifest(name: str) -> bool:
    """Of a stage: no `.partial` and the like, and not of another run below this one."""
    stage, _, file = name.rpartition("/")
    is_stage = "/" not in stage and not stage.startswith(".") and not stage.endswith(".partial")
    return file == MANIFEST and stage != "" and is_stage


def _is_data(name: str) -> bool:
    """Whether a file of a stage is of the kind that only its next stage reads."""
    return _DATA.search(name) is not None


def _pull_manifest(remote: _RemoteRun, stage: str, content: bytes) -> None:
    folder, url = remote.folder / stage, remote.place.url(stage)
    try:
        there = parse_manifest(content, folder)["digest"]
    except ValueError:
        raise UserError(
            f"{url}/{MANIFEST} is damaged: remove it, and the stage is made again"
        ) from None
    here = read_manifest(folder)["digest"] if (folder / MANIFEST).exists() else None
    common = remote.common(stage)
    if here is not None and here != there:
        if there == common:  # changed here since: it is sent later
            return
        if here != common:
            raise UserError(
                f"{stage} differs here ({folder}) and at {url}: remove the one that you do not "
                "want to keep"
            )
    # of the same stage made twice, the same but for times, each side keeps its own
    if here != there:
        temporary = folder.with_name(stage + FETCHED)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        (temporary / SPARSE).touch()
        (temporary / MANIFEST).write_bytes(content)
        replace_folder(folder, temporary)
        log(f"{stage}: finished at {url}")
    remote.note(stage, there)


def _pull_files(place: Folder, folder: Path, stage: str, with_data: bool = True) -> None:
    """Copy files of a stage that are not here; each is whole under its name."""
    manifest = read_manifest(folder)
    files = manifest["files"]
    missing = [n for n in files if not (folder / n).exists() and (with_data or not _is_data(n))]
    if not missing:
        return
    num_bytes = sum(files[name]["bytes"] for name in missing)
    with Progress(f"fetching {stage}", num_bytes, "bytes") as progress:
        targets = {f"{stage}/{name}": folder / f"{name}.{os.getpid()}{FETCHED}" for name in missing}
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


@contextmanager
def remote_lock(folder: Path) -> Iterator[None]:
    """Be the only writer of a stage at its run's address; `ValueError` names another.

    To be called under the local lock of the stage.
    """
    if (remote := _remote_run(folder.parent)) is None:
        yield
        return
    local_id = _read_text(remote.folder / _STATE / _LOCAL_ID) or ""
    with ExitStack() as stack:
        with remote.explained("locked"):
            lock = lock_at(remote.place, folder.name, local_id, remote.break_lock)
            remote.checks[folder.name] = stack.enter_context(lock)
        try:
            yield
        finally:
            del remote.checks[folder.name]


def push_plan(stage: Stage, overwrite: bool) -> None:
    """Say at the address what the unfinished work is a part of.

    That of another plan is dropped with `overwrite`, else `ValueError`.
    """
    remote, below = _remote_run(stage.folder.parent), stage.partial.name
    if remote is None or not stage.resumable:
        return
    with remote.explained("written"):
        there = remote.place.files(below)
        if f"{below}/{PLAN}" in there:
            change = plan_difference(remote.place.read(f"{below}/{PLAN}"), stage)
            if change is None:
                return
            if not overwrite and not stage.keyed:
                raise other_work(remote.place.url(below), change)
        if there and (overwrite or not stage.keyed):
            remote.place.remove_folder(below, first=PLAN)
        remote.place.put(stage.partial / PLAN, f"{below}/{PLAN}")


def push_partial(partial: Path, at_once: bool = False) -> None:
    """Copy what is new in the folder of an unfinished stage; what lists others, at the top, last.

    At most every `PARTIAL_SECONDS` unless `at_once`. A failure is a warning: the work is safe here.
    Checkpoints are left to pretraining. `ValueError` if another writer has taken over.
    """
    if (remote := _remote_run(partial.parent)) is None:
        return
    now = time.monotonic()
    if not at_once and remote.last_sent is not None and now - remote.last_sent < PARTIAL_SECONDS:
        return
    try:
        if check := remote.checks.get(partial.name.removesuffix(".partial")):
            check()
        for path in sorted(partial.rglob("*"), key=lambda path: path.parent == partial):
            name = path.relative_to(partial.parent).as_posix()
            if not path.is_file() or path.suffix == ".tmp" or _is_data(name):
                continue
            version = path.stat().st_size, path.stat().st_mtime_ns
            if remote.sent.get(name) != version:
                remote.place.put(path, name)
                remote.sent[name] = version
    except ValueError:
        raise
    except Exception as error:  # each file system has errors of its own
        warn(f"{partial.name} could not be copied to {remote.place.address} ({error})")
    remote.last_sent = time.monotonic()


def push(folder: Path) -> None:
    """Put a finished stage at its run's address, unless it is there."""
    remote, stage = _remote_run(folder.parent), folder.name
    if remote is None or remote.is_known(stage):
        return
    if stage not in remote.checks:  # an upload that was cut off
        with stage_lock(folder), remote_lock(folder):
            return push(folder)
    manifest, start = read_manifest(folder), time.monotonic()
    with remote.explained("written"):
        remote.checks[stage]()
        sources = {name: folder / name for name in (*manifest["files"], MANIFEST)}
        num_bytes = remote.place.put_whole(stage, sources, last=MANIFEST)
        remote.note(stage, manifest["digest"])
        if remote.place.files(f"{stage}.partial"):
            remote.place.remove_folder(f"{stage}.partial", first=PLAN)
    seconds = duration(time.monotonic() - start)
    log(f"{stage}: {num_bytes / 1e6:,.1f} MB sent to {remote.place.url(stage)} in {seconds}")


def push_rewritten(folder: Path) -> None:
    """Put those files of a stage at its run's address that later verbs have written anew."""
    if (remote := _remote_run(folder.parent)) is None:
        return
    with remote.explained("written"):
        names = read_manifest(folder)["rewritten"]
        remote.place.put_all({f"{folder.name}/{name}": folder / name for name in names})


def push_report(run: Path) -> None:
    """Put the report of a run at its address."""
    if (remote := _remote_run(run)) is None:
        return
    with remote.explained("written"):
        remote.place.put_all({name: run / name for name in REPORTS if (run / name).is_file()})
    log(f"report: {remote.place.url(REPORTS[0])}")


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
