"""Reads and checks the file of a grid.

name = "generator"
base = "../demo.toml"
seeds = [0, 1, 2]                   # of pretraining; left out: the base's
num_processes = 2                   # runs at once
curve_points = 4                    # checkpoints scored on the way, of the first seed
curves = ["generator 1/4"]          # of these variants; left out: of all
budget_hours = 2.0                  # planned for all runs, as if one followed the other
judged_by = ["all tasks", "ko"]     # what claims are judged by; left out: the mean of all tasks
notes = ["Planned for one night."]  # paragraphs of the report
[common]                            # what all variants change
"pretrain.num_steps" = 200
[variants]
"generator 1/4" = { "pretrain.generator_hidden_fraction" = 0.25 }
"generator 1/1" = { "pretrain.generator_hidden_fraction" = 1.0 }
[experiments."How large a generator?"]
source = "Figure 3, left"
variants = ["generator 1/4", "generator 1/1"]
claims = ["generator 1/4 > generator 1/1"]
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from electrify.config_file import load_config
from electrify.config_section import Count, Section
from electrify.toml_text import toml_value

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1)]
_CLAIM = re.compile(r"(.+) ([>=]) (.+)")
ALL = "all variants"  # the experiment of a grid that names none
UNTRAINED = "untrained"  # the control in tables: random weights, fine-tuned alike


class Experiment(Section):
    """A question: the variants that answer it, and what is claimed of them."""

    variants: Annotated[tuple[str, ...], Field(min_length=1)]
    claims: tuple[str, ...] = ()  # "A > B", "A = B"
    source: str = ""  # of the claims
    seeds: Seeds | None = None  # None: the grid's


class _GridFile(Section):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]  # a folder is named by it
    base: Annotated[str, Field(min_length=1, pattern="^[^\x00]+$")]
    seeds: Seeds | None = None
    num_processes: Count = 1
    curve_points: Annotated[int, Field(ge=0, le=100)] = 0
    curves: tuple[str, ...] | None = None
    budget_hours: Annotated[float, Field(gt=0)] | None = None  # of all runs, one after the other
    judged_by: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # columns of scores
    notes: tuple[str, ...] = ()  # paragraphs of the report
    common: dict[str, Any] = Field(default_factory=dict)
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    experiments: dict[str, Experiment] = Field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """`better` scores above `worse`; or, of `is_equality`, as much."""

    better: str
    worse: str
    is_equality: bool
    experiment: str = ""  # that makes it

    @property
    def text(self) -> str:
        """As the file has it."""
        return f"{self.better} {'=' if self.is_equality else '>'} {self.worse}"


@dataclass(frozen=True)
class Grid:
    """A base config, what all variants change, and what each one changes."""

    name: str
    base: Path
    seeds: tuple[int, ...]
    num_processes: int
    curve_points: int
    curves: tuple[str, ...]  # variants whose checkpoints are scored
    common: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    experiments: Mapping[str, Experiment]
    budget_hours: float | None
    judged_by: tuple[str, ...]  # "all tasks", a language or a task; none: the first of these
    notes: tuple[str, ...]

    @property
    def claims(self) -> list[Claim]:
        """Of all experiments."""
        return [
            replace(parse_claim(text), experiment=label)
            for label, experiment in self.experiments.items()
            for text in experiment.claims
        ]

    def seeds_of(self, variant: str) -> tuple[int, ...]:
        """Those of every experiment that the variant is in; of none, the grid's."""
        of_experiments = [
            experiment.seeds or self.seeds
            for experiment in self.experiments.values()
            if variant in experiment.variants
        ]
        return tuple(sorted({seed for seeds in of_experiments or [self.seeds] for seed in seeds}))


def load_grid(path: Path) -> Grid:
    """Read and check a grid; `ValueError` naming what is wrong."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(raw)
    except FileNotFoundError:
        raise ValueError(f"no ablation at {path}; see configs/ablations/") from None
    except TypeError as error:
        raise ValueError(f"{path}: an option has a value that is no JSON: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    try:
        file = _GridFile.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{path}: {_problems(error)}") from None
    base = path.parent / file.base
    _check_variants(path, base, file)
    _check_experiments(path, file)
    experiments = file.experiments or {ALL: Experiment(variants=tuple(file.variants))}
    seeds = file.seeds or (load_config(base, overrides_of(file.common)).seed,)
    curves = tuple(file.variants) if file.curves is None else file.curves
    return Grid(
        file.name, base, seeds, file.num_processes, file.curve_points, curves,
        file.common, file.variants, experiments, file.budget_hours, file.judged_by, file.notes,
    )  # fmt: skip


def parse_claim(text: str) -> Claim:
    """'A > B' or 'A = B'; `ValueError` for another form."""
    match = _CLAIM.fullmatch(text)
    if match is None:
        raise ValueError(f"claim {text!r}: write 'A > B' or 'A = B' of two variants")
    return Claim(match[1], match[3], is_equality=match[2] == "=")


def overrides_of(changes: Mapping[str, Any]) -> list[str]:
    """Options as `--set` takes them."""
    return [f"{key}={toml_value(value)}" for key, value in changes.items()]


def slug(label: str) -> str:
    """A variant's folder: 'generator 1/4' is 'generator-1-4'."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _problems(error: ValidationError) -> str:
    """One line a problem: which key, what is wrong, the value."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        value = "" if problem["type"] == "missing" else f", not {problem['input']!r:.80}"
        lines.append(f"{key}: {problem['msg']}{value}")
    form = "an ablation has name, base, at least one [variants] entry and, if wanted, seeds, "
    form += "num_processes, curve_points, curves, budget_hours, judged_by, notes, [common] and "
    form += "[experiments]"
    return "\n  ".join([form, *lines])


def _check_variants(path: Path, base: Path, file: _GridFile) -> None:
    folders: dict[str, str] = {}
    for label, changes in file.variants.items():
        if label == UNTRAINED:
            raise ValueError(f"{path}: {label!r} is the control's name; name the variant otherwise")
        other = folders.setdefault(slug(label), label)
        if other != label or not slug(label):
            raise ValueError(
                f"{path}, variant {label!r}: its folder would be {slug(label)!r}"
                + (f", which is that of {other!r}" if other != label else "")
                + "; name it otherwise"
            )
        try:
            load_config(base, overrides_of({**file.common, **changes}))
        except (ValueError, OSError) as error:  # OSError: a base that cannot be read
            raise ValueError(f"{path}, variant {label!r}: {error}") from None


def _check_experiments(path: Path, file: _GridFile) -> None:
    named = {f"experiments.{label}": e.variants for label, e in file.experiments.items()}
    for where, variants in {**named, "curves": file.curves or ()}.items():
        for variant in variants:
            if variant not in file.variants:
                raise ValueError(f"{path}, {where}: there is no variant {variant!r}")
    for label, experiment in file.experiments.items():
        for text in experiment.claims:
            try:
                claim = parse_claim(text)
            except ValueError as error:
                raise ValueError(f"{path}, experiments.{label}: {error}") from None
            for variant in (claim.better, claim.worse):
                if variant not in experiment.variants:
                    raise ValueError(
                        f"{path}, experiments.{label}: claim {text!r} names {variant!r}, which is "
                        "not among its variants"
                    )
