"""The peer: datatrove in an environment of its own, on the same documents."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.throughput.corpus import Prepared
from benchmarks.throughput.measure import Cost, run_measured
from electrify.progress import log

# datatrove hashes `str` with xxhash, which its version 4 refuses; its English tokenizer is spaCy's
REQUIREMENTS = ("datatrove[processing,io]==0.10.1", "spacy==3.8.18", "xxhash<4")
NAME = "datatrove 0.10.1"
TASKS = 16


@dataclass(frozen=True)
class PeerRun:
    """A finished run: its cost, wall seconds of its stages, and its output folder."""

    cost: Cost
    stage_seconds: dict[str, float]
    folder: Path


def install_peer(work: Path) -> Path:
    """The Python that has datatrove; made below `work`, or reused from an earlier run.

    Raises `ValueError` if it cannot be installed.
    """
    folder = work / "venv"
    python = folder / "bin" / "python"
    done = folder / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    log(f"installing {NAME} into {folder}")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS],
            check=True, capture_output=True,
        )  # fmt: skip
        subprocess.run(
            [str(python), "-c", "import datatrove.pipeline.dedup, spacy"],
            check=True, capture_output=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"{NAME} cannot be installed: {said[-1] if said else error}") from error
    done.write_text(wanted, encoding="utf-8")
    return python


def run_peer(python: Path, prepared: Prepared, work: Path, num_workers: int) -> PeerRun:
    """Deduplicate the documents; `ValueError` if the command fails."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    script = Path(__file__).with_name("peer_datatrove.py")
    command = [str(python), str(script), str(prepared.folder), str(work), str(TASKS)]
    cost = run_measured([*command, str(num_workers)], work / "log.txt")
    seconds = json.loads((work / "seconds.json").read_text(encoding="utf-8"))
    return PeerRun(cost, seconds, work)
