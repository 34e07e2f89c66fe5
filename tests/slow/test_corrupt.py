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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from electrify.cli import main
from electrify.stage.folder import read_manifest, write_json
from tests.slow.runs import REPORT, STAGES, arguments

ROUNDS = 40  # files to damage, of each sort in turn
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
    Sort("predictions", ("evaluate/predictions/*/*",), REPORT),
    Sort("figures", ("clean/report.json", "vocab/report.json", "pretrain/*.json*"), "report"),
)


@pytest.mark.filterwarnings("default")
def test_a_damaged_file_is_named_or_without_effect(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    run, outcomes, faults = tmp_path / "damaged", Counter[str](), []
    for number in range(rounds):
        sort = SORTS[number % len(SORTS)]
        _copy(sound, run, sort)
        path = rng.choice(_files(run, sort))
        what = f"{path.relative_to(run)}, {damage(path, rng)}"
        status, said = _run(_words(sort.verb, run))
        outcome = _outcome(sort, run, sound, path, status, said)
        outcomes[f"{sort.name}: {outcome}"] += 1
        if outcome not in ("detected", "passed over", "harmless"):
            faults.append(f"{what}: {outcome}: {said[-500:]}")
    print(*sorted(outcomes.items()), sep="\n")
    assert faults == []


def damage(path: Path, rng: random.Random) -> str:
    """Change a file's bytes, and say how."""
    content = bytearray(path.read_bytes() or b"\0")
    way, place = rng.choice(("flip", "flip", "flip", "cut", "zero")), rng.randrange(len(content))
    if way == "flip":
        for _ in range(rng.randint(1, MAX_FLIPS)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del content[place:]
    else:
        content[place : place + 512] = bytes(len(content[place : place + 512]))
    path.write_bytes(content)
    return f"{way} at {place}"


def _copy(run: Path, target: Path, sort: Sort) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    if sort.remade is None:
        return
    for stage in STAGES[STAGES.index(sort.remade) :]:
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


def _words(verb: str, run: Path) -> list[str]:
    return [verb, str(run)] if verb == REPORT else arguments(verb, run)


def _run(words: Sequence[str]) -> tuple[int | str, str]:
    """The status of a command, or the exception that came out of it, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status: int | str = main(words)
        except Exception as error:  # what a user would see as a trace
            status = f"{type(error).__name__}: {error}"
    return status, said.getvalue()


def _outcome(sort: Sort, run: Path, sound: Path, path: Path, status: int | str, said: str) -> str:
    if isinstance(status, str):
        return f"a trace: {status}"
    if status != 0:
        near = (str(path), path.name, str(path.parent))
        return "detected" if any(name in said for name in near) else "refused, file not named"
    if sort.remade is not None:
        digests = [read_manifest(folder / sort.remade)["digest"] for folder in (run, sound)]
        is_same = digests[0] == digests[1]
    elif sort.verb == REPORT:
        texts = [(folder / "report.md").read_text(encoding="utf-8") for folder in (run, sound)]
        same = texts[0].replace(run.as_posix(), sound.as_posix()).replace(run.name, sound.name)
        is_same = same == texts[1]
    else:
        is_same = " 0 differ" in said
    if not is_same:
        return "a wrong result"
    return "passed over" if sort.unfinished and "is damaged" in said else "harmless"
