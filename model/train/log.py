"""What a run says about itself in `metrics.jsonl` and on boards: figures, alarms, speed, cost."""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.folder import write_text
from electrify.stage.plan import METRICS
from electrify.storage.files import parse_json
from electrify.system.machine import load_warning
from electrify.system.progress import is_main_process, log, warn
from model.batch import Outputs
from model.devices.device import describe, num_devices, precision_of, synchronize
from model.schedule import learning_rate
from model.train.data import StepData
from model.train.processes import Ranks
from model.watch.alarms import Alarms, RunFacts, unigram_entropy
from model.watch.boards import Boards, import_wandb
from model.watch.flops import Cost, peak_flops, run_flops
from model.watch.metrics import MetricsWindow

_NOT_DRAWN = frozenset({"data_fingerprint"})


class Speed:
    """The seconds of training, validation and saving left out, and the work done in them."""

    def __init__(
        self,
        device: torch.device,
        done: Cost,
        seconds: float = 0.0,
        peak_flops: float = math.nan,
    ) -> None:
        """`done` in `seconds` before this process; `peak_flops` a second, of all devices."""
        self.seconds, self.done = seconds, done
        self._device, self._peak = device, peak_flops
        self._lap = (self.seconds, self.done)
        self.start()

    def start(self) -> None:
        self._since = time.monotonic()

    def pause(self, done: Cost) -> None:
        """Count the time since `start`, in which the run came to `done`; waits for the device."""
        synchronize(self._device)
        self.seconds += time.monotonic() - self._since
        self.done = done
        self.start()

    def lap(self, num_tokens: float, waited_seconds: float) -> dict[str, float]:
        """Figures since the last `lap`, in which `num_tokens` were real and the loop waited
        `waited_seconds` for data, and the FLOPs so far."""
        seconds, before = self._lap
        self._lap = (self.seconds, self.done)
        elapsed = max(self.seconds - seconds, 1e-9)
        flops = self.done.matmul - before.matmul
        return {
            "tokens_per_second": num_tokens / elapsed,
            "positions_per_second": (self.done.positions - before.positions) / elapsed,
            "mfu": flops / elapsed / self._peak,
            "data_wait_fraction": waited_seconds / elapsed,
            **self.done.figures(),
        }

    @property
    def positions_per_second(self) -> float:
        return self.done.positions / self.seconds if self.seconds else 0.0


