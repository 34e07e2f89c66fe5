"""`evaluate --checkpoints`: which checkpoints are scored, where, and what is not done twice."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.evaluate import evaluate_checkpoints
from benchmarks.results.run_folder import read_run
from electrify.stage.folder import write_manifest


@pytest.fixture
def config(make_config):
    return make_config(
        seeds=[0, 1], random_init_control=True, num_epochs=1, train_fractions=[0.5, 1.0]
    )


@pytest.fixture
def exported(model_folder):
    """What stands for `export_checkpoint`, and the steps that it was asked for."""
    steps = []

    def export(checkpoint: Path, folder: Path) -> None:
        steps.append(int(checkpoint.name.split("-")[-1]))
        shutil.copytree(model_folder, folder, dirs_exist_ok=True)

    export.steps = steps
    return export


def add_checkpoints(config, *steps: int, folder: str = "pretrain.partial") -> Path:
    place = Path(config.output_dir) / folder
    for step in steps:
        (place / f"checkpoint-{step}").mkdir(parents=True)
        (place / f"checkpoint-{step}" / "state.json").write_text(json.dumps({"step": step}))
    return place


def test_every_checkpoint_has_a_folder_of_scores(config, exported):
    place = add_checkpoints(config, 1000, 90)
    evaluate_checkpoints(config, [], False, exported)
    assert exported.steps == [90, 1000]
    run = read_run(Path(config.output_dir))
    assert list(run.checkpoint_evaluations) == [90, 1000]
    assert run.evaluations == {}  # they are no further encoders
    for step, records in run.checkpoint_evaluations.items():
        # no control, which is the same for all, and the largest part alone
        keys = [(r.role, r.seed, r.train_fraction) for r in records]
        assert keys == [("pretrained", 0, 1.0), ("pretrained", 1, 1.0)]
        assert records[0].model_path == str(place / f"checkpoint-{step}")


def test_the_exports_checkpoint_is_not_scored_twice(config, exported):
    add_checkpoints(config, 90, 180, folder="pretrain")
    manifest = {"files": {}, "config": {}, "inputs": {}, "digest": "d", "counts": {}}
    changes = {
        "export": {"counts": {"checkpoint": "checkpoint-180"}},
        "evaluate": {"inputs": {"export": "d"}},
    }
    for stage, own in changes.items():
        folder = Path(config.output_dir) / stage
        folder.mkdir()
        write_manifest(folder, manifest | own)
    evaluate_checkpoints(config, [], False, exported)
    assert exported.steps == [90]
    evaluate_checkpoints(config, [180], False, exported)  # unless it is asked for
    assert exported.steps == [90, 180]
