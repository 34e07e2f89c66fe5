"""The command from a model to tables, and their place in a run's report."""

import json
from pathlib import Path

import pytest

from benchmarks.report.report import report
from electrify.cli import main
from tests.benchmarks.conftest import text_of

SIZES = ["--mistakes", "40", "--examples", "120", "--seeds", "2"]
TITLES = ("Which planted mistakes it finds", "What the network knows")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "held-out.txt"
    lines = [
        f"{who} {'다시 ' * many}{place} 책을 {verb}"
        for who in ("나는", "아이가", "학생이", "친구가")
        for many in range(4)
        for place in ("집에서", "학교에서", "공원에서")
        for verb in ("읽었다.", "읽는다.", "샀다.", "산다.")
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_figures_of_a_run_with_counts(
    model_folder: Path, generator_folder: Path, text: str, tmp_path: Path
):
    run = tmp_path / "run"
    (run / "export").mkdir(parents=True)
    (run / "pretrain.partial").mkdir()
    (run / "export" / "discriminator").symlink_to(model_folder)
    (run / "export" / "generator").symlink_to(generator_folder)
    assert TITLES[0] not in text_of(report([run]).read_text(encoding="utf-8"))
    words = ["probe", str(run), "--text", text, "--corpus", text, *SIZES]
    assert main(words) == 0
    record = json.loads((run / "probe" / "probe.json").read_text(encoding="utf-8"))
    detectors = {row["detector"] for row in record["mistakes"]}
    assert detectors == {"discriminator", "generator", "rarity"}
    assert {row["kind"] for row in record["mistakes"]} >= {"particle-form", "keyboard"}
    assert {row["network"] for row in record["layers"]} == {"model", "random-init"}
    assert {row["layer"] for row in record["layers"]} == {0, 1, 2}
    pages = [(run / "probe" / "probe.html").read_text(encoding="utf-8")]
    pages.append(report([run]).read_text(encoding="utf-8"))
    markdown = (run / "probe" / "probe.md").read_text(encoding="utf-8")
    for place in (*map(text_of, pages), markdown):
        assert all(title in place for title in TITLES)
        for title in ("wrong form of a particle", "Probes by layer"):
            assert title in place
        assert "The highest measured selectivity: " in place
    (run / "probe" / "probe.json").write_text("[]")
    with pytest.raises(ValueError, match=r"probe\.json holds a list"):
        report([run])
