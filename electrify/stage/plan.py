"""Which options and which earlier folders each stage is made from."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import TABLES, TrackerOptions
from electrify.config.load import parse_part
from electrify.config.pretrain import PretrainConfig
from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import (
    MANIFEST,
    Stage,
    difference,
    digest_of,
    fingerprint,
    input_digest,
    read_manifest,
)
from electrify.stage.networks import ENCODER
from electrify.stage.trackers import TRACKER_FILE
from electrify.storage.files import read_json
from electrify.storage.hub import file_beside
from electrify.system.bundled import bundled_name, with_bundled
from electrify.system.outcome import UserError
from electrify.system.progress import warn

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
# options of `pretrain` that change neither a weight nor a figure, but for rounding and the masks of
# dropout: where copies go, how many stay, what each process holds, where inputs come from
KEEPING_OPTIONS = (
    "checkpoint_dir",
    "checkpoint_every_steps",
    "compile",
    "cuda_graph",
    "device",
    "keep_checkpoints",
    "keep_every_steps",
    "micro_batch_size",
    "num_devices",
    *TrackerOptions.model_fields,
)
COMPARED = "compared_with"  # in the counts of `clean`: tasks and files whose texts were removed
CARD = "README.md"  # the model card of an exported network
FINETUNING = "finetuning.json"  # beside an encoder: the settings of fine-tuning that suit it
# stage folder -> the verb that makes it, in the order of a run
VERBS = {
    "clean": "clean",
    "vocab": "train-vocab",
    "shards": "encode",
    "pretrain": "pretrain",
    "export": "export",
    "evaluate": "evaluate",
}
METRICS = "metrics.jsonl"  # of pretraining: a line a record
SUMMARY = "summary.json"  # of pretraining so far: sizes, cost, device
CHECKPOINT_STATE = "state.json"  # written last into a checkpoint
NETWORKS = ("discriminator", "generator", "language_model")  # folders of an export
DEFAULT_MODEL = f"export/{NETWORKS[0]}"  # of a run: what is scored where nothing is named
START = "start"  # names the scores of the encoder that a run continues from
_INITIAL_SUFFIXES = (".json", ".txt", ".safetensors", ".bin")


def output_dir(config: EvaluationRun) -> Path:
    """The run's folder; of a run at an address that is its local one (`open_run`)."""
    assert "://" not in config.output_dir, "open_run makes a folder of an address"
    return Path(config.output_dir)


def clean_stage(
    config: RunConfig, files: Mapping[str, str], benchmark_texts: Path | None = None
) -> Stage:
    """Raw files to documents; `files` are what the sources match, with their fingerprints.

    `benchmark_texts` is the folder of texts that documents are compared with.
    """
    digests: dict[str, list[str]] = {}
    for path, digest in dict(files).items():
        digests.setdefault(bundled_name(path), []).append(digest)
    inputs = {
        path: digest_of(several) if len(several) > 1 else several[0]
        for path, several in digests.items()
    }
    if benchmark_texts is not None and config.clean.decontaminate_against is not None:
        inputs["benchmark texts"] = _files_digest(benchmark_texts)
    options, change = stage_options(config, "clean"), None
    if config.clean.decontaminate_against == () and (tasks := compared_tasks(config)):
        change = f"config decontaminate_against changed from what is scored, {tasks!r}, to []"
    return Stage("clean", output_dir(config) / "clean", options, inputs, change=change)


def compared_tasks(config: RunConfig) -> list[str] | None:
    """The tasks with whose texts a finished corpus was compared; None of one that does not say, or
    where there is none."""
    try:
        counts = read_manifest(output_dir(config) / "clean")["counts"]
    except UserError:
        return None
    tasks: list[str] | None = counts.get(COMPARED)
    return tasks


