"""Where figures are drawn while a run goes on: TensorBoard, and Weights & Biases if asked for."""

import importlib
import json
import math
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from electrify.stage.folder import write_json
from electrify.system.progress import warn

WANDB_FILE = "wandb.json"  # the id under which a resumed run goes on


class TensorBoard:
    """TensorBoard's events in `folder/tensorboard`; a resumed run hides those after `step`."""

    def __init__(self, writer_class: Callable[..., Any], folder: Path, step: int) -> None:
        self._writer = writer_class(str(folder / "tensorboard"), purge_step=step + 1)

    def scalars(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Draw the figures of one record; those of a language are named `ko/rtd_auc`."""
        for name, value in figures.items():
            self._writer.add_scalar(f"{kind}/{name}", value, step)

    def alarm(self, name: str, step: int, text: str) -> None:
        self._writer.add_text(f"alarm/{name}", text, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run on Weights & Biases, continued by a resumed one.

    Whatever fails there (no network, no login) is told once, and the training goes on without.
    """

    def __init__(self, wandb: Any, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        self._run: Any = wandb
        self._send(self._start, folder, project, config)

    def _start(self, wandb: Any, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        self._run = wandb.init(
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

    def scalars(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Draw the figures of one record; undefined ones are left out."""
        named = {f"{kind}/{k}": v for k, v in figures.items() if math.isfinite(v)}
        self._send(lambda run: run.log({"step": step, **named}))

    def alarm(self, name: str, step: int, text: str) -> None:
        self._send(lambda run: run.alert(title=name, text=f"step {step:,}: {text}"))

    def close(self) -> None:
        self._send(lambda run: run.finish())
        self._run = None

    def _send(self, send: Callable[..., object], *more: object) -> None:
        try:
            if self._run is not None:
                send(self._run, *more)
        except Exception as error:
            self._run = None
            warn(f"Weights & Biases failed ({error!r}); going on without, figures are on disk")


Board = TensorBoard | WeightsAndBiases


def open_boards(
    folder: Path, step: int, project: str | None, config: Mapping[str, Any]
) -> list[Board]:
    boards: list[Board] = []
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        pass
    else:
        boards.append(TensorBoard(SummaryWriter, folder, step))
    if project is not None:
        boards.append(WeightsAndBiases(import_wandb(project), folder, project, config))
    return boards


def import_wandb(project: str) -> Any:
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise ValueError(
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
