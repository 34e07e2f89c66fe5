"""Boards that draw figures while a run trains: TensorBoard, and Weights & Biases if asked for."""

import importlib
import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from electrify.stage.folder import write_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from model.watch.alarms import Alarm

WANDB_FILE = "wandb.json"  # the id under which a resumed run continues


class Board(Protocol):
    def write(self, step: int, figures: Mapping[str, float], alarms: Sequence[Alarm]) -> None:
        """Draw one record; figures are named `train/loss` or `valid/ko/rtd_auc`."""

    def close(self) -> None: ...


class TensorBoard:
    """TensorBoard's events in `folder/tensorboard`; a resumed run hides those after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, step: int, figures: Mapping[str, float], alarms: Sequence[Alarm]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        for alarm in alarms:
            self._writer.add_text(f"alarm/{alarm.name}", str(alarm), step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run on Weights & Biases, continued by a resumed one."""

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        self._run: Any = import_wandb(project).init(
            project=project,
            id=_run_id(folder),
            resume="allow",
            dir=str(folder),
            name=config.get("name"),
            config=dict(config),
        )
        # steps as a figure: W&B's own count only grows, and a resumed run repeats some
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, figures: Mapping[str, float], alarms: Sequence[Alarm]) -> None:
        self._run.log({"step": step} | {k: v for k, v in figures.items() if math.isfinite(v)})
        for alarm in alarms:
            self._run.alert(title=alarm.name, text=f"step {step:,}: {alarm}")

    def close(self) -> None:
        self._run.finish()


class Boards:
    """The boards of one run: TensorBoard where it is installed, W&B if a project is given.

    A board that fails (no network, no login) is dropped with a warning, and the training continues.
    """

    def __init__(
        self, folder: Path, step: int, project: str | None, config: Mapping[str, Any]
    ) -> None:
        self._boards: dict[str, Board] = {}
        with suppress(ImportError):
            self._boards["TensorBoard"] = TensorBoard(folder, step)
        if project is not None:
            with self._dropping("Weights & Biases"):
                self._boards["Weights & Biases"] = WeightsAndBiases(folder, project, config)

    def send(self, call: Callable[[Board], None]) -> None:
        for name, board in list(self._boards.items()):
            with self._dropping(name):
                call(board)

    @contextmanager
    def _dropping(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._boards.pop(name, None)
            warn(f"{name} failed ({error!r}); the run continues without, figures are on disk")


def import_wandb(project: str) -> Any:
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise UserError(
            f"pretrain.wandb_project = {project!r}: wandb is not installed; run: python -m pip "
            "install wandb, or leave the option out"
        ) from None


def _run_id(folder: Path) -> str:
    path = folder / WANDB_FILE
    if path.exists():
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    run_id = uuid.uuid4().hex
    write_json(path, {"id": run_id})
    return run_id
