"""What the README and the docs show works, as far as data allows; demo commands: test_demo.py."""

import re
import shlex
from pathlib import Path

import pytest

from benchmarks.ablate.grid import load_grid
from electrify.cli import _parser, main
from electrify.config.load import load_config

README = Path("README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
LINES = [line for kind, block in BLOCKS if kind == "" for line in block.splitlines()]
COMMANDS = [
    line.split(" #")[0].strip() for line in LINES if line.startswith(("electrify ", "make "))
]

DOC_BLOCKS = [
    (path.name, kind, block)
    for path in sorted(Path("docs").glob("*.md"))
    for kind, block in re.findall(
        r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
]
DOC_CONFIGS = [(name, block) for name, kind, block in DOC_BLOCKS if kind == "toml"]
DOC_COMMANDS = [
    line.split(" #")[0].strip()
    for _, kind, block in DOC_BLOCKS
    if kind in ("", "sh")
    for line in block.splitlines()
    if line.startswith("electrify ")
]


@pytest.mark.parametrize(("page", "block"), DOC_CONFIGS)
def test_the_configs_in_the_docs_are_valid(page: str, block: str, tmp_path: Path):
    if "[variants]" in block:
        (tmp_path / "demo.toml").write_bytes(Path("configs/demo.toml").read_bytes())
        (tmp_path / "grids").mkdir()
        (tmp_path / "grids" / "grid.toml").write_text(block, encoding="utf-8")
        load_grid(tmp_path / "grids" / "grid.toml")
        return
    rest = '[pretrain]\nsize = "small"\n' if "[pretrain]" not in block else ""
    path = tmp_path / "config.toml"
    path.write_text(f'name = "docs"\noutput_dir = "out"\n{block}{rest}', encoding="utf-8")
    load_config(str(path), [])


def test_links_between_the_docs_lead_somewhere():
    for path in [Path("README.md"), *Path("docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path}: {link}"


def test_the_readme_has_commands():
    assert {"make demo", "make test", "electrify run configs/ko-small.toml"} <= set(COMMANDS)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_make_targets_exist(command: str):
    makefile = Path("Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)


@pytest.mark.parametrize(
    "command", [c for c in [*COMMANDS, *DOC_COMMANDS] if c.startswith("electrify ")]
)
def test_commands_parse_and_name_valid_configs(command: str):
    words = shlex.split(command)[1:]
    parsed = _parser().parse_args(words[: words.index("--")] if "--" in words else words)
    config = getattr(parsed, "config", None)
    if config and config not in ("CONFIG", "GRID") and "ablations" not in config:
        load_config(config, parsed.set)


def test_commands_without_a_config_run(capsys: pytest.CaptureFixture[str]):
    assert main(["ls"]) == 0
    printed = capsys.readouterr().out
    assert "configs/demo.toml" in printed
    assert "klue-ynat" in printed
    assert main(["doctor"]) == 0
    # the reader's own text and the benchmark's files are not here
    sources = 'clean.sources=[{kind="text",language="en",path="pipeline/sample/en.txt"}]'
    options = ["--set", sources, "--set", "evaluate.suites=[]"]
    assert main(["validate", "configs/ko-small.toml", *options]) == 0
    printed = capsys.readouterr().out
    assert "pretrain.hidden_size = 256" in printed
    assert "masked positions: 19 of 128" in printed


def test_the_python_example_names_real_classes():
    import transformers

    (block,) = [block for kind, block in BLOCKS if kind == "python"]
    names = re.search(r"from transformers import (.*)", block)
    assert names
    assert all(hasattr(transformers, name.strip()) for name in names.group(1).split(","))
