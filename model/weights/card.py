"""Cards of the exported networks for the hub, written from the run's manifests and reports.

`card.md` is the layout, `card.toml` says what each objective trains and what a network is for.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from huggingface_hub import ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from safetensors import safe_open

from electrify.config.load import parse_part
from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, read_manifest, write_json, write_text
from electrify.stage.networks import ENCODER
from electrify.stage.plan import (
    CARD,
    FINETUNING,
    METRICS,
    NETWORKS,
    SUMMARY,
    checkpoint_step,
    is_hub_name,
    licence_of,
    output_dir,
    recommended_settings,
)
from electrify.storage.files import read_json, read_toml
from electrify.system.bundled import bundled_name, with_bundled
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from model.plan import phases_of
from model.weights.names import DETECTOR, PREDICTOR, Network, exported_networks, transformers_class

Json = Mapping[str, Any]
Sections = Mapping[str, Sequence[str]]  # lines of Markdown by title
_HERE = Path(__file__).parent
_LAYOUTS = Environment(
    loader=FileSystemLoader(_HERE),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # it is Markdown
)
_MATCHED = ("removed", "changed")  # documents with a text of a benchmark


def write_cards(
    config: RunConfig,
    folder: Path,
    differences: Mapping[str, float],
    sections: Sections = MappingProxyType({}),
    checkpoint: Path | None = None,
) -> None:
    """`README.md` for each network in `folder`; beside the encoder its recipe.

    `differences` are the largest logit differences to the trained model, by network. They are of
    `checkpoint`, also of unfinished work, or of the end of the run.
    """
    run, corpus = output_dir(config), _corpus(config)
    if not corpus:  # as where the shards came from another machine
        warn(f"the cards have no table of the training text: {run / 'clean'} has no report.json")
    removed, matches = Counter[str](), Counter[tuple[str, str]]()
    for row in corpus.get("removed", []):
        removed[row["reason"]] += row["documents"]
    for row in corpus.get("contamination", []):
        matches[row["task"], row["kind"]] += row["count"]
    # documents by licence, "" where they name none; without the report those of the sources
    licences = {row["licence"]: row["documents"] for row in corpus.get("licences", [])}
    licences = licences or dict.fromkeys((of.licence or "" for of in config.clean.sources), 0)
    summary, options = _summary(run, checkpoint), config.pretrain
    num_steps = summary["num_steps"]
    texts, layout = read_toml(_HERE / "card.toml"), _LAYOUTS.get_template("card.md")
    names = {
        "detector": transformers_class(DETECTOR, options).__name__,
        "predictor": transformers_class(PREDICTOR, options).__name__,
        "logits": texts["logits"][options.architecture],
    }
    networks = exported_networks(options)
    for network in (*networks, replace(networks[0], folder=ENCODER)):
        card = layout.render(
            **summary | {"parameters": num_parameters(folder / network.folder)},
            name=config.name,
            dtype=config.export.dtype,
            difference=differences.get(network.folder, differences[networks[0].folder]),
            options=options,
            phases=[
                replace(phase, num_steps=min(phase.num_steps, num_steps - phase.first_step))
                for phase in phases_of(options)
                if phase.first_step < num_steps
            ],
            length=trained_length(config),
            vocab=config.vocab,
            initial=[public_name(bundled_name(name)) for name in options.initial.values()],
            folder=network.folder,
            about=texts["objectives"][options.objective],
            use=texts["uses"][_use(options, network)].format(**names),
            metadata=_metadata(config, network),
            licence=licence_of(config),
            licences=licences,
            sections=sections,
            sources=corpus.get("sources", []),
            removed=removed.most_common(),
            benchmarks={
                row["task"]: [matches[row["task"], f"documents_{kind}"] for kind in _MATCHED]
                for row in corpus.get("benchmarks", [])
            },
        )
        write_text(folder / network.folder / CARD, card)
    recipe = recommended_settings(config) | config.evaluate.recommended
    for name in (DETECTOR.folder, ENCODER):
        write_json(folder / name / FINETUNING, recipe)


def add_sections(config: RunConfig, sections: Sections) -> None:
    """Write the cards of a finished export again, with what `evaluate/` says of this very export.

    The manifest says that cards are rewritten, and stays as it is.
    """
    run, folder = output_dir(config), output_dir(config) / "export"
    manifest, scored = read_manifest(folder), run / "evaluate" / MANIFEST
    if not scored.exists() or (
        read_manifest(scored.parent)["inputs"].get("export") != manifest["digest"]
    ):
        sections = {}
    made = as_made(config, "clean", "vocab", "pretrain", "export")
    write_cards(made, folder, manifest["counts"]["max_logit_difference"], sections)


def num_parameters(folder: Path) -> int:
    """Those of an exported network. A modern one has more than were trained: its embedding matrix
    is as wide as its hidden states, and it has two labels."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as weights:
            names = weights.keys()
            count += sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    return count


