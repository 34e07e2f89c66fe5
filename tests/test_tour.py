"""The notebook of the docs, cell by cell in a kernel, as Jupyter runs it."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from benchmarks.results.results import BASELINES

ROOT = Path(__file__).parents[1]


def printed(cell: nbformat.NotebookNode) -> str:
    """What a cell printed to standard output, and its value."""
    texts = [
        output.data["text/plain"] if output.output_type == "execute_result" else output.text
        for output in cell.outputs
        if output.get("name") != "stderr"
    ]
    return "".join(texts)


@pytest.mark.slow
def test_every_cell_of_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    tour = nbformat.read(ROOT / "docs/tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in tour.cells)
    tour.cells = [c for c in tour.cells if "install" not in c.metadata.get("tags", ())]
    NotebookClient(tour, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    flagged, page, scores, shape = (printed(c) for c in tour.cells if c.cell_type == "code")
    assert "비이 <-" in flagged
    assert page.endswith("out/tour/report.html')")
    assert {line.split()[1] for line in scores.splitlines()} == {*BASELINES, "pretrained"}
    assert shape.startswith("torch.Size([1, ")
