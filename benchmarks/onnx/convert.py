"""`electrify export --onnx`: a run's networks in fp32, and in int8 where it loses next to nothing.

An encoder's int8 is judged by its fine-tuned networks, which `evaluate.keep_models` keeps, on the
reported examples of their tasks; a discriminator by tokens of real text, too. int8 that loses is
not written, unless it is forced; of a generator there is none. A card says what was measured.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Template

from benchmarks.encoder import generator_of, is_discriminator
from benchmarks.onnx import export, int8
from benchmarks.onnx.export import FP32_FILE, INT8_FILE, STATES, Network, export_folder
from benchmarks.onnx.int8 import Benchmark, Loss
from benchmarks.results.results import percent
from benchmarks.tasks.load import data_dirs, dir_of, load_data
from benchmarks.training.network import kept_folders, read_kept
from electrify.config.evaluate import EvaluateConfig
from electrify.config.run import EvaluationRun
from electrify.stage.folder import MANIFEST, read_manifest, write_json, write_text
from electrify.stage.networks import ENCODER
from electrify.stage.plan import CARD, NETWORKS, onnx_stage, scored_folder
from electrify.stage.run import run_stage
from electrify.system.machine import cpu_name
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn


@dataclass
class ConvertedNetworks:
    """Files that are judged and written together: an encoder's and those of its tasks; what int8
    loses, and whether and why not it was written."""

    name: str
    # by the name of the network or task
    files: dict[str, Path] = field(default_factory=dict)  # in fp32
    differences: dict[str, Mapping[int, float]] = field(default_factory=dict)  # to torch, by length
    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    num_tasks: int = 0
    bytes: dict[str, int] = field(default_factory=dict)  # in int8; none was made of a generator
    losses: Sequence[Loss] = ()
    problems: Sequence[str] = ()
    is_written: bool = False


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
    stage, scored = onnx_stage(config, model), scored_folder(config)
    theirs = read_manifest(scored)["inputs"] if (scored / MANIFEST).exists() else stage.inputs
    if any(theirs.get(name) != stage.inputs.get(name) for name in ("export", "model")):
        raise UserError(
            f"{scored} scores other weights than those to convert: electrify evaluate "
            "them with `evaluate.keep_models=true`, or give another output_dir"
        )
    run_stage(stage, lambda folder: _convert(folder, networks, scored, config, texts), overwrite)


def _convert(
    folder: Path,
    networks: Mapping[str, Path],
    scored: Path,
    config: EvaluationRun,
    texts: Sequence[str],
) -> dict[str, Any]:
    """`networks` are `transformers` folders by name, the encoder first."""
    opened = {name: export.open_network(place) for name, place in networks.items()}
    encoder = next(iter(networks))
    groups = {name: ConvertedNetworks(name) for name in networks}
    for name, network in opened.items():
        _export(folder / name, network, networks[name], groups[name], texts)
    group = groups[encoder]
    if is_discriminator(opened[encoder].source):
        group.benchmarks[encoder] = int8.token_benchmark(opened[encoder].source, texts)
    if STATES not in opened[encoder].outputs or len(opened[encoder].outputs) > 1:
        alone = export.open_network(networks[encoder], head=False)
        _export(folder / ENCODER, alone, networks[encoder], group, texts)
    if (scored / MANIFEST).exists():
        _add_tasks(folder / "tasks", group, scored, config.evaluate, texts)
    _judge(group, config.export.onnx.force)
    for name, of in groups.items():
        write_card(folder / name, of, _front_matter(networks[name]))
    judged = {name: getattr(group, name) for name in ("bytes", "is_written", "problems")}
    judged["losses"] = [asdict(loss) for loss in group.losses]
    write_json(folder / "report.json", {"machine": cpu_name(), "networks": {encoder: judged}})
    return {"networks": len(networks), "tasks": group.num_tasks, "int8": group.is_written}


def _export(
    target: Path, network: Network, source: Path, group: ConvertedNetworks, texts: Sequence[str]
) -> None:
    name = target.name
    log(f"{name}: conversion, compared with torch on real text")
    group.files[name] = target / FP32_FILE
    group.differences[name] = export_folder(source, target, network, texts)
    differences = group.differences[name].items()
    by_length = ", ".join(f"{of:.1e} at {length}" for length, of in differences)
    log(f"{name}: largest difference to torch by length: {by_length}")


def _add_tasks(
    folder: Path,
    group: ConvertedNetworks,
    scored: Path,
    evaluation: EvaluateConfig,
    texts: Sequence[str],
) -> None:
    """The fine-tuned networks of an encoder, with the reported examples of their tasks."""
    for place in kept_folders(scored):
        kept = read_kept(place)
        name = kept.task.name
        _export(folder / name, export.open_network(place), place, group, texts)
        group.num_tasks += 1
        data = load_data(kept.task, dir_of(kept.task, data_dirs(evaluation, [kept.task])))
        group.benchmarks[name] = int8.task_benchmark(kept, data.reported)


def _judge(group: ConvertedNetworks, force: bool) -> None:
    """Measure the int8 of all files, and put it in place if it loses next to nothing."""
    with tempfile.TemporaryDirectory() as temporary:
        files = {name: Path(temporary, f"{name}.onnx") for name in group.files}
        for name, file in group.files.items():
            int8.quantize(file, files[name])
        group.losses = [
            int8.measure(benchmark, group.files[name], files[name])
            for name, benchmark in group.benchmarks.items()
        ]
        reasons = group.problems = int8.problems(group.losses)
        if group.num_tasks < int8.MIN_TASKS:
            way = "electrify evaluate --set evaluate.keep_models=true"
            needed = f"{int8.MIN_TASKS} fine-tuned tasks are needed"
            reasons.insert(0, f"{needed}, {group.num_tasks} are kept ({way})")
        if not group.losses:
            reasons.append("it is scored on nothing")
        group.is_written = force or not reasons
        group.bytes = {name: file.stat().st_size for name, file in files.items()}
        for name, file in files.items() if group.is_written else ():
            shutil.move(file, group.files[name].parent.parent / INT8_FILE)
    if reasons:
        way = (
            "written all the same, as asked"
            if force
            else "not written (`export.onnx.force` writes it)"
        )
        warn(f"{group.name}, int8: {'; '.join(reasons)}: {way}")
    else:
        log(f"{group.name}, int8: written")


def _front_matter(network: Path) -> str:
    """That of the network's model card, which may stand one folder up: it has the licence."""
    cards = (place / CARD for place in (network, network.parent))
    texts = (card.read_text(encoding="utf-8") for card in cards if card.is_file())
    matches = (re.match(r"---\n.*?\n---\n", text, re.DOTALL) for text in texts)
    return next((f"{match[0]}\n" for match in matches if match), "")


def write_card(folder: Path, group: ConvertedNetworks, metadata: str) -> None:
    """`README.md` of a network; `metadata` stands at its top."""
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    text = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        metadata=metadata, group=group, int8=int8, percent=percent, machine=cpu_name()
    )
    write_text(folder / CARD, text)
