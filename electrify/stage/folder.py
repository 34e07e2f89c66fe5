"""Stage folders: whole or not there at all, each with a manifest that says what made it.

A stage writes into `<folder>.partial`; `manifest.json` goes in last and the folder is renamed. A
manifest's `digest` covers the stage's config, its inputs' digests and the bytes of its files, not
times or versions: the same work done again has the same digest, and nothing after it is redone.

One process at a time writes a stage: it holds a lock file, which the system lifts when it dies. A
kill between the two renames that replace a folder leaves the old one under a name beside it;
whoever locks the stage next puts that back, or removes it.
"""

import errno
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import compress
from pathlib import Path
from typing import Any
from uuid import uuid4

from electrify.config.load import flatten
from electrify.config.removed import KEYS
from electrify.storage.files import inner_path, parse_json
from electrify.system.machine import git_commit, peak_memory_mb, versions
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

MANIFEST = "manifest.json"
_CHECKSUM = "manifest_sha256"
_TORN = re.compile(r"\.[0-9a-f]{32}\.tmp$")
PLAN = "plan.json"  # in a partial folder: what it is a part of
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Stage:
    """What a stage folder is made from; two equal stages make equal files.

    `config` holds the options that decide the result. `inputs` maps a name to a digest: of the
    manifest of an earlier stage (`input_digest`) or of raw files (`fingerprint`).
    """

    name: str  # the verb that makes it
    folder: Path
    config: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    resumable: bool = False  # a partial folder made from the same plan is continued
    volatile: tuple[str, ...] = ()  # patterns of files with clock times, left out of the digest
    rewritten: tuple[str, ...] = ()  # patterns of files that later verbs rewrite: not compared
    reads: Mapping[str, Path] = field(default_factory=dict)  # by verb: folders of stages before it
    keyed: bool = False  # its records say what made each: work of other plans is continued, too
    change: str | None = None  # why a finished folder is outdated, where the plan does not say it

    @property
    def partial(self) -> Path:
        """Where the stage is written until it is whole."""
        return self.folder.with_name(self.folder.name + ".partial")

    @property
    def plan(self) -> dict[str, Any]:
        return {"stage": self.name, "config": dict(self.config), "inputs": dict(self.inputs)}


def outdated(stage: Stage) -> str | None:
    """Why the folder has to be made: there is none, or the first difference of its manifest from
    the plan, or `change`. None if it is done."""
    if not stage.folder.exists():
        return f"no {stage.folder} yet"
    return difference(read_manifest(stage.folder), stage) or stage.change


def difference(plan: Mapping[str, Any], stage: Stage) -> str | None:
    """The first input or option in which a plan or manifest differs from the stage's plan, with
    both values of an option; None if they are equal, but for options that are gone since."""
    wanted = canonical(stage.plan)
    for name in sorted({*plan["inputs"], *wanted["inputs"]}):
        if plan["inputs"].get(name) != wanted["inputs"].get(name):
            return f"inputs {name} changed"
    before, after = dict(flatten(plan["config"])), dict(flatten(wanted["config"]))
    section = "vocab" if stage.name == "train-vocab" else stage.name
    names = {key: re.sub(r"\[\d+\]", "", f"{section}.{key}") for key in before.keys() - after}
    for key in sorted({*before, *after} - {key for key in names if names[key] in KEYS}):
        if before.get(key) != after.get(key):
            return f"config {key} changed from {before.get(key)!r} to {after.get(key)!r}"
    return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished stage folder; `UserError` if there is none or it is damaged."""
    try:
        return parse_manifest((folder / MANIFEST).read_bytes(), folder)
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {MANIFEST}: not a finished stage folder; remove it and run the "
            "stage again"
        ) from None


def parse_manifest(content: bytes, folder: object) -> dict[str, Any]:
    """The manifest from the bytes of its file; `folder` is a folder or an address, for messages."""
    path = f"{folder}/{MANIFEST}"
    try:
        manifest: dict[str, Any] = parse_json(content, path)
        if manifest.pop(_CHECKSUM) != digest_of(manifest):
            raise UserError("its checksum differs")
        for name in manifest["files"]:
            inner_path(Path(), name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error!r}); remove {folder} and run the stage again"
        ) from None
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a stage folder, with a checksum of its own."""
    value = canonical(dict(manifest))
    write_json(folder / MANIFEST, value | {_CHECKSUM: digest_of(value)})


