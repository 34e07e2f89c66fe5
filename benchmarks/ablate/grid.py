"""The file of a grid, and the runs that it asks for.

name = "generator"
base = "../scratch.toml"
seeds = [0, 1, 2]                   # of pretraining; left out: the base's
num_processes = 2                   # runs at once
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

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from benchmarks.tasks.registry import tasks_of
from electrify.config.load import override_config, read_config, toml_key, toml_value
from electrify.config.run import RunConfig
from electrify.config.section import Count, Section
from electrify.stage.folder import digest_of
from electrify.stage.plan import output_dir
from electrify.stage.remote import is_address
from electrify.system.outcome import UserError

Seeds = tuple[Annotated[int, Field(ge=0, lt=2**63)], ...]
_CLAIM = re.compile(r"(.+) ([>=]) (.+)")
ALL = "all variants"  # the experiment of a grid that names none
UNTRAINED = "untrained"  # the control in tables: random weights, fine-tuned alike


class Experiment(Section):
    """A question: the variants that answer it, and what is claimed of them."""

    variants: Annotated[tuple[str, ...], Field(min_length=1)]
    claims: tuple[str, ...] = ()  # "A > B", "A = B"
    source: str = ""  # of the claims
    seeds: Seeds = ()  # none: the grid's


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


class Grid(Section):
    """A base config, what all variants change, and what each one changes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]  # a folder is named by it
    base: Path  # in the file from its folder; here from the working directory
    seeds: Seeds = ()  # of pretraining; none in the file: the base's
    num_processes: Count = 1
    # "all tasks", a language or a task; none: the first of these
    judged_by: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    notes: tuple[str, ...] = ()  # paragraphs of the report
    common: dict[str, Any] = Field(default_factory=dict)
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    experiments: dict[str, Experiment] = Field(default_factory=dict)

    @cached_property
    def raw_base(self) -> dict[str, Any]:
        return read_config(self.base)

    def config(self, overrides: Sequence[str]) -> RunConfig:
        """The base with these options changed, as `--set` takes them."""
        return override_config(copy.deepcopy(self.raw_base), overrides, str(self.base))

    @property
    def claims(self) -> list[Claim]:
        """The claims of all experiments."""
        return [
            parse_claim(text, label)
            for label, experiment in self.experiments.items()
            for text in experiment.claims
        ]


