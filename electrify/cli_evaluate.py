"""The verbs `evaluate` and `report`."""

import argparse
import tempfile
from pathlib import Path

from electrify.artifacts import MANIFEST
from electrify.config import RunConfig
from electrify.config_file import load_config
from electrify.remote_fetch import bring, bring_figures, open_address, open_run
from electrify.remote_run import is_address
from electrify.remote_send import publish_report, send_rewritten
from electrify.stages import named_checkpoint
from electrify.toml_text import toml_value


def data_dir_option(folder: str) -> str:
    """`--data-dir` as `--set` would have it."""
    return f"evaluate.data_dir={toml_value(folder)}"


def evaluate_verb(parsed: argparse.Namespace) -> int:
    """Scores of an encoder or of checkpoints; or one of the checks that leave again."""
    _refuse_what_is_not_read(parsed)
    if parsed.check_metrics:
        from benchmarks.golden.check import check_metrics

        return check_metrics(Path(parsed.check_metrics))
    if parsed.rescore:
        from benchmarks.rescore import rescore

        return rescore(_run_folder(parsed.rescore))
    if parsed.ensemble:
        from benchmarks.rescore import ensemble

        ensemble(_run_folder(parsed.ensemble))
        return 0
    if parsed.submission:
        from benchmarks.submission import write_submissions

        write_submissions(_run_folder(parsed.submission))
        return 0
    steps = _split_steps(parsed)
    if parsed.config is None:
        raise ValueError("give a config: electrify evaluate configs/NAME.toml")
    if parsed.data_dir:
        parsed.set = [*parsed.set, data_dir_option(parsed.data_dir)]
    if steps is not None:
        return _evaluate_checkpoints(parsed, steps)
    from benchmarks.evaluate import evaluate

    config = open_run(load_config(parsed.config, parsed.set))
    with tempfile.TemporaryDirectory() as scratch:
        weights = None
        if parsed.model and (checkpoint := named_checkpoint(parsed.model)):
            from model.export_checkpoint import export_checkpoint

            weights = Path(scratch)
            export_checkpoint(checkpoint, weights)
        evaluate(config, parsed.model, parsed.overwrite, weights)
    if parsed.model is None:
        update_cards(config)
    return 0


def _refuse_what_is_not_read(parsed: argparse.Namespace) -> None:
    """`ValueError` if one of the checks, which read a folder alone, is given more."""
    for check in ("check_metrics", "rescore", "ensemble", "submission"):
        if getattr(parsed, check) is None:
            continue
        others = {"the config": parsed.config, "--data-dir": parsed.data_dir,
                  "--set": parsed.set, "--overwrite": parsed.overwrite}  # fmt: skip
        if given := [name for name, value in others.items() if value]:
            raise ValueError(
                f"--{check.replace('_', '-')} {getattr(parsed, check)} reads that folder alone: "
                f"leave out {' and '.join(given)}"
            )


def _split_steps(parsed: argparse.Namespace) -> list[int] | None:
    """The steps of `--checkpoints`, if it is given. A word behind it that is no number is the
    config, which may stand there, too."""
    if parsed.checkpoints is None:
        return None
    others = [word for word in parsed.checkpoints if not word.isdecimal()]
    if parsed.config is None and others:
        parsed.config = others.pop(0)
    if others:
        raise ValueError(f"--checkpoints {others[0]}: write steps, as in --checkpoints 1000 2000")
    return [int(word) for word in parsed.checkpoints if word.isdecimal()]


def _run_folder(name: str) -> Path:
    """A run's folder as the user names it; of an address the local one, with what is small."""
    if not is_address(name):
        return Path(name)
    folder = open_address(name.rstrip("/"))
    bring_figures(folder)
    return folder


def update_cards(config: RunConfig) -> None:
    """Put what is known of the scores into the model cards of the run's export, if there is one."""
    folder = Path(config.output_dir)
    if not (folder / "export" / MANIFEST).exists():
        return
    from benchmarks.card_tables import card_sections
    from model.card import add_sections

    bring_figures(folder)
    add_sections(config, card_sections(folder))
    send_rewritten(folder / "export")


def _evaluate_checkpoints(parsed: argparse.Namespace, steps: list[int]) -> int:
    from benchmarks.checkpoints import evaluate_checkpoints
    from model.export_checkpoint import export_checkpoint

    config = open_run(load_config(parsed.config, parsed.set))
    bring(Path(config.output_dir), "pretrain")
    evaluate_checkpoints(config, steps, parsed.overwrite, export_checkpoint)
    return 0


def report_verb(parsed: argparse.Namespace) -> int:
    """A page about runs."""
    from benchmarks.report import report

    configs = {name: load_config(name, parsed.set) for name in parsed.runs if _is_config(name)}
    if parsed.set and not configs:
        raise ValueError(
            f"--set {parsed.set[0]}: for configs, and no run here is named by its own; leave it out"
        )
    folders = [
        _run_folder(configs[name].output_dir if name in configs else name) for name in parsed.runs
    ]
    named = [parsed.data_dir, *(config.evaluate.data_dir for config in configs.values())]
    page = report(
        folders,
        Path(parsed.output) if parsed.output else None,
        folder_of_data(next(filter(None, named), None)),
        not parsed.no_texts,
        parsed.baseline,
    )
    if not parsed.output:
        publish_report(folders[0])
    print(page)
    return 0


def _is_config(name: str) -> bool:
    return name.endswith(".toml")


def folder_of_data(name: str | None) -> Path | None:
    """A data folder, where one is named and it is not the hub."""
    return None if name in (None, "hub") else Path(str(name)).expanduser()