def trained_length(config: RunConfig) -> int:
    return max(phase.sequence_length for phase in phases_of(config.pretrain))


def _metadata(config: RunConfig, network: Network) -> str:
    """The front matter, which the hub reads."""
    licence, start = licence_of(config), config.pretrain.initial_model
    is_on_hub = start and is_hub_name(start) and not Path(start).expanduser().exists()
    data = ModelCardData(
        license=licence or "other",
        license_name=None if licence else "unknown",
        base_model=start if is_on_hub else None,  # to which the hub links
        language=list(config.clean.languages),
        library_name="sentence-transformers" if network.folder == ENCODER else "transformers",
        tags=["electra", *(["modernbert"] if config.pretrain.architecture == "modern" else [])],
    )
    return str(data.to_yaml())


def _corpus(config: RunConfig) -> dict[str, Any]:
    """The report of the documents; {} where it is not there."""
    path = output_dir(config) / "clean" / "report.json"
    return dict(read_json(path)) if path.exists() else {}


def public_name(name: str) -> str:
    """As a card names an earlier model: an absolute path begins at its run or model, and does not
    say whose folders lie above."""
    folder = Path(name).expanduser()
    if not folder.is_absolute():
        return name
    inner = rf"{'|'.join(NETWORKS)}|export|pretrain(\.partial)?|checkpoint-\d+"
    run = next(path for path in (folder, *folder.parents) if not re.fullmatch(inner, path.name))
    return str(folder.relative_to(run.parent))


def as_made(config: RunConfig, *stages: str) -> RunConfig:
    """The config with the options that these stages of the run were made with, where they are
    finished: it may have been edited since. Options of another version that are none here are
    those of the config."""
    sections = {}
    for name in stages:
        folder, kind = output_dir(config) / name, type(getattr(config, name))
        options = read_manifest(folder)["config"] if folder.exists() else {}
        if known := {key: value for key, value in options.items() if key in kind.model_fields}:
            with suppress(UserError):
                sections[name] = parse_part(with_bundled(known), str(folder), kind)
    return config.model_copy(update=sections)


def _use(config: PretrainConfig, network: Network) -> str:
    if network.folder != "discriminator":
        return network.folder
    if network.predicts_tokens:
        return "predictor"
    return "gate" if config.objective == "all-tokens-mlm" else "detector"


def _summary(run: Path, checkpoint: Path | None) -> dict[str, Any]:
    """Sizes and cost until a checkpoint, or of the finished run."""
    if checkpoint is None:
        return dict(read_manifest(run / "pretrain")["counts"])
    lines = (checkpoint.parent / METRICS).read_text(encoding="utf-8").splitlines()
    step = checkpoint_step(checkpoint)
    # a record ends where a checkpoint is written
    until = next(m for m in map(json.loads, lines) if m["kind"] == "train" and m["step"] == step)
    cost = {name: until[name] for name in ("tokens", "seconds", "flops_matmul", "flops_paper")}
    return {**read_json(checkpoint.parent / SUMMARY), **cost, "num_steps": step}
