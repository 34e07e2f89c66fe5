"""What the README and the docs show works, as far as data allows; demo commands: test_demo.py."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer

import electrify
from benchmarks.ablate.grid import load_grid
from electrify.cli import app, main
from electrify.config.load import load_config
from pipeline.rules.extra import made_rules, read_code
from pipeline.runner import parse_options

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
OTHER_PAGES = [
    *sorted(Path("docs/development").glob("*.md")),
    *map(Path, ("CONTRIBUTING.md", "PERFORMANCE.md", "SECURITY.md")),
    Path("model/shipped/ko-modern/README.md"),
]
BLOCKS = [
    (path.as_posix(), kind, block)
    for path in PAGES
    for kind, block in re.findall(
        r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
]
CONFIGS = [(name, block) for name, kind, block in BLOCKS if kind == "toml"]
# these pages are a path that a reader follows: test_demo.py executes what they do with the demo
GUIDES = ("README.md", "docs/usage.md", "docs/quickstart-ko.md")
COMMAND = typer.main.get_command(app)
MINE = "configs/mine.toml"  # the reader's own, as these pages write it
OWN = ("docs/choosing.md", "docs/quickstart-ko.md")
DATA = "data.toml"  # what init writes


def lines_of(*pages: str) -> list[str]:
    """The lines of the shell blocks of these pages, without their comments."""
    return [
        re.sub(r"^.*/electrify ", "electrify ", line).split(" #")[0].strip()
        for name, kind, block in BLOCKS
        if name in pages and kind in ("", "sh")
        for line in block.splitlines()
    ]


DOC_LINES = lines_of(*(path.as_posix() for path in PAGES))
COMMANDS = [x for x in lines_of(*GUIDES) if x.startswith(("electrify ", "make "))]
EVERY_COMMAND = sorted({x for x in DOC_LINES if x.startswith(("electrify ", "make "))})
CLUSTER, TPU = (Path(f"docs/{name}.md").read_text(encoding="utf-8") for name in ("cluster", "tpu"))


def pins(name: str) -> dict[str, str]:
    """The versions that a file of constraints has."""
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


@pytest.mark.parametrize(("page", "block"), CONFIGS)
def test_the_configs_in_the_docs_are_valid(page: str, block: str, tmp_path: Path):
    if "[variants]" in block:
        (tmp_path / "scratch.toml").write_bytes(Path("configs/scratch.toml").read_bytes())
        (tmp_path / "grids").mkdir()
        (tmp_path / "grids" / "grid.toml").write_text(block, encoding="utf-8")
        load_grid(tmp_path / "grids" / "grid.toml")
        return
    is_whole = block.startswith("name = ")
    first = "" if is_whole else 'name = "docs"\noutput_dir = "out"\n'
    rest = "" if is_whole or "[pretrain]" in block else '[pretrain]\nsize = "small"\n'
    path = tmp_path / "config.toml"
    path.write_text(f"{first}{block}{rest}", encoding="utf-8")
    load_config(str(path), [])


def written(folder: Path, *pages: str) -> str:
    """The config that these pages have the reader write, equal on all of them."""
    (block,) = {block for name, block in CONFIGS if name in pages}
    (folder / "mine.toml").write_text(block, encoding="utf-8")
    return str(folder / "mine.toml")


def sentences(path: Path) -> list[str]:
    """Of a page, without tables, code, headings and addresses; `inline code` is a word."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\A---\n.*?^---\n|^ *```.*?^ *```", "\n\n", text, flags=re.S | re.M)
    text = re.sub(r"^(?:#|\||    ).*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]+`", "code", text))
    return re.split(r"\n\s*\n|\n *(?:[*-]|\d+\.) |(?<=[.!?])[)*\"]*\s", text)


@pytest.mark.parametrize("path", [*PAGES, *OTHER_PAGES], ids=str)
def test_sentences_have_at_most_twenty_words(path: Path):
    for sentence in sentences(path):
        assert len(re.findall(r"\S*\w\S*", sentence)) <= 20, " ".join(sentence.split())


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_the_docs_lead_somewhere():
    for path in PAGES:
        for link in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            name, _, anchor = link.partition("#")
            if "://" not in link:
                target = path.parent / name if name else path
                assert target.exists(), f"{path}: {link}"
                # the site of `make docs` has no other files
                assert path.name == "README.md" or not link.startswith(".."), f"{path}: {link}"
                assert not anchor or anchor in anchors(target), f"{path}: {link}"


def test_every_page_is_in_the_readme_and_on_the_site():
    site, readme = (Path(n).read_text(encoding="utf-8") for n in ("mkdocs.yml", "README.md"))
    index = Path("docs/index.md").read_text(encoding="utf-8")
    for path in PAGES[1:]:
        assert f": {path.name}\n" in site, path
        if path.name != "index.md":
            assert f"]({path.as_posix()})" in readme, path
            assert f"]({path.name})" in index, path


def test_the_guides_have_commands():
    for page in GUIDES:
        assert "make demo" in lines_of(page)
    assert {"make demo", f"electrify run {DATA}"} <= set(lines_of("README.md"))
    for verb in COMMAND.commands:
        assert any(command.startswith(f"electrify {verb}") for command in COMMANDS), verb