def stage_options(config: RunConfig, name: str) -> dict[str, Any]:
    """What decides the result of the stage whose folder has this name."""
    if name == "pretrain":
        return _options(config.pretrain, leave_out=set(KEEPING_OPTIONS)) | {"seed": config.seed}
    section = getattr(config, "encode" if name == "shards" else name)
    # of benchmarks the texts count
    options = _options(section, leave_out={"decontaminate_data_dir", "onnx"})
    if name == "clean":  # a task that is scored later leaves a finished corpus as it is
        options["decontaminate_against"] = options["decontaminate_against"] or []
    return options


def vocab_stage(config: RunConfig) -> Stage:
    """Documents to a tokenizer, and a report on it; of `vocab.extend` the contents count."""
    folder = output_dir(config)
    inputs, reads = _earlier(config, "clean")
    if config.vocab.extend:
        inputs["vocab.extend"] = _vocabulary_digest(config.vocab.extend)
    options = stage_options(config, "vocab")
    return Stage("train-vocab", folder / "vocab", options, inputs, reads=reads)


def encode_stage(config: RunConfig) -> Stage:
    """Documents to token shards, which serve every sequence length, packing and mixture."""
    inputs, reads = _earlier(config, "clean", "vocab")
    options = stage_options(config, "shards")
    return Stage("encode", output_dir(config) / "shards", options, inputs, reads=reads)


def pretrain_stage(config: RunConfig) -> Stage:
    """Token shards to checkpoints."""
    folder = output_dir(config)
    inputs, reads = _earlier(config, "shards", "vocab")
    for option, path in config.pretrain.initial.items():
        inputs[f"pretrain.{option}"] = _initial_digest(path)
    volatile = (METRICS, SUMMARY, "tensorboard/*", TRACKER_FILE, "wandb/*")
    options = stage_options(config, "pretrain")
    return Stage("pretrain", folder / "pretrain", options, inputs, True, volatile, reads=reads)


def start_has_changed(config: RunConfig) -> bool:
    """Whether `initial_model` is no longer what the run's pretraining began from."""
    folder, start = output_dir(config) / "pretrain", config.pretrain.initial_model
    if not start or not (folder / MANIFEST).exists():
        return False
    recorded = read_manifest(folder)["inputs"].get("pretrain.initial_model")
    return recorded not in (None, _initial_digest(start))


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    paths = [p for p in folder.glob("checkpoint-*") if p.name.split("-")[-1].isdigit()]
    return sorted(paths, key=checkpoint_step)


def checkpoint_step(path: Path) -> int:
    return int(path.name.split("-")[-1])


def run_folder(checkpoint: Path) -> Path:
    """The run of a checkpoint, two folders up, where its text and vocabulary are."""
    return checkpoint.resolve().parent.parent


