"""Kill a run at random moments and start it again: it must end as one that nobody killed.

A round is one signal: in four of five SIGKILL to the whole process group, else SIGTERM, which must
end with status 143. A moment is a random time within a stage, or that a file begins to be written
there; the end of the stage at the latest.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.torture.compare import differences, unsound
from benchmarks.torture.demo import STAGES, arguments, start
from electrify.stage.folder import MANIFEST, read_manifest
from electrify.system.progress import Progress, log

SIGTERM_FRACTION = 0.2
FILE_FRACTION = 0.5  # of the rounds wait for a file, the others for a time
MAX_SIGNALS_A_STAGE = 2  # of one run
MAX_SECONDS = 600.0  # of one start
REPORT = "report"
_POLL_SECONDS = 0.0005
# what begins to be written, by stage; the moment it is seen is the moment of the signal
WRITTEN: Mapping[str, tuple[str, ...]] = {
    "clean": ("clean.partial/*.parquet", "clean.partial/manifest.json.*"),
    "vocab": ("vocab.partial/*.json*", "vocab.partial/manifest.json.*"),
    "shards": ("shards.partial/*/*/*.npy", "shards.partial/manifest.json.*"),
    "pretrain": ("pretrain.partial/checkpoint-*.tmp", "pretrain.partial/manifest.json.*"),
    "export": ("export.partial/*/*.safetensors", "export.partial/manifest.json.*"),
    "evaluate": ("evaluate.partial/predictions/*/*", "evaluate.partial/manifest.json.*"),
    REPORT: ("report.*.tmp",),
}


@dataclass(frozen=True)
class Moment:
    """When a signal is sent: in `stage`, after `seconds`, or when `pattern` is there."""

    stage: str
    seconds: float
    pattern: str | None
    signal: signal.Signals


@dataclass
class KillFigures:
    """What was done and found."""

    num_runs: int = 0  # finished ones
    num_starts: int = 0
    signals: Counter[str] = field(default_factory=Counter)  # sent, by stage and signal
    caught_writing: Counter[str] = field(default_factory=Counter)  # the awaited file half written
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def num_signals(self) -> int:
        """Rounds done."""
        return sum(self.signals.values())

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "num_runs": self.num_runs,
            "num_starts": self.num_starts,
            "signals": dict(self.signals),
            "caught_writing": dict(self.caught_writing),
            "faults": self.faults,
            "seconds": round(self.seconds, 1),
        }


def torture_by_kills(rounds: int, seed: int, work: Path) -> KillFigures:
    """Send `rounds` signals to runs in the folder `work`, which is emptied of earlier ones."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    figures, rng, begin = KillFigures(), random.Random(seed), time.monotonic()
    undisturbed = work / "undisturbed"
    log(f"kill: one run that nobody kills, in {undisturbed}")
    _finish(undisturbed, figures)
    seconds = {stage: read_manifest(undisturbed / stage)["seconds"] for stage in STAGES}
    with Progress("kill", rounds, "signals") as progress:
        while figures.num_signals < rounds:
            run, num_faults = work / f"run-{figures.num_runs}", len(figures.faults)
            for stage in (*STAGES, REPORT):
                for _ in range(rng.randint(0, MAX_SIGNALS_A_STAGE)):
                    if figures.num_signals == rounds or _is_made(run, stage):
                        break
                    _start_until(run, _moment(stage, seconds, rng), figures)
                    progress.update(figures.num_signals - progress.done, note=stage)
            _finish(run, figures)  # what the last signal left, or nothing to do
            figures.faults += [f"{run.name}: {what}" for what in differences(undisturbed, run)]
            if num_faults == len(figures.faults):
                shutil.rmtree(run)
    figures.seconds = time.monotonic() - begin
    return figures


def _moment(stage: str, seconds: Mapping[str, float], rng: random.Random) -> Moment:
    number = signal.SIGTERM if rng.random() < SIGTERM_FRACTION else signal.SIGKILL
    pattern = rng.choice(WRITTEN[stage]) if rng.random() < FILE_FRACTION else None
    return Moment(stage, rng.uniform(0, seconds.get(stage, 1.0)), pattern, number)


def _start_until(run: Path, moment: Moment, figures: KillFigures) -> None:
    """Start the run and signal it at the moment, unless it was finished before that came."""
    stages_before = _finished(run)
    process = start(arguments("run", run), _log_of(run))
    figures.num_starts += 1
    if not _await(run, moment, process):
        _note_end(run, process, figures)
        return
    if moment.pattern and "tmp" in "".join(p.name for p in run.glob(moment.pattern)):
        figures.caught_writing[moment.stage] += 1
    figures.signals[f"{moment.stage} {moment.signal.name}"] += 1
    group = process.pid
    (os.killpg if moment.signal == signal.SIGKILL else os.kill)(group, moment.signal)
    process.wait(timeout=MAX_SECONDS)
    if moment.signal == signal.SIGTERM:
        _note_end(run, process, figures, {0, 128 + signal.SIGTERM})  # 0: it came as the run ended
    after = _finished(run)
    for stage, stamp in stages_before.items():
        if after.get(stage) != stamp:
            figures.faults.append(f"{run.name}: {stage} was finished and has been made again")
    figures.faults += [f"{run.name}: {what}" for what in unsound(run)]


def _await(run: Path, moment: Moment, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the moment; False if the process ends before."""
    partial = run / f"{moment.stage}.partial"
    report_begins = run / "evaluate" / MANIFEST
    deadline, until = time.monotonic() + MAX_SECONDS, None
    there = set(run.glob(moment.pattern)) if moment.pattern else set()
    while process.poll() is None:
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise ValueError(f"{run}: no end after {MAX_SECONDS:.0f} s; it hangs")
        if moment.pattern is not None:
            if set(run.glob(moment.pattern)) - there or _is_made(run, moment.stage):
                return True
        elif until is None:
            if partial.exists() or (moment.stage == REPORT and report_begins.exists()):
                until = time.monotonic() + moment.seconds
        elif time.monotonic() >= until or _is_made(run, moment.stage):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _is_made(run: Path, stage: str) -> bool:
    place = run / "report.html" if stage == REPORT else run / stage / MANIFEST
    return place.exists()


def _finish(run: Path, figures: KillFigures) -> None:
    process = start(arguments("run", run), _log_of(run))
    figures.num_starts += 1
    _note_end(run, process, figures)
    if not (run / "report.html").read_text(encoding="utf-8").endswith("</html>\n"):
        figures.faults.append(f"{run.name}: report.html is cut off")
    figures.num_runs += 1


def _note_end(
    run: Path,
    process: subprocess.Popen[bytes],
    figures: KillFigures,
    expected: Collection[int] = (0,),
) -> None:
    status = process.wait(timeout=MAX_SECONDS)
    printed = _log_of(run).read_text(encoding="utf-8", errors="replace")
    # before the first line of the log the interpreter has no handler yet, and nothing is begun
    if status not in expected and (status != -signal.SIGTERM or printed):
        figures.faults.append(f"{run.name}: status {status}: {printed[-2000:]}")


def _log_of(run: Path) -> Path:
    return run.with_name(f"{run.name}.log")


def _finished(run: Path) -> dict[str, int]:
    return {
        stage: (run / stage / MANIFEST).stat().st_mtime_ns
        for stage in STAGES
        if (run / stage / MANIFEST).exists()
    }
