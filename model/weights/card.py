"""Model cards of the exported folders, written from the run's manifests and reports.

`card.md` is their layout, `card.toml` says what each objective trains and what a network is for.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from huggingface_hub import ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, read_manifest, write_json, write_text
from electrify.stage.plan import CARD, FINETUNING, METRICS, output_dir
from electrify.storage.files import read_json, read_toml
from electrify.system.progress import warn
from model.plan import phases_of
from model.weights.names import (
    DETECTOR,
    PREDICTOR,
    Network,
    exported_networks,
    has_plain_generator,
    transformers_class,
)
from model.weights.origin import Origin, as_made, base_model, public_name

Json = Mapping[str, Any]
Sections = Mapping[str, Sequence[str]]  # lines of Markdown by title
_HERE = Path(__file__).parent
_PLACE = {"kind", "step", "tokens", "seconds"}


def write_cards(
    config: RunConfig,
    folder: Path,
    differences: Mapping[str, float],
    origin: Origin,
    sections: Sections = MappingProxyType({}),
) -> None:
    """`README.md` for each network in `folder`; beside the encoder the recipe that the config has.

    `differences` are the largest logit differences to the trained model, by network.
    """
    run = output_dir(config)
    report = run / "clean" / "report.json"
    corpus: dict[str, Any] = read_json(report) if report.exists() else {"sources": []}
    if not corpus["sources"]:  # as where the shards came from `pretrain.inputs_dir`
        warn(f"the cards have no table of the training text: {report} is not there")
    removed: Counter[str] = Counter()
    for row in corpus.get("removed", []):
        removed[row["reason"]] += row["documents"]
    summary, options = read_manifest(run / "pretrain")["counts"], config.pretrain
    texts = read_toml(_HERE / "card.toml")
    layout = card_layout("card.md")
    classes = {
        name: transformers_class(network, options).__name__
        for name, network in (("detector", DETECTOR), ("predictor", PREDICTOR))
    }
    for network in exported_networks(options):
        card = layout.render(
            **summary | {"parameters": summary["parameters"].get(network.folder)},
            name=config.name,
            dtype=config.export.dtype,
            difference=differences[network.folder],
            options=options,
            phases=phases_of(options),
            length=trained_length(config),
            has_plain_generator=has_plain_generator(options),
            vocab=config.vocab,
            validation=_last_validation(run / "pretrain" / METRICS),
            initial={public_name(name): licences for name, licences in origin.initial.items()},
            folder=network.folder,
            about=texts["objectives"][options.objective],
            use=texts["uses"][_use(options, network)].format(**classes),
            metadata=_metadata(config, network, origin),
            licence=_licence_words(texts["licences"], origin),
            origin=origin,
            sections=sections,
            sources=corpus["sources"],
            removed=removed.most_common(),
        )
        write_text(folder / network.folder / CARD, card)
    write_json(folder / DETECTOR.folder / FINETUNING, config.evaluate.recommended)


def card_layout(name: str) -> Template:
    """A layout beside this file."""
    return Environment(
        loader=FileSystemLoader(_HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # it is Markdown
    ).get_template(name)


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
    counts = manifest["counts"]
    origin = Origin(**counts["origin"])
    made = as_made(config, "clean", "vocab", "pretrain", "export")
    write_cards(made, folder, counts["max_logit_difference"], origin, sections)


def trained_length(config: RunConfig) -> int:
    return max(phase.sequence_length for phase in phases_of(config.pretrain))


def _metadata(config: RunConfig, network: Network, origin: Origin) -> str:
    """The front matter, which the hub reads."""
    initial, (licence, name) = config.pretrain.initial_model, origin.licence
    if network.folder == "generator":
        initial = config.pretrain.initial_generator or initial
    data = ModelCardData(
        license=licence,
        license_name=name,
        base_model=base_model(initial),
        language=list(config.clean.languages),
        library_name="transformers",
        tags=["electra", *(["modernbert"] if config.pretrain.architecture == "modern" else [])],
    )
    return str(data.to_yaml())


def _licence_words(texts: Mapping[str, str], origin: Origin) -> str:
    licence, name = origin.licence
    parts = [texts["other" if name else "one"].format(licence)]
    parts += [texts["share-alike"].format(shared) for shared in origin.share_alike]
    return " ".join([*parts, texts["reason"]])


def _use(config: PretrainConfig, network: Network) -> str:
    if network.folder != "discriminator":
        return network.folder
    if network.predicts_tokens:
        return "predictor"
    return {"electric": "energy", "all-tokens-mlm": "gate"}.get(config.objective, "detector")


def _last_validation(metrics: Path) -> str:
    records = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    last = [record for record in records if record["kind"] == "valid"][-1]
    return ", ".join(
        f"{key.replace('_', ' ')} {value:.4g}"
        for key, value in last.items()
        if key not in _PLACE and "/" not in key and isinstance(value, int | float)
    )
