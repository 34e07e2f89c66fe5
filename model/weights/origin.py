"""What exported weights come from: their text, and the model that they were trained on from; and
the licence that follows. What names no licence counts as not known.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import hf_hub_download, metadata_load

from electrify.config.load import parse_part
from electrify.config.run import RunConfig
from electrify.stage.folder import read_manifest
from electrify.stage.plan import (
    CARD,
    CHECKPOINT_STATE,
    NETWORKS,
    initial_checkpoint,
    is_hub_name,
    output_dir,
    run_folder,
)
from electrify.storage.files import read_json, read_toml
from electrify.system.bundled import bundled_name, find_bundled, with_bundled
from electrify.system.outcome import UserError
from model.checkpoint import DAMAGES, trained_options

UNKNOWN = ""  # the licence of what names none
_LISTS = read_toml(Path(__file__).with_name("licences.toml"))
_ALIASES: Mapping[str, str] = _LISTS.pop("aliases")
_FREE, _OPEN, _SHARE_ALIKE = (frozenset(_LISTS[name]) for name in ("free", "open", "share-alike"))
_OF_THE_HUB = frozenset(name for names in _LISTS.values() for name in names) - {"public-domain"}


@dataclass(frozen=True)
class Origin:
    """Licences as they are written where they stand."""

    text: dict[str, int]  # documents by licence; 0 where they are not counted
    initial: dict[str, list[str]]  # of each earlier model, as `bundled_name` calls it

    @property
    def licence(self) -> tuple[str, str | None]:
        """`license` and `license_name` of the hub's metadata; "other" has a name, of all licences.

        A share-alike licence is carried over, and text under open licences may stand beside it.
        """
        bound = self._identifiers - _FREE or self._identifiers
        shared = bound & _SHARE_ALIKE
        if len(shared) == 1 and bound - shared <= _OPEN:
            bound = shared
        if len(bound) == 1 and bound <= _OF_THE_HUB:
            return next(iter(bound)), None
        slugs = (re.sub(r"[^a-z0-9.+-]+", "-", n).strip("-") for n in sorted(bound - {UNKNOWN}))
        listed = [*filter(None, slugs), *["unknown"] * (UNKNOWN in bound)]
        return "other", "-and-".join(listed) or "unknown"

    @property
    def share_alike(self) -> list[str]:
        """The licences that weights which are trained on from these stand under, too."""
        return sorted(self._identifiers & _SHARE_ALIKE)

    @property
    def _identifiers(self) -> set[str]:
        return {
            _identifier(name) for names in (self.text, *self.initial.values()) for name in names
        }


def as_made(config: RunConfig, *stages: str) -> RunConfig:
    """The config with the options that these stages of the run were made with, where they are
    finished: it may have been edited since. Options of another version that are none here are
    those of the config."""
    sections = {}
    for name in stages:
        folder, kind = output_dir(config) / name, type(getattr(config, name))
        made = read_manifest(folder)["config"] if folder.exists() else {}
        if known := {key: value for key, value in made.items() if key in kind.model_fields}:
            with suppress(UserError):
                sections[name] = parse_part(with_bundled(known), str(folder), kind)
    return config.model_copy(update=sections)


def read_origin(config: RunConfig) -> Origin:
    """The origin of a run's weights, as far as its text and its initial model are at hand."""
    text = _licences_of_text(output_dir(config))
    if not text:  # as where the shards came from `pretrain.inputs_dir`
        text = dict.fromkeys((source.licence or UNKNOWN for source in config.clean.sources), 0)
    names = config.pretrain.initial.values()
    return Origin(text, {bundled_name(name): sorted(_licences_of_model(name)) for name in names})


def base_model(name: str | None) -> str | None:
    """A hub name itself, to which the hub then links; None of a folder, which the hub has not."""
    is_there = name and is_hub_name(name) and not Path(name).expanduser().exists()
    return name if is_there else None


def public_name(name: str) -> str:
    """As a card names an earlier model: an absolute path begins at its run or model, and does not
    say whose folders lie above."""
    folder = Path(name).expanduser()
    return str(folder.relative_to(_place(folder).parent)) if folder.is_absolute() else name


def _place(folder: Path) -> Path:
    """The folder of the run or model that this one is a part of."""
    places = (folder.absolute(), *folder.absolute().parents)
    return next(place for place in places if not re.fullmatch(_PARTS_OF_A_RUN, place.name))


_PARTS_OF_A_RUN = rf"{'|'.join(NETWORKS)}|export|pretrain(\.partial)?|checkpoint-\d+"


def _licences_of_text(run: Path) -> dict[str, int]:
    """None at all where the report of the corpus is not there, or older."""
    path = run / "clean" / "report.json"
    rows = read_json(path).get("licences", []) if path.exists() else []
    return {row["licence"]: row["documents"] for row in rows}


def _licences_of_model(name: str) -> set[str]:
    """Of a run those of its text and of the models before it, else those that a card names."""
    if checkpoint := initial_checkpoint(name):
        licences = set(_licences_of_text(run_folder(checkpoint))) or {UNKNOWN}
        try:
            earlier = trained_options(read_json(checkpoint / CHECKPOINT_STATE)["identity"])
        except DAMAGES:
            return {*licences, UNKNOWN}
        before = map(find_bundled, earlier.initial.values())
        return licences.union(*map(_licences_of_model, before))
    card = _card(name)
    try:
        metadata = (metadata_load(card) if card else None) or {}
    except Exception:  # it is no YAML, or no UTF-8
        metadata = {}
    given, other = metadata.get("license"), metadata.get("license_name")
    names = {
        other if name == "other" and other else name
        for name in (given if isinstance(given, list) else [given])
        if isinstance(name, str)
    }
    return {UNKNOWN if name == "unknown" else str(name) for name in names} or {UNKNOWN}


def _card(name: str) -> Path | None:
    """Of a model on disk or of the hub; None where it has none. One card may stand above the
    networks that it is of."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        above = [folder.parent] if folder.name in NETWORKS else []
        places = [folder, folder / NETWORKS[0], *above]
        return next((place / CARD for place in places if (place / CARD).is_file()), None)
    try:
        return Path(hf_hub_download(name, CARD))
    except Exception:  # the hub is not there, or has no such file: it has errors for each
        return None


def _identifier(licence: str) -> str:
    """As the hub writes it: "CC BY-SA 4.0" is cc-by-sa-4.0."""
    name = re.sub(r"[\s_-]+", "-", licence.partition(",")[0].strip().lower())
    name = re.sub(r"-(international|unported|licen[cs]e)$", "", name)
    return _ALIASES.get(name, name)
