"""Figures go to every tracker that is asked for, and none of them stops a run."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock, call

import pytest
from accelerate import PartialState

from electrify.config.fields import TrackerOptions
from electrify.stage.trackers import Trackers, require_trackers

EVERY = {"wandb_project": "w", "trackio_project": "t", "mlflow_experiment": "m"}


@pytest.fixture
def package_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MagicMock]:
    """A stand-in of a package by its name."""

    def install(name: str) -> MagicMock:
        package = MagicMock(__name__=name, __spec__=ModuleType)
        package.utils.validation.MAX_PARAM_VAL_LENGTH = 500
        package.utils.validation.MAX_PARAMS_TAGS_PER_BATCH = 100
        package.search_experiments.return_value = []
        package.start_run.return_value.info.run_id = "r1"
        monkeypatch.setitem(sys.modules, name, package)
        return package

    yield install
    PartialState._reset_state()


@pytest.mark.parametrize("key", EVERY)
def test_a_resumed_run_goes_on_in_the_run_that_it_began(package_of, tmp_path: Path, key: str):
    package = package_of(key.partition("_")[0])
    for step in (1, 2):
        trackers = Trackers(tmp_path, TrackerOptions(**{key: "a"}), {"pretrain": {}}, step)
        trackers.log(step, {"loss": step / 10, "undefined": math.nan})
        trackers.close()
    logged = [call({"loss": step / 10}, step=step) for step in (1, 2)]
    if key == "mlflow_experiment":  # its server gives the id
        assert [made.kwargs["run_id"] for made in package.start_run.call_args_list] == [None, "r1"]
        assert package.log_metrics.mock_calls == logged
        assert package.end_run.call_count == 2
    else:
        first, second = package.init.call_args_list
        assert first == second
        assert first.kwargs["resume"] == "allow"
        run = package.init.return_value
        assert run.log.mock_calls == logged
        assert run.finish.call_count == 2
        package.config.update.assert_called_once()


def test_a_run_in_steps_has_tensorboard(tmp_path: Path):
    trackers = Trackers(tmp_path, TrackerOptions(), {}, num_done=3)
    trackers.log(4, {"loss": 1.0})
    trackers.close()
    assert len([*(tmp_path / "tensorboard").glob("events.*")]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]


def test_one_that_fails_is_dropped_and_the_others_go_on(package_of, tmp_path, caplog):
    packages = {name: package_of(name) for name in ("wandb", "trackio", "mlflow")}
    packages["trackio"].init.return_value.log.side_effect = ConnectionError("no network")
    trackers = Trackers(tmp_path, TrackerOptions(**EVERY), {"name": "mine"}, 0)
    for step in (1, 2):
        trackers.log(step, {"a": 0.5})
    assert packages["wandb"].init.return_value.log.call_count == 2
    assert packages["trackio"].init.return_value.log.call_count == 1
    assert packages["mlflow"].log_metrics.call_count == 2
    (told,) = [message for message in caplog.messages if "failed" in message]
    assert "trackio" in told


@pytest.mark.parametrize("key", EVERY)
def test_a_package_that_is_not_there_is_refused(key: str, monkeypatch: pytest.MonkeyPatch):
    package = key.partition("_")[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"pretrain\.{key} = 'x'.*pip install {package}"):
        require_trackers(TrackerOptions(**{key: "x"}))
