"""Score an encoder: fine-tune it on every task with every seed, beside its baselines.

A job is one task, one role (the encoder or a baseline), one seed and the hyper-parameters. Its
record in `results.jsonl` carries a key, a digest of all that decides the score: a job whose key is
there is done. So the same command resumes a stopped one, other options add records, and `jobs.json`
names those that the last command asked for.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.finetune.recipe import recommended_settings
from benchmarks.model_name import pinned
from benchmarks.report.scores import terminal_lines, write_scores
from benchmarks.results.predictions import PREDICTIONS, prediction_path
from benchmarks.results.results import (
    JOBS,
    MODELS,
    RESULTS,
    TRIALS,
    UNFINISHED,
    current_results,
    read_results,
)
from benchmarks.results.submission import write_submissions
from benchmarks.tasks.load import load_tasks
from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import (
    MANIFEST,
    Stage,
    check_files,
    read_manifest,
    whole_file,
    write_json,
)
from electrify.stage.plan import (
    DEFAULT_MODEL,
    checkpoint_step,
    checkpoints,
    evaluate_stage,
    output_dir,
)
from electrify.stage.run import run_stage
from electrify.stage.trackers import TRACKER_FILES, Trackers, require_trackers
from electrify.system.outcome import UserError
from electrify.system.progress import log, stop_on_signal, warn

_PROMISE = "finished jobs are kept, a fine-tuning that runs now is resumed where it is"


def evaluate(
    config: EvaluationRun,
    model: str | None,
    overwrite: bool,
    weights: Path | None = None,
    step: int | None = None,
    name: str | None = None,
    probe: str | None = None,
) -> None:
    """Fine-tune and score `model` (folder or hub name; None: the run's own discriminator).

    `weights` is a folder that stands for `model` where that is none to be read by `transformers`;
    `step` that of a checkpoint on the way, `name` what the results of `model` are called. Writes
    `evaluate/results.jsonl` and `evaluate/predictions/`; the records of a finished evaluation stay,
    unless `overwrite`. `probe`, a suite of `PROBES`, is scored in a folder of its own. Raises
    `ValueError` for unknown tasks, missing or malformed data and an unreadable model, before any
    training, and `Stopped` when asked to stop: finished jobs are kept.
    """
    if probe is None:
        options = config.evaluate.model_copy(update={"suites": config.evaluate.task_suites})
    else:
        from benchmarks.noise.suites import PROBES, probe_options

        options = probe_options(config.evaluate, probe)
    config = config.model_copy(update={"evaluate": options})
    at, commit = pinned(model) if model is not None and weights is None else (model, None)
    if commit:
        name = name or model
        log(f"{model} is read at its commit {commit}")
    require_trackers(options, "evaluate")
    tasks, data = load_tasks(options)
    if probe is not None:
        data = {task.name: PROBES[probe].add_rows(task, data[task.name]) for task in tasks}
    rows = {name: of_task.sha256 for name, of_task in data.items()}
    stage = evaluate_stage(config, at, rows, step, name, probe or "evaluate")
    digests = {name: digest for name, digest in stage.inputs.items() if name != "data"}
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)
    if model is not None and not overwrite:
        _check_encoder(stage, model)

    def work(partial: Path) -> dict[str, int]:
        # what imports torch, which takes seconds, once names, folders and rows are checked
        from benchmarks.encoder import open_model
        from benchmarks.finetune.plan import Plan

        # of the run's own export its place in the run: predictions are the same wherever that is
        place = model or DEFAULT_MODEL
        try:
            source = open_model(path if weights is None else str(weights), place, commit)
            if model is not None and weights is None:  # else the config is the run's own
                source = replace(source, recommended=recommended_settings(model, options, commit))
            plan = Plan(options, tasks, source, digests, data)
            if not overwrite:
                _carry_over(stage.folder, partial)
            write_json(partial / JOBS, [job.key for job in plan.jobs])
            about = options.model_dump(mode="json") | {"model": source.name}
            about["name"] = f"{output_dir(config).name}/{stage.folder.name}"
            trackers = Trackers(partial, options, "evaluate", about)
            with closing(trackers), stop_on_signal(_PROMISE) as stop:
                results = plan.run(partial, stop, trackers)
        except ValueError:
            if not _has_news(partial, stage.folder):  # refused: nothing to resume
                shutil.rmtree(partial)
            raise
        shutil.rmtree(partial / UNFINISHED, ignore_errors=True)
        write_scores(results, partial)
        if probe is not None:
            PROBES[probe].write_table(partial, tasks, data, results, source, options.data_dirs)
        elif any(split in task.unlabelled for task in tasks for split in data[task.name].further):
            write_submissions(partial)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite)
    results = current_results(stage.folder)
    for line in terminal_lines(results, stage.folder):
        log(line)
    lacking = {
        f"{result.task} {split}": None
        for result in results
        for split in data[result.task].further
        if not prediction_path(stage.folder, result, split).is_file()
    }
    if lacking:
        warn(
            f"no predictions of {', '.join(lacking)}, whose rows came later: to have them, remove "
            f"{stage.folder} and evaluate again"
        )


def _check_encoder(stage: Stage, model: str) -> None:
    """`UserError` where a finished evaluation is of another path and of other weights."""
    if (stage.folder / MANIFEST).exists():
        is_same = read_manifest(stage.folder)["inputs"].get("model") == stage.inputs.get("model")
        paths = {result.model_path for result in current_results(stage.folder)}
        if paths and model not in paths and not is_same:
            raise UserError(
                f"{stage.folder} has the scores of {min(paths)}, not of {model}: give this one "
                "another name (--name) and output_dir, or --overwrite those scores"
            )


def _carry_over(finished: Path, partial: Path) -> None:
    """Copy records and predictions of a finished evaluation; `ValueError` if one has changed."""
    if not (finished / MANIFEST).exists() or (partial / RESULTS).exists():
        return
    check_files(finished, "evaluate")
    for folder in (PREDICTIONS, MODELS):
        if (finished / folder).exists():
            shutil.copytree(finished / folder, partial / folder, dirs_exist_ok=True)
    # results last: a job in them is a job that is whole
    for file in (*TRACKER_FILES, TRIALS, RESULTS):
        if (finished / file).exists() and not (partial / file).exists():
            with whole_file(partial / file) as temporary:
                shutil.copyfile(finished / file, temporary)


def _has_news(partial: Path, finished: Path) -> bool:
    """Whether an unfinished evaluation has records that the finished one has not, or a fine-tuning
    to resume."""
    if any((partial / UNFINISHED).glob("*.pt")):
        return True
    return any(
        {result.key for result in read_results(partial / file)}
        - {result.key for result in read_results(finished / file)}
        for file in (RESULTS, TRIALS)
    )


# Checkpoints of a pretraining.


def evaluate_checkpoints(
    config: RunConfig, steps: Sequence[int], overwrite: bool, export: Callable[[Path, Path], None]
) -> None:
    """Score checkpoints, the oldest first, each into `evaluate-checkpoint-<step>/`.

    Without `steps` all that are there are scored, except the one that `evaluate/` has scored as the
    run's export. Baselines are left to `evaluate/`: they are the same for all. Of
    `evaluate.train_fractions` only the largest is scored. `export` writes a checkpoint as a
    `transformers` folder. Raises `UserError` for a step without a checkpoint, and what `evaluate`
    raises.
    """
    run = output_dir(config)
    paths = checkpoints(run / "pretrain") or checkpoints(run / "pretrain.partial")
    by_step = {checkpoint_step(path): path for path in paths}
    if not by_step:
        raise UserError(f"no checkpoint in {run}; run first: electrify pretrain CONFIG")
    if unknown := [step for step in steps if step not in by_step]:
        raise UserError(
            f"no checkpoint-{unknown[0]} in {run}; there are those of steps "
            f"{', '.join(map(str, by_step))} (pretrain.keep_every_steps keeps more of them)"
        )
    exported = _exported_step(run)
    if not steps and exported in by_step:
        log(f"evaluate: checkpoint-{exported} is the export's; its scores are those of evaluate/")
        del by_step[exported]
    changes = {
        "random_init_control": False,
        "bag_of_words": False,
        "train_fractions": (max(config.evaluate.train_fractions),),
    }
    config = config.model_copy(update={"evaluate": config.evaluate.model_copy(update=changes)})
    for step in sorted(set(steps) or by_step):
        with tempfile.TemporaryDirectory() as scratch:
            export(by_step[step], Path(scratch))
            evaluate(config, str(by_step[step]), overwrite, Path(scratch), step)


def _exported_step(run: Path) -> int | None:
    """The step of the export, if `evaluate/` has scored that very export."""
    try:
        export, scores = read_manifest(run / "export"), read_manifest(run / "evaluate")
    except ValueError:
        return None
    is_scored = scores["inputs"].get("export") == export["digest"]
    return checkpoint_step(Path(export["counts"]["checkpoint"])) if is_scored else None
