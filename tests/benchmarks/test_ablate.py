"""A grid of runs: equal FLOPs, a shared corpus, errors that name the variant."""

import json
from pathlib import Path

import pytest

from benchmarks.ablate import ablate, load_ablation, variant_config
from electrify.config_file import load_config
from model.flops import run_flops

GRIDS = sorted(Path("configs/ablations").glob("*.toml"))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_variants_cost_the_same_flops(tmp_path: Path, path: Path):
    ablation = load_ablation(path)
    common = [f"{key}={json.dumps(value)}" for key, value in ablation.common.items()]
    base = load_config(ablation.base, common)

    def total(run) -> float:
        return run_flops(run.pretrain, run.vocab.size, run.encode.sequence_length).matmul

    steps = set()
    for changes in ablation.variants.values():
        config = variant_config(ablation, base, common, changes, tmp_path / "v")
        assert total(config) == pytest.approx(total(base), rel=2e-3)
        steps.add(config.pretrain.num_steps)
    assert len(steps) > 1  # what costs more takes fewer steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'", "has name, base, at least one"),
        ("name = ", "not valid TOML"),
        (
            "name='x'\nbase='BASE'\n[variants]\nodd = { 'pretrain.hiden_size' = 3 }",
            r"variant 'odd': .*hiden_size = 3; did you mean hidden_size",
        ),
    ],
)
def test_bad_grids_are_named(tmp_path: Path, text: str, message: str):
    path = tmp_path / "grid.toml"
    path.write_text(text.replace("BASE", str(Path("configs/demo.toml").absolute())))
    with pytest.raises(ValueError, match=f"(?s){message}"):
        load_ablation(path)
    with pytest.raises(ValueError, match="no ablation at"):
        load_ablation(tmp_path / "none.toml")


def test_a_small_grid_runs_and_shares_the_corpus(tmp_path: Path):
    path = tmp_path / "grid.toml"
    base = Path("configs/demo.toml").absolute()
    path.write_text(
        f"name = 'tiny'\nbase = '{base}'\n[variants]\n"
        "half = { 'pretrain.generator_hidden_fraction' = 0.5 }\n"
        "full = { 'pretrain.generator_hidden_fraction' = 1.0 }\n"
    )
    short = ["pretrain.num_steps=6", "pretrain.warmup_steps=1", "pretrain.valid_every_steps=6"]
    short += ["evaluate.tasks=[]", f"output_dir='{tmp_path / 'demo'}'"]
    printed = ablate(path, short, [], overwrite=False)
    lines = printed.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| half", "| full"]
    grid = tmp_path / "ablation-tiny"
    assert (grid / "00" / "shards").resolve() == (tmp_path / "demo" / "shards").resolve()
    assert (grid / "01" / "export" / "discriminator" / "config.json").exists()
    assert (grid / "table.md").read_text(encoding="utf-8").startswith("# Ablation tiny")
