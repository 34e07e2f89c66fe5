"""The corpus stage beside datatrove: what it costs.

Every run of `electrify clean` is a process of its own; datatrove is in an environment of its own.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from electrify.config.clean import NearDedupConfig
from electrify.system.outcome import UserError
from electrify.system.progress import log
from tools.throughput.cost import run_measured
from tools.throughput.report import Report
from tools.throughput.texts import prepare, rules_off, run_electrify, write_config

# datatrove hashes `str` with xxhash, which its version 4 refuses
_REQUIREMENTS = ("datatrove[processing,io]==0.10.1", "xxhash<4")
PEER = "datatrove 0.10.1, near duplicates"
_NO_STATISTICS = {"keep_statistics": False}
_PACKAGES = ("apache-beam", "numpy", "scipy", "pyarrow", "xxhash", "orjson", "ftfy")
_MEANING = f"""
All runs read the same files and write what is left and what was removed. Near duplicates: no other
part of the graph is on. {PEER}: as many bands and rows as [clean.near_dedup] has by default, runs
of letters and digits as words; it joins all that share a band, where electrify also compares them.
Whole graph: every rule, exact, line and near deduplication, no decontamination; "without
statistics" is `clean.keep_statistics = false`, which near duplicates have, too. Costs are of all
processes with their start; memory is the largest sum of proportional set sizes, sampled twice a
second. Times as fast: CPU seconds.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    peer: Annotated[bool, "measure datatrove, too, which is installed below --work"] = False
    data_dir: Annotated[Path | None, "folder with corpora/; without, made-up texts"] = None
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput")
    corpora: Annotated[tuple[str, ...], "languages below it, or files as ko/laws"] = ("ko", "en")
    megabytes: Annotated[PositiveFloat | None, "of JSON Lines, spread evenly"] = None
    workers: Annotated[PositiveInt, "processes of the whole graph and of the peer"] = 2


def measure(settings: Settings) -> Report:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    work, many = settings.work.resolve(), settings.workers
    texts = settings.data_dir, settings.corpora, settings.megabytes
    prepared = prepare(work / "input", *texts)
    log("near-duplicate removal alone")
    clean = rules_off() | {"exact_dedup": False, "line_dedup.enabled": False} | _NO_STATISTICS
    near = run_electrify("clean", write_config(prepared, work / "near", clean))
    rows = [near.row("electrify, near duplicates", prepared.num_bytes)]
    if settings.peer:
        log(f"the same by {PEER}")
        python = _install_peer(work / "venv")
        output = work / "peer"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        bands = NearDedupConfig()
        task = prepared.folder, output, bands.num_bands, bands.rows_per_band, many
        script = Path(__file__).with_name("datatrove_peer.py")
        cost = run_measured([str(python), str(script), *map(str, task)], output / "log.txt")
        rows.append(cost.row(PEER, prepared.num_bytes, near))
    mode = "multi_processing" if many > 1 else "in_memory"
    beam = f"--direct_running_mode={mode}", f"--direct_num_workers={many}"
    for name, options in (("", {}), (" without statistics", _NO_STATISTICS)):
        log(name := f"electrify, whole graph{name}, {many} process(es)")
        config = write_config(prepared, work / "whole", {"exact_dedup": True} | options)
        rows.append(run_electrify("clean", config, "--", *beam).row(name, prepared.num_bytes))
    report = Report("The corpus stage", _PACKAGES, prepared.conditions())
    report.add("systems", "Systems", _MEANING, rows)
    return report


def _install_peer(folder: Path) -> Path:
    """The Python that has datatrove, made in `folder` or reused; `ValueError` if it cannot be."""
    python = folder / "bin" / "python"
    check = [str(python), "-c", "import datatrove.pipeline.dedup"]
    if python.exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return python
    log(f"installing {_REQUIREMENTS[0]} into {folder}")
    install = [str(python), "-m", "pip", "install", "--quiet", *_REQUIREMENTS]
    try:
        for command in ([sys.executable, "-m", "venv", str(folder)], install, check):
            subprocess.run(command, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise UserError(f"datatrove cannot be installed: {said[-1] if said else error}") from error
    return python