def kept_steps(
    steps: Sequence[int], keep: int, keep_every: int | None, flat_end: int = 0
) -> set[int]:
    """Which of the checkpoints of these rising steps stay: the newest `keep`, the first at or after
    each multiple of `keep_every`, and the last before the rate falls, at `flat_end`."""
    firsts: dict[int, int] = {}
    if keep_every:
        for step in steps:
            firsts.setdefault(step // keep_every, step)
        firsts.pop(0, None)
    flat = [step for step in steps if step <= flat_end]
    return {*steps[-keep:], *firsts.values(), *flat[-1:]}


def named_checkpoint(path: str) -> Path | None:
    """The checkpoint at a path; None if there is none.

    `pretrain/` and `pretrain.partial/` stand for each other: the finished folder is renamed.
    """
    folder = Path(path).expanduser()
    run = folder.parent.parent
    both = [run / "pretrain" / folder.name, run / "pretrain.partial" / folder.name]
    folders = [folder, *both] if folder in both else [folder]
    return next((path for path in folders if (path / CHECKPOINT_STATE).is_file()), None)


def initial_checkpoint(path: str) -> Path | None:
    """The checkpoint that `initial_model` names: itself, else the newest in it or its `pretrain/`.

    None if there is none, as in a `transformers` folder.
    """
    if checkpoint := named_checkpoint(path):
        return checkpoint
    folder = Path(path).expanduser()
    paths = checkpoints(folder) or checkpoints(folder / "pretrain")
    return paths[-1] if paths else None


def check_initial(config: PretrainConfig) -> dict[str, str]:
    """The initial weights that are not here, by option: names that the hub may have.

    `UserError` for one that is no such name.
    """
    missing = {}
    for option, name in config.initial.items():
        if initial_checkpoint(name) or Path(name).expanduser().is_dir():
            continue
        if not is_hub_name(name):
            raise UserError(
                f"pretrain.{option} = {name!r}: there is no such folder; give a run, one of its "
                "checkpoints, a folder that transformers opens, or a hub name"
            )
        missing[option] = name
    return missing


def is_hub_name(name: str) -> bool:
    """Whether a name that is no folder may be that of a model on the hub: `model` or `owner/model`.

    The hub is not asked. A folder `owner` here, such as klue/ with data, hides no model.
    """
    has_form = re.fullmatch(r"(\b[\w.-]+\b/)?\b[\w.-]{1,96}\b", name)  # as huggingface_hub asks
    return has_form is not None and not re.search(r"--|\.\.|\.git$", name)


def checkpoints_of(run: Path, wanted: Iterable[int] = ()) -> dict[int, Path]:
    """The checkpoints of a run's `pretrain/`, finished or not, by step, oldest first; `UserError`
    where there are none, or not those wanted."""
    paths = [*checkpoints(run / "pretrain.partial"), *checkpoints(run / "pretrain")]
    # where a finished run is prolonged, both have some
    by_step = dict(sorted((checkpoint_step(path), path) for path in paths))
    if not by_step:
        raise UserError(f"no checkpoint in {run}; run first: electrify pretrain CONFIG")
    if unknown := [step for step in wanted if step not in by_step]:
        raise UserError(
            f"no checkpoint-{unknown[0]} in {run}; there are those of steps "
            f"{', '.join(map(str, by_step))} (pretrain.keep_every_steps keeps more of them)"
        )
    return by_step


def export_stage(config: RunConfig, step: int | None = None) -> Stage:
    """The last checkpoint to `transformers` folders; or that of a step, also of unfinished work,
    in a folder of its own."""
    folder, name = output_dir(config), "export"
    if step is None:
        begun = checkpoints(folder / "pretrain.partial")
        if begun and not (folder / "pretrain").exists():
            steps = ", ".join(str(checkpoint_step(path)) for path in begun)
            raise UserError(
                f"{folder / 'pretrain.partial'} is not finished: electrify pretrain CONFIG resumes "
                f"it, electrify export CONFIG --step N exports what is there (N: {steps})"
            )
        inputs, reads = _earlier(config, "pretrain", "vocab")
    else:
        inputs, reads = _earlier(config, "vocab")
        inputs["checkpoint"] = _initial_digest(str(checkpoints_of(folder, [step])[step]))
        name = f"export-checkpoint-{step}"
    reads[VERBS["shards"]] = folder / "shards"  # the networks are compared on some of it
    # scores come into the model cards once there are any, and the recipe is that of the last config
    cards = [f"{network}/{CARD}" for network in (*NETWORKS, ENCODER)]
    cards += [f"{network}/{FINETUNING}" for network in (NETWORKS[0], ENCODER)]
    return Stage(
        "export",
        folder / name,
        stage_options(config, "export"),
        inputs,
        volatile=(*cards,),
        rewritten=(*cards,),
        reads=reads,
    )


def onnx_stage(config: EvaluationRun, model: str | None) -> Stage:
    """Networks to ONNX: the run's export, or a folder `model`; judged by the fine-tuned networks of
    `scored_folder`."""
    folder, scored = output_dir(config), scored_folder(config)
    reads: Mapping[str, Path] = {}
    if model is None:
        inputs, reads = _earlier(config, "export")
    else:
        inputs = {"model": _model_digest(model)}
    inputs["fine-tuned"] = _files_digest(scored, sorted((scored / "models").rglob("*")))
    options = _options(config.export.onnx)
    return Stage("export --onnx", folder / "onnx", options, inputs, reads=reads)


def recommended_settings(
    config: EvaluationRun | EvaluateConfig, model: str | None = None, commit: str | None = None
) -> dict[str, Any]:
    """The settings of fine-tuning that an encoder recommends, of those that `[evaluate]` leaves
    open; nothing where that names a recipe.

    They stand in the `finetuning.json` of `model`, a folder or hub name. Those of the run's own
    encoder (None) are those of `initial_model`, and of its size where it has none. Raises
    `UserError` for a file that holds anything but such settings.
    """
    options = config if isinstance(config, EvaluateConfig) else config.evaluate
    known = dict[str, Any]()
    if "recipe" in options.model_fields_set:
        return {}
    if model is None and isinstance(config, RunConfig):
        model = config.pretrain.initial_model
        known = {} if model else TABLES["finetuning"][config.pretrain.size]
    if model is not None and (file := _file_of(model, FINETUNING, commit)):
        try:
            known = parse_part(read_json(file), str(file), EvaluateConfig).recommended
        except ValueError as error:
            raise UserError(f"{error}\n`evaluate.recipe=auto` does without that file") from None
    return {n: v for n, v in known.items() if n == "recipe" or getattr(options, n) is None}


def licence_of(config: RunConfig) -> str | None:
    """The licence of a run's weights: the one that the config names, else that of its
    `initial_model` where its card asks to share alike."""
    if config.export.licence or not config.pretrain.initial_model:
        return config.export.licence
    card = None
    with suppress(UserError):  # the hub cannot be asked
        card = _file_of(config.pretrain.initial_model, CARD, None)
    text = card.read_text(encoding="utf-8", errors="replace") if card else ""
    named = re.search(r"(?ms)\A---\n.*?^license: *([\w.-]+)$.*?^---$", text)
    return named[1] if named and re.search(r"-sa\b|gpl", named[1]) else None


def _file_of(model: str, name: str, commit: str | None) -> Path | None:
    """Beside a model, as the card of a folder of networks is, or in the export of the run that is
    meant."""
    checkpoint, folder = initial_checkpoint(model), Path(model).expanduser()
    if not checkpoint and not folder.is_dir():
        return file_beside(model, name, commit)
    run = run_folder(checkpoint) if checkpoint else folder
    places = [folder, folder / NETWORKS[0], run / DEFAULT_MODEL]
    places += [folder.parent] * (folder.name in NETWORKS)
    return next((p / name for p in places if (p / name).is_file()), None)


def scored_folder(config: EvaluationRun) -> Path:
    """The results of the run's own encoder, or of an evaluation without a run."""
    return output_dir(config) / "evaluate"


def evaluate_stage(
    config: EvaluationRun,
    model: str | None,
    rows: Mapping[str, Mapping[str, str]],
    step: int | None = None,
    name: str | None = None,
    folder_name: str = "evaluate",
) -> Stage:
    """An encoder to scores.

    `model` is a folder or hub name in place of the run's own export, or of an evaluation without a
    run its encoder; with `step` it is a checkpoint of this run. `rows` are digests of the tasks'
    rows by task and split. `name` is what the results of a `model` are called; `folder_name` is
    that of a suite in `NOISE_SUITES`, or "evaluate".
    """
    folder = output_dir(config)
    apart = {"data_dir", "num_processes", "start_control"}
    options = _options(config.evaluate, leave_out=apart)
    reads: Mapping[str, Path] = {}
    if model is None:
        label, (inputs, reads) = folder_name, _earlier(config, "export")
    elif step is None:
        name = name or model.strip("/.")
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
        label = f"{folder_name}-{name}" if isinstance(config, RunConfig) else folder_name
        inputs = {"model": _model_digest(model)}
    else:  # wherever it stands: the folder is renamed when the run is finished
        label, inputs = f"evaluate-checkpoint-{step}", {"checkpoint": _initial_digest(model)}
    if (model is None or step is not None) and (recommended := recommended_settings(config)):
        inputs["recipe"] = digest_of(recommended)
    inputs["data"] = digest_of(rows)
    return Stage(
        "evaluate",
        folder / label,
        options,
        inputs,
        resumable=True,
        volatile=("results.jsonl",),
        reads=reads,
        keyed=True,
    )


def _files_digest(folder: Path, files: Iterable[Path] | None = None) -> str:
    """Of the names below the folder and the contents of all files, or of those given."""
    paths = sorted(folder.rglob("*")) if files is None else files
    return digest_of(
        [[p.relative_to(folder).as_posix(), fingerprint(str(p))] for p in paths if p.is_file()]
    )


def _earlier(config: EvaluationRun, *stages: str) -> tuple[dict[str, str], dict[str, Path]]:
    """Digests of stage folders that a stage reads, by name, and the folders by their verb.

    They stay in use where the config was edited since; a warning says which option.
    """
    folder = output_dir(config)
    digests = {name: input_digest(folder / name, VERBS[name]) for name in stages}
    if isinstance(config, RunConfig):
        in_order = [*VERBS]
        for name in in_order[: max(map(in_order.index, stages)) + 1]:
            if change := edited_option(config, name):
                warn(
                    f"{folder / name} was made before the config was edited and is used as it is "
                    f"({change}); electrify {VERBS[name]} CONFIG --overwrite makes it again"
                )
    return digests, {VERBS[name]: folder / name for name in stages}


def edited_option(config: RunConfig, name: str) -> str | None:
    """The first option of a finished stage that the config has another value for; None where there
    is none, or no such folder."""
    folder = output_dir(config) / name
    try:
        manifest, options = read_manifest(folder), stage_options(config, name)
    except UserError:  # who reads the folder says so
        return None
    # options that both versions of electrify have
    both = {key: value for key, value in options.items() if key in manifest["config"]}
    manifest["config"] = {key: manifest["config"][key] for key in both}
    return difference(manifest, Stage(name, folder, both, manifest["inputs"]))


def _vocabulary_digest(path: str) -> str:
    """Of the files that a tokenizer folder is read from, or of one vocab.txt."""
    one = Path(path)
    # what is not there is an error that the stage itself explains
    if one.is_file():
        return _files_digest(one.parent, [one])
    return _files_digest(one, [one / name for name in TOKENIZER_FILES])


def _model_digest(model: str) -> str:
    """Of a folder's files, so that new weights in it count, and a card with new scores does not; of
    a hub name as it is."""
    folder = named_checkpoint(model) or Path(model)
    if not folder.is_dir():
        return model
    return _files_digest(folder, sorted(path for path in folder.iterdir() if path.name != CARD))


def _initial_digest(path: str) -> str:
    """Of a checkpoint, whose state names the checksums of its files; of a `transformers` folder's
    or an export's files; of a hub name as it is."""
    if checkpoint := initial_checkpoint(path):
        return fingerprint(str(checkpoint / CHECKPOINT_STATE))
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return path  # what is not there is an error that the stage itself explains
    folders = (folder, *(folder / network for network in NETWORKS))
    files = [file for each in folders for file in sorted(each.glob("*"))]
    files = [f for f in files if f.suffix in _INITIAL_SUFFIXES and f.name != FINETUNING]
    return _files_digest(folder, files)


def _options(section: Any, leave_out: set[str] | None = None) -> dict[str, Any]:
    """What is bundled has the same name on every machine, wherever electrify is installed."""
    options = section.model_dump(mode="json", exclude=leave_out)
    return dict(with_bundled(options, bundled_name))
