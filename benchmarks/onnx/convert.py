"""`electrify export --onnx`: a run's networks in fp32, and in int8 where it loses next to nothing.

An encoder's int8 is judged by its fine-tuned networks, which `evaluate.keep_models` keeps, on the
reported examples of their tasks; a masked language model and a discriminator by tokens of real
text, too. A variant that loses is not written, unless it is forced. A card says what was measured.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Template

from benchmarks.encoder import generator_of
from benchmarks.finetune.kept import ABOUT, kept_folders, read_kept
from benchmarks.onnx import export, int8
from benchmarks.onnx.export import REPLACED, VOCABULARY, Network
from benchmarks.onnx.int8 import Benchmark, Loss, Subject
from benchmarks.results.results import percent
from benchmarks.results.table import record_lines
from benchmarks.tasks.data import data_dirs, dir_of, load_data
from electrify.config.evaluate import EvaluateConfig
from electrify.config.run import EvaluationRun, OnnxConfig
from electrify.stage.folder import MANIFEST, read_manifest, write_json, write_text
from electrify.stage.plan import NETWORKS, onnx_stage, scored_folder
from electrify.stage.run import run_stage
from electrify.system.machine import cpu_name
from electrify.system.outcome import UserError, nearest
from electrify.system.progress import log, warn
from electrify.system.unknown import coverage_of, warn_of_unknown

_FP32, _CARD = "model.onnx", "README.md"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "config.json", ABOUT)
_NUM_TEXTS = 400  # that are looked at for [UNK]
_CHOICE_EXAMPLES = 200  # training examples of a task that choose the layers to keep


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
    kept: Sequence[str]  # modules in fp32
    losses: Sequence[Loss]
    problems: Sequence[str]
    is_written: bool
    bytes: Mapping[str, int]


def convert_run(config: EvaluationRun, model: str | None, overwrite: bool) -> None:
    """Convert the networks of a run's export or, with `model`, of a folder and its generator.

    The stage has a folder a network, `tasks/`, cards and `report.json`.
    """
    export.require_onnx()
    if model is None:
        folder = Path(config.output_dir)
        names = [name for name in NETWORKS if (folder / "export" / name).is_dir()]
        networks = {name: folder / "export" / name for name in names}
        texts = export.documents(folder)
    else:
        networks, texts = {Path(model).name: Path(model)}, export.sample()
        if generator := generator_of(model):
            networks["generator"] = Path(generator)
    stage, scored, options = onnx_stage(config, model), scored_folder(config), config.export.onnx
    theirs = read_manifest(scored)["inputs"] if (scored / MANIFEST).exists() else stage.inputs
    if any(theirs.get(name) != stage.inputs.get(name) for name in ("export", "model")):
        raise UserError(
            f"{scored} scores other weights than those to convert: electrify evaluate "
            "them with --set evaluate.keep_models=true, or give another output_dir"
        )
    for name in options.variants:
        if name not in int8.VARIANTS:
            raise UserError(f"export.onnx.variants: {name!r}{nearest(name, int8.VARIANTS)}")
    run_stage(
        stage,
        lambda folder: _convert(folder, networks, scored, options, config.evaluate, texts),
        overwrite,
    )


def _convert(
    folder: Path,
    networks: Mapping[str, Path],
    scored: Path,
    options: OnnxConfig,
    evaluation: EvaluateConfig,
    texts: Sequence[str],
) -> dict[str, Any]:
    """`networks` are `transformers` folders by name, the encoder first."""
    opened = {name: export.open_network(place) for name, place in networks.items()}
    encoder = next(iter(networks))
    tokenizer = opened[encoder].source.tokenizer
    rows = tokenizer(list(texts[:_NUM_TEXTS]), verbose=False)["input_ids"]
    what = f"the text that int8 is judged on, as {encoder} reads it"
    warn_of_unknown(coverage_of(rows, tokenizer), what)
    families = {name: Family(name) for name in networks}
    for name, network in opened.items():
        _export(folder / name, name, network, networks[name], families[name], texts)
    if (scored / MANIFEST).exists():
        _add_tasks(folder / "tasks", families[encoder], scored, evaluation, texts)
    families[encoder].num_tasks_needed = int8.MIN_TASKS
    generator = folder / "generator" / _FP32 if "generator" in families else None
    for name, network in opened.items():
        one, two = (_tokens(network, part, generator) for part in (texts[::2], texts[1::2]))
        if one and two:
            families[name].subjects.insert(0, Subject(name, folder / name / _FP32, one, two))
    judged = {
        name: [_judge(family, each, options.force) for each in options.variants]
        for name, family in families.items()
    }
    report = {name: [asdict(each) for each in of] for name, of in judged.items()}
    write_json(folder / "report.json", {"machine": cpu_name(), "networks": report})
    for name, family in families.items():
        metadata = _front_matter(networks[name])
        write_card(folder / name, name, metadata, family.differences, judged[name], cpu_name())
    written = [f"{n}: {each.variant}" for n, of in judged.items() for each in of if each.is_written]
    return {"networks": len(networks), "tasks": len(families[encoder].files) - 1, "int8": written}


def _export(
    target: Path, name: str, network: Network, source: Path, family: Family, texts: Sequence[str]
) -> None:
    exported = export.export_network(network, target / _FP32, texts)
    for file in _TOKENIZER:
        if (source / file).exists():
            shutil.copyfile(source / file, target / file)
    family.files[name], family.differences[name] = exported.file, exported.differences
    by_length = ", ".join(f"{of:.1e} at {length}" for length, of in exported.differences.items())
    log(f"{name}: largest difference to torch by length: {by_length}")


def _add_tasks(
    folder: Path, family: Family, scored: Path, evaluation: EvaluateConfig, texts: Sequence[str]
) -> None:
    """The fine-tuned networks of an encoder, with the reported examples of their tasks."""
    for place in kept_folders(scored):
        kept = read_kept(place)
        name = kept.task.name
        try:
            network = export.task_network(kept)
        except ValueError as problem:
            warn(f"{problem}; it is left out")
            continue
        _export(folder / name, name, network, place, family, texts)
        data = load_data(kept.task, dir_of(kept.task, data_dirs(evaluation, [kept.task])))
        reported = int8.task_benchmark(kept, data.reported)
        choice = int8.task_benchmark(kept, data.train[-_CHOICE_EXAMPLES:])
        family.subjects.append(Subject(name, folder / name / _FP32, reported, choice))


def _tokens(network: Network, texts: Sequence[str], generator: Path | None) -> Benchmark | None:
    if VOCABULARY in network.outputs:
        return int8.token_benchmark(network.source, texts, VOCABULARY)
    if REPLACED not in network.outputs:
        return None
    generate = partial(export.predict, generator) if generator else None
    return int8.token_benchmark(network.source, texts, REPLACED, generate)


def _judge(family: Family, name: str, force: bool) -> Judged:
    """Measure a variant, keep layers in fp32 if it loses, and put its files in place if it may."""
    bits = int8.VARIANTS[name]
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        kept: Sequence[str] = ()
        losses, reasons = _measured(family, bits, kept, scratch)
        if too_much := int8.problems([loss for loss in losses if not loss.is_constant]):
            log(f"{family.name}, {name}: {'; '.join(too_much)}: looks for layers to keep in fp32")
            kept = int8.choose_kept(family.subjects, bits, scratch)
            losses, reasons = _measured(family, bits, kept, scratch)
        is_written = force or not reasons
        sizes = {n: (scratch / f"{n}.onnx").stat().st_size for n in family.files}
        for subject, file in family.files.items() if is_written else ():
            shutil.move(scratch / f"{subject}.onnx", file.with_name(f"model.{name}.onnx"))
    if reasons:
        way = "written all the same, as asked" if force else "not written (--force writes it)"
        warn(f"{family.name}, {name}: {'; '.join(reasons)}: {way}")
    else:
        log(f"{family.name}, {name}: written, {len(kept)} modules in fp32")
    return Judged(name, kept, losses, reasons, is_written, sizes)


def _measured(
    family: Family, bits: int8.Bits, kept: Sequence[str], scratch: Path
) -> tuple[list[Loss], list[str]]:
    """The losses of all files, which stand in `scratch` by their names, and the problems."""
    files = {name: scratch / f"{name}.onnx" for name in family.files}
    for name, file in family.files.items():
        int8.quantize(file, files[name], bits, kept)
    losses = int8.measure(family.subjects, files)
    reasons = int8.problems(losses)
    num_tasks, needed = len(family.files) - 1, family.num_tasks_needed
    if num_tasks < needed:
        reasons.insert(0, f"it is scored on {num_tasks} tasks, {needed} are needed")
    if not losses:
        reasons.append("it is scored on nothing")
    return losses, reasons


def _front_matter(network: Path) -> str:
    """That of the network's model card, which may stand one folder up: it has the licence."""
    cards = (place / _CARD for place in (network, network.parent))
    texts = (card.read_text(encoding="utf-8") for card in cards if card.is_file())
    matches = (re.match(r"---\n.*?\n---\n", text, re.DOTALL) for text in texts)
    return next((f"{match[0]}\n" for match in matches if match), "")


