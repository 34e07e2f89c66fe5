"""Score an encoder: fine-tune it on every task with every seed, beside its baselines.

`results.jsonl` is the only record of what is done: one line for each fine-tuning, with a key that
is a digest of all that decides its score. A fine-tuning whose key is there is not done again, so
the same command resumes a stopped one, and other options add records.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.model_name import encoder_path, pinned
from benchmarks.results.predictions import prediction_path, write_predictions, write_submissions
from benchmarks.results.results import (
    RESULTS,
    Result,
    append_result,
    current_results,
    percent,
    predictions_name,
    read_results,
)
from benchmarks.results.run_folder import read_run
from benchmarks.sections.scores import beside_lines, terminal_lines, write_scores
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import TaskData, load_tasks, rows_digest
from benchmarks.tasks.task import OWN, Task
from benchmarks.training.recipe import (
    HyperParameters,
    few_steps_note,
    hyper_parameters,
    options_for,
    seeds_for,
)
from electrify.config.evaluate import EvaluateConfig, Role
from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import MANIFEST, PLAN, Stage, digest_of, read_manifest
from electrify.stage.plan import (
    DEFAULT_MODEL,
    START,
    checkpoint_step,
    checkpoints_of,
    evaluate_stage,
    initial_checkpoint,
    output_dir,
    recommended_settings,
    scored_folder,
    start_has_changed,
)
from electrify.stage.run import run_stage
from electrify.storage.files import read_json
from electrify.system.machine import describe_precision
from electrify.system.outcome import UserError
from electrify.system.progress import StopRequest, duration, log, stop_on_signal, warn

if TYPE_CHECKING:  # torch takes seconds: it is imported once names, folders and rows are checked
    from benchmarks.encoder import ModelSource

_PROMISE = "finished fine-tunings are kept; what runs now, a search of settings too, is done again"


def evaluate(
    config: EvaluationRun,
    model: str | None,
    overwrite: bool = False,
    *,
    weights: Path | None = None,
    step: int | None = None,
    name: str | None = None,
    noise_suite: str | None = None,
) -> None:
    """Fine-tune and score `model` (folder or hub name; None: the run's own discriminator).

    `weights` is a `transformers` folder that stands for `model` where that is a checkpoint; `step`
    is the step of one on the way, `name` what the results of `model` are called. Writes
    `evaluate/results.jsonl` and `evaluate/predictions/`; the records of a finished evaluation stay,
    unless `overwrite`. `noise_suite`, of `benchmarks.noise`, is scored in a folder of its own.
    Raises `ValueError` for unknown tasks, missing or malformed data and an unreadable model, before
    any training, and `Stopped` when asked to stop: finished fine-tunings are kept.
    """
    options = config.evaluate.model_copy(update={"suites": config.evaluate.task_suites})
    if noise_suite is not None:
        from benchmarks.noise.effects import write_effects
        from benchmarks.noise.suites import SUITES, noise_options

        options = noise_options(config.evaluate, noise_suite)
    config = config.model_copy(update={"evaluate": options})
    at, commit = pinned(model) if model is not None and weights is None else (model, None)
    if commit:
        name = name or model
        log(f"{model} is read at its commit {commit}")
    tasks, data = load_tasks(options)
    if noise_suite is not None:
        log(f"{noise_suite}: looks at {', '.join(task.name for task in tasks)}")
        data = {task.name: SUITES[noise_suite].add_rows(task, data[task.name]) for task in tasks}
    rows = {
        task: of_task.sha256
        | {n: rows_digest(split) for n, split in of_task.further.items() if n not in of_task.sha256}
        for task, of_task in data.items()
    }
    stage = evaluate_stage(config, at, rows, step, name, noise_suite or "evaluate")
    if not overwrite:
        _check_weights(stage)

    def work(partial: Path) -> dict[str, int]:
        from benchmarks.encoder import open_model

        # of the run's own export its place in the run: predictions are the same wherever that is
        path = str(weights or model or output_dir(config) / DEFAULT_MODEL)
        try:
            source = open_model(path, model or DEFAULT_MODEL, commit)
            source = replace(source, title=name or "")
            recommended = recommended_settings(config, None if weights else model, commit)
            if recommended:
                settings = ", ".join(f"{name} {value}" for name, value in recommended.items())
                without = "`evaluate.recipe=auto`"
                log(f"fine-tuning as the encoder recommends: {settings} (without: {without})")
            source = replace(source, recommended=recommended)
            with stop_on_signal(_PROMISE) as stop:
                fine_tune_all(partial, options, tasks, data, source, stop)
        except ValueError:
            # nothing was added to the finished folder, which a fetch may have put back already
            if (partial / MANIFEST).exists() and not stage.folder.exists():
                partial.replace(stage.folder)
                (stage.folder / PLAN).unlink(missing_ok=True)
            elif not (partial / RESULTS).exists():
                shutil.rmtree(partial)
            raise
        results = current_results(partial)
        write_scores(results, partial)
        if noise_suite is not None:
            effects = SUITES[noise_suite].effects(partial, results)
            write_effects(partial / f"{noise_suite}.csv", effects)
        else:
            write_submissions(partial)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite)
    for line in terminal_lines(current_results(stage.folder), stage.folder):
        log(line)
    own = scored_folder(config)
    if stage.folder.name.startswith(f"{own.name}-") and step is None and own.is_dir():
        for line in beside_lines(read_run(own.parent), stage.folder.name):
            log(line)


def _check_weights(stage: Stage) -> None:
    """`UserError` where the folder of scores, finished or in part, is of other weights."""
    for folder, file in ((stage.folder, MANIFEST), (stage.partial, PLAN)):
        if not (folder / file).exists():
            continue
        made = read_manifest(folder) if file == MANIFEST else read_json(folder / file)
        kinds = ("export", "model", "checkpoint")
        if any(made["inputs"].get(kind) != stage.inputs.get(kind) for kind in kinds):
            paths = {result.model_path for result in current_results(folder)}
            raise UserError(
                f"{folder} has the scores of other weights, {min(paths, default='none yet')}: give "
                "these another `name` or output_dir, or `overwrite` those scores"
            )


# --- the loop -------------------------------------------------------------------------------------


def fine_tune_all(
    folder: Path,
    options: EvaluateConfig,
    tasks: Sequence[Task],
    data: Mapping[str, TaskData],
    source: "ModelSource",
    stop: StopRequest,
) -> None:
    """Do every fine-tuning whose key `results.jsonl` lacks, and append its record.

    The largest part of a training split goes first, of each part the encoder before its baselines.
    Raises `Stopped` when asked to stop, and `UserError` for options that do not fit a task or the
    model, before any training.
    """
    from benchmarks.jobs import Job, run_jobs, search_settings
    from benchmarks.training.finetune import tokenize

    if options.keep_models:
        tasks = [_as_kept(task) for task in tasks]
    results = {result.key: result for result in read_results(folder / RESULTS)}
    names = {result.predictions for result in results.values()}
    shown = {result.key for result in current_results(folder)}
    missing, again = list[Job](), list[Result]()
    fractions = sorted(set(options.train_fractions), reverse=True)
    for task in tasks:
        _warn_of_hidden(task, data[task.name], results.values())
        settings = settings_for(task, options, source)
        if note := few_steps_note(task, options, settings, len(data[task.name].train)):
            warn(note)
        for fraction, role in product(fractions, roles(options, task)):
            digest = settings_digest(task, data[task.name], settings, role, fraction, options)
            for seed in seeds_for(task, options):
                key = f"{digest}-{seed}"
                if key in results and _is_whole(folder, results[key], data[task.name]):
                    again += [results[key]] * (key not in shown)
                    continue
                name = predictions_name(task.name, role, seed, fraction)
                name += f"-{key}" if name in names else ""  # that is of other settings or data
                job = Job(task, data[task.name], settings, role, seed, fraction, key, name)
                missing.append(job)
    if missing:
        before = [result for result in results.values() if result.task in data]
        precision = _precision(before, options)
        missing = [replace(j, settings=replace(j.settings, precision=precision)) for j in missing]
    features = {
        job.task.name: tokenize(
            job.task, job.data, source, job.settings, seeds_for(job.task, options)
        )
        for job in {job.task.name: job for job in missing}.values()
    }
    if results:
        log(f"evaluate: {len(results)} fine-tunings are done already, {len(missing)} to do")
    for result in again:  # the last records of a task are those that count
        (folder / MANIFEST).unlink(missing_ok=True)  # from here on the folder changes
        append_result(folder / RESULTS, result)
    batches = [missing]
    if options.search:  # task by task, so that a stop costs the search of one
        batches = [[job for job in missing if job.task == task] for task in tasks]
    for batch in batches:
        batch = search_settings(batch, list(results.values()), source, options, stop)
        for job, result, lines in run_jobs(batch, features, source, options, stop, folder):
            (folder / MANIFEST).unlink(missing_ok=True)
            write_predictions(folder, result, lines)
            append_result(folder / RESULTS, result)  # last: what has a record is whole
            _log_result(result, job.label(source))


def _is_whole(folder: Path, result: Result, data: TaskData) -> bool:
    """Whether every further split of the data is predicted."""
    return all(prediction_path(folder, result, split).is_file() for split in data.further)


def _warn_of_hidden(task: Task, data: TaskData, results: Iterable[Result]) -> None:
    hidden = {r.key for r in results if r.task == task.name and r.data_sha256 != data.sha256}
    if hidden:
        other = "task another `name`" if task.suite == OWN else "scores another output_dir"
        warn(
            f"{task.name}: no table shows its {len(hidden)} results of other rows, which stay in "
            f"{RESULTS}: to see both, give the {other}"
        )


def _as_kept(task: Task) -> Task:
    """With the head of `transformers`, so that the network is one that everything opens."""
    if task.has_auto_head:
        return task.with_auto_head()
    warn(f"{task.name}: `transformers` has no class of networks for it, so none is kept")
    return task


def settings_for(task: Task, options: EvaluateConfig, source: "ModelSource") -> HyperParameters:
    """`hyper_parameters`, with rows as long as the model takes: a recipe's length is lowered with a
    warning. `UserError` where the user asked for more."""
    settings = hyper_parameters(task, options, source.config.hidden_size, source.recommended)
    positions, wanted = source.max_positions, settings.max_sequence_length
    if positions is None or wanted <= positions:
        return settings
    if "max_sequence_length" in options_for(task, options):
        raise UserError(
            f"evaluate.max_sequence_length = {wanted} is more than the {positions} positions of "
            f"{source.path}"
        )
    warn(f"{source.path} has {positions} positions: rows are cut to that length, not to {wanted}")
    return replace(settings, max_sequence_length=positions)


def roles(options: EvaluateConfig, task: Task) -> list[Role]:
    """What is scored of a task: the encoder and its baselines."""
    names: list[Role] = ["pretrained"]
    if options.random_init_control:
        names.append("random-init")
    wanted = options.random_init_control if options.bag_of_words is None else options.bag_of_words
    if wanted and isinstance(task, Classification):
        names.append("bag-of-words")
    return names


def settings_digest(
    task: Task,
    data: TaskData,
    settings: HyperParameters,
    role: Role,
    train_fraction: float,
    options: EvaluateConfig,
) -> str:
    """A digest of all that decides a score but the weights of the folder and the seed."""
    from benchmarks.training.bag_of_words import GRID  # scikit-learn, whose import takes long

    decides: list[object] = [asdict(settings)]
    if options.search:
        decides.append(options.search.model_dump(mode="json"))
    if role == "bag-of-words":
        decides = [settings.max_train_examples, GRID]
    elif role == "pretrained" and options.keep_models:
        decides.append("kept")  # one that was done before, and not kept, is done again
    content = [task.name, task.version, data.sha256, role, train_fraction, decides]
    return digest_of(content)[:16]


def _precision(before: Sequence[Result], options: EvaluateConfig) -> str:
    """`evaluate.precision`; for "auto" that of the records of these tasks, so that no table mixes
    two, else what the device is best at."""
    from benchmarks.training.finetune import choose_device, choose_precision

    device = choose_device(options.device)
    if options.precision != "auto":
        return options.precision
    known = (result.hyper_parameters.get("precision") for result in before)
    precision = choose_precision(next(filter(None, known), "auto"), device)
    if device.type == "cpu":
        log(describe_precision("evaluate.precision", precision))
    return precision


# --- what is said of a result ---------------------------------------------------------------------


def _log_result(result: Result, label: str) -> None:
    used, speed = result.hyper_parameters, ""
    if "num_steps" in used:
        rate = used["num_steps"] * used["batch_size"] / max(result.train_seconds or 0, 1e-9)
        speed = f", {rate:,.0f} examples/s in training"
    log(
        f"{label}: {result.metric} {percent(result.value)} on {result.examples} rows of "
        f"{result.split}, {duration(result.seconds)}{speed}"
    )
    if result.degenerate:
        warn(f"{label} is degenerate: {result.degenerate}")
    for note in result.notes:
        warn(f"{label}: {note}")


# --- beside the run's own encoder -----------------------------------------------------------------

Export = Callable[[Path, Path], None]  # writes a checkpoint as a `transformers` folder
_Run = TypeVar("_Run", bound=EvaluationRun)


def evaluate_start(config: EvaluationRun, overwrite: bool, export: Export) -> None:
    """Score the encoder that a run continues from as its own is scored, into `evaluate-start/`, and
    log the differences. Baselines are left to `evaluate/`. An encoder that cannot be read, or that
    was trained on since, is left out with a warning: the run's own scores stay.
    """
    start = config.pretrain.initial_model if isinstance(config, RunConfig) else None
    if not start or not config.evaluate.start_control or not config.evaluate.has_tasks:
        return
    if isinstance(config, RunConfig) and start_has_changed(config):
        warn(
            f"the start, {start}, is not scored: it has changed since this run began from it, so "
            "the difference would not be what the run has taught; put the old files back to see it"
        )
        return
    config = _without_baselines(config)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, weights = initial_checkpoint(start), None
        try:
            if checkpoint:
                weights = Path(scratch)
                export(checkpoint, weights)
            model = str(checkpoint or encoder_path(start))
            evaluate(config, model, overwrite, weights=weights, name=START)
        except UserError as error:
            warn(f"the start, {start}, is not scored: {error}")


def _without_baselines(config: _Run) -> _Run:
    """To score an encoder beside others: once, from the largest part of the training rows."""
    changes = {
        "random_init_control": False,
        "bag_of_words": False,
        "train_fractions": (max(config.evaluate.train_fractions),),
    }
    return config.model_copy(update={"evaluate": config.evaluate.model_copy(update=changes)})


# --- checkpoints of a pretraining -----------------------------------------------------------------


def evaluate_checkpoints(
    config: RunConfig, steps: Sequence[int], overwrite: bool, export: Export
) -> None:
    """Score checkpoints, the oldest first, each into `evaluate-checkpoint-<step>/`.

    Without `steps` all that are there are scored, except the one that `evaluate/` has scored as the
    run's export. Baselines are left to `evaluate/`: they are the same for all. Of
    `evaluate.train_fractions` only the largest is scored. `export` writes a checkpoint as a
    `transformers` folder. Raises `UserError` for a step without a checkpoint, and what `evaluate`
    raises.
    """
    run = output_dir(config)
    by_step = checkpoints_of(run, steps)
    exported = _exported_step(run)
    if not steps and exported in by_step:
        log(f"evaluate: checkpoint-{exported} is the export's; its scores are those of evaluate/")
        del by_step[exported]
    config = _without_baselines(config)
    for step in sorted(set(steps) or by_step):
        with tempfile.TemporaryDirectory() as scratch:
            export(by_step[step], Path(scratch))
            evaluate(config, str(by_step[step]), overwrite, weights=Path(scratch), step=step)


def _exported_step(run: Path) -> int | None:
    """The step of the export, if `evaluate/` has scored that very export."""
    try:
        export, scores = read_manifest(run / "export"), read_manifest(run / "evaluate")
    except ValueError:
        return None
    is_scored = scores["inputs"].get("export") == export["digest"]
    return checkpoint_step(Path(export["counts"]["checkpoint"])) if is_scored else None