class MetricsFile:
    """`metrics.jsonl`, TensorBoard where installed, W&B where asked for; continues after `step`.

    Records of later steps are dropped: a resumed run writes them again. Rank 0 alone writes.
    Raises `ValueError` if `wandb_project` is given and W&B is not installed.
    """

    def __init__(
        self,
        folder: Path,
        step: int,
        facts: RunFacts,
        wandb_project: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._path, self.last_seconds = folder / METRICS, 0.0
        if wandb_project is not None:
            import_wandb(wandb_project)  # every process refuses, or the others would wait
        if not is_main_process():
            return
        kept = [(line, r) for line, r in _read_lines(self._path) if float(r["step"]) <= step]
        write_text(self._path, "".join(f"{line}\n" for line, _ in kept))
        records = [record for _, record in kept]
        self.last_seconds = max((float(record["seconds"]) for record in records), default=0.0)
        self._alarms = Alarms(facts, records)
        self._boards = Boards(folder, step, wandb_project, config or {})

    def write(self, kind: str, place: Mapping[str, Any], figures: Mapping[str, float]) -> None:
        """Append one record, undefined figures as null, and the alarms that it sets off.

        `place` is step, tokens and seconds. A figure named `ko/rtd_auc` goes under
        "languages": {"ko": {"rtd_auc": ...}}.
        """
        if not is_main_process():
            return
        record = {"kind": kind, **place, **_nested(figures)}
        self._append(record)
        alarms = self._alarms.add(record)
        for alarm in alarms:
            self._append({"kind": "alarm", **place, **alarm.record()})
            (warn if alarm.state == "raised" else log)(f"step {place['step']:,}: {alarm}")
        drawn = {f"{kind}/{name}": v for name, v in figures.items() if name not in _NOT_DRAWN}
        self._boards.send(lambda board: board.write(place["step"], drawn, alarms))

    def close(self) -> None:
        if is_main_process():
            self._boards.send(lambda board: board.close())

    def _append(self, record: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _nested(figures: Mapping[str, float]) -> dict[str, Any]:
    """Figures as they are written: eight digits, null for what is undefined, languages apart."""
    record: dict[str, Any] = {}
    languages: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        language, _, own = name.rpartition("/")
        target = languages.setdefault(language, {}) if language else record
        target[own] = value if isinstance(value, int) else _rounded(value)
    return record | ({"languages": languages} if languages else {})


def _rounded(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def _read_lines(path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    """Lines and their records, without one cut off by a kill."""
    # as bytes: text would also be cut at U+2028 inside of a string
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            record = parse_json(line, path)
            float(record["step"]), float(record["seconds"])
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        yield line.decode(), record


_ENTROPY_SEQUENCES = 1000  # read to know how hard the text is for one who knows frequencies only


class RunLog:
    """The records of one run; goes on after those of the steps before it was stopped."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        step: int,
        data: StepData,
        device: torch.device,
        ranks: Ranks,
    ) -> None:
        self._config, self._ranks, self._device = config, ranks, device
        self._vocab_size = data.last.vocab_size
        options = config.pretrain
        self._file = MetricsFile(
            folder,
            step,
            RunFacts(
                options,
                tuple(phase.first_step for phase in data.phases),
                _entropy(data),
                data.num_epochs(),
            ),
            options.wandb_project,
            config.model_dump(mode="json"),
        )
        self.window = MetricsWindow(data.last.languages, device)  # steps count their figures in it
        number = ranks.num_ranks * num_devices(device)
        peak = number * peak_flops(describe(device), precision_of(options, device))
        self._knows_load = False  # the user is told once
        self._read_before = 0.0  # tokens of the window that an earlier process read
        self._speed = Speed(device, self._work(step), self._file.last_seconds, peak)

    def _work(self, step: int) -> Cost:
        length = self._config.pretrain.sequence_length
        return run_flops(self._config.pretrain, self._vocab_size, length, step)

    def start(self) -> None:
        self._warn_of_load()
        self._speed.start()

    def pause(self, step: int) -> None:
        self._speed.pause(self._work(step))

    def train(self, step: int, norm: Tensor, data_fingerprint: int, waited_seconds: float) -> str:
        """Write the figures since the last record, in which the loop waited `waited_seconds` for
        data; what to show beside the progress bar.

        All processes must call it; the first one writes.
        """
        self.pause(step)
        self._warn_of_load()
        window = self.window
        figures, read_here = self._read(window), window.num_tokens - self._read_before
        record = figures | self._speed.lap(read_here, waited_seconds)
        record |= {
            "learning_rate": learning_rate(step - 1, self._config.pretrain),
            "gradient_norm": float(norm),
            "data_fingerprint": data_fingerprint,
        }
        window.reset()
        self._read_before = 0.0
        self._write("train", step, record)
        return ", ".join(_in_words(record)[:2])

    def valid(
        self,
        step: int,
        outputs: Iterable[Outputs],
        languages: Sequence[str],
        states: Mapping[str, float],
    ) -> None:
        """Write the figures of a validation on text in these languages, with those of states."""
        window = MetricsWindow(languages, self._device)
        window.add(outputs)
        record = {**self._read(window), **states}
        self._write("valid", step, record)
        log(f"step {step:,}: valid {', '.join(_in_words(record))}")

    def _warn_of_load(self) -> None:
        if not self._knows_load and (loaded := load_warning()):
            self._knows_load = True
            warn(loaded)

    def close(self) -> None:
        self._file.close()

    def state(self) -> dict[str, Tensor]:
        """Figures of the steps since the last record, for a checkpoint; of all processes."""
        self._ranks.collect(self.window.tensors())
        return self.window.state_dict()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        if self._ranks.is_first and state:
            self.window.load_state_dict(state)
            self._read_before = self.window.num_tokens

    def cost(self) -> dict[str, Any]:
        """Places read, time and FLOPs so far, for the summary."""
        done, speed = self._speed.done, self._speed
        return {
            "tokens": done.positions,
            "seconds": round(speed.seconds, 1),
            "tokens_per_second": round(speed.positions_per_second, 1),
            **done.figures(),
        }

    def _read(self, window: MetricsWindow) -> dict[str, float]:
        """The figures of all processes together, in the first one."""
        self._ranks.collect(window.tensors())
        if not self._config.pretrain.has_detection_head:
            return window.read()
        found = window.detections()  # a process may have none
        return window.read(self._ranks.gather(torch.empty(4, 0) if found is None else found, dim=1))

    def _write(self, kind: str, step: int, record: Mapping[str, float]) -> None:
        place = {
            "step": step,
            "tokens": self._work(step).positions,
            "seconds": round(self._speed.seconds, 3),
        }
        self._file.write(kind, place, record)


def _entropy(data: StepData) -> float:
    """Nats a token of the training text, by frequencies alone."""
    ids = data.last.batch(0, min(_ENTROPY_SEQUENCES, data.last.num_sequences)).input_ids
    special = data.last.special
    return unigram_entropy(ids.numpy(), [special.pad, special.cls, special.sep, special.mask])


_SHOWN = (
    ("generator_loss", "MLM loss {:.3f}"),
    ("language_loss", "main MLM loss {:.3f}"),
    ("rtd_loss", "RTD loss {:.4f}"),
    ("generator_accuracy", "generator accuracy {:.3f}"),
    ("language_accuracy", "main accuracy {:.3f}"),
    ("rtd_accuracy", "RTD accuracy {:.3f}"),
    ("rtd_auc", "AUC {:.3f}"),
    ("replaced_fraction", "replaced {:.3f}"),
    ("mean_state_share", "mean state {:.2f}"),
    ("participation_ratio", "participation {:.1f}"),
    ("probe_f1", "probe {:.3f}"),
)


def _in_words(record: Mapping[str, float]) -> list[str]:
    return [
        words.format(record[key])
        for key, words in _SHOWN
        if key in record and math.isfinite(record[key])
    ]