def write_card(
    folder: Path,
    name: str,
    metadata: str,
    differences: Mapping[str, Mapping[int, float]],
    judged: Sequence[Judged],
    machine: str,
) -> None:
    """`README.md` of a network; `metadata` stands at its top; `differences` to torch are by network
    and length."""
    rows = [
        {"network": network, **{f"length {length}": f"{of:.1e}" for length, of in by.items()}}
        for network, by in differences.items()
    ]
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    text = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        metadata=metadata,
        name=name,
        differences="\n".join(record_lines(rows)),
        judged=judged,
        about=int8.ABOUT,
        losses={each.variant: "\n".join(_loss_lines(each.losses)) for each in judged},
        max_lost=percent(int8.MAX_LOST),
        min_agreement=percent(int8.MIN_AGREEMENT),
        machine=machine,
    )
    write_text(folder / _CARD, text)


def _loss_lines(losses: Sequence[Loss]) -> list[str]:
    rows = [
        {
            "scored on": loss.benchmark,
            "metric": loss.metric,
            "fp32": percent(loss.fp32),
            "int8": percent(loss.int8),
            "lost": percent(loss.lost.value),
            "95 % interval": loss.lost.text(),
            "agreement": f"{percent(loss.agreement)} % of {loss.num_units:,} {loss.unit}",
        }
        for loss in losses
    ]
    return record_lines(rows)
