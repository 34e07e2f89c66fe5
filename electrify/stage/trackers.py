"""Weights & Biases, trackio and MLflow, by one interface.

The packages are optional. A run that is resumed goes on in the run that it began there: its id
stands in a file beside the figures.
"""

import importlib
import math
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from electrify.config.fields import TrackerOptions
from electrify.stage.folder import write_json
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn


class Tracker(Protocol):
    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Finite figures of one step."""

    def close(self) -> None: ...


def _run_id(folder: Path, package: str, begin: Callable[[], str]) -> str:
    """The id of the run that was begun in this folder, or begins now."""
    path = folder / f"{package}.json"
    if not path.exists():
        write_json(path, {"id": begin()})
    return str(read_json(path)["id"])


class _Run:
    """A run of W&B or trackio, which have the same functions."""

    def __init__(self, package: Any, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        self._is_wandb, name = package.__name__ == "wandb", config.get("name")
        identity = _run_id(folder, package.__name__, lambda: uuid.uuid4().hex)
        options: dict[str, Any] = {"project": project, "resume": "allow", "config": dict(config)}
        if self._is_wandb:
            options |= {"id": identity, "dir": str(folder), "name": name}
        else:  # its runs are found again by their name
            options["name"] = f"{name}-{identity[:6]}"
        self._run: Any = package.init(**options)
        if self._is_wandb:  # as a figure: its own count only grows, a resumed run repeats steps
            self._run.define_metric("step")
            self._run.define_metric("*", step_metric="step")

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        if self._is_wandb:
            self._run.log({"step": step, **figures})
        else:
            self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    def __init__(self, package: Any, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        self._client = client = package.MlflowClient()

        def begin() -> str:
            known = client.get_experiment_by_name(project)
            experiment = known.experiment_id if known else client.create_experiment(project)
            identity = str(client.create_run(experiment, run_name=config.get("name")).info.run_id)
            for name, value in config.items():
                client.log_param(identity, name, str(value)[:500])
            return identity

        self._run = _run_id(folder, "mlflow", begin)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


# by key of the config: the package, and ours for it
_KINDS: Mapping[str, tuple[str, Callable[..., Tracker]]] = {
    "wandb_project": ("wandb", _Run),
    "trackio_project": ("trackio", _Run),
    "mlflow_experiment": ("mlflow", _MLflow),
}
TRACKER_FILES = tuple(f"{package}.json" for package, _ in _KINDS.values())  # ids of runs


def require_trackers(options: TrackerOptions, section: str) -> dict[str, Any]:
    """The packages by key of those that `options`, the config's `section`, ask for; `UserError` if
    one is not installed."""
    packages = {}
    for key, (package, _) in _KINDS.items():
        if (project := getattr(options, key)) is None:
            continue
        try:
            packages[key] = importlib.import_module(package)
        except ImportError:
            raise UserError(
                f"{section}.{key} = {project!r}: {package} is not installed; run: python -m pip "
                f"install {package}, or leave the option out"
            ) from None
    return packages


class Trackers:
    """Those that the options ask for. One that fails (no network, no login) is dropped with a
    warning: figures are on disk."""

    def __init__(
        self, folder: Path, options: TrackerOptions, section: str, config: Mapping[str, Any]
    ) -> None:
        self._trackers: dict[str, Tracker] = {}
        for key, module in require_trackers(options, section).items():
            package, kind = _KINDS[key]
            try:
                self._trackers[package] = kind(module, folder, getattr(options, key), config)
            except Exception as error:
                _warn(package, error)

    def add(self, name: str, tracker: Tracker) -> None:
        self._trackers[name] = tracker

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._send("log", step, {n: value for n, value in figures.items() if math.isfinite(value)})

    def close(self) -> None:
        self._send("close")

    def _send(self, method: str, *arguments: object) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:
                del self._trackers[name]
                _warn(name, error)


def _warn(name: str, error: Exception) -> None:
    warn(f"{name} failed ({error!r}); the run continues without, figures are on disk")
