"""A run's networks as ONNX files: fp32 compared with torch, int8 where it loses next to nothing.

The door of `electrify export --onnx`. An encoder's int8 is judged by its fine-tuned networks, which
`evaluate.keep_models` keeps, on the reported rows of their tasks; a masked language model and a
detector by tokens of real text, too. A variant that loses is not written, unless it is forced.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.encoder import generator_of
from benchmarks.finetune.kept import ABOUT, kept_folders, read_kept
from benchmarks.onnx.card import front_matter, write_card
from benchmarks.onnx.export import export_network, require_onnx
from benchmarks.onnx.gate import MIN_TASKS, Loss, Subject, choose_kept, error, measure, problems
from benchmarks.onnx.measure import Benchmark, masked_tokens, replaced_tokens, task_benchmark
from benchmarks.onnx.networks import REPLACED, VOCABULARY, Network, open_network, task_network
from benchmarks.onnx.predict import Row, predict, predict_emulated
from benchmarks.onnx.quantize import Variant, quantize, variants
from benchmarks.onnx.text import documents, sample
from benchmarks.tasks.data import data_dirs, dir_of, load_data
from electrify.config.evaluate import EvaluateConfig
from electrify.config.export import OnnxConfig
from electrify.config.run import EvaluationRun
from electrify.stage.folder import MANIFEST, Stage, read_manifest, write_json
from electrify.stage.plan import NETWORKS, onnx_stage, scored_folder
from electrify.stage.run import run_stage
from electrify.system.machine import cpu_name
from electrify.system.outcome import UserError, nearest
from electrify.system.progress import log, warn
from electrify.system.unknown import coverage_of, warn_of_unknown

REPORT = "report.json"
FP32 = "model.onnx"
TASKS = "tasks"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "config.json", ABOUT)
_NUM_TEXTS = 400  # that are looked at for [UNK]
_CHOICE_EXAMPLES = 200  # training rows of a task that choose the layers to keep
_EMULATED_ROWS = 3  # an emulator takes a hundred times as long
_EMULATOR = ("qemu-x86_64", "-cpu", "Haswell")  # AVX2 without VNNI
_MAX_EMULATED_ERROR = 1.5  # times that of this machine


@dataclass
class Family:
    """Files that are judged and written together: a network, of an encoder also its tasks."""

    name: str
    subjects: list[Subject] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)  # fp32, by the subject's name
    differences: dict[str, Mapping[int, float]] = field(default_factory=dict)  # to torch, by length
    num_tasks_needed: int = 0


@dataclass(frozen=True)
class Judged:
    """A variant of a family: what it loses, and whether and why not it was written."""

    variant: str
    about: str
    kept: Sequence[str]  # modules in fp32
    losses: Sequence[Loss]
    problems: Sequence[str]
    is_written: bool
    bytes: Mapping[str, int]
    # relative errors of the outputs to fp32 on this machine and on an emulated one with AVX2 alone
    errors: Mapping[str, float]


def convert(
    stage: Stage,
    networks: Mapping[str, Path],
    scored: Path,
    options: OnnxConfig,
    evaluation: EvaluateConfig,
    texts: Sequence[str],
    overwrite: bool,
) -> None:
    """Write the stage's folder: a folder a network, `tasks/`, cards and `report.json`.

    `networks` are `transformers` folders by name, the encoder first; `scored` is the folder of
    results with the fine-tuned networks. Raises `ValueError` for a missing package, an unknown
    variant, results of another encoder, missing data and a network that differs from torch's.
    """
    require_onnx()
    _check_encoder(stage, scored)
    for name in options.variants:
        if name not in variants():
            raise UserError(f"export.onnx.variants: {name!r}{nearest(name, variants())}")
    run_stage(
        stage,
        lambda folder: _convert(folder, networks, scored, options, evaluation, texts),
        overwrite,
    )


def _check_encoder(stage: Stage, scored: Path) -> None:
    """`ValueError` where the fine-tuned networks are not of the weights that are converted."""
    if (scored / MANIFEST).exists():
        theirs = read_manifest(scored)["inputs"]
        for name in ("export", "model"):
            if theirs.get(name) != stage.inputs.get(name):
                raise UserError(
                    f"{scored} scores other weights than those to convert: electrify evaluate "
                    "them with --set evaluate.keep_models=true, or give another output_dir"
                )


def _convert(
    folder: Path,
    networks: Mapping[str, Path],
    scored: Path,
    options: OnnxConfig,
    evaluation: EvaluateConfig,
    texts: Sequence[str],
) -> dict[str, Any]:
    opened = {name: open_network(place) for name, place in networks.items()}
    tokenizer = next(iter(opened.values())).source.tokenizer
    rows = tokenizer(list(texts[:_NUM_TEXTS]), verbose=False)["input_ids"]
    what = f"the text that int8 is judged on, as {next(iter(opened))} reads it"
    warn_of_unknown(coverage_of(rows, tokenizer), what, tokenizer)
    families = {name: Family(name) for name in networks}
    encoder = next(iter(networks))
    for name, network in opened.items():
        _export(folder / name, name, network, networks[name], families[name], texts)
    if (scored / MANIFEST).exists():
        _add_tasks(folder, families[encoder], kept_folders(scored), evaluation, texts)
    families[encoder].num_tasks_needed = MIN_TASKS
    for name, network in opened.items():
        one, two = (
            _token_benchmark(network, part, families, folder) for part in (texts[::2], texts[1::2])
        )
        if one and two:
            families[name].subjects.insert(0, Subject.of(name, folder / name / FP32, one, two))
    judged = {
        name: [_judge(family, each, options.force) for each in options.variants]
        for name, family in families.items()
    }
    report = {name: [asdict(each) for each in of] for name, of in judged.items()}
    write_json(folder / REPORT, {"machine": cpu_name(), "networks": report})
    for name, family in families.items():
        metadata = front_matter(networks[name])
        write_card(folder / name, name, metadata, family.differences, judged[name], cpu_name())
    written = [f"{n}: {each.variant}" for n, of in judged.items() for each in of if each.is_written]
    return {"networks": len(networks), "tasks": len(families[encoder].files) - 1, "int8": written}


def _export(
    target: Path, name: str, network: Network, source: Path, family: Family, texts: Sequence[str]
) -> None:
    exported = export_network(network, target / FP32, texts)
    for file in _TOKENIZER:
        if (source / file).exists():
            shutil.copyfile(source / file, target / file)
    family.files[name], family.differences[name] = exported.file, exported.differences
    found = ", ".join(f"{of:.1e} at {length}" for length, of in exported.differences.items())
    log(f"{name}: largest difference to torch by length: {found}")


def _add_tasks(
    folder: Path,
    family: Family,
    places: Sequence[Path],
    evaluation: EvaluateConfig,
    texts: Sequence[str],
) -> None:
    """The fine-tuned networks of an encoder, with the reported rows of their tasks."""
    for place in places:
        kept = read_kept(place)
        name = kept.task.name
        try:
            network = task_network(kept)
        except ValueError as problem:
            warn(f"{problem}; it is left out")
            continue
        target = folder / TASKS / name
        _export(target, name, network, place, family, texts)
        data = load_data(kept.task, dir_of(kept.task, data_dirs(evaluation, [kept.task])))
        reported = task_benchmark(kept, data.reported)
        choice = task_benchmark(kept, data.train[-_CHOICE_EXAMPLES:])
        family.subjects.append(Subject.of(name, target / FP32, reported, choice))


def _token_benchmark(
    network: Network, texts: Sequence[str], families: Mapping[str, Family], folder: Path
) -> Benchmark | None:
    if VOCABULARY in network.outputs:
        return masked_tokens(network.source, texts)
    if REPLACED not in network.outputs:
        return None
    has_generator = "generator" in families
    generate = partial(predict, folder / "generator" / FP32) if has_generator else None
    return replaced_tokens(network.source, texts, generate)


def _judge(family: Family, name: str, force: bool) -> Judged:
    """Measure a variant, keep layers in fp32 if it loses, and put its files in place if it may."""
    variant = variants()[name]
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        kept: Sequence[str] = ()
        losses, reasons = _measured(family, variant, kept, scratch)
        if too_much := problems([loss for loss in losses if not loss.is_constant]):
            log(f"{family.name}, {name}: {'; '.join(too_much)}: looks for layers to keep in fp32")
            kept = choose_kept(family.subjects, variant, scratch)
            losses, reasons = _measured(family, variant, kept, scratch)
        errors = _errors(family, scratch)
        here, emulated = errors.get("here", 0.0), errors.get("avx2", 0.0)
        if variant.is_safe_on_avx2 and emulated > _MAX_EMULATED_ERROR * here:
            reasons.append(f"the outputs' error with AVX2 alone is {emulated:.2g}, here {here:.2g}")
        is_written = force or not reasons
        sizes = {n: (scratch / f"{n}.onnx").stat().st_size for n in family.files}
        if is_written:
            for subject, file in family.files.items():
                shutil.move(scratch / f"{subject}.onnx", file.with_name(f"model.{name}.onnx"))
    judged = Judged(name, variant.about, kept, losses, reasons, is_written, sizes, errors)
    if reasons:
        way = "written all the same, as asked" if force else "not written (--force writes it)"
        warn(f"{family.name}, {name}: {'; '.join(reasons)}: {way}")
    else:
        log(f"{family.name}, {name}: written, {len(kept)} modules in fp32")
    return judged


def _measured(
    family: Family, variant: Variant, kept: Sequence[str], scratch: Path
) -> tuple[list[Loss], list[str]]:
    """The losses of all files, which stand in `scratch` by their names, and the problems."""
    files = {name: scratch / f"{name}.onnx" for name in family.files}
    for name, file in family.files.items():
        quantize(file, files[name], variant, kept)
    losses = measure(family.subjects, files)
    found = problems(losses)
    num_tasks = len(family.files) - 1
    if num_tasks < family.num_tasks_needed:
        found.insert(0, f"it is scored on {num_tasks} tasks, {family.num_tasks_needed} are needed")
    if not losses:
        found.append("it is scored on nothing")
    return losses, found


def _errors(family: Family, scratch: Path) -> dict[str, float]:
    """Errors on a few rows: on this machine, and where an emulator is installed on AVX2 alone."""
    ways: dict[str, Callable[[Path, Sequence[Row]], Sequence[Row]]] = {"here": predict}
    if shutil.which(_EMULATOR[0]):
        ways["avx2"] = partial(predict_emulated, (*_EMULATOR, sys.executable))
    return {
        way: max(
            error(
                subject.expected_choice[:_EMULATED_ROWS],
                run(scratch / f"{subject.name}.onnx", subject.choice.rows[:_EMULATED_ROWS]),
            )
            for subject in family.subjects
        )
        for way, run in ways.items()
        if family.subjects
    }


def convert_run(config: EvaluationRun, model: str | None, overwrite: bool) -> None:
    """Convert the networks of a run's export or, with `model`, of a folder and its generator."""
    if model is None:
        folder = Path(config.output_dir)
        names = [name for name in NETWORKS if (folder / "export" / name).is_dir()]
        networks, texts = {name: folder / "export" / name for name in names}, documents(folder)
    else:
        networks, texts = {Path(model).name: Path(model)}, sample()
        if generator := generator_of(model):
            networks["generator"] = Path(generator)
    stage, scored = onnx_stage(config, model), scored_folder(config)
    convert(stage, networks, scored, config.export.onnx, config.evaluate, texts, overwrite)
