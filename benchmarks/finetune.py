"""`electrify finetune`: an encoder becomes a network for one task, in a folder that `transformers`
opens.

A seed is scored on rows that it did not learn from. Where these were taken from the training file,
a network that learns from all rows is written; of several seeds the one that scores best.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import ModelCardData
from jinja2 import Template

from benchmarks.evaluate import roles, settings_for
from benchmarks.model_name import encoder_path, pinned
from benchmarks.results.results import MODELS, Result, percent
from benchmarks.statistics.uncertainty import Interval, estimate, score_bounds
from benchmarks.statistics.uncertainty import scored as of_seeds
from benchmarks.tasks.labels import TextTask
from benchmarks.tasks.load import SPLIT_EVAL, TaskData, load_tasks
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.task import Task
from benchmarks.training.recipe import best_of, few_steps_note, seeds_for
from electrify.config.evaluate import EvaluateConfig
from electrify.stage.folder import write_text
from electrify.stage.plan import is_hub_name, recommended_settings
from electrify.system.outcome import UserError
from electrify.system.progress import Stopped, log, stop_on_signal, warn

_PROMISE = "nothing is written; the same command begins again"


def finetune(model: str, output: Path, options: EvaluateConfig, onnx: bool = False) -> None:
    """Fine-tune `model` (a folder or hub name) on the one task of `options` and write `output`: of
    several `seeds` the best, with the settings that `search` chose; `onnx` adds both ONNX files.

    Raises `UserError` for a folder that is there, a task that no class of `transformers` is for,
    rows and models that cannot be read, and a training that fails, and `Stopped`; then nothing is
    written.
    """
    if output.exists():
        raise UserError(f"{output} is there already: give another `output`, or remove it")
    if onnx:
        from benchmarks.onnx.export import require_onnx

        require_onnx()
    if options.train_fractions != (1.0,):
        raise UserError(
            f"evaluate.train_fractions = {list(options.train_fractions)}: finetune learns from all "
            "rows; leave it out, or give evaluate.max_train_examples"
        )
    model = encoder_path(model)
    _, commit = pinned(model)
    tasks, data_of = load_tasks(options)
    if len(tasks) != 1:
        names = ", ".join(task.name for task in tasks)
        raise UserError(f"finetune takes one task, not {names}: give one `own_task` or `task`")
    if not tasks[0].has_auto_head:
        raise UserError(
            f"{tasks[0].name}: `transformers` has no class of networks for it; finetune is for "
            "labels, numbers, tags and answers (electrify evaluate scores the others, too)"
        )
    task, data = tasks[0].with_auto_head(), data_of[tasks[0].name]
    from benchmarks.encoder import open_model
    from benchmarks.jobs import Job, run_jobs, search_settings
    from benchmarks.training.finetune import tokenize

    source = open_model(model, commit=commit)
    source = replace(source, recommended=recommended_settings(options, model, commit))
    settings, seeds = settings_for(task, options, source), seeds_for(task, options)
    if note := few_steps_note(task, options, settings, len(data.train)):
        warn(note)
    options = options.model_copy(update={"keep_models": True})
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix=f"{output.name}.", suffix=".partial", dir=output.parent) as place,
        stop_on_signal(_PROMISE) as stop,
    ):
        words = list[Result]()

        def trained(data: TaskData, jobs: Sequence[Job]) -> list[tuple[Result, Any]]:
            features = tokenize(task, data, source, jobs[0].settings, [job.seed for job in jobs])
            done = []
            given = {task.name: features}, source, options, stop, Path(place)
            for job, result, predictions in run_jobs(jobs, *given):
                if job.role == "bag-of-words":
                    words.append(result)
                    continue
                if not _folder(place, result).is_dir():
                    warn(f"{job.label(source)}: {result.degenerate}; lower the rate")
                    continue
                if result.degenerate:
                    warn(f"{job.label(source)} is degenerate: {result.degenerate}")
                done.append((result, predictions[data.split]))
            if not done:
                raise UserError(f"{task.name}: every training failed; lower the rate")
            # processes end in any order: of equal seeds the first is the best
            return sorted(done, key=lambda each: seeds.index(each[0].seed))

        try:
            jobs = [Job(task, data, settings, "pretrained", seed) for seed in seeds]
            jobs = search_settings(jobs, [], source, options, stop)
            jobs = [replace(job, predictions=f"{job.seed}") for job in jobs]
            if "bag-of-words" in roles(options, task):
                jobs.append(replace(jobs[0], role="bag-of-words"))
            scored = trained(data, jobs)
            best, _ = scored[best_of([_chosen_by(task, result) for result, _ in scored])]
            if len(seeds) == 1 and SPLIT_EVAL in data.split:
                num_rows = len(data.train) + len(data.reported)
                log(f"{task.name}: once more, on all {num_rows:,} rows")
                train = (*data.train, *data.reported)
                whole = replace(data, train=train, reported=data.reported[:1])
                once_more = replace(jobs[0], data=whole, predictions="all rows")
                (best, _), *_ = trained(whole, [once_more])
        except Stopped as stopped:
            raise Stopped(_PROMISE, stopped.signal) from None
        values, draws = of_seeds(task, {result.seed: predicted for result, predicted in scored})
        interval = estimate(values, draws, score_bounds(task.headline))
        folder = _folder(place, best)
        write_text(folder / "README.md", _card(model, task, data, scored, interval, best, words))
        folder.rename(output)
    if onnx:  # the network stays whatever becomes of its copies
        from benchmarks.onnx import export, int8

        export.export_folder(output, output, export.open_network(output), export.sample())
        int8.quantize(output / export.FP32_FILE, output / export.INT8_FILE)
    if source.recommended.get("pooling") == "parts" and task.has_parts:
        log(
            f"{task.name}: the head is that of `transformers` for {source.config.model_type}; "
            "evaluate scores both texts with a head of its own (pooling = parts)"
        )
    for note in dict.fromkeys(note for result, _ in scored for note in result.notes):
        warn(note)
    log(f"{task.name}: {_score_text(scored, interval)}; wrote {output}")
    for result in words:
        text = f"{task.name}: TF-IDF with logistic regression has {percent(result.value)} there"
        if (result.value or 0) < interval.value:
            log(text)
        else:
            warn(f"{text}; it needs no network and is as good or better")
    log(f"predict with it: electrify predict {output} FILE; {output}/README.md has the Python")


def _chosen_by(task: Task, result: Result) -> dict[str, Any]:
    """What a seed is chosen by: its score on dev, where other rows are reported."""
    value = result.metrics.get(_on_dev(task), result.value)
    return {"value": value, "degenerate": result.degenerate}


def _on_dev(task: Task) -> str:
    return f"dev_{task.headline}"


def _folder(place: str, result: Result) -> Path:
    return Path(place, MODELS, result.predictions)


def _score_text(scored: Sequence[tuple[Result, Any]], interval: Interval) -> str:
    first, _ = scored[0]
    seeds = f" of {len(scored)} seeds" if len(scored) > 1 else ""
    text = f"{first.metric} {percent(interval.value)}{seeds}, 95 % interval {interval.text()},"
    return f"{text} on {first.num_examples:,} rows that were not learnt from ({first.split})"


def pipeline_of(task: Task) -> str:
    """The name of the pipeline of `transformers` for it."""
    if isinstance(task, TextTask):
        return "text-classification"
    return "question-answering" if isinstance(task, Spans) else "token-classification"


def _card(
    model: str,
    task: Task,
    data: TaskData,
    scored: Sequence[tuple[Result, Any]],
    interval: Interval,
    best: Result,
    words: Sequence[Result],
) -> str:
    kind = pipeline_of(task)
    base = model if is_hub_name(model) and not Path(model).exists() else None
    metadata = ModelCardData(
        base_model=base, library_name="transformers", pipeline_tag=kind, tags=["electrify"]
    )
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    card: str = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        metadata=metadata.to_yaml(),
        model=base or "/".join(Path(model).parts[-3:]),
        task=task,
        pipeline=kind,
        score=_score_text(scored, interval),
        words=[percent(result.value) for result in words],
        scored=[(result.seed, percent(result.value)) for result, _ in scored],
        best=best,
        is_chosen=len(scored) > 1,
        is_chosen_on_dev=_on_dev(task) in best.metrics,
        is_retrained=best.predictions == "all rows",
        num_rows=best.num_train_examples,
    )
    return card
