"""How long a prediction takes in ONNX, fp32 and int8, beside torch."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from transformers import AutoModel

from benchmarks.encoder import accepted_inputs, load_network, open_model
from benchmarks.onnx.export import (
    STATES,
    export_network,
    open_network,
    open_session,
    require_onnx,
    sample,
)
from benchmarks.onnx.int8 import quantize
from electrify.system.outcome import UserError
from tools.throughput.report import Report, Row
from tools.throughput.texts import SHIPPED

PEER, FP32, INT8 = "torch, eager", "ONNX, fp32", "ONNX, int8"
_PACKAGES = ("torch", "transformers", "onnx", "onnxruntime", "numpy")
_WARM_UPS = 3
_ANY_MODEL: Any = AutoModel
_MEANING = """
Milliseconds of one forward pass of the encoder, its states alone, in the median of the rounds; all
systems in turn in each round, in one process. torch, the peer, is `AutoModel` with the attention
that `transformers` chooses, in inference mode.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    peer: Annotated[bool, "measure torch, too"] = False
    model: Annotated[str, "the encoder's folder"] = SHIPPED
    lengths: Annotated[tuple[PositiveInt, ...], "tokens of a row"] = (16, 64, 128)
    threads: Annotated[PositiveInt, "of one prediction"] = 1
    batch_size: Annotated[PositiveInt, "rows at once"] = 1
    rounds: Annotated[PositiveInt, "of all systems in turn"] = 50


def measure(settings: Settings) -> Report:
    """Every length; `UserError` for one that the model has no positions for."""
    require_onnx()
    source, rows, before = open_model(settings.model), list[Row](), torch.get_num_threads()
    longest, most = source.max_positions, max(settings.lengths)
    if longest and most > longest:
        raise UserError(f"--lengths {most}: the model has {longest} positions")
    with tempfile.TemporaryDirectory() as temporary:
        files = {
            name: Path(temporary) / f"{number}.onnx" for number, name in enumerate((FP32, INT8))
        }
        export_network(open_network(Path(settings.model)), files[FP32], sample())
        quantize(files[FP32], files[INT8])
        model = load_network(source, _ANY_MODEL)
        torch.set_num_threads(settings.threads)
        sessions = {name: open_session(file, settings.threads) for name, file in files.items()}
        for length in settings.lengths:
            medians = _milliseconds(settings, model, sessions, length)
            for name, median in medians.items():
                row = {
                    "length": length,
                    "system": name,
                    "megabytes": files[name].stat().st_size / 1e6 if name in files else None,
                    "milliseconds": median,
                    "times_as_fast_as_torch": medians[PEER] / median if settings.peer else None,
                }
                rows.append(row)
    torch.set_num_threads(before)
    names = ("model", "batch_size", "threads", "rounds")
    conditions = {name: getattr(settings, name) for name in names}
    report = Report("Inference", _PACKAGES, conditions)
    report.add("systems", "Systems", _MEANING, rows)
    return report


def _milliseconds(
    settings: Settings, model: Any, sessions: Mapping[str, Any], length: int
) -> dict[str, float]:
    """The median of each system, for rows of so many tokens."""
    size = settings.batch_size, length
    given = {
        "input_ids": np.random.default_rng(length).integers(5, model.config.vocab_size, size),
        "attention_mask": np.ones(size, dtype=np.int64),
        "token_type_ids": np.zeros(size, dtype=np.int64),
    }
    works: dict[str, Callable[[], object]] = {}
    if settings.peer:
        inputs = {n: torch.from_numpy(given[n]) for n in accepted_inputs(model) if n in given}
        works[PEER] = partial(model, **inputs)
    for name, session in sessions.items():
        feed = {each.name: given[each.name] for each in session.get_inputs()}
        works[name] = partial(session.run, [STATES], feed)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with torch.inference_mode():
        for _ in range(_WARM_UPS + settings.rounds):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(times[_WARM_UPS:]) for name, times in seconds.items()}
