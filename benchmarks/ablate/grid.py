"""The file of a grid (docs/ablations.md has one), and the runs that it asks for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from electrify.config.fields import Section
from electrify.config.load import load_config, parse_part, read_config, toml_key, toml_value
from electrify.config.run import RunConfig
from electrify.stage.folder import digest_of
from electrify.stage.plan import output_dir
from electrify.stage.remote import is_address
from electrify.system.outcome import UserError


@dataclass(frozen=True)
class Claim:
    """`better` scores above `worse`; or, of `is_equality`, as much."""

    better: str
    worse: str
    is_equality: bool

    @property
    def text(self) -> str:
        return f"{self.better} {'=' if self.is_equality else '>'} {self.worse}"


def read_claim(text: object) -> Claim:
    """A claim of a file: 'A > B' or 'A = B'."""
    if isinstance(text, str) and (match := re.fullmatch(r"(.+) ([>=]) (.+)", text)):
        return Claim(match[1], match[3], match[2] == "=")
    raise UserError(f"claim {text!r}: write 'A > B' or 'A = B' of two variants")


class Grid(Section):
    """A base config, what all variants change, what each one changes, and claims about them."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]  # a folder is named by it
    base: Path  # in the file from its folder; here from the working directory
    seeds: tuple[
        Annotated[int, Field(ge=0, lt=2**63)], ...
    ] = ()  # of pretraining; none in the file: the base's
    claims: tuple[Annotated[Claim, BeforeValidator(read_claim)], ...] = ()
    common: dict[str, Any] = Field(default_factory=dict)
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        folders: dict[str, str] = {}
        for label in self.variants:
            other = folders.setdefault(slug(label), label)
            if not slug(label) or other != label:
                raise UserError(
                    f"variant {label!r}: its folder would be {slug(label)!r}, which is empty or "
                    "taken; rename it"
                )
        for claim in self.claims:
            if unknown := {claim.better, claim.worse} - {*self.variants}:
                raise UserError(f"claim {claim.text!r}: there is no variant {min(unknown)!r}")
        return self

    def config(self, overrides: Sequence[str]) -> RunConfig:
        return load_config(self.base, overrides)


def load_grid(path: Path) -> Grid:
    """Read and check a grid; `ValueError` naming what is wrong."""
    grid = parse_part(read_config(path), str(path), Grid)
    grid = grid.model_copy(update={"base": path.parent / grid.base})
    for label, changed in grid.variants.items():
        for key in ("seed", "output_dir"):
            if key in changed:
                raise UserError(
                    f"{path}, variant {label!r}: {key} is not a variant's: seeds = [...] of the "
                    "grid gives the seeds, and each run has a folder of its own"
                )
        try:
            grid.config(overrides_of({**grid.common, **changed}))
        except (ValueError, OSError, RecursionError) as error:  # a base that cannot be read
            raise UserError(f"{path}, variant {label!r}: {error}") from None
    seeds = grid.seeds or (grid.config(overrides_of(grid.common)).seed,)
    return grid.model_copy(update={"seeds": seeds})


def overrides_of(changes: Mapping[str, Any]) -> list[str]:
    return [f"{key}={toml_value(value)}" for key, value in changes.items()]


def slug(label: str) -> str:
    """A variant's folder: 'generator 1/4' is 'generator-1-4', '큰 생성기' is '큰-생성기'."""
    return re.sub(r"[\W_]+", "-", label.lower()).strip("-")


@dataclass(frozen=True)
class Run:
    """One variant pretrained with one seed."""

    variant: str
    seed: int
    config: RunConfig
    overrides: tuple[str, ...]  # of the grid's base, as `--set` takes them

    @property
    def label(self) -> str:
        return f"{self.variant}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        return output_dir(self.config)


def base_config(grid: Grid, overrides: Sequence[str]) -> RunConfig:
    config = grid.config([*overrides_of(grid.common), *overrides])
    if is_address(config.output_dir):
        raise UserError(
            f"output_dir = {config.output_dir!r}: the runs of a grid share folders by links, and "
            "an address has no links; give a folder: `output_dir=out/NAME`"
        )
    return config


def grid_folder(grid: Grid, base: RunConfig) -> Path:
    """Where the grid's runs and its report stand: beside the base's run."""
    return output_dir(base).parent / f"ablation-{grid.name}"


def plan_runs(grid: Grid, overrides: Sequence[str]) -> list[Run]:
    """The first seed of every variant, then the second: what a stopped grid has can be compared."""
    base = base_config(grid, overrides)
    return [_run(grid, base, overrides, v, seed) for seed in grid.seeds for v in grid.variants]


def _run(grid: Grid, base: RunConfig, overrides: Sequence[str], variant: str, seed: int) -> Run:
    words = [*overrides_of(grid.common), *overrides, *overrides_of(grid.variants[variant])]
    config = grid.config(words)
    num_steps, warmup_steps = equal_steps(base, config)
    # other seeds of fine-tuning for every seed of pretraining: else the former would do the same to
    # all runs
    seeds = {"evaluate.seeds": config.evaluate.seeds} | {
        f"evaluate.tasks_options.{toml_key(task)}.seeds": options.seeds
        for task, options in config.evaluate.tasks_options.items()
        if options.seeds
    }
    first = seed * (max(map(max, seeds.values())) + 1)
    changes = {
        "output_dir": str(grid_folder(grid, base) / slug(variant) / f"seed-{seed}"),
        "seed": seed,
        **{key: [first + s for s in own] for key, own in seeds.items()},
        "pretrain.num_steps": num_steps,
        "pretrain.warmup_steps": warmup_steps,
    }
    words += overrides_of(changes)
    return Run(variant, seed, grid.config(words), tuple(words))


def equal_steps(base: RunConfig, config: RunConfig) -> tuple[int, int]:
    """Steps of `config` that cost the FLOPs of the base's in matrix products, at least one, and
    those of them that warm up: of both the same fraction."""
    from model.flops import run_flops

    def flops(run: RunConfig) -> float:
        return run_flops(run.pretrain, run.vocab.num_pieces).matmul

    sizes = base.vocab.size, config.vocab.size
    if sizes[0] != sizes[1] and "auto" in sizes:
        raise UserError(
            f"vocab.size = {sizes[0]} of the base beside {sizes[1]}: the cost of auto is not known "
            "before the text is read; give the base a number"
        )
    planned = config.pretrain.num_steps
    num_steps = max(1, round(planned * flops(base) / flops(config)))
    return num_steps, round(config.pretrain.warmup_steps * num_steps / planned)


def corpus_keys(config: RunConfig) -> dict[str, str]:
    """By stage of the corpus: what decides its bytes, so that runs of one key share a folder."""
    sections = {"clean": config.clean, "vocab": config.vocab, "shards": config.encode}
    content = [section.model_dump(mode="json") for section in sections.values()]
    return {stage: digest_of(content[:n]) for n, stage in enumerate(sections, start=1)}
