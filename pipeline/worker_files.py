"""Whether the workers of a Beam runner can open the files of a run.

Workers on other machines share with this one addresses (gs://bucket/...) and network mounts.
"""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from electrify.config.names import runner_name
from electrify.config.run import RunConfig
from electrify.system.outcome import UserError

_HERE = (
    *("local", "BundleBasedDirectRunner", "DirectRunner", "FnApiRunner", "InteractiveRunner"),
    *("PrismRunner", "SwitchingDirectRunner", "TestDirectRunner"),
)
_OPTIONS = (
    *("--runner", "--environment_type", "--environment_config"),
    *("--flink_master", "--spark_master_url", "--job_endpoint"),
)
_HOST = re.compile(r"^\w+://|:\d+/?$")  # what is no host of an address
# the last ones: Beam starts the engine itself
_THIS_HOST = re.compile(r"localhost|127\.0\.0\.1|\[::1\]||embed|\[auto\]|\[local\]|local\[.+\]")
_LOOPBACK = ". If the workers run on this machine, add -- --environment_type=LOOPBACK"
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\(\d{3})")  # a space in a mount's path
_NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "nfs"),
    *("nfs4", "ocfs2", "orangefs", "panfs", "smb3", "virtiofs", "wekafs"),
)


def check_worker_files(config: RunConfig, beam_options: Sequence[str], verb: str) -> None:
    """`ValueError` names each path that the verb's workers must open and cannot.

    `config` is as `open_run` gives it. Raises `ValueError` for an unknown runner, too.
    """
    options = _parse(beam_options)
    runner = runner_name(options.runner or config.beam.runner)
    is_dataflow = "Dataflow" in runner  # which knows no other place
    if runner in _HERE or (_are_workers_here(options) and not is_dataflow):
        return
    unseen = {key: path for key, path in _paths(config, verb).items() if not _is_shared(path)}
    if not unseen:
        return
    listed = "; ".join(f"{key} = {path!r}" if path else f"no {key}" for key, path in unseen.items())
    here = "" if is_dataflow else _LOOPBACK
    raise UserError(
        f"the workers of {runner} do not see the disk of this machine: {listed}. Give an address, "
        f"such as gs://bucket/folder, or a folder of a network mount that every worker has{here}"
    )


def _paths(config: RunConfig, verb: str) -> Mapping[str, str | None]:
    """What workers open, by its key in the config."""
    paths: dict[str, str | None] = {}
    if verb in ("clean", "run", "ablate"):
        for index, source in enumerate(config.clean.sources):
            if source.kind != "huggingface" or Path(source.path).expanduser().is_dir():
                paths[f"clean.sources[{index}].path"] = source.path
    if config.beam.work_dir is not None or not _is_shared(config.output_dir):
        paths["beam.work_dir"] = config.beam.work_dir  # else they work in output_dir
    return paths


def _are_workers_here(options: argparse.Namespace) -> bool:
    """Whether all workers run on this machine; a pool at localhost is one on each cluster host."""
    if options.environment_type == "EXTERNAL":
        cluster = (options.flink_master, options.spark_master_url, options.job_endpoint)
        return all(_is_here(address) for address in (options.environment_config, *cluster))
    return bool(options.environment_type == "LOOPBACK")


def _is_here(address: str) -> bool:
    return _THIS_HOST.fullmatch(_HOST.sub("", address)) is not None


def _parse(beam_options: Sequence[str]) -> argparse.Namespace:
    """What Beam's options say of the workers; Beam itself is not imported for it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in _OPTIONS:
        parser.add_argument(name, nargs="?", const="", default="")  # Beam refuses a missing value
    return parser.parse_known_args([word for word in beam_options if word != "--"])[0]


def _is_shared(path: str | None) -> bool:
    """Whether a path is an address, or on a network mount of this machine."""
    if path is None:
        return False
    protocol, separator, place = path.partition("://")
    if separator and protocol not in ("file", "local"):
        return True
    folder = os.path.realpath(Path(place if separator else path).expanduser())
    return _file_system(folder).partition(".")[0] in _NETWORK


def _file_system(folder: str) -> str:
    """The type of the mount that holds a path; "" where the system does not tell."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    mounts = {}
    for line in lines:
        mount, kind = line.split(" - ")
        point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), mount.split()[4])
        mounts[point.rstrip("/")] = kind.split()[0]
    holders = [point for point in mounts if f"{folder}/".startswith(f"{point}/")]
    return mounts[max(holders, key=len)] if holders else ""
