"""What a fresh machine needs lies at addresses that outlive it.

Copies of checkpoints: `pretrain.checkpoint_dir`. `<address>/checkpoint-<step>/` has the files of
the local checkpoint, and the metrics so far. Its `state.json` is put there last and taken away
first, so that a checkpoint is whole or not there. Vocabulary and shards: `pretrain.inputs_dir`.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from electrify.stage.folder import MANIFEST, read_manifest
from electrify.stage.plan import CHECKPOINT_STATE, METRICS, checkpoint_step, kept_steps
from electrify.storage.folder import RemoteFolder
from electrify.system.progress import log, warn
from model.train.checkpoint import FILES, check_identity, newest_sound, read_state

INPUTS = ("vocab", "shards")  # stage folders that pretraining reads
_FILE = re.compile(r"checkpoint-(\d+)/([^/]+)$")


def _open(option: str, url: str) -> RemoteFolder:
    try:
        return RemoteFolder(url)
    except ValueError as error:
        raise ValueError(f"pretrain.{option} = {error}") from None


class Mirror:
    """The checkpoints at an address: a folder, gs://, or any other that fsspec opens."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._place = _open("checkpoint_dir", url)
        # the folder, if it is one of this machine
        local = isinstance(self._place.files, LocalFileSystem)
        self.local = Path(self._place.root).resolve() if local else None

    def steps(self) -> dict[int, set[str]]:
        """The names of the files of every checkpoint, whole or not, by step in rising order."""
        found: dict[int, set[str]] = {}
        for match in filter(None, map(_FILE.fullmatch, self._place.list())):
            found.setdefault(int(match[1]), set()).add(match[2])
        return dict(sorted(found.items()))

    def whole(self) -> list[int]:
        """Steps of whole checkpoints, the newest first."""
        return [n for n, names in reversed(self.steps().items()) if CHECKPOINT_STATE in names]

    def put(self, checkpoint: Path, step: int) -> None:
        """Copy a local checkpoint and the metrics beside it."""
        self.remove(step)
        metrics = checkpoint.parent / METRICS
        sources = [p for p in sorted(checkpoint.iterdir()) if p.name != CHECKPOINT_STATE]
        sources += [metrics] if metrics.is_file() else []
        for source in [*sources, checkpoint / CHECKPOINT_STATE]:
            self._place.put(source, f"checkpoint-{step}/{source.name}")

    def remove(self, step: int) -> None:
        """Take a checkpoint away."""
        if step in self.steps():
            self._place.remove_folder(f"checkpoint-{step}", first=(CHECKPOINT_STATE,))

    def get(self, step: int, names: Iterable[str], target: Path) -> None:
        """Copy files of a checkpoint into a local folder."""
        for name in names:
            self._place.get(f"checkpoint-{step}/{name}", target / name)


def upload_checkpoint(checkpoint: Path, url: str, keep: int, keep_every: int | None = None) -> None:
    """Copy a checkpoint to the address; keep `kept_steps` there, drop any after this one.

    A failure is a warning: the checkpoint is safe here, and the next one is tried again.
    """
    step = checkpoint_step(checkpoint)
    try:
        mirror = Mirror(url)
        mirror.put(checkpoint, step)
        before = sorted(n for n in mirror.whole() if n < step)
        kept = kept_steps([*before, step], keep, keep_every)
        for other in mirror.steps().keys() - kept:
            mirror.remove(other)
    except Exception as error:  # each file system has errors of its own
        warn(
            f"{checkpoint.name} could not be copied to {url} ({type(error).__name__}: {error}); "
            "training goes on"
        )


def fetch_checkpoint(folder: Path, url: str, identity: Mapping[str, Any] | None = None) -> None:
    """Copy the newest sound checkpoint from the address if `folder` has none or only older ones.

    With it come the metrics, in place of those of the older ones. To be called by one process of a
    machine, before any loads. `ValueError` if the address cannot be read, or holds another run's
    checkpoints than `identity` says.
    """
    mirror = Mirror(url)
    if mirror.local in {folder.resolve(), folder.with_suffix("").resolve()}:
        raise ValueError(
            f"pretrain.checkpoint_dir = {url!r} is where the run keeps its checkpoints anyway: "
            "leave it out, or give a place that outlives this machine"
        )
    try:
        steps = mirror.whole()
    except Exception as error:  # each file system has errors of its own
        raise ValueError(
            f"pretrain.checkpoint_dir = {url!r} cannot be read ({type(error).__name__}: {error}): "
            "check the address, and the right to read and write there"
        ) from None
    newest = newest_sound(folder)
    for step in steps:
        if step <= newest:
            return
        target = folder / f"checkpoint-{step}"
        temporary = target.with_name(f"{target.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            mirror.get(step, (CHECKPOINT_STATE, *FILES), temporary)
            state = read_state(temporary)
        except Exception as error:  # damaged, or lost on the way
            warn(f"checkpoint-{step} in {url} is damaged ({error}); trying the one before")
            shutil.rmtree(temporary)
            continue
        if identity is not None:
            check_identity(state["identity"], identity, f"{url}/checkpoint-{step}")
        if METRICS in mirror.steps()[step]:
            mirror.get(step, (METRICS,), temporary)
            (temporary / METRICS).replace(folder / METRICS)
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        log(f"copied {target.name} from {url}")
        return


def fetch_inputs(run: Path, url: str) -> None:
    """Copy `vocab/` and `shards/` of the run at the address into the folder `run`.

    A folder that is there stays. To be called by one process of a machine. What was made from what
    is checked later, as for folders that were made here; `ValueError` if one cannot be copied.
    """
    place = _open("inputs_dir", url)
    for name in INPUTS:
        if (run / name).exists():
            continue
        log(f"copying {name} from {url}")
        temporary = run / f"{name}.fetched"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            _fetch_stage(place, name, temporary)
        except Exception as error:  # each file system has errors of its own
            shutil.rmtree(temporary, ignore_errors=True)
            raise ValueError(
                f"pretrain.inputs_dir = {url!r}: {name}/ cannot be copied from there "
                f"({type(error).__name__}: {error}): it must hold the finished {name}/ of a run; "
                "check the address, the right to read and the room on this disk"
            ) from None
        temporary.replace(run / name)


def _fetch_stage(place: RemoteFolder, stage: str, target: Path) -> None:
    target.mkdir(parents=True)
    place.get(f"{stage}/{MANIFEST}", target / MANIFEST)
    sizes = {name: entry["bytes"] for name, entry in read_manifest(target)["files"].items()}
    place.get_all({f"{stage}/{name}": target / name for name in sizes})
    for name, size in sizes.items():
        if (target / name).stat().st_size != size:
            raise ValueError(f"{name} is not whole there")
