"""What docs/runners.md says of options, images and the wheel."""

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from electrify.cli import _parser
from pipeline.runner import parse_options

PAGE = Path("docs/runners.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line for kind, block in BLOCKS if kind == "" for line in block.splitlines()]
CLEAN = [shlex.split(line)[1:] for line in COMMANDS if line.startswith("electrify ")]


@pytest.mark.parametrize("words", CLEAN, ids=lambda words: words[-1])
def test_beam_knows_every_option(words):
    own, options = words, []
    if "--" in words:
        own, options = words[: words.index("--")], words[words.index("--") + 1 :]
    assert _parser().parse_args(own).config
    assert parse_options(options)[1] == []


def test_options_named_in_the_text_are_in_a_command_or_known():
    named = set(re.findall(r"`(--\w+)`", PAGE)) - {"--"}
    assert named
    for option in named:
        assert parse_options([f"{option}=x"])[1] == [], option


def test_an_option_that_beam_does_not_know_is_seen():
    assert parse_options(["--flink_mistress=host"])[1] == ["flink_mistress"]


def test_versions_are_those_of_the_constraints():
    pins = dict(
        line.split("==")
        for line in Path("constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    )
    assert f"beam_python3.11_sdk:{pins['apache-beam']}" in PAGE


def test_the_wheel_holds_the_packages_and_the_sample_and_no_reports(tmp_path):
    pytest.importorskip("hatchling")
    (command,) = [line for line in COMMANDS if line.startswith("pip wheel")]
    words = [sys.executable, "-m", *shlex.split(command.replace("dist", str(tmp_path)))]
    subprocess.run([*words, "--no-build-isolation"], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"dist/{wheel.name}" in PAGE
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    packages = ("electrify", "pipeline", "vocab", "model", "benchmarks")
    wanted = {
        str(path)
        for package in packages
        for path in Path(package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if not path.is_relative_to("benchmarks/reports")
    }
    assert names == wanted
    assert any(name.startswith("pipeline/sample/") for name in wanted)