@pytest.mark.parametrize("command", [c for c in EVERY_COMMAND if c.startswith("make ")])
def test_make_targets_exist(command: str):
    makefile = Path("Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("command", [c for c in EVERY_COMMAND if c.startswith("electrify ")])
def test_commands_parse_and_name_valid_configs_and_options_of_beam(command: str, tmp_path: Path):
    words, _, beam = command.partition(" -- ")
    verb, *rest = shlex.split(words)[1:]
    parsed = COMMAND.commands[verb].make_context(verb, rest).params
    assert parse_options(shlex.split(beam))[1] == []
    config = parsed.get("config")
    if config and config not in ("CONFIG", "GRID") and "ablations" not in config:
        path = written(tmp_path, *OWN) if config in (MINE, DATA) else config
        load_config(path, parsed.get("overrides", []))


def test_commands_without_a_config_run(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["ls"]) == 0
    printed = capsys.readouterr().out
    assert "configs/demo.toml" in printed
    assert "klue-ynat" in printed
    assert main(["doctor"]) == 0
    # the reader's own text and the benchmark's files are not here
    words = (f"{i:x}{i * 7919 % 65521:x}" for i in range(20_000))
    (tmp_path / "text.txt").write_text("\n".join(words))
    path = json.dumps(str(tmp_path / "text.txt"))
    sources = f'clean.sources=[{{kind="text",language="en",path={path}}}]'
    options = ["--set", sources, "--set", "evaluate.suites=[]"]
    assert main(["validate", "configs/ko-small.toml", "--keys", *options]) == 0
    printed = capsys.readouterr().out
    assert "configs/ko-small.toml can be run" in printed
    assert "pretrain.hidden_size = 256" in printed
    assert main(["validate", written(tmp_path, *OWN), *options]) == 0


def test_the_python_examples_name_real_classes():
    import transformers

    blocks = [block for name, kind, block in BLOCKS if kind == "python" and "import" in block]
    assert blocks
    for block in blocks:
        compile(block, "docs", "exec")
        names = re.search(r"from (transformers|electrify) import (.*)", block)
        if names is None:  # an example of other packages has a test of its own
            continue
        package = {"transformers": transformers, "electrify": electrify}[names.group(1)]
        assert all(callable(getattr(package, name.strip())) for name in names.group(2).split(","))


def test_the_rule_of_the_docs_is_one(tmp_path):
    (rule,) = (block for name, kind, block in BLOCKS if kind == "python" and "import" not in block)
    path = tmp_path / "mine.py"
    path.write_text(rule, encoding="utf-8")
    names = [f"{path}:drop_letters"]
    (made,) = made_rules(tuple(names), tuple(read_code(names).items()))
    assert made.apply("독자 편지입니다.", "ko") is None
    assert made.apply("사설입니다.", "ko") == "사설입니다."


def test_each_function_of_the_package_is_in_the_docs():
    page = Path("docs/python.md").read_text(encoding="utf-8")
    for name in electrify.__all__:
        assert callable(getattr(electrify, name))
        assert f"`{name}" in page or f" {name}" in page, name
    with pytest.raises(AttributeError, match="has no attribute 'cleen'"):
        electrify.cleen  # noqa: B018


def test_the_options_of_beam_and_the_image_for_clusters_are_known():
    named = set(re.findall(r"`(--\w+)`", CLUSTER)) - {"--"}
    assert named
    assert parse_options([f"{option}=1" for option in named])[1] == []
    assert f"beam_python3.11_sdk:{pins('constraints.txt')['apache-beam']}" in CLUSTER


def test_the_wheel_holds_packages_configs_sample_and_encoder_but_no_reports(tmp_path):
    pytest.importorskip("hatchling")
    (command,) = [line for line in DOC_LINES if line.startswith("pip wheel")]
    words = [sys.executable, "-m", *shlex.split(command.replace("dist", str(tmp_path)))]
    # of what a container is built from: its context is nothing else
    context = tmp_path / "context"
    context.mkdir()
    for line in Path(".dockerignore").read_text(encoding="utf-8").splitlines():
        if line.startswith("!"):
            path = Path(line[1:])
            if path.is_dir():
                shutil.copytree(path, context / path, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, context)
    build = [*words, "--no-build-isolation"]
    subprocess.run(build, check=True, capture_output=True, cwd=context)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"dist/{wheel.name}" in CLUSTER
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
    wanted |= {f"electrify/{path}" for path in Path("configs").rglob("*.toml")}
    assert names == wanted
    assert any(name.startswith("pipeline/sample/") for name in wanted)


def test_versions_are_those_of_the_constraints_and_fit():
    versions = pins("constraints-tpu.txt")
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+", name) for name in versions)
    assert versions["torch"].split(".")[:2] == versions["torch-xla"].split(".")[:2] == ["2", "9"]
    assert "torch_xla 2.9, and torch 2.9" in " ".join(TPU.split())
    assert '"torch==2.9.*", "torch_xla[tpu]==2.9.*"' in Path("pyproject.toml").read_text()
