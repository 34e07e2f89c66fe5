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

import copy
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from benchmarks.tasks.registry import resolve_tasks
from electrify.config.load import override_config, read_config, toml_key, toml_value
from electrify.config.run import RunConfig
from electrify.config.section import Count, Section
from electrify.stage.folder import digest_of
from electrify.stage.plan import READ_OPTIONS, output_dir
from electrify.stage.remote import is_address

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
    raw: dict[str, Any]  # what stands in the base's file
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
    raw = _check_variants(path, base, file)
    _check_experiments(path, file)
    experiments = file.experiments or {ALL: Experiment(variants=tuple(file.variants))}
    of_base = override_config(copy.deepcopy(raw), overrides_of(file.common), str(base))
    seeds = file.seeds or (of_base.seed,)
    curves = tuple(file.variants) if file.curves is None else file.curves
    return Grid(
        file.name,
        base,
        raw,
        seeds,
        file.num_processes,
        file.curve_points,
        curves,
        file.common,
        file.variants,
        experiments,
        file.budget_hours,
        file.judged_by,
        file.notes,
    )


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


def _check_variants(path: Path, base: Path, file: _GridFile) -> dict[str, Any]:
    """What stands in the base's file, where each variant makes a config of it."""
    folders: dict[str, str] = {}
    raw: dict[str, Any] = {}
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
            raw = raw or read_config(base)
            words = overrides_of({**file.common, **changes})
            override_config(copy.deepcopy(raw), words, str(base))
        except (ValueError, OSError, RecursionError) as error:  # a base that cannot be read
            raise ValueError(f"{path}, variant {label!r}: {error}") from None
    return raw


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


# The columns of scores that a grid is read by: all tasks, those of a language, each task.

MEAN = "all tasks"
_LANGUAGES = {"klue": "ko", "korean": "ko", "glue": "en", "squad": "en"}  # of suites


def column_groups(tasks: Sequence[str]) -> dict[str, list[str]]:
    """The tasks of each column; a mean of one task is that task's column."""
    languages = _languages_of(tasks)
    columns = {MEAN: list(tasks)} if len(tasks) > 1 else {}
    if len(languages) > 1:
        columns |= {language: found for language, found in languages.items() if len(found) > 1}
    return columns | {task: [task] for task in tasks}


def _languages_of(tasks: Iterable[str]) -> dict[str, list[str]]:
    """The tasks of each language: KLUE's are Korean, GLUE's English."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        suite, _, rest = task.partition("-")
        language = rest if suite == "xquad" else _LANGUAGES.get(suite, suite)
        found.setdefault(language, []).append(task)
    return found


# Which runs a grid is: each with its config, its steps, its folder and the corpus it reads.

CORPUS_STAGES = ("clean", "vocab", "shards")


@dataclass(frozen=True)
class Run:
    """One variant pretrained with one seed."""

    variant: str
    seed: int
    config: RunConfig
    overrides: tuple[str, ...]  # of the grid's base, as `--set` takes them
    has_curve: bool = False  # its checkpoints are scored

    @property
    def label(self) -> str:
        """As the log names it."""
        return run_label(self.variant, self.seed)


def run_label(variant: str, seed: int) -> str:
    """As logs and reports name a run."""
    return f"{variant}, seed {seed}"


def base_config(grid: Grid, overrides: Sequence[str]) -> RunConfig:
    """The grid's base with what is common to all variants; `overrides` are the user's."""
    config = _config(grid, [*overrides_of(grid.common), *overrides])
    if is_address(config.output_dir):
        raise ValueError(
            f"output_dir = {config.output_dir!r}: the runs of an ablation share folders by "
            "links, which an address has not; give a folder: --set output_dir=out/NAME"
        )
    if grid.judged_by:
        _check_columns(grid, config)
    return config


def _config(grid: Grid, words: Sequence[str]) -> RunConfig:
    return override_config(copy.deepcopy(grid.raw), words, str(grid.base))


def _check_columns(grid: Grid, base: RunConfig) -> None:
    tasks = resolve_tasks(base.evaluate.suites, base.evaluate.tasks)
    columns = column_groups([task.name for task in tasks])
    for column in grid.judged_by:
        if column not in columns:
            raise ValueError(
                f"judged_by: there is no {column!r} among the columns of scores "
                f"({', '.join(columns)})"
            )


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


def _run(
    grid: Grid,
    base: RunConfig,
    overrides: Sequence[str],
    variant: str,
    seed: int,
) -> Run:
    folder = grid_folder(grid, base) / slug(variant) / f"seed-{seed}"
    words = [*overrides_of(grid.common), *overrides, *overrides_of(grid.variants[variant])]
    config = _config(grid, words)
    num_steps, warmup_steps = equal_steps(base, config)
    # other seeds of fine-tuning for every seed of pretraining: else the untrained control, which
    # depends on the former alone, would be the same in all runs
    seeds = config.evaluate.seeds
    first = seed * (max(seeds) + 1)
    own = {task: o.seeds for task, o in config.evaluate.tasks_options.items() if o.seeds}
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
    is_first = seed == grid.seeds_of(variant)[0]
    has_curve = grid.curve_points > 0 and variant in grid.curves and is_first
    if has_curve:
        every = -(-num_steps // grid.curve_points)  # rounded up: no checkpoint next to the last
        changes |= {"pretrain.keep_every_steps": every, "pretrain.checkpoint_every_steps": every}
    words += overrides_of(changes)
    return Run(variant, seed, _config(grid, words), tuple(words), has_curve)


def equal_steps(base: RunConfig, config: RunConfig) -> tuple[int, int]:
    """Steps of `config` that cost the FLOPs of the base's in matrix products, at least one, and
    those of them that warm up: of both the same share."""
    from model.watch.flops import run_flops

    def flops(run: RunConfig) -> float:
        return run_flops(run.pretrain, run.vocab.size, run.encode.sequence_length).matmul

    planned = config.pretrain.num_steps
    num_steps = max(1, round(planned * flops(base) / flops(config)))
    return num_steps, round(config.pretrain.warmup_steps * num_steps / planned)


def corpus_keys(config: RunConfig) -> dict[str, str]:
    """By stage of the corpus: what decides its bytes, so that runs of one key share a folder."""
    clean = config.clean.model_dump(mode="json")
    vocab = config.vocab.model_dump(mode="json")
    encode = config.encode.model_dump(mode="json", exclude=set(READ_OPTIONS))
    parts = {"clean": [clean], "vocab": [clean, vocab], "shards": [clean, vocab, encode]}
    return {stage: digest_of(part) for stage, part in parts.items()}
