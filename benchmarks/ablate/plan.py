"""Which runs a grid is: each with its config, its steps, its folder and the corpus it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ablate.columns import column_groups
from benchmarks.ablate.grid import Grid, overrides_of, slug
from benchmarks.registry import resolve_tasks
from electrify.artifacts import digest_of
from electrify.config import RunConfig
from electrify.config_file import load_config
from electrify.remote_run import is_address
from electrify.stages import READ_OPTIONS, output_dir
from electrify.toml_text import toml_key

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
    config = load_config(grid.base, [*overrides_of(grid.common), *overrides])
    if is_address(config.output_dir):
        raise ValueError(
            f"output_dir = {config.output_dir!r}: the runs of an ablation share folders by "
            "links, which an address has not; give a folder: --set output_dir=out/NAME"
        )
    if grid.judged_by:
        _check_columns(grid, config)
    return config


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
    config = load_config(grid.base, words)
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
    return Run(variant, seed, load_config(grid.base, words), tuple(words), has_curve)


def equal_steps(base: RunConfig, config: RunConfig) -> tuple[int, int]:
    """Steps of `config` that cost the FLOPs of the base's in matrix products, at least one, and
    those of them that warm up: of both the same share."""
    from model.flops import run_flops

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
