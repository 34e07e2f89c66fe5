"""Flip bytes of a run's files: whoever reads them next must say so, or come to the same result.

A round damages one file of one sort, a few flipped bits, a piece cut off its end or zeros in the
middle, and runs the command that reads it. "detected": refused, with the file or its folder named.
"passed over": a checkpoint before it was taken, and the result is the same. "harmless": nobody
noticed, and the result is the same. All else is a fault.
"""

import contextlib
import io
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.evaluate import evaluate
from benchmarks.report import report
from benchmarks.results.rescore import rescore
from benchmarks.torture.demo import CONFIG, VERBS, overrides_of
from electrify.config.load import load_config
from electrify.config.run import RunConfig
from electrify.stage.folder import read_manifest, write_json
from electrify.system.outcome import status_of
from electrify.system.progress import Progress
from model.export import export
from model.pretrain import pretrain
from pipeline.clean import clean
from vocab.encode import encode
from vocab.train import train_vocab

MAX_FLIPS = 8  # bits of one file


@dataclass(frozen=True)
class Sort:
    """A sort of artefact: its files, who reads them, and what then must be as before."""

    name: str
    patterns: tuple[str, ...]
    verb: str
    remade: str | None = None  # the stage folder that the verb makes, removed before
    unfinished: bool = False  # read from the partial folder of `remade`


SORTS = (
    Sort("documents", ("clean/*.parquet",), "train-vocab", "vocab"),
    Sort("manifest", ("clean/manifest.json",), "train-vocab", "vocab"),
    Sort("tokenizer", ("vocab/*",), "encode", "shards"),
    Sort("shards", ("shards/*/*/*.npy", "shards/index.json"), "pretrain", "pretrain"),
    Sort("checkpoint", ("pretrain/checkpoint-*/*", "pretrain/manifest.json"), "export", "export"),
    Sort("newest checkpoint", ("pretrain.partial/checkpoint-50/*",), "pretrain", "pretrain", True),
    Sort("export", ("export/discriminator/*", "export/manifest.json"), "evaluate", "evaluate"),
    Sort("results", ("evaluate/results.jsonl", "evaluate/manifest.json"), "report"),
    Sort("predictions", ("evaluate/predictions/*/*",), "rescore"),
    Sort(
        "figures",
        ("clean/report.json", "vocab/report.json", "pretrain/*.json*", "export/example.json"),
        "report",
    ),
)


@dataclass
class CorruptionFigures:
    """What was damaged, and what came of it."""

    outcomes: Counter[str] = field(default_factory=Counter)  # "<sort>: <outcome>"
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "outcomes": dict(self.outcomes),
            "faults": self.faults,
            "seconds": round(self.seconds, 1),
        }


def torture_by_damage(rounds: int, seed: int, work: Path) -> CorruptionFigures:
    """Damage one file a round, `rounds` times, in copies of a run made in the folder `work`."""
    shutil.rmtree(work, ignore_errors=True)
    sound, stopped = work / "sound", work / "stopped"
    _must(_run("run", sound))
    _must(_run("report", sound))
    _must(_run("run", stopped, "pretrain.keep_checkpoints=9"))
    figures, rng, begin = CorruptionFigures(), random.Random(seed), time.monotonic()
    with Progress("corrupt", rounds, "rounds") as progress:
        for number in range(rounds):
            sort = SORTS[number % len(SORTS)]
            run = work / "damaged"
            _copy(stopped if sort.unfinished else sound, run, sort)
            path = rng.choice(_files(run, sort))
            how = damage(path, rng)
            what = f"{path.relative_to(run)}, {how}"
            status, said = _run(sort.verb, run)
            outcome = _outcome(sort, run, sound, path, status, said)
            figures.outcomes[f"{sort.name}: {outcome}"] += 1
            if outcome not in ("detected", "passed over", "harmless"):
                figures.faults.append(f"{what}: {outcome}: {said[-500:]}")
            progress.update(note=what)
    figures.seconds = time.monotonic() - begin
    return figures


