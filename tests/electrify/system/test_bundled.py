"""What comes with electrify is found from any folder under the name it has in a checkout."""

from pathlib import Path

import pytest

from electrify.config.load import load_config
from electrify.stage.plan import clean_stage, stage_options
from electrify.system import bundled
from electrify.system.bundled import bundled_name, config_names, find_bundled

NAMES = ("configs/demo.toml", "pipeline/sample/en.txt", "model/shipped/ko-modern/discriminator")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_of_a_checkout_are_found_elsewhere(elsewhere: Path):
    for name in NAMES:
        assert Path(find_bundled(name)).exists()
        assert bundled_name(find_bundled(name)) == name
    assert find_bundled("pipeline/sample/ko_*.jsonl").endswith("/pipeline/sample/ko_*.jsonl")
    config = load_config("configs/ko-modern.toml")  # which extends others
    assert config.name == "ko-modern"
    demo = load_config("configs/demo.toml")
    assert Path(demo.pretrain.initial_model or "").is_dir()
    assert demo.output_dir == "out/demo"
    # which machines share, wherever each has it installed
    assert stage_options(demo, "pretrain")["initial_model"] == NAMES[2]
    path = find_bundled(NAMES[1])
    assert NAMES[1] in clean_stage(demo, {path: "digest"}).inputs


def test_the_readers_own_files_come_first(elsewhere: Path):
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs/demo.toml").write_text('name = "own"')
    names = "data/a.jsonl", "klue/roberta-small", "configs", "/configs/demo.toml", "configs/a.toml"
    for name in (*names, "configs/demo.toml"):
        assert find_bundled(name) == name


def test_an_own_config_hides_no_other(elsewhere: Path):
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs/mine.toml").write_text('extends = "ko-modern.toml"\nname = "mine"')
    assert Path(find_bundled("configs/demo.toml")).is_file()
    assert {"configs/mine.toml", "configs/demo.toml"} <= set(config_names())
    mine, extended = (load_config(f"configs/{name}.toml") for name in ("mine", "ko-modern"))
    assert mine.pretrain == extended.pretrain


def test_a_wheel_has_the_configs_in_its_package(elsewhere: Path, monkeypatch):
    place = elsewhere / "site-packages"
    (place / "electrify" / "configs").mkdir(parents=True)
    (place / "electrify" / "configs" / "demo.toml").touch()
    monkeypatch.setattr(bundled, "_PACKAGES", place)
    assert find_bundled("configs/demo.toml") == str(place / "electrify/configs/demo.toml")
    assert find_bundled("pipeline/sample/en.txt") == "pipeline/sample/en.txt"  # none is there
