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
from benchmarks.onnx.export import export_onnx, open_session, require_onnx, sample
from benchmarks.onnx.int8 import quantize
from electrify.system.machine import git_commit
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
that `transformers` chooses, in inference mode. Sizes are of the file, of torch of its weights.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    peer: Annotated[bool, "measure torch, too"] = False
    model: Annotated[str, "the encoder's folder"] = SHIPPED
    lengths: Annotated[tuple[PositiveInt, ...], "tokens of a row"] = (16, 64, 128)
    threads: Annotated[tuple[PositiveInt, ...], "of one prediction"] = (1, 2)
    batch_size: Annotated[PositiveInt, "rows at once"] = 1
    rounds: Annotated[PositiveInt, "of all systems in turn"] = 50


def measure(settings: Settings) -> Report:
    """Every length with every number of threads."""
    require_onnx()
    rows: list[Row] = []
    before = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        source = open_model(settings.model)
        longest, most = source.max_positions, max(settings.lengths)
        if longest and most > longest:
            raise UserError(f"--lengths {most}: the model has {longest} positions")
        files = {name: scratch / f"{number}.onnx" for number, name in enumerate((FP32, INT8))}
        export_onnx(Path(settings.model), files[FP32], sample())
        quantize(files[FP32], files[INT8])
        sizes = {name: file.stat().st_size / 1e6 for name, file in files.items()}
        model = load_network(source, _ANY_MODEL)
        sizes[PEER] = sum(4 * of.numel() for of in model.parameters()) / 1e6
        for threads in settings.threads:
            torch.set_num_threads(threads)
            sessions = {name: open_session(file, threads) for name, file in files.items()}
            for length in settings.lengths:
                medians = _milliseconds(settings, model, sessions, length)
                rows += [
                    {
                        "threads": threads,
                        "length": length,
                        "system": name,
                        "megabytes": sizes[name],
                        "milliseconds": median,
                        "times_as_fast_as_torch": medians[PEER] / median if settings.peer else None,
                    }
                    for name, median in medians.items()
                ]
    torch.set_num_threads(before)
    conditions = {
        "model": settings.model,
        "batch_size": settings.batch_size,
        "rounds": settings.rounds,
        "git_commit": git_commit(),
    }
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
        works[name] = partial(session.run, ["states"], feed)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with torch.inference_mode():
        for _ in range(_WARM_UPS + settings.rounds):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(of[_WARM_UPS:]) for name, of in seconds.items()}
