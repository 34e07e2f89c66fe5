"""Figures go to every tracker that is asked for, and none of them stops a run."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, call

import pytest

from electrify.config.fields import TrackerOptions
from electrify.stage.trackers import Trackers, require_trackers

EVERY = {"wandb_project": "w", "trackio_project": "t", "mlflow_experiment": "m"}


@pytest.fixture
def package_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MagicMock]:
    """A stand-in of a package by its name, with a run `r1`."""

    def install(name: str) -> MagicMock:
        package = MagicMock(__name__=name)
        client = package.MlflowClient.return_value
        client.get_experiment_by_name.return_value = None
        client.create_run.return_value.info.run_id = "r1"
        monkeypatch.setitem(sys.modules, name, package)
        return package

    return install


def log_twice(folder: Path, options: TrackerOptions) -> None:
    """Two attempts, a step each."""
    for step in (1, 2):
        trackers = Trackers(folder, options, "evaluate", {"name": "mine", "seeds": [0, 1]})
        trackers.log(step, {"klue-nli/accuracy": step / 10, "undefined": math.nan})
        trackers.close()


@pytest.mark.parametrize(
    ("key", "name", "logged"),
    [
        ("wandb_project", "wandb", lambda at, figures: call({"step": at, **figures})),
        ("trackio_project", "trackio", lambda at, figures: call(figures, step=at)),
    ],
)
def test_a_resumed_run_goes_on_in_the_run_that_it_began(package_of, tmp_path, key, name, logged):
    package = package_of(name)
    log_twice(tmp_path, TrackerOptions(**{key: "korean"}))
    first, second = package.init.call_args_list
    assert first == second
    assert first.kwargs["resume"] == "allow"
    run = package.init.return_value
    figures = [{"klue-nli/accuracy": step / 10} for step in (1, 2)]
    assert run.log.mock_calls == [logged(at, of) for at, of in enumerate(figures, start=1)]
    assert run.finish.call_count == 2
    assert (tmp_path / f"{name}.json").exists()


def test_a_resumed_run_of_mlflow_is_made_once(package_of, tmp_path: Path):
    client = package_of("mlflow").MlflowClient.return_value
    log_twice(tmp_path, TrackerOptions(mlflow_experiment="korean"))
    client.create_run.assert_called_once()
    logged = [call("r1", "klue-nli/accuracy", step / 10, step=step) for step in (1, 2)]
    assert client.log_metric.mock_calls == logged
    assert client.set_terminated.mock_calls == [call("r1")] * 2


def test_one_that_fails_is_dropped_and_the_others_go_on(
    package_of, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    packages = {name: package_of(name) for name in ("wandb", "trackio", "mlflow")}
    packages["trackio"].init.return_value.log.side_effect = ConnectionError("no network")
    trackers = Trackers(tmp_path, TrackerOptions(**EVERY), "evaluate", {"name": "mine"})
    for step in (1, 2):
        trackers.log(step, {"a": 0.5})
    assert packages["wandb"].init.return_value.log.call_count == 2
    assert packages["trackio"].init.return_value.log.call_count == 1
    assert packages["mlflow"].MlflowClient.return_value.log_metric.call_count == 2
    (told,) = [message for message in caplog.messages if "failed" in message]
    assert "trackio" in told


@pytest.mark.parametrize("key", EVERY)
def test_a_package_that_is_not_there_is_refused(key: str, monkeypatch: pytest.MonkeyPatch):
    package = key.partition("_")[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"evaluate\.{key} = 'x'.*pip install {package}"):
        require_trackers(TrackerOptions(**{key: "x"}), "evaluate")
