"""The report draws what an objective has, and nothing that it has not."""

from pathlib import Path

import pytest

from benchmarks.results.run_folder import RunFolder
from benchmarks.sections.stages import add_pretraining
from electrify.page.page import Page
from tests.benchmarks.conftest import text_of

DETECTION = {"rtd_loss": 0.31, "rtd_accuracy": 0.9, "rtd_auc": 0.8}
DETECTION |= {"rtd_precision": 0.7, "rtd_recall": 0.2}
GENERATOR = {"generator_loss": 4.5, "generator_accuracy": 0.3, "replaced_fraction": 0.11}
LANGUAGE = {"language_loss": 3.9, "language_accuracy": 0.35}
# figures of each objective, and the plots that they make
GENERATED, MLM, LOSS = "Generator loss", "Main network, MLM loss", "Discriminator loss"
DETECTED = ["Replaced token detection, held-out text", "Replaced tokens"]
OBJECTIVES = {
    "electra": (GENERATOR | DETECTION | {"discriminator_loss": 0.31}, [GENERATED, LOSS, *DETECTED]),
    "mlm": (LANGUAGE | {"discriminator_loss": 3.9}, [MLM]),
    "all-tokens-mlm": (
        GENERATOR | LANGUAGE | DETECTION | {"discriminator_loss": 0.7},
        [GENERATED, MLM, LOSS, *DETECTED],
    ),
    "uniform generator": (
        DETECTION | {"discriminator_loss": 0.31, "replaced_fraction": 0.15},
        [LOSS, *DETECTED],
    ),
}
ALWAYS = ["Gradient norm before clipping", "Speed"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_has_its_own_plots_and_no_empty_one(objective, monkeypatch):
    figures, wanted = OBJECTIVES[objective]
    watched = {"gradient_norm": 1.5, "tokens_per_second": 9000.0, "mfu": None}
    metrics = tuple(
        {"kind": kind, "step": step, "tokens": 10 * step, "seconds": step} | figures | more
        for step in (10, 20, 30)
        for kind, more in (("train", watched), ("valid", {}))
    )
    plots: dict[str, dict[str, list[tuple[float, float]]]] = {}

    def keep(page, title, series, *_, **__):
        plots[title] = dict(series)

    monkeypatch.setattr(Page, "line_plot", keep)
    page = Page("run")
    add_pretraining(page, RunFolder(Path("run"), {"pretrain": {}}, (), {}, {}, {}, metrics, {}))
    assert list(plots) == wanted + ALWAYS
    assert all(points for series in plots.values() for points in series.values())
    text = text_of(page.markdown())
    assert "nothing to plot" not in text
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if "| " in line]
    assert ("always 'original'" in rows) == ("rtd_auc" in figures)
    # a loss that is another one under a second name is told once
    assert ("rtd_loss" in rows) == (
        figures.get("rtd_loss", 0.31) != figures["discriminator_loss"] and "rtd_loss" in figures
    )
    assert ("discriminator_loss" in rows) == (LOSS in wanted)
