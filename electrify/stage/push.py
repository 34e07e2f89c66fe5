"""From a run's local folder to its address: finished stages, unfinished work, the report.

A stage's manifest is the last of its files to go up and the first to be taken away, so that it is
whole there or not there. What is there with the same checksum is not sent.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from electrify.stage.folder import MANIFEST, PLAN, Stage, other_work, plan_difference, read_manifest
from electrify.stage.remote import RemoteRun, is_data, remote_run, version_of
from electrify.storage.folder import RemoteFile, is_same
from electrify.storage.lock import lock
from electrify.system.progress import duration, log, warn

PARTIAL_SECONDS = 30.0  # between two copies of an unfinished evaluation
REPORTS = ("report.html", "report.md", "report.json")
_TRIES = 3  # of files that are not there as they were sent


@contextmanager
def remote_lock(folder: Path) -> Iterator[None]:
    """Be the only writer of a stage at its run's address; `ValueError` names another."""
    if (remote := remote_run(folder.parent)) is None:
        yield
        return
    with remote.explained("locked"):
        held = lock(remote.place, folder.name)
    remote.locks[folder.name] = held
    try:
        yield
    finally:
        del remote.locks[folder.name]
        held.release()


def push_plan(stage: Stage, overwrite: bool) -> None:
    """Say at the address what the unfinished work is a part of.

    That of another plan is dropped with `overwrite`, else `ValueError`.
    """
    remote = remote_run(stage.folder.parent)
    if remote is None or not stage.resumable:
        return
    with remote.explained("written"):
        name = f"{stage.partial.name}/{PLAN}"
        there = remote.place.list(stage.partial.name)
        if name in there:
            change = plan_difference(remote.place.read(name), stage)
            if change is None:
                return
            if not overwrite and not stage.keyed:
                raise other_work(remote.place.url(stage.partial.name), change)
        if there and (overwrite or not stage.keyed):
            remote.place.remove_folder(stage.partial.name, first=(PLAN,))
        remote.place.put(stage.partial / PLAN, name)


def push_partial(partial: Path, at_once: bool = False) -> None:
    """Copy what is new in the folder of an unfinished stage; what lists others, at the top, last.

    At most every `PARTIAL_SECONDS` unless `at_once`. A failure is a warning: the work is safe here.
    Checkpoints are left to pretraining. `ValueError` if another writer has taken over.
    """
    if (remote := remote_run(partial.parent)) is None:
        return
    now = time.monotonic()
    if not at_once and remote.last_sent is not None and now - remote.last_sent < PARTIAL_SECONDS:
        return
    if held := remote.locks.get(partial.name.removesuffix(".partial")):
        held.check()
    try:
        for path in sorted(partial.rglob("*"), key=lambda path: path.parent == partial):
            name = path.relative_to(partial.parent).as_posix()
            if not path.is_file() or path.suffix == ".tmp" or is_data(name):
                continue
            version = version_of(path)
            if remote.sent.get(name) != version:
                remote.place.put(path, name)
                remote.sent[name] = version
    except Exception as error:  # each file system has errors of its own
        warn(f"{partial.name} could not be copied to {remote.place.address} ({error})")
    remote.last_sent = time.monotonic()


def push(folder: Path) -> None:
    """Put a finished stage at its run's address, unless it is there."""
    remote, stage = remote_run(folder.parent), folder.name
    if remote is None or remote.is_known(stage):
        return
    if stage not in remote.locks:  # an upload that was cut off
        with remote_lock(folder):
            return push(folder)
    remote.locks[stage].check()
    with remote.explained("written"):
        _push_stage(remote, stage)
        if remote.place.list(f"{stage}.partial"):
            remote.place.remove_folder(f"{stage}.partial", first=(PLAN,))
    return None


def push_rewritten(folder: Path) -> None:
    """Put those files of a stage at its run's address that later verbs have written anew."""
    if (remote := remote_run(folder.parent)) is None:
        return
    with remote.explained("written"):
        there, names = remote.place.list(folder.name), read_manifest(folder)["rewritten"]
        paths = {f"{folder.name}/{name}": folder / name for name in names}
        new = {n: p for n, p in paths.items() if n not in there or not is_same(there[n], p)}
        remote.place.put_all(new)


def push_report(run: Path) -> None:
    """Put the report of a run at its address."""
    if (remote := remote_run(run)) is None:
        return
    with remote.explained("written"):
        remote.place.put_all({n: run / n for n in REPORTS if (run / n).is_file()})
    log(f"report: {remote.place.url(REPORTS[0])}")


def _push_stage(remote: RemoteRun, stage: str) -> None:
    folder, manifest = remote.folder / stage, f"{stage}/{MANIFEST}"
    files = {name: (folder / name).stat().st_size for name in read_manifest(folder)["files"]}
    start, num_bytes = time.monotonic(), 0
    for number in range(_TRIES):
        there = remote.place.list(stage)
        wrong = [n for n in files if not _is_sent(remote, f"{stage}/{n}", there)]
        stray = [n for n in there if n != manifest and n.removeprefix(f"{stage}/") not in files]
        if not wrong and not stray and number:
            break
        if manifest in there:  # it is of other files
            remote.place.remove(manifest)
        for name in stray:
            remote.place.remove(name)
        remote.place.put_all({f"{stage}/{name}": folder / name for name in wrong})
        for name in wrong:
            remote.sent[f"{stage}/{name}"] = version_of(folder / name)
            num_bytes += files[name]
    else:
        raise ValueError(
            f"{remote.place.url(stage)}: files are not there as they were sent, however often; is "
            "another program writing there?"
        )
    remote.place.put(folder / MANIFEST, manifest)
    remote.note(stage)
    seconds = duration(time.monotonic() - start)
    log(f"{stage}: {num_bytes / 1e6:,.1f} MB sent to {remote.place.url(stage)} in {seconds}")


def _is_sent(remote: RemoteRun, name: str, there: Mapping[str, RemoteFile]) -> bool:
    """Whether a file is there as it is here.

    Where the service tells no checksums, what this process has sent is believed by its size.
    """
    file, path = there.get(name), remote.folder / name
    if file is None or file.size != path.stat().st_size:
        return False
    return remote.sent.get(name) == version_of(path) if file.md5 is None else is_same(file, path)
