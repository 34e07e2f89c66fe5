"""Near-duplicate removal beside datatrove: what it costs.

Every run is a process of its own; datatrove is in an environment of its own.
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
from tools.throughput.cost import CHECKOUT, run_measured
from tools.throughput.report import Report
from tools.throughput.texts import prepare, rules_off
from tools.throughput.turns import Code, Costs, take_turns

# datatrove hashes `str` with xxhash, which its version 4 refuses
_REQUIREMENTS = ("datatrove[processing,io]==0.10.1", "xxhash<4")
PEER = "datatrove 0.10.1"
_PACKAGES = ("apache-beam", "numpy", "scipy", "pyarrow", "xxhash", "orjson")
_MEANING = f"""
Both read the same files and write what is left and what was removed; no other part of the graph is
on. {PEER}: as many bands and rows as [clean.near_dedup] has by default, runs of letters and digits
as words; it joins all that share a band, where electrify also compares them. Costs are of all
processes with their start.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    peer: Annotated[bool, "measure datatrove, too, which is installed below --work"] = False
    data_dir: Annotated[Path | None, "folder with corpora/; without, made-up texts"] = None
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput")
    corpora: Annotated[tuple[str, ...], "languages below it, or files as ko/laws"] = ("ko", "en")
    megabytes: Annotated[PositiveFloat | None, "of JSON Lines, spread evenly"] = None
    workers: Annotated[PositiveInt, "processes of the peer"] = 2


def measure(settings: Settings) -> Report:
    """Run everything asked for; `UserError` if there are no data or a run fails."""
    work = settings.work.resolve()
    prepared = prepare(work / "input", settings.data_dir, settings.corpora, settings.megabytes)
    megabytes = prepared.num_bytes / 1e6
    code = Code("electrify", CHECKOUT, work / "near")
    code.write_config(prepared, rules_off() | {"exact_dedup": False, "line_dedup.enabled": False})

    def electrify() -> Costs:
        return {"near duplicates": (code.run("clean", "clean"), megabytes)}

    runs = {"electrify": electrify}
    if settings.peer:
        python, bands = _install_peer(work / "venv"), NearDedupConfig()
        output = work / "peer"

        def datatrove() -> Costs:
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            script = Path(__file__).with_name("datatrove_peer.py")
            task = prepared.folder, output, bands.num_bands, bands.rows_per_band, settings.workers
            command = [str(python), str(script), *map(str, task)]
            return {"near duplicates": (run_measured(command, output / "log.txt"), megabytes)}

        runs[PEER] = datatrove
    report = Report("Near-duplicate removal", _PACKAGES, prepared.conditions())
    report.add("systems", "Systems", _MEANING, take_turns(runs, 1))
    return report


def _install_peer(folder: Path) -> Path:
    """The Python that has datatrove, made in `folder` or reused; `UserError` if it cannot be."""
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
