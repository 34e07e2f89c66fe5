"""The report draws what an objective has, and nothing that it has not."""

from pathlib import Path

import pytest

from benchmarks.results.run_folder import RunFolder
from benchmarks.sections.stages import add_pretraining
from electrify.page.page import Page
from tests.benchmarks.conftest import text_of

DETECTION = {
    "rtd_loss": 0.31,
    "rtd_accuracy": 0.9,
    "rtd_auc": 0.8,
    "rtd_precision": 0.7,
    "rtd_recall": 0.2,
}
GENERATOR = {"generator_loss": 4.5, "generator_accuracy": 0.3, "replaced_fraction": 0.11}
LANGUAGE = {"language_loss": 3.9, "language_accuracy": 0.35}
# figures of each objective, and the plots that they make
OBJECTIVES = {
    "electra": (
        GENERATOR | DETECTION | {"discriminator_loss": 0.31},
        [
            "Generator loss",
            "Discriminator loss",
            "Replaced token detection, held-out text",
            "Replaced tokens",
        ],
    ),
    "mlm": (LANGUAGE | {"discriminator_loss": 3.9}, ["Main network, MLM loss"]),
    "all-tokens-mlm": (
        GENERATOR | LANGUAGE | DETECTION | {"discriminator_loss": 0.7},
        [
            "Generator loss",
            "Main network, MLM loss",
            "Discriminator loss",
            "Replaced token detection, held-out text",
            "Replaced tokens",
        ],
    ),
    "uniform generator": (
        DETECTION | {"discriminator_loss": 0.31, "replaced_fraction": 0.15},
        ["Discriminator loss", "Replaced token detection, held-out text", "Replaced tokens"],
    ),
}
ALWAYS = ["Gradient norm before clipping", "Speed"]


def run_of(*metrics: dict[str, object]) -> RunFolder:
    return RunFolder(Path("run"), {"pretrain": {}}, (), {}, {}, {}, tuple(metrics), {})


def records(figures: dict[str, object], **more: object) -> list[dict[str, object]]:
    watched = {"gradient_norm": 1.5, "tokens_per_second": 9000.0, "mfu": None}
    return [
        {"kind": kind, "step": step, "tokens": 10 * step, "seconds": step}
        | figures
        | more
        | (watched if kind == "train" else {})
        for step in (10, 20, 30)
        for kind in ("train", "valid")
    ]


class Recorder(Page):
    """Keeps the plots in place of drawing them."""

    def __init__(self) -> None:
        super().__init__("run")
        self.plots: dict[str, dict[str, list[tuple[float, float]]]] = {}
        self.line_plot = self._kept

    def lines(self) -> str:
        return text_of(self.text())

    def _kept(self, title, series, x_label, y_label, log_y=False, log_x=False, bands=None):
        self.plots[title] = dict(series)


def shown(*metrics: dict[str, object]) -> Recorder:
    document = Recorder()
    add_pretraining(document, run_of(*metrics))
    return document


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_has_its_own_plots_and_no_empty_one(objective):
    figures, plots = OBJECTIVES[objective]
    document = shown(*records(figures))
    assert list(document.plots) == plots + ALWAYS
    assert all(points for series in document.plots.values() for points in series.values())
    text = document.lines()
    assert "nothing to plot" not in text
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if "| " in line]
    assert ("always 'original'" in rows) == ("rtd_auc" in figures)
    # a loss that is another one under a second name is told once
    assert ("rtd_loss" in rows) == (
        figures.get("rtd_loss", 0.31) != figures["discriminator_loss"] and "rtd_loss" in figures
    )
    assert ("discriminator_loss" in rows) == ("Discriminator loss" in plots)
