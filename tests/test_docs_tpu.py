"""What docs/tpu.md says of commands, versions and chips."""

import re
import shlex
from pathlib import Path

import pytest

from electrify.cli import _parser
from electrify.config.load import load_config
from model.watch.flops import peak_flops, run_flops

PAGE = Path("docs/tpu.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LINES = [line for kind, block in BLOCKS if kind in ("", "sh") for line in block.splitlines()]
ELECTRIFY = [
    re.sub(r"^.*electrify ", "", line) for line in LINES if re.search(r"(^|/)electrify ", line)
]


def test_there_are_commands():
    assert any(words.startswith("pretrain configs/ko-small.toml") for words in ELECTRIFY)
    assert any("configs/demo.toml" in words for words in ELECTRIFY)


@pytest.mark.parametrize("words", ELECTRIFY)
def test_commands_parse_and_their_options_are_valid(words: str):
    parsed = _parser().parse_args(shlex.split(words))
    assert load_config(parsed.config, parsed.set).pretrain.device == "xla"


def test_make_targets_exist():
    makefile = Path("Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in LINES if line.startswith("make ")}
    assert {"tpu-env", "test-tpu"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_versions_are_those_of_the_constraints_and_fit():
    lines = Path("constraints-tpu.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+", name) for name in pins)
    assert pins["torch"].split(".")[:2] == pins["torch-xla"].split(".")[:2] == ["2", "9"]
    assert "torch_xla 2.9, and torch 2.9" in " ".join(PAGE.split())
    assert '"torch==2.9.*", "torch_xla[tpu]==2.9.*"' in Path("pyproject.toml").read_text()


def test_peaks_are_those_that_mfu_is_counted_with():
    (found,) = re.findall(
        r"(\d+) TFLOP/s in bf16 for a chip of v4, (\d+) for v5e, (\d+) for v6e", PAGE
    )
    names = ("TPU v4", "TPU v5litepod", "TPU v6e")
    assert [1e12 * int(number) for number in found] == [peak_flops(n, "bf16") for n in names]
    hours = re.findall(r"(\d\.\de\d\d) m\b", PAGE)
    assert [float(h) for h in hours] == pytest.approx(
        [3600 * peak_flops(name, "bf16") for name in names], rel=0.01
    )


def test_costs_are_those_of_the_configs():
    rows = re.findall(r"^\| `(configs/\S+)` \| (\S+) \|(.*)\|$", PAGE, re.MULTILINE)
    assert len(rows) == 2
    for name, flops, hours in rows:
        config = load_config(name, [])
        wanted = run_flops(config.pretrain, config.vocab.size, config.encode.sequence_length).matmul
        assert flops == f"{wanted:.3g}"
        chip_hours = [
            wanted / 3600 / peak_flops(chip, "bf16") for chip in ("TPU v4", "TPU v5e", "TPU v6e")
        ]
        assert [cell.strip() for cell in hours.split("|")] == [f"{h:.2g} / m" for h in chip_hours]


def test_messages_are_those_of_the_code():
    code = " ".join(path.read_text(encoding="utf-8") for path in Path("model").rglob("*.py"))
    rows = re.findall(
        r"^\| `([^`]+)` \|", PAGE.split("## When something is wrong")[1], re.MULTILINE
    )
    assert len(rows) >= 5
    for message in rows:
        for part in message.split("..."):
            assert part.strip() in code, message
