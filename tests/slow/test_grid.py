"""A small grid to its end: its runs share a corpus, and what is done is not done again."""

import shutil
from pathlib import Path

import pytest

import benchmarks.ablate.run as ablate_jobs
from benchmarks.ablate.grid import load_grid, plan_runs
from benchmarks.ablate.run import ablate, dry_run, is_done
from electrify.check import check_run

SCRATCH = Path("configs/scratch.toml").absolute()


def test_a_small_grid_runs_shares_its_corpus_and_is_not_done_again(tmp_path: Path):
    path = tmp_path / "grid.toml"
    path.write_text(
        f"name = 'tiny'\nbase = '{SCRATCH}'\nclaims = ['half > other']\n"
        "[common]\n'evaluate.random_init_control' = false\n[variants]\n"
        "half = { 'pretrain.generator_hidden_fraction' = 0.5 }\n"
        "other = { 'encode.valid_fraction' = 0.1 }\n"
    )
    short = ["pretrain.num_steps=6", "pretrain.warmup_steps=1", "pretrain.valid_every_steps=6"]
    short += ["evaluate.seeds=[0]", "evaluate.num_epochs=0.1", "evaluate.min_steps=1"]
    short += [f"output_dir='{tmp_path / 'demo'}'"]
    printed = ablate(path, short, [], False, check_run)
    lines = printed.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["half", "other"]
    folder = tmp_path / "ablation-tiny"
    seed = folder / "half" / "seed-0"
    assert (seed / "shards").resolve() == (tmp_path / "demo" / "shards").resolve()
    other = folder / "other" / "seed-0"
    assert (other / "vocab").resolve() == (tmp_path / "demo" / "vocab").resolve()
    assert (other / "shards").resolve() == (folder / "other" / "corpus" / "shards").resolve()
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "too few seeds to tell" in report
    assert all(f"| {variant} |" in report for variant in ("half", "other"))
    # neither run is started again; a run whose scores are gone would be
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablate_jobs, "start", None)
        assert ablate(path, short, [], False, check_run) == printed
    assert "2 of 2 runs are finished" in dry_run(path, short)
    shutil.rmtree(other / "evaluate")
    assert [is_done(run) for run in plan_runs(load_grid(path), short)] == [True, False]
