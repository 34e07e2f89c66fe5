"""Curves in the report of a run."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.results.results import Result
from benchmarks.results.run_folder import RunFolder
from benchmarks.sections.curves import add_curves, curves_of
from electrify.page.page import Page
from tests.benchmarks.conftest import make_result, text_of


def make_run(own: list[Result], checkpoints: dict[int, list[Result]]) -> RunFolder:
    """Of 400 steps."""
    exported = {"export": {"counts": {"checkpoint": "checkpoint-400"}}}
    scored = {step: tuple(results) for step, results in checkpoints.items()}
    evaluations = {"evaluate": tuple(own)}
    return RunFolder(Path("x"), exported, (), {}, {}, {}, (), evaluations, scored)


def seeds(*values: float, **changes: Any) -> list[Result]:
    return [make_result(value=value, seed=seed, **changes) for seed, value in enumerate(values)]


def curves_page(run: RunFolder) -> str:
    document = Page("test")
    add_curves(document, run)
    return text_of(document.markdown())


@pytest.fixture
def on_the_way() -> RunFolder:
    own = [*seeds(0.4, 0.5), *seeds(0.0, 0.1, role="random-init")]
    return make_run(own, {120: seeds(0.2, 0.1), 300: seeds(0.3, 0.4)})


def test_a_curve_goes_from_the_untrained_network_to_the_export(on_the_way):
    curves, left_out = curves_of(on_the_way)
    assert left_out == []
    points = curves["klue-ynat"]
    assert [step for step, _ in points] == [0, 120, 300, 400]
    assert [sample.mean for _, sample in points] == pytest.approx([0.05, 0.15, 0.35, 0.45])
    assert points[1][1].range == (0.1, 0.2)
    assert "| klue-ynat | macro_f1 | 120 | 15.00 ± 7.07 |" in curves_page(on_the_way)
    assert points[1][1].values == {0: 0.2, 1: 0.1}


def test_other_settings_or_data_are_no_point_of_the_curve(on_the_way):
    others = {120: seeds(0.2, data_sha256={"dev.json": "11"}), 300: seeds(0.3)}
    others[350] = seeds(0.9, hyper_parameters={"learning_rate": 1.0})
    run = make_run(list(on_the_way.evaluations["evaluate"]), others)
    curves, left_out = curves_of(run)
    assert [step for step, _ in curves["klue-ynat"]] == [0, 300, 400]
    assert left_out == ["klue-ynat at step 120", "klue-ynat at step 350"]
    assert "left out: klue-ynat at step 120" in curves_page(run)
