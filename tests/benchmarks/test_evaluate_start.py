"""A run that continues from an encoder is scored beside it, both fine-tuned alike."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.evaluate import evaluate, evaluate_start
from benchmarks.report import read_runs, report
from benchmarks.results.results import current_results
from electrify.config.run import RunConfig
from electrify.stage.folder import Stage
from electrify.stage.run import run_stage


def refuse(*_: object) -> None:
    raise AssertionError("there is no checkpoint to export")


@pytest.fixture
def adapted(make_config, model_folder, tmp_path):
    """A run whose encoder continues from a model that recommends settings."""

    def run(start: Path | str = tmp_path / "start", **options: object) -> RunConfig:
        few = {"seeds": [0, 1], "num_epochs": 1, "max_train_examples": 28}
        config = make_config(**(few | {"random_init_control": True} | options))
        pretrain = config.pretrain.model_copy(update={"initial_model": str(start)})
        return config.model_copy(update={"pretrain": pretrain})

    settings = {"recipe": "electra", "layer_lr_decay": 0.9, "pooling": "mean"}
    shutil.copytree(model_folder, tmp_path / "start")
    (tmp_path / "start" / "finetuning.json").write_text(json.dumps(settings))

    def export(folder: Path) -> dict[str, int]:
        shutil.copytree(model_folder, folder / "discriminator")
        return {}

    run_stage(Stage("export", Path(run().output_dir) / "export", {}), export)
    return run


def test_both_are_fine_tuned_alike_and_the_difference_is_printed_and_reported(adapted, caplog):
    caplog.set_level("INFO", "electrify")
    config = adapted()
    evaluate(config, None)
    evaluate_start(config, False, refuse)
    folder = Path(config.output_dir)
    own, start = (current_results(folder / name) for name in ("evaluate", "evaluate-start"))
    assert {record.role for record in own} == {"pretrained", "random-init"}
    assert [(record.role, record.seed) for record in start] == [
        ("pretrained", 0),
        ("pretrained", 1),
    ]
    alike = {json.dumps(record.hyper_parameters, sort_keys=True) for record in [*own, *start]}
    assert len(alike) == 1
    assert own[0].hyper_parameters["layer_lr_decay"] == 0.9
    assert own[0].recommended["pooling"] == start[0].recommended["pooling"] == "mean"
    last = caplog.records[-1].getMessage()
    assert "adapted" in last
    assert "over start (95 % CI" in last
    report(read_runs([folder]))
    assert "than start on" in (folder / "report.md").read_text(encoding="utf-8")
    assert "not fine-tuned alike" not in (folder / "report.md").read_text(encoding="utf-8")
    caplog.clear()
    evaluate_start(adapted(start_control=False), False, refuse)
    assert not caplog.records


def test_a_start_that_was_trained_on_since_is_not_scored(adapted, caplog):
    folder = Path(adapted().output_dir)
    begun = Stage("pretrain", folder / "pretrain", {}, {"pretrain.initial_model": "other"})
    run_stage(begun, lambda _: {})
    evaluate_start(adapted(), False, refuse)
    assert "has changed since this run began from it" in caplog.text
    assert not (folder / "evaluate-start").exists()


def test_what_was_fine_tuned_otherwise_is_named_where_it_is_compared(adapted, model_folder, caplog):
    caplog.set_level("INFO", "electrify")
    evaluate(adapted(), None)
    evaluate(adapted(recipe="auto", random_init_control=False), str(model_folder), name="other")
    (warning,) = (r.getMessage() for r in caplog.records if "not fine-tuned alike" in r.message)
    assert "other" in warning
    assert "recipe electra and klue" in warning
    table = [r.getMessage() for r in caplog.records if r.getMessage().startswith("klue-ynat macro")]
    assert any(line.split()[2] == "other" for line in table)  # --name
    folder = Path(adapted().output_dir)
    report(read_runs([folder]))
    first_screen = (folder / "report.md").read_text(encoding="utf-8").partition("## ")[0]
    assert "not fine-tuned alike on klue-ynat" in first_screen
    assert "recipe electra and klue" in first_screen or "recipe klue and electra" in first_screen


def test_a_start_that_is_a_checkpoint_is_exported_and_an_unreadable_one_left_out(
    adapted, model_folder, tmp_path, caplog
):
    checkpoint = tmp_path / "earlier" / "pretrain" / "checkpoint-9"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{}")
    evaluate(adapted(), None)
    for start in (tmp_path / "earlier", checkpoint):
        config, exported = adapted(start), []

        def export(path: Path, folder: Path, exported: list[Path] = exported) -> None:
            exported.append(path)
            shutil.copytree(model_folder, folder, dirs_exist_ok=True)

        evaluate_start(config, False, export)
        assert exported == [checkpoint]
    (tmp_path / "none").mkdir()
    evaluate_start(adapted(tmp_path / "none"), True, refuse)
    assert "is not scored" in caplog.text