def damage(path: Path, rng: random.Random) -> str:
    """Change a file's bytes, and say how."""
    content = bytearray(path.read_bytes())
    way = rng.choice(("flip", "flip", "flip", "cut", "zero")) if content else "grow"
    if way == "flip":
        places = [rng.randrange(len(content)) for _ in range(rng.randint(1, MAX_FLIPS))]
        for place in places:
            content[place] ^= 1 << rng.randrange(8)
        how = f"{len(places)} bits flipped"
    elif way == "cut":
        length = rng.randrange(len(content))
        how = f"cut from {len(content)} to {length} bytes"
        del content[length:]
    elif way == "zero":
        place = rng.randrange(len(content))
        end = min(len(content), place + rng.randint(1, 512))
        content[place:end] = bytes(end - place)
        how = f"zeros from {place} to {end}"
    else:
        content += b"\0"
        how = "a byte added"
    path.write_bytes(content)
    return how


def _copy(run: Path, target: Path, sort: Sort) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    if sort.remade is None:
        return
    after = list(VERBS)[list(VERBS).index(sort.remade) :]
    for stage in after:
        if sort.unfinished and stage == sort.remade:
            _make_unfinished(target / stage)
        shutil.rmtree(target / stage, ignore_errors=True)


def _make_unfinished(folder: Path) -> None:
    """As pretraining leaves it when it is killed after step 50."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.copytree(folder, partial)
    manifest = read_manifest(folder)
    (partial / "manifest.json").unlink()
    (partial / "summary.json").unlink()
    shutil.rmtree(partial / "checkpoint-60")
    plan = {key: manifest[key] for key in ("stage", "config", "inputs")}
    write_json(partial / "plan.json", plan)


def _files(run: Path, sort: Sort) -> list[Path]:
    return sorted(p for pattern in sort.patterns for p in run.glob(pattern) if p.is_file())


def _run(verb: str, run: Path, *overrides: str) -> tuple[int | str, str]:
    """Status (or the exception that came out) of a verb, and what it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status: int | str = status_of(lambda: _do(verb, run, overrides))
        except Exception as error:  # what a user would see as a trace
            status = f"{type(error).__name__}: {error}"
    return status, said.getvalue()


def _do(verb: str, run: Path, overrides: Sequence[str]) -> int:
    if verb == "rescore":
        return rescore(run)
    if verb == "report":
        report([run])
        return 0
    config = load_config(CONFIG, overrides_of(run, *overrides))
    for name in VERBS.values() if verb == "run" else [verb]:
        _STAGES[name](config)
    return 0


_STAGES: Mapping[str, Callable[[RunConfig], object]] = {
    "clean": lambda config: clean(config, [], False, None),
    "train-vocab": lambda config: train_vocab(config, [], False),
    "encode": lambda config: encode(config, [], False),
    "pretrain": lambda config: pretrain(config, False),
    "export": lambda config: export(config, False),
    "evaluate": lambda config: evaluate(config, None, False),
}


def _outcome(sort: Sort, run: Path, sound: Path, path: Path, status: int | str, said: str) -> str:
    if isinstance(status, str):
        return f"a trace: {status}"
    if status != 0:
        near = (str(path), path.name, str(path.parent))
        return "detected" if any(name in said for name in near) else "refused, file not named"
    if sort.remade is None:
        return _outcome_of_reading(sort, run, sound, said)
    same = _digest(run / sort.remade) == _digest(sound / sort.remade)
    if not same:
        return "a wrong result"
    return "passed over" if sort.unfinished and "is damaged" in said else "harmless"


def _outcome_of_reading(sort: Sort, run: Path, sound: Path, said: str) -> str:
    if sort.verb == "report":
        texts = [(folder / "report.md").read_text(encoding="utf-8") for folder in (run, sound)]
        same = texts[0].replace(run.as_posix(), sound.as_posix()).replace(run.name, sound.name)
        return "harmless" if same == texts[1] else "a wrong result"
    return "harmless" if " 0 differ" in said else "a wrong result"


def _digest(folder: Path) -> str:
    return str(read_manifest(folder)["digest"])


def _must(result: tuple[int | str, str]) -> None:
    status, said = result
    if status != 0:
        raise ValueError(f"the run to be damaged failed ({status}): {said[-2000:]}")