def load_grid(path: Path) -> Grid:
    """Read and check a grid; `ValueError` naming what is wrong."""
    try:
        text = json.dumps(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UserError(f"no ablation at {path}; see configs/ablations/") from None
    except TypeError as error:
        raise UserError(f"{path}: an option has a value that is no JSON: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    try:
        file = Grid.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{path}: {_problems(error)}") from None
    experiments = file.experiments or {ALL: Experiment(variants=tuple(file.variants))}
    changes = {"base": path.parent / file.base, "experiments": experiments}
    grid = file.model_copy(update=changes)
    _check_variants(path, grid)
    _check_experiments(path, grid)
    return grid.model_copy(
        update={"seeds": grid.seeds or (grid.config(overrides_of(grid.common)).seed,)}
    )


def parse_claim(text: str, experiment: str = "") -> Claim:
    """'A > B' or 'A = B'; `ValueError` for another form."""
    match = _CLAIM.fullmatch(text)
    if match is None:
        raise UserError(f"claim {text!r}: write 'A > B' or 'A = B' of two variants")
    return Claim(match[1], match[3], match[2] == "=", experiment)


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
    form = f"an ablation has name, base, [variants] and, if wanted, {', '.join(_OPTIONAL)}"
    return "\n  ".join([form, *lines])


_OPTIONAL = ("seeds", "num_processes", "judged_by", "notes", "[common]", "[experiments]")


def _check_variants(path: Path, grid: Grid) -> None:
    """Each variant must make a config, and have a folder of its own."""
    folders: dict[str, str] = {}
    for label, changes in grid.variants.items():
        if label == UNTRAINED:
            raise UserError(f"{path}: {label!r} is the name of the control; rename the variant")
        other = folders.setdefault(slug(label), label)
        if other != label or not slug(label):
            raise UserError(
                f"{path}, variant {label!r}: its folder would be {slug(label)!r}"
                + (f", which is that of {other!r}" if other != label else "")
                + "; rename it"
            )
        try:
            grid.config(overrides_of({**grid.common, **changes}))
        except (ValueError, OSError, RecursionError) as error:  # a base that cannot be read
            raise UserError(f"{path}, variant {label!r}: {error}") from None


def _check_experiments(path: Path, grid: Grid) -> None:
    for label, experiment in grid.experiments.items():
        where = f"{path}, experiments.{label}"
        for variant in experiment.variants:
            if variant not in grid.variants:
                raise UserError(f"{where}: there is no variant {variant!r}")
        for text in experiment.claims:
            try:
                claim = parse_claim(text)
            except ValueError as error:
                raise UserError(f"{where}: {error}") from None
            for variant in (claim.better, claim.worse):
                if variant not in experiment.variants:
                    raise UserError(
                        f"{where}: claim {text!r} names {variant!r}, which is not among its "
                        "variants"
                    )


# The columns of scores that a grid is read by: all tasks, those of a language, each task.

MEAN = "all tasks"
_LANGUAGES = {"klue": "ko", "korean": "ko", "glue": "en", "squad": "en"}  # of suites


def column_groups(tasks: Sequence[str]) -> dict[str, list[str]]:
    """The tasks of each column; a mean of one task is that task's column."""
    languages: dict[str, list[str]] = {}
    for task in tasks:
        suite = task.partition("-")[0]
        language = _LANGUAGES.get(suite, suite)
        languages.setdefault(language, []).append(task)
    columns = {MEAN: list(tasks)} if len(tasks) > 1 else {}
    if len(languages) > 1:
        columns |= {language: found for language, found in languages.items() if len(found) > 1}
    return columns | {task: [task] for task in tasks}


# Which runs a grid is: each with its config, its steps, its folder and the corpus it reads.


@dataclass(frozen=True)
class Run:
    """One variant pretrained with one seed."""

    variant: str
    seed: int
    config: RunConfig
    overrides: tuple[str, ...]  # of the grid's base, as `--set` takes them

    @property
    def label(self) -> str:
        """As logs and reports name it."""
        return f"{self.variant}, seed {self.seed}"


def base_config(grid: Grid, overrides: Sequence[str]) -> RunConfig:
    """The grid's base with what is common to all variants; `overrides` are the user's."""
    config = grid.config([*overrides_of(grid.common), *overrides])
    if is_address(config.output_dir):
        raise UserError(
            f"output_dir = {config.output_dir!r}: the runs of a grid share folders by links, and "
            "an address has no links; give a folder: --set output_dir=out/NAME"
        )
    tasks = tasks_of(config.evaluate) if grid.judged_by else ()
    columns = column_groups([task.name for task in tasks])
    for column in grid.judged_by:
        if column not in columns:
            raise UserError(
                f"judged_by: there is no {column!r} among the columns of scores "
                f"({', '.join(columns)})"
            )
    return config


def grid_folder(grid: Grid, base: RunConfig) -> Path:
    """Where the grid's runs and its report stand: beside the base's run."""
    return output_dir(base).parent / f"ablation-{grid.name}"


def plan_runs(grid: Grid, overrides: Sequence[str]) -> list[Run]:
    """Experiment by experiment, in each the first seed of every variant, then the second of every
    one: what a stopped grid has can be compared."""
    base = base_config(grid, overrides)
    groups = [(e.variants, e.seeds or grid.seeds) for e in grid.experiments.values()]
    in_one = {variant for e in grid.experiments.values() for variant in e.variants}
    groups.append((tuple(v for v in grid.variants if v not in in_one), grid.seeds))
    wanted = [(v, seed) for variants, seeds in groups for seed in seeds for v in variants]
    return [_run(grid, base, overrides, *of_run) for of_run in dict.fromkeys(wanted)]


def _run(grid: Grid, base: RunConfig, overrides: Sequence[str], variant: str, seed: int) -> Run:
    folder = grid_folder(grid, base) / slug(variant) / f"seed-{seed}"
    words = [*overrides_of(grid.common), *overrides, *overrides_of(grid.variants[variant])]
    config = grid.config(words)
    num_steps, warmup_steps = equal_steps(base, config)
    # other seeds of fine-tuning for every seed of pretraining: else the untrained control, which
    # depends on the former alone, would be the same in all runs
    seeds = config.evaluate.seeds
    own = {task: o.seeds for task, o in config.evaluate.tasks_options.items() if o.seeds}
    first = seed * (max(max(of) for of in (seeds, *own.values())) + 1)
    changes = {
        "output_dir": str(folder),
        "seed": seed,
        "evaluate.seeds": [first + s for s in seeds],
        **{
            f"evaluate.tasks_options.{toml_key(task)}.seeds": [first + s for s in found]
            for task, found in own.items()
        },
        "pretrain.num_steps": num_steps,
        "pretrain.warmup_steps": warmup_steps,
    }
    words += overrides_of(changes)
    return Run(variant, seed, grid.config(words), tuple(words))


def equal_steps(base: RunConfig, config: RunConfig) -> tuple[int, int]:
    """Steps of `config` that cost the FLOPs of the base's in matrix products, at least one, and
    those of them that warm up: of both the same share."""
    from model.flops import run_flops

    def flops(run: RunConfig) -> float:
        return run_flops(run.pretrain, run.vocab.size, run.pretrain.sequence_length).matmul

    planned = config.pretrain.num_steps
    num_steps = max(1, round(planned * flops(base) / flops(config)))
    return num_steps, round(config.pretrain.warmup_steps * num_steps / planned)


def corpus_keys(config: RunConfig) -> dict[str, str]:
    """By stage of the corpus: what decides its bytes, so that runs of one key share a folder."""
    clean = config.clean.model_dump(mode="json")
    vocab = config.vocab.model_dump(mode="json")
    encode = config.encode.model_dump(mode="json")
    parts = {"clean": [clean], "vocab": [clean, vocab], "shards": [clean, vocab, encode]}
    return {stage: digest_of(part) for stage, part in parts.items()}