def input_digest(folder: Path, verb: str) -> str:
    """The digest of a stage that the next one needs, with all its files. `verb` makes it."""
    recover(folder)
    if not folder.exists():
        raise UserError(f"no {folder}; run first: electrify {verb} CONFIG")
    manifest = read_manifest(folder)
    for name, entry in compared_files(manifest).items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            raise UserError(
                f"{path} is missing or has changed since it was made; remove {folder} and run "
                f"again: electrify {verb} CONFIG"
            )
    return str(manifest["digest"])


def compared_files(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the files that stay as they were written, by name."""
    rewritten = manifest.get("rewritten", ())
    return {name: entry for name, entry in manifest["files"].items() if name not in rewritten}


def check_files(folder: Path, verb: str) -> None:
    """`ValueError` unless each file of a finished stage is, byte for byte, what was written."""
    if changed := changed_files(folder):
        older = ", or train on from an older checkpoint there (pretrain.initial_model)"
        raise UserError(
            f"{folder / changed[0]} has changed since it was made: put the old file back, or "
            f"remove {folder} and run again: electrify {verb} CONFIG"
            f"{older * (verb == 'pretrain')}"
        )


def changed_files(folder: Path, most_bytes: float = math.inf) -> list[str]:
    """The files of a finished stage that are not what was written: of another size or, where all
    together have at most so many bytes, with another checksum."""
    files = compared_files(read_manifest(folder))
    reads = sum(entry["bytes"] for entry in files.values()) <= most_bytes

    def has_changed(name: str) -> bool:
        path, entry = folder / name, files[name]
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            return True
        return reads and bool(file_sha256(path) != entry["sha256"])

    with ThreadPoolExecutor() as threads:
        return list(compress(files, threads.map(has_changed, files)))


def fingerprint(path: str) -> str:
    """A digest of one raw input file: of its bytes if local, else of size and remote checksum."""
    if "://" not in path:
        return file_sha256(Path(path))
    import fsspec  # here: half of what listing runs would cost

    filesystem, inner = fsspec.core.url_to_fs(path)
    info = filesystem.info(inner)
    mark = next(
        (info[key] for key in ("md5Hash", "etag", "ETag", "mtime", "created") if key in info), ""
    )
    return hashlib.sha256(f"{info['size']} {mark}".encode()).hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: object) -> str:
    """SHA-256 of a JSON-able value, independent of key order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path, which is renamed to `path` at the end of the block, or removed if it fails.

    No other attempt has this temporary name, so a runner may do the same work twice at once.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # as where the disk is full
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, and on the disk before it has its name."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def remove_torn(paths: Iterable[Path]) -> None:
    """Remove what `whole_file` had begun when it was killed. Nobody may be writing there."""
    for path in list(paths):
        if _TORN.search(path.name):
            path.unlink()


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def open_partial(stage: Stage, overwrite: bool) -> None:
    """Make the partial folder, or resume the one that is there if it is of the same plan.

    `ValueError` if it is the resumable work of another plan, unless `overwrite`.
    """
    plan_path = stage.partial / PLAN
    if stage.partial.exists():
        if stage.resumable and plan_path.exists():
            change = plan_difference(plan_path.read_bytes(), stage)
            if change is None or (stage.keyed and not overwrite):  # overwrite drops other plans'
                log(f"{stage.name}: resuming {stage.partial}")
                write_json(plan_path, canonical(stage.plan))
                remove_torn(stage.partial.rglob("*.tmp"))
                return
            if not overwrite:
                raise other_work(stage.partial, change)
        # the plan first: without it nobody resumes what a kill leaves of the folder
        plan_path.unlink(missing_ok=True)
        shutil.rmtree(stage.partial)
    stage.partial.mkdir(parents=True)
    write_json(plan_path, canonical(stage.plan))


def plan_difference(content: bytes, stage: Stage) -> str | None:
    """`difference` to the stage's plan of what stands in a `plan.json`."""
    try:
        return difference(parse_json(content, PLAN), stage)
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"its {PLAN} cannot be read"


def other_work(folder: object, change: str) -> UserError:
    return UserError(
        f"{folder} is the unfinished work of another config or other inputs: {change}. Give the "
        "run another output_dir, or `overwrite` to drop that work"
    )


def finish_partial(stage: Stage, counts: Mapping[str, Any], seconds: float) -> None:
    """Write the manifest of the partial folder, which is whole with it."""
    apart = {stage.partial / PLAN, stage.partial / MANIFEST}
    paths = sorted(p for p in stage.partial.rglob("*") if p.is_file() and p not in apart)
    names = [p.relative_to(stage.partial).as_posix() for p in paths]
    files = {
        name: {"bytes": p.stat().st_size, "sha256": file_sha256(p)}
        for name, p in zip(names, paths, strict=True)
    }
    plan = canonical(stage.plan)
    hashes = {
        name: entry["sha256"]
        for name, entry in files.items()
        if not any(fnmatch(name, pattern) for pattern in stage.volatile)
    }
    manifest = plan | {
        "digest": digest_of([plan, hashes]),
        "counts": dict(counts),
        "files": files,
        "rewritten": [n for n in files if any(fnmatch(n, pattern) for pattern in stage.rewritten)],
        "versions": versions(),
        "git_commit": git_commit(),
        "seconds": round(seconds, 3),
        "peak_memory_mb": peak_memory_mb(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_manifest(stage.partial, manifest)


def put_in_place(stage: Stage) -> None:
    """Give the whole partial folder its name; with --overwrite the old folder goes only then."""
    replace_folder(stage.folder, stage.partial)
    # last: without it a stage stopped while its files are hashed would start afresh
    (stage.folder / PLAN).unlink(missing_ok=True)


def canonical(value: Any) -> Any:
    """As JSON reads it back: tuples become lists."""
    return json.loads(json.dumps(value))


# --- one writer -----------------------------------------------------------------------------------


class StageHeldError(UserError):
    """Another process has the lock of a stage folder."""


@contextmanager
def stage_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a stage folder for as long as the block runs.

    `StageHeldError` names the holder if another process has it. A file system without locks gets a
    warning.
    """
    from filelock import FileLock, Timeout  # here: it costs help half of its time

    path = lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        holder = ""
        with suppress(OSError):  # it may be released just now
            holder = path.read_text(encoding="utf-8", errors="replace")
        raise StageHeldError(
            f"{folder} is being written by {holder or 'another process'}. Wait for it or stop it; "
            "or give this run another output_dir"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        warn(f"{path.parent} is on a file system without locks: let no second run write there")
    try:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:100]
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        holder = f"process {os.getpid()} on {socket.gethostname()} ({command}), since {since}"
        path.write_text(holder, encoding="utf-8")
        _recover(folder)
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is released: who waits looks whether it is there
        lock.release()


def lock_path(folder: Path) -> Path:
    """The file beside a stage folder that its writer holds."""
    return folder.with_name(f".{folder.name}.lock")


def recover(folder: Path) -> None:
    """Mend what a killed writer of a stage folder left: its lock file, a replacement half done.

    Nothing happens where another process holds the lock.
    """
    if any(map(os.path.lexists, (lock_path(folder), _old(folder)))):
        # UserError: it has a holder; OSError: the run may be read but not written
        with suppress(UserError, OSError), stage_lock(folder):
            pass


def replace_folder(folder: Path, new: Path) -> None:
    """Give a whole folder the name of a stage folder; the one that has it goes.

    The stage is whole at every instant, but between two renames, which `recover` takes back.
    """
    _recover(folder)
    if os.path.lexists(folder):
        folder.replace(_old(folder))
    new.replace(folder)
    _recover(folder)


def _old(folder: Path) -> Path:
    """Where the whole old folder waits until the new one has its name."""
    return folder.with_name(f".{folder.name}.old")


def _recover(folder: Path) -> None:
    old = _old(folder)
    if not os.path.lexists(old):
        return
    if not os.path.lexists(folder) and (old / MANIFEST).exists():
        old.replace(folder)
    elif old.is_symlink():  # to a folder on another disk, which stays
        old.unlink()
    else:
        (old / MANIFEST).unlink(missing_ok=True)  # first: what is left of it counts for nothing
        shutil.rmtree(old)
