"""Flip bytes of a run's files: whoever reads them next must say so, or come to the same result.

A round damages one file of one sort, a few flipped bits, a piece cut off its end or zeros in the
middle, and runs the command that reads it: it names the file or its folder, or what it makes is as
without the damage (as where a checkpoint before it is taken).
"""

import random
import shutil
from pathlib import Path

import pytest

from electrify.cli import main
from electrify.stage.folder import read_manifest, write_json
from electrify.stage.plan import VERBS
from tests.slow.runs import REPORT, STAGES, arguments

ROUNDS = 40  # files to damage, of each sort in turn
MAX_FLIPS = 8  # bits of one file
# files, and the stage that is made of them
SORTS = (
    ("vocab", "clean/*.parquet"),
    ("vocab", "clean/manifest.json"),
    ("shards", "vocab/*"),
    ("pretrain", "shards/*/*/*.npy", "shards/index.json"),
    ("export", "pretrain/checkpoint-*/*", "pretrain/manifest.json"),
    ("pretrain", "pretrain.partial/checkpoint-50/*"),
    ("evaluate", "export/discriminator/*", "export/manifest.json"),
    (REPORT, "evaluate/results.jsonl", "evaluate/manifest.json"),
    (REPORT, "evaluate/predictions/*/*"),
    (REPORT, "clean/report.json", "vocab/report.json", "pretrain/*.json*"),
)


@pytest.mark.filterwarnings("default")
def test_a_damaged_file_is_named_or_without_effect(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, faults = tmp_path / "damaged", list[str]()
    for number in range(rounds):
        stage, *patterns = SORTS[number % len(SORTS)]
        _copy(sound, run, stage, is_partial="pretrain.partial" in patterns[0])
        files = sorted(p for pattern in patterns for p in run.glob(pattern) if p.is_file())
        path = rng.choice(files)
        what = f"{path.relative_to(run)}, {damage(path, rng)}"
        status = main([REPORT, str(run)] if stage == REPORT else arguments(VERBS[stage], run))
        said = "".join(capsys.readouterr())
        if status and not any(str(near) in said for near in (path, path.name, path.parent)):
            faults.append(f"{what}: refused, file not named: {said[-500:]}")
        if not status and _made(run, stage) != _made(sound, stage):
            faults.append(f"{what}: a wrong result: {said[-500:]}")
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


def _copy(run: Path, target: Path, stage: str, is_partial: bool) -> None:
    """The run before a stage, or with it as pretraining is left by a kill after step 50."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    if is_partial:
        manifest, partial = read_manifest(target / stage), target / f"{stage}.partial"
        (target / stage).rename(partial)
        (partial / "manifest.json").unlink()
        (partial / "summary.json").unlink()
        shutil.rmtree(partial / "checkpoint-60")
        plan = {key: manifest[key] for key in ("stage", "config", "inputs")}
        write_json(partial / "plan.json", plan)
    for name in STAGES[STAGES.index(stage) :] if stage != REPORT else ():
        shutil.rmtree(target / name, ignore_errors=True)


def _made(run: Path, stage: str) -> str:
    """What the command makes, without the name of the run."""
    if stage != REPORT:
        return str(read_manifest(run / stage)["digest"])
    text = (run / "report.md").read_text(encoding="utf-8")
    return text.replace(run.as_posix(), "RUN").replace(run.name, "RUN")
