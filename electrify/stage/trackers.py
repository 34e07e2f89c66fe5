"""Figures to TensorBoard, Weights & Biases, trackio and MLflow, by the trackers of `accelerate`.

The packages are optional. A resumed run continues in the run that it began there: `TRACKER_FILE`,
beside the figures, has its id.
"""

import math
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from electrify.config.fields import TrackerOptions
from electrify.stage.folder import write_json
from electrify.storage.files import read_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn

TRACKER_FILE = "tracker.json"
# by key of the config: the package, which is also the name of accelerate's tracker
_PACKAGES = {"wandb_project": "wandb", "trackio_project": "trackio", "mlflow_experiment": "mlflow"}


def require_trackers(options: TrackerOptions) -> dict[str, str]:
    """The projects by package of those that `[pretrain]` asks for; `UserError` if one is not
    installed."""
    asked = {key: project for key in _PACKAGES if (project := getattr(options, key)) is not None}
    for key, project in asked.items():
        missing = [name for name in (_PACKAGES[key], "accelerate") if find_spec(name) is None]
        if missing:
            raise UserError(
                f"pretrain.{key} = {project!r}: {' and '.join(missing)} not installed; run: "
                f"python -m pip install {' '.join(missing)}, or leave the option out"
            )
    return {_PACKAGES[key]: project for key, project in asked.items()}


class Trackers:
    """Those that the options ask for, and TensorBoard, of a run that has `num_done` steps. One that
    fails (no network, no login) is dropped with a warning: figures are on disk."""

    def __init__(
        self, folder: Path, options: TrackerOptions, config: Mapping[str, Any], num_done: int
    ) -> None:
        self._trackers: dict[str, Any] = {}
        projects = require_trackers(options)
        if all(map(find_spec, ("accelerate", "tensorboard"))):
            projects["tensorboard"] = "tensorboard"  # the folder
        if not projects:
            return
        from accelerate import PartialState
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        PartialState(cpu=True)  # which its log asks for; this joins no group and touches no device
        path, name = folder / TRACKER_FILE, config.get("name")
        ids = read_json(path) if path.exists() else {"run": uuid.uuid4().hex}
        arguments: dict[str, dict[str, Any]] = {
            "wandb": {"id": ids["run"], "name": name, "resume": "allow", "dir": str(folder)},
            "trackio": {"name": f"{name}-{ids['run'][:6]}", "resume": "allow"},
            "mlflow": {"run_name": name, "run_id": ids.get("mlflow")},
            "tensorboard": {"logging_dir": folder, "purge_step": num_done + 1},
        }
        for package, project in projects.items():
            try:
                tracker: Any = LOGGER_TYPE_TO_CLASS[package](project, **arguments[package])
                tracker.main_process_only = False  # there is one of the first process alone
                tracker.start()
                if package == "mlflow":  # its server gives the id
                    ids["mlflow"] = tracker.tracker.info.run_id
                if package != "tensorboard" and not path.exists():
                    tracker.store_init_configuration(dict(config))
                self._trackers[package] = tracker
            except Exception as error:
                _warn(package, error)
        if projects.keys() - {"tensorboard"}:
            write_json(path, ids)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Finite figures of one step. Those that a resumed run repeats are equal."""
        finite = {name: value for name, value in figures.items() if math.isfinite(value)}
        self._send("log", finite, step)

    def close(self) -> None:
        self._send("finish")

    def _send(self, method: str, *arguments: object) -> None:
        for package, tracker in list(self._trackers.items()):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:
                del self._trackers[package]
                _warn(package, error)


def _warn(name: str, error: Exception) -> None:
    warn(f"{name} failed ({error!r}); the run continues without, figures are on disk")
