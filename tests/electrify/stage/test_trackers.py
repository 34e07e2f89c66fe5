"""Figures go to every tracker that is asked for, and none of them stops a run."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electrify.config.fields import TrackerOptions
from electrify.stage.trackers import Trackers, require_trackers

EVERY = {"wandb_project": "w", "trackio_project": "t", "mlflow_experiment": "m"}


class Fake:
    """What is used of all three packages; `runs` holds (step, figure, value) by run."""

    def __init__(self, fails: bool = False) -> None:
        self.runs: dict[str, list[tuple[int, str, float]]] = {}
        self.fails = fails
        self.closed = 0

    def init(self, **options: Any) -> Any:
        assert options["resume"] == "allow"
        run = self.runs.setdefault(options.get("id", options["name"]), [])

        def log(figures: dict[str, float], step: int | None = None) -> None:
            figures = dict(figures)
            at = int(figures.pop("step")) if step is None else step
            self._add(run, at, figures)

        def finish() -> None:
            self.closed += 1

        return SimpleNamespace(log=log, define_metric=lambda *a, **k: None, finish=finish)

    def MlflowClient(self) -> Any:  # noqa: N802
        def create_run(experiment: str, run_name: str) -> Any:
            assert experiment == "7"
            self.runs["r1"] = []
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def log_metric(run: str, name: str, value: float, step: int) -> None:
            self._add(self.runs[run], step, {name: value})

        def set_terminated(run: str) -> None:
            self.closed += 1

        return SimpleNamespace(
            get_experiment_by_name=lambda name: None,
            create_experiment=lambda name: "7",
            create_run=create_run,
            log_param=lambda run, name, value: None,
            log_metric=log_metric,
            set_terminated=set_terminated,
        )

    def _add(self, run: list[Any], step: int, figures: dict[str, float]) -> None:
        if self.fails:
            raise ConnectionError("no network")
        run += [(step, name, value) for name, value in figures.items()]


@pytest.mark.parametrize(
    ("key", "package"),
    [("wandb_project", "wandb"), ("trackio_project", "trackio"), ("mlflow_experiment", "mlflow")],
)
def test_a_resumed_run_goes_on_in_the_run_that_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, package: str
):
    fake = Fake()
    monkeypatch.setitem(sys.modules, package, fake)
    options = TrackerOptions(**{key: "korean"})
    for step in (1, 2):
        trackers = Trackers(tmp_path, options, "evaluate", {"name": "mine", "seeds": [0, 1]})
        trackers.log(step, {"klue-nli/accuracy": step / 10, "undefined": math.nan})
        trackers.close()
    (logged,) = fake.runs.values()
    assert logged == [(1, "klue-nli/accuracy", 0.1), (2, "klue-nli/accuracy", 0.2)]
    assert fake.closed == 2
    assert (tmp_path / f"{package}.json").exists()


def test_one_that_fails_is_dropped_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    fakes = {"wandb": Fake(), "trackio": Fake(fails=True), "mlflow": Fake()}
    for package, fake in fakes.items():
        monkeypatch.setitem(sys.modules, package, fake)
    trackers = Trackers(tmp_path, TrackerOptions(**EVERY), "evaluate", {"name": "mine"})
    for step in (1, 2):
        trackers.log(step, {"a": 0.5})
    trackers.close()
    assert [len(run) for fake in fakes.values() for run in fake.runs.values()] == [2, 0, 2]
    (told,) = [message for message in caplog.messages if "failed" in message]
    assert "trackio" in told


@pytest.mark.parametrize("key", EVERY)
def test_a_package_that_is_not_there_is_refused(key: str, monkeypatch: pytest.MonkeyPatch):
    package = key.partition("_")[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"evaluate\.{key} = 'x'.*pip install {package}"):
        require_trackers(TrackerOptions(**{key: "x"}), "evaluate")
