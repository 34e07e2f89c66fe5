"""A grid's file: equal FLOPs, seeds, order, errors that name the variant."""

from pathlib import Path

import pytest

from benchmarks.ablate.grid import base_config, corpus_keys, load_grid, plan_runs
from electrify.config.load import load_config
from model.flops import run_flops
from tests.benchmarks.records import write

GRIDS = sorted(Path("configs/ablations").glob("*.toml"))
SCRATCH = Path("configs/scratch.toml").absolute()
TWO = (
    f"name = 'tiny'\nbase = '{SCRATCH}'\nseeds = [4, 7]\n[variants]\n"
    "half = { 'pretrain.generator_hidden_fraction' = 0.5 }\n"
    "full = { 'pretrain.generator_hidden_fraction' = 1.0 }\n"
)


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_runs_cost_the_same_flops(path: Path):
    grid = load_grid(path)
    base = base_config(grid, [])

    def total(run) -> float:
        return run_flops(run.pretrain, run.vocab.size).matmul

    steps, warmup = set(), base.pretrain.warmup_steps / base.pretrain.num_steps
    for run in plan_runs(grid, []):
        assert total(run.config) == pytest.approx(total(base), rel=2e-3)
        pretrain = run.config.pretrain
        assert pretrain.warmup_steps == pytest.approx(warmup * pretrain.num_steps, abs=1)
        steps.add(pretrain.num_steps)
    assert len(steps) > 1  # what costs more takes fewer steps


def test_every_variant_has_every_seed_the_first_seed_of_all_first(tmp_path: Path):
    grid = load_grid(write(tmp_path / "grid.toml", TWO))
    runs = plan_runs(grid, [f"output_dir='{tmp_path / 'demo'}'"])
    order = [("half", 4), ("full", 4), ("half", 7), ("full", 7)]
    assert [(run.variant, run.seed) for run in runs] == order
    assert [run.config.seed for run in runs] == [4, 4, 7, 7]
    for run in runs:  # what is printed and started is enough to make the run by hand
        assert load_config(SCRATCH, run.overrides) == run.config
    folders = {run.config.output_dir for run in runs}
    assert str(tmp_path / "ablation-tiny" / "full" / "seed-7") in folders
    assert len(folders) == 4


def test_no_two_seeds_of_pretraining_share_one_of_fine_tuning(tmp_path: Path):
    grid = load_grid(write(tmp_path / "grid.toml", TWO))
    runs = plan_runs(grid, ["evaluate.seeds=[0, 3, 5]"])
    of_half = [run.config.evaluate.seeds for run in runs if run.variant == "half"]
    assert len({seed for seeds in of_half for seed in seeds}) == 6
    own = "evaluate.tasks_options={klue-ynat = {seeds = [0, 1, 2]}}"
    runs = plan_runs(grid, ["evaluate.seeds=[0]", own])
    options = [run.config.evaluate.tasks_options for run in runs if run.variant == "half"]
    assert len({seed for of in options for seed in of["klue-ynat"].seeds}) == 6


def test_what_decides_a_corpus_tells_it_from_others():
    base = load_config(SCRATCH)
    for override, stages in (
        ("pretrain.num_steps=700", set()),
        ("pretrain.sequence_length=64", set()),  # how shards are read
        ("encode.valid_fraction=0.2", {"shards"}),
        ("vocab.size=900", {"vocab", "shards"}),
        ("clean.min_characters=3", {"clean", "vocab", "shards"}),
    ):
        keys, others = corpus_keys(base), corpus_keys(load_config(SCRATCH, [override]))
        assert {stage for stage in keys if keys[stage] != others[stage]} == stages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'", "base is missing"),
        (TWO.replace("tiny", "../out"), "name = .*should match"),
        (TWO.replace("seeds", "seds"), "unknown key seds"),
        (TWO.replace("half =", "'full!' ="), "variant 'full': its folder would be 'full', which"),
        (
            TWO.replace("pretrain.generator_hidden_fraction' = 0.5", "pretrain.hiden_size' = 3"),
            r"variant 'half': .*hiden_size = 3; did you mean hidden_size",
        ),
        (
            TWO.replace("pretrain.generator_hidden_fraction' = 0.5", "seed' = 3"),
            "seed is not a var",
        ),
        (TWO.replace("[variants]", "claims = ['half > all']\n[variants]"), "no variant 'all'"),
        (TWO.replace("[variants]", "num_processes = 2\n[variants]"), "num_processes is gone"),
    ],
)
def test_bad_grids_are_named(tmp_path: Path, text: str, message: str):
    path = write(tmp_path / "grid.toml", text)
    with pytest.raises(ValueError, match=f"(?s)grid.toml.*{message}"):
        load_grid(path)
    with pytest.raises(ValueError, match="no config at"):
        load_grid(tmp_path / "none.toml")
