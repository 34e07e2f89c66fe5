"""What each stage of a run will cost, before it starts, from rates measured on two CPU cores."""

from typing import TYPE_CHECKING

from electrify.config.run import RunConfig
from electrify.stage.remote import is_address
from electrify.system.progress import duration

if TYPE_CHECKING:
    from benchmarks.tasks.data import TaskData

# docs/results.md: MB of raw text a CPU second for cleaning, learning pieces at morphemes, encoding
_CLEAN_RATE, _VOCAB_RATE, _ENCODE_RATE = 3.7, 1.9, 8.0
_TOKEN_CHARACTERS = 1.8  # characters a token, of Korean; other scripts have more
_SAMPLE_ROWS = 1000  # whose lengths are measured
_DEVICES = {  # FLOP/s in matrix products that small networks reach in fine-tuning, assumed
    "one H200": 5e13,
    "two CPU cores": 1e11,
}


def corpus_cost(config: RunConfig) -> list[str]:
    """CPU time of the stages that read text; the sources on this machine are measured."""
    from pipeline.sources.files import expand_sources

    sources = config.clean.sources
    if any(source.kind == "huggingface" or is_address(source.path) for source in sources):
        return ["clean, train-vocab, encode: not estimated, the sources are not on this machine"]
    megabytes = sum(file.text_bytes for file in expand_sources(sources)) / 1e6
    stages = {"clean": _CLEAN_RATE, "train-vocab": _VOCAB_RATE, "encode": _ENCODE_RATE}
    parts = [f"{name} {duration(megabytes / rate)}" for name, rate in stages.items()]
    return [f"CPU time for {megabytes:,.1f} MB of text: {', '.join(parts)} (estimated)"]


def evaluation_cost(config: RunConfig) -> list[str]:
    """Number of fine-tunings and their time, by the rows of the tasks.

    Rows on the hub are not read: they count by their official number, at half the longest length.
    """
    options = config.evaluate
    if not options.has_tasks:
        return []
    from benchmarks.finetune.recipe import hyper_parameters, seeds_for
    from benchmarks.tasks.data import check_data, hub_paths, load_tasks
    from model.flops import body_parameters

    _, parameters = body_parameters(config.pretrain, config.vocab.size)
    num_encoders = 1 + options.random_init_control
    num_fractions = len(set(options.train_fractions))
    num_trials = 0
    if options.search:
        num_trials = 1
        for values in options.search.values.values():
            num_trials *= len(values)
        num_trials = min(num_trials, options.search.num_trials or num_trials)
    num_jobs, flops = 0, 0.0
    is_local = not hub_paths(options)
    data: dict[str, TaskData] = {}
    tasks = check_data(options)
    if is_local:
        try:
            tasks, data = load_tasks(options)
        except ValueError:  # unreadable files: `evaluate` names what is wrong with them
            is_local = False
    for task in tasks:
        settings = hyper_parameters(task, options, config.pretrain.hidden_size)
        jobs = num_encoders * (num_fractions * len(seeds_for(task, options)) + num_trials)
        if is_local:
            train, predicted = data[task.name].train, data[task.name].reported
            num_train, num_predicted = len(train), len(predicted)
            lengths = [
                min(settings.max_sequence_length, sum(map(len, example.texts)) / _TOKEN_CHARACTERS)
                for example in (train or predicted)[:_SAMPLE_ROWS]
            ]
            length = sum(lengths) / max(1, len(lengths))
        else:
            num_train = task.num_rows.get("train", 0)
            num_predicted = task.num_rows.get(task.reported, 0)
            length = settings.max_sequence_length / 2
        rows = min(num_train or num_predicted, settings.max_train_examples or num_train)
        trained = settings.num_steps(rows) * settings.batch_size
        num_jobs += jobs
        flops += jobs * length * parameters * (6 * trained + 2 * num_predicted)
    times = [f"{duration(flops / rate)} ({name}, assumed)" for name, rate in _DEVICES.items()]
    return [f"evaluate: {num_jobs} fine-tunings, about {flops:.3g} FLOPs: {', '.join(times)}"]
