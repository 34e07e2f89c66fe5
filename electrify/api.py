"""The stages of a run as functions, for programs and notebooks: `from electrify import clean`.

A stage writes a folder of the run and returns it; `run` and `report` return the page. What is
finished and has not changed stays as it is.
`beam_options` are those that follow `--` on the command line. Errors of the user are `UserError`,
a `ValueError`.
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electrify.system.bundled import find_bundled
from electrify.system.outcome import UserError
from electrify.system.progress import log

if TYPE_CHECKING:
    from electrify.config.run import EvaluationRun, RunConfig


def load_config(
    path: str | Path, overrides: Sequence[str] = (), options: Mapping[str, object] | None = None
) -> "RunConfig":
    """The config in a TOML file, with values by dotted key and overrides `section.key=value`.

    Its output folder is checked, and of an address opened, before any work.
    """
    from electrify.check import check_output
    from electrify.config.load import load_config
    from electrify.stage.remote import open_run

    config = open_run(load_config(path, overrides, options))
    check_output(config)
    return config


def run(
    config: "RunConfig",
    *,
    beam_options: Sequence[str] = (),
    overwrite: bool = False,
    when_checked: Callable[[], None] = lambda: None,
) -> Path:
    """Every stage in order; the report, a page. `when_checked` is called before the first."""
    from electrify.check import check_run

    for line in check_run(config):
        log(line)
    if not overwrite:
        _check_length(config)
    when_checked()
    _clean(config, beam_options, overwrite)
    train_vocab(config, beam_options=beam_options, overwrite=overwrite)
    encode(config, beam_options=beam_options, overwrite=overwrite)
    pretrain(config, overwrite=overwrite)
    export(config, overwrite=overwrite)
    if config.evaluate.has_tasks or config.evaluate.suites:
        evaluate(config, overwrite=overwrite)
    else:
        log("evaluate: the config names no suites and no tasks")
    return report(config)


def _check_length(config: "RunConfig") -> None:
    """`UserError` where pretraining would train on, and the export then be refused."""
    from electrify.stage.folder import MANIFEST
    from electrify.stage.plan import edited_option

    trained, exported = _folder(config, "pretrain"), _folder(config, "export")
    if (exported / MANIFEST).exists() and (change := edited_option(config, "pretrain")):
        raise UserError(
            f"{trained} was made from another config ({change}), and {exported} is of it. Give the "
            "run another output_dir, or `overwrite` to train again from the start. To train on to "
            "another `pretrain.num_steps`: electrify pretrain CONFIG, then electrify export CONFIG "
            "--overwrite and electrify evaluate CONFIG --overwrite"
        )


def clean(
    config: "RunConfig", *, beam_options: Sequence[str] = (), overwrite: bool = False
) -> Path:
    """Raw text to documents: `clean/`."""
    from electrify.check import check_corpus

    check_corpus(config)
    _clean(config, beam_options, overwrite)
    return _folder(config, "clean")


def train_vocab(
    config: "RunConfig", *, beam_options: Sequence[str] = (), overwrite: bool = False
) -> Path:
    """Documents to a tokenizer: `vocab/`."""
    from vocab.train import train_vocab

    train_vocab(config, beam_options, overwrite)
    return _folder(config, "vocab")


def encode(
    config: "RunConfig", *, beam_options: Sequence[str] = (), overwrite: bool = False
) -> Path:
    """Documents to token shards: `shards/`."""
    from vocab.encode import encode

    encode(config, beam_options, overwrite)
    return _folder(config, "shards")


def pretrain(config: "RunConfig", *, overwrite: bool = False) -> Path:
    """Token shards to checkpoints: `pretrain/`. Resumes a stopped run."""
    from model.pretrain import pretrain

    pretrain(config, overwrite)
    return _folder(config, "pretrain")


def export(config: "RunConfig", *, overwrite: bool = False, step: int | None = None) -> Path:
    """The last checkpoint to folders for `transformers`: `export/`; or that of a step, also of
    unfinished work: `export-checkpoint-<step>/`."""
    from model.export import export

    export(config, overwrite, step)
    return _folder(config, "export" if step is None else f"export-checkpoint-{step}")


def evaluate(
    config: "EvaluationRun",
    *,
    model: str | None = None,
    name: str | None = None,
    overwrite: bool = False,
    noise_alone: bool = False,
) -> Path:
    """Fine-tune and score the run's encoder on what the config names: `evaluate/`.

    Or `model`, a folder, hub name or checkpoint, which tables call `name`. `noise_alone`: tasks are
    only what the suites of noise look at.
    """
    from benchmarks.evaluate import evaluate, evaluate_start
    from electrify.stage.plan import named_checkpoint

    if model is None:
        _warn_of_uncompared(config)
    suites: list[str | None] = [*config.evaluate.noise_suites]
    if not suites or (config.evaluate.has_tasks and not noise_alone):
        suites.insert(0, None)
    with tempfile.TemporaryDirectory() as scratch:
        weights = None
        if model and (checkpoint := named_checkpoint(model)):
            weights = Path(scratch)
            export_checkpoint(checkpoint, weights)
        for suite in suites:
            evaluate(config, model, overwrite, weights=weights, name=name, noise_suite=suite)
            if model is None and suite is None:
                evaluate_start(config, overwrite, export_checkpoint)
    if model is None:
        update_cards(config)
    return _folder(config, "evaluate")


def export_checkpoint(checkpoint: Path, folder: Path) -> None:
    """The main network of a checkpoint as a folder for `transformers`."""
    from model.export import export_checkpoint

    export_checkpoint(checkpoint, folder)


def publish(
    config: "RunConfig",
    to: str | None = None,
    *,
    parts: Sequence[str] | None = None,
    private: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Upload networks of a finished run to the hub, into repositories `<to>-discriminator` and so
    on. The addresses; with `dry_run` what would be uploaded."""
    from model.publish import publish

    parts = [parts] if isinstance(parts, str) else parts
    return publish(config, to, parts, private, dry_run)


