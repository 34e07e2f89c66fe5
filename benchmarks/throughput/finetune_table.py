"""The figures of the fine-tuning benchmark as tables."""

from benchmarks.comparison import SEEDS_RULE
from benchmarks.throughput.figures import machine
from benchmarks.throughput.finetune_figures import (
    OURS,
    PACKAGES,
    FinetuneFigures,
    System,
    TaskFigures,
)
from benchmarks.throughput.table import add_goals
from benchmarks.twin_page import TwinPage


def build_finetune_page(figures: FinetuneFigures) -> TwinPage:
    """Goals first, then what they were judged by."""
    document = TwinPage("Fine-tuning, measured", "python -m benchmarks.throughput finetune")
    _add_conditions(document, figures)
    add_goals(document, figures.goals)
    for task in figures.tasks:
        _add_task(document, task)
    return document


def _add_conditions(document: TwinPage, figures: FinetuneFigures) -> None:
    about, of = machine(PACKAGES), figures.conditions
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    document.paragraph(
        f"{about['date']}, {of['device']}, {about['cores']} cores of {about['processor']}, "
        f"{about['system']}, Python {about['python']}, {versions}, CUDA {of['cuda'] or 'none'}, "
        f"commit {of['git_commit'] or 'unknown'}."
    )
    document.paragraph(
        f"{of['model']}: {of['num_hidden_layers']} layers of {of['hidden_size']}, "
        f"{of['vocab_size']:,} pieces; {of['data']}; batches of {of['batch_size']}, "
        f"{of['num_epochs']:g} epochs, {of['precision']}, head on {of['pooling']}, seeds "
        f"{', '.join(map(str, of['seeds']))}. KLUE's recipe: AdamW, linear warm-up and decay, no "
        "decay by layer."
    )
    document.paragraph(
        "Trainer: that of transformers with its own sampler, optimizer and schedule, rows "
        'tokenised before and padded to the longest of a batch by DataCollatorWithPadding; "by '
        'length" draws batches of like length. The same encoder with the same first weights, '
        "hyper-parameters, training rows and seeds. One fine-tuning of each system a seed, in "
        "turn, in alternating order, in one process. Examples/s leave out building the model and "
        "the first tenth of the steps; seconds are those of all of it with predicting."
    )
    document.paragraph(SEEDS_RULE)
    for note in figures.notes:
        document.paragraph(note)


def _add_task(document: TwinPage, task: TaskFigures) -> None:
    document.heading(task.name)
    texts = "one text" if task.num_texts == 1 else "two texts"
    document.paragraph(
        f"{task.num_train:,} training rows of {texts}, {task.median_pieces:g} pieces in the median "
        f"and {task.longest} at most, {task.num_steps:,} steps; {task.metric} on "
        f"{task.num_reported:,} reported rows."
    )
    headers = (
        "", "examples/s", "spread", "examples / CPU s", "ours is times as fast",
        "by processor time", "seconds",
        f"mean {task.metric}", "sd", "ours less it", "",
    )  # fmt: skip
    document.table(headers, [_row(task, system) for system in task.systems])
    by_seed = [
        (seed, *(system.scores.values[seed] for system in task.systems))
        for seed in task.systems[0].scores.values
    ]
    document.table(("seed", *(system.name for system in task.systems)), by_seed, task.metric)


def _row(task: TaskFigures, system: System) -> tuple[object, ...]:
    summary = system.scores.summary
    seconds = sum(run.seconds for run in system.runs) / len(system.runs)
    of_system = (
        system.name, system.examples_per_second, system.spread, system.examples_per_cpu_second
    )  # fmt: skip
    scores = seconds, summary.mean, summary.sd
    if system.name == OURS or (other := task.difference(system.name)) is None:
        return *of_system, None, None, *scores, None, ""
    ratios = task.ratio(system.name), task.ratio(system.name, "cpu")
    return *of_system, *ratios, *scores, other.gain, other.verdict
