"""A stage is run once: where its folder is not made already, under its lock, from sound inputs."""

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from electrify.stage.folder import (
    MANIFEST,
    PLAN,
    Stage,
    canonical,
    changed_files,
    check_files,
    finish_partial,
    open_partial,
    outdated,
    put_in_place,
    recover,
    stage_lock,
    write_json,
)
from electrify.stage.remote import SENT, claim, is_sent, push, take_over, withdraw
from electrify.system.outcome import NO_ROOM, UserError
from electrify.system.progress import Stopped, log

_CHECKED_BYTES = 2_000_000_000  # of a folder that is read before it is called done: a second or two
# of errors of writing Arrow does not say of what file, numpy only how much
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
# safetensors and tokenizers, written in Rust, raise errors of their own that tell it in words
_IN_RUST = re.compile(r"\(os error (\d+)\)")


def run_stage(
    stage: Stage, work: Callable[[Path], Mapping[str, Any]], overwrite: bool = False
) -> bool:
    """Run `work(partial_folder)` unless the folder is already made from the same plan.

    `work` writes the files and returns counts for the manifest. True if it ran. `UserError` where
    a finished folder was made from another plan (unless `overwrite`), where another process writes
    it, and where a file of `stage.reads` has changed. Of a run at an address (`open_run`), what is
    made goes there.
    """
    recover(stage.folder)
    if _reason(stage, overwrite) is None and is_sent(stage.folder):
        return False
    with stage_lock(stage.folder):
        take_over(stage.folder)
        reason = _reason(stage, overwrite)  # another has made it, or an upload was cut off
        if reason is not None:
            log(f"{stage.name}: {reason}")
            for verb, folder in stage.reads.items():
                check_files(folder, verb)
            if stage.keyed and not overwrite:
                _reopen(stage)
            open_partial(stage, overwrite)
            claim(stage, overwrite)
            start = time.monotonic()
            with _named_errors(stage.partial):
                counts = work(stage.partial)
            finish_partial(stage, counts, time.monotonic() - start)
            withdraw(stage.folder)
            put_in_place(stage)
            log(f"{stage.name}: finished {stage.folder}")
        push(stage.folder)
    return reason is not None


def _reopen(stage: Stage) -> None:
    """Let a finished folder be the partial one, for further records. A kill leaves either, and at
    the run's address the finished stage."""
    if (stage.folder / MANIFEST).exists() and not stage.partial.exists():
        write_json(stage.folder / PLAN, canonical(stage.plan))
        (stage.folder / SENT).unlink(missing_ok=True)
        stage.folder.replace(stage.partial)


@contextmanager
def _named_errors(folder: Path) -> Iterator[None]:
    """Let errors of writing have their number and a place: libraries leave them out."""
    try:
        yield
    except (ValueError, Stopped):
        raise
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            error.filename = str(folder)
        elif _SHORT_WRITE.search(str(error)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise
    except Exception as error:
        if match := _IN_RUST.search(str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), str(folder)) from error
        raise


def _reason(stage: Stage, overwrite: bool) -> str | None:
    """Why the stage has to run; None if it is done, with all its files as they were written.

    `UserError` where a finished folder is of another plan or damaged, unless `overwrite`. Records
    that a keyed stage lacks are made again.
    """
    reason = outdated(stage)
    if reason is not None:
        if stage.folder.exists() and not (overwrite or stage.keyed):
            raise UserError(
                f"{stage.folder} was made from another config or other inputs: {reason}. Give the "
                "run another output_dir, or `overwrite` to make the stage again"
            )
        return reason
    changed = changed_files(stage.folder, _CHECKED_BYTES)
    records = [n for n in changed if stage.keyed and any(fnmatch(n, p) for p in stage.volatile)]
    if stage.keyed:  # kept networks that somebody removed to make room are no loss of records
        changed = [n for n in changed if n in records or (stage.folder / n).exists()]
    if changed:
        reason = f"{stage.folder / changed[0]} has changed since it was made"
        if not (overwrite or changed == records):
            raise UserError(
                f"{reason}: put the old file back, or `overwrite` to make the stage again"
            )
        return reason
    again = "; remove it to make it again" if overwrite else ""
    log(f"{stage.name}: done already, {stage.folder} (same config and inputs){again}")
    return None