def report(config: "RunConfig") -> Path:
    """The run's page, `report.html`."""
    from benchmarks.report import read_runs, report
    from electrify.stage.remote import push_report

    folder = Path(config.output_dir)
    options = config.evaluate
    data_dirs = local_folders(options.data_dirs, options.own_tasks)
    page = report(read_runs([folder]), None, data_dirs)
    push_report(folder)
    return page


def finetune(
    model: str,
    output: str | Path,
    *,
    own_task: str | Path | None = None,
    task: str | None = None,
    data_dir: str | Path | Sequence[str | Path] = (),
    seeds: int = 1,
    onnx: bool = False,
    overrides: Sequence[str] = (),
) -> Path:
    """An encoder (folder or hub name) fine-tuned on a table of one's own, or on a task by its name,
    as a folder that `transformers` opens; `output`.

    The best of so many seeds. `overrides` are of `[evaluate]`, as `evaluate.num_epochs=5`.
    """
    from electrify.config.load import evaluation_of

    if (own_task is None) == (task is None):
        raise UserError("finetune takes one task: give a file of your own, or a task's name")
    options: dict[str, object] = {"evaluate.seeds": [*range(seeds)]}
    options |= {"evaluate.tasks": [task]} if task else {}
    if own_task is not None:
        options["evaluate.own_tasks"] = [{"train": str(own_task)}]
    data_dirs = [data_dir] if isinstance(data_dir, str | Path) else data_dir
    if data_dirs:
        options["evaluate.data_dir"] = [*map(str, data_dirs)]
    model = find_bundled(model)
    config = evaluation_of(model, overrides, options)
    from benchmarks.finetune import finetune

    finetune(model, Path(output), config.evaluate, onnx)
    return Path(output)


def predict(folder: str | Path, texts: Sequence[str | Mapping[str, object]]) -> list[object]:
    """What a folder of `finetune` says of texts, or of rows by column: `prediction` (a label, a
    list of labels, a number, tags, spans or an answer) and `probability` of each."""
    from benchmarks.predict import predictions

    texts = [texts] if isinstance(texts, str) else texts
    rows = ({"text": text} if isinstance(text, str) else text for text in texts)
    said = predictions(Path(folder), enumerate(rows, start=1), "texts")
    return [{n: row.get(n) for n in ("prediction", "probability")} for row in said]


def inspect(
    model: str,
    texts: Sequence[str],
    *,
    generator: str | None = None,
    threshold: float | None = None,
    attributions: bool = True,
) -> list[dict[str, object]]:
    """Which words of each text a discriminator (folder or hub name) flags as replaced, and why."""
    from benchmarks.analysis.inspect import as_record, findings

    texts = [texts] if isinstance(texts, str) else texts
    if odd := next((text for text in texts if not isinstance(text, str)), None):
        raise UserError(f"inspect: {odd!r:.80} is no text; give texts, or one text")
    path, generator = find_bundled(model), generator and find_bundled(generator)
    results = findings(path, texts, generator, threshold, attributions)
    return [as_record(finding) for finding in results]


def _clean(config: "RunConfig", beam_options: Sequence[str], overwrite: bool) -> None:
    texts = _benchmark_texts(config, overwrite)
    from pipeline.clean import clean

    clean(config, beam_options, overwrite, texts)


def _benchmark_texts(config: "RunConfig", overwrite: bool) -> Path | None:
    # Arrow, imported later, reserves no gigabyte of addresses: `ulimit -v` may be set
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if not (config.clean.decontaminate_against or config.removes_scored_rows):
        return None  # the stage needs nothing of benchmarks/
    from benchmarks.tasks.texts import dump_benchmarks

    return dump_benchmarks(_with_default_tasks(config), overwrite)


def _warn_of_uncompared(config: "EvaluationRun") -> None:
    from benchmarks.tasks.texts import warn_of_uncompared
    from electrify.config.run import RunConfig

    if isinstance(config, RunConfig):
        warn_of_uncompared(_with_default_tasks(config))


def _with_default_tasks(config: "RunConfig") -> "RunConfig":
    from benchmarks.noise.suites import with_default_tasks

    return config.model_copy(update={"evaluate": with_default_tasks(config.evaluate)})


def _folder(config: "EvaluationRun", stage: str) -> Path:
    return Path(config.output_dir) / stage


def local_folders(folders: Sequence[Path], own_tasks: Sequence[object] = ()) -> tuple[Path, ...]:
    """The data folders without the hub; the working directory where there are own tasks alone."""
    local = tuple(folder for folder in folders if str(folder) != "hub")
    return local or ((Path(),) if own_tasks else ())


def update_cards(config: "RunConfig | EvaluationRun") -> None:
    """Put what is known of the scores into the model cards of the run's export, if there is one."""
    from electrify.config.run import RunConfig
    from electrify.stage.folder import MANIFEST
    from electrify.stage.remote import push_rewritten

    folder = Path(config.output_dir)
    if not isinstance(config, RunConfig) or not (folder / "export" / MANIFEST).exists():
        return
    from benchmarks.report import card_sections
    from model.weights.card import add_sections

    add_sections(config, card_sections(folder))
    push_rewritten(folder / "export")
