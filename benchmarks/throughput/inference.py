"""How long a prediction takes in ONNX, fp32 and int8, beside torch."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoModel

from benchmarks.encoder import load_network, open_model, quiet_transformers
from benchmarks.onnx.export import export_onnx, require_onnx
from benchmarks.onnx.predict import open_session
from benchmarks.onnx.quantize import quantize, variants
from benchmarks.onnx.text import sample
from benchmarks.throughput.finetune.finetune import random_model
from benchmarks.throughput.report import Report, Row
from electrify.stage.provenance import git_commit
from electrify.system.outcome import nearest

PEER, FP32 = "torch, eager", "ONNX, fp32"
PACKAGES = ("torch", "transformers", "onnx", "onnxruntime", "numpy")
_PIECES = 32_000  # of random weights: the paper's vocabulary has about as many
_WARM_UPS = 3
_ANY_MODEL: Any = AutoModel
_MEANING = """
Milliseconds of one forward pass of the encoder, its states alone, in the median of the rounds; all
systems in turn in each round, in one process. torch is `AutoModel` with the attention that
`transformers` chooses, in inference mode. Sizes are of the file, of torch of its weights.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    with_peer: bool = False
    model: str | None = None  # a folder; None: random weights of `size`
    size: Literal["tiny", "small", "base", "large"] = "small"
    variants: tuple[str, ...] = ("int8", "int8-vnni")
    lengths: tuple[int, ...] = (16, 64, 128)
    threads: tuple[int, ...] = (1, 2)
    batch_size: int = 1
    num_rounds: int = 50


def measure(settings: Settings) -> Report:
    """Every length with every number of threads."""
    require_onnx()
    for name in settings.variants:
        if name not in variants():
            raise ValueError(f"--variants {name}{nearest(name, variants())}")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        folder = Path(settings.model) if settings.model else _random_folder(settings.size, scratch)
        source = open_model(str(folder))
        longest, most = source.max_positions, max(settings.lengths)
        if longest and most > longest:
            raise ValueError(f"--lengths {most}: the model has {longest} positions")
        conditions = {
            "model": settings.model or f"ELECTRA {settings.size}, random weights",
            "num_hidden_layers": source.config.num_hidden_layers,
            "hidden_size": source.config.hidden_size,
            "vocab_size": source.config.vocab_size,
            "batch_size": settings.batch_size,
            "rounds": settings.num_rounds,
            "git_commit": git_commit(),
        }
        report = Report("Inference", PACKAGES, conditions)
        files = _files(folder, settings.variants, scratch)
        for num_threads in settings.threads:
            title = f"{num_threads} thread{'s' * (num_threads > 1)}"
            rows = _measure_threads(settings, folder, files, num_threads)
            report.add(f"threads-{num_threads}", title, _MEANING, rows)
    return report


def _random_folder(size: str, scratch: Path) -> Path:
    model = random_model(size, sample())
    model.config.vocab_size = _PIECES
    folder = scratch / "encoder"
    torch.manual_seed(0)
    with quiet_transformers():
        _ANY_MODEL.from_config(model.config).save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def _files(folder: Path, names: tuple[str, ...], scratch: Path) -> dict[str, Path]:
    """The encoder in fp32 and in every variant, by the system's name."""
    exported = export_onnx(folder, scratch / "fp32.onnx", sample())
    files = {FP32: exported.file}
    for name in names:
        files[f"ONNX, {name}"] = scratch / f"{name}.onnx"
        quantize(exported.file, files[f"ONNX, {name}"], variants()[name])
    return files


def _measure_threads(
    settings: Settings, folder: Path, files: Mapping[str, Path], num_threads: int
) -> list[Row]:
    """A row a length and system."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        model = load_network(str(folder), _ANY_MODEL)
        sessions = {name: open_session(file, num_threads) for name, file in files.items()}
        sizes = {name: file.stat().st_size / 1e6 for name, file in files.items()}
        sizes[PEER] = sum(4 * of.numel() for of in model.parameters()) / 1e6
        return [
            row
            for length in settings.lengths
            for row in _rows(settings, model, sessions, sizes, length)
        ]
    finally:
        torch.set_num_threads(before)


def _rows(
    settings: Settings,
    model: Any,
    sessions: Mapping[str, Any],
    sizes: Mapping[str, float],
    length: int,
) -> list[Row]:
    rng = np.random.default_rng(length)
    size = settings.batch_size, length
    given = {
        "input_ids": rng.integers(5, model.config.vocab_size, size),
        "attention_mask": np.ones(size, dtype=np.int64),
        "token_type_ids": np.zeros(size, dtype=np.int64),
    }
    works: dict[str, Callable[[], object]] = {}
    if settings.with_peer:
        tensors = {name: torch.from_numpy(of) for name, of in given.items()}
        works[PEER] = lambda: model(**tensors)
    for name, session in sessions.items():
        feed = {each.name: given[each.name] for each in session.get_inputs()}
        works[name] = partial(session.run, ["states"], feed)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with torch.inference_mode():
        for _ in range(_WARM_UPS + settings.num_rounds):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(of[_WARM_UPS:]) for name, of in seconds.items()}
    return [
        {
            "length": length,
            "system": name,
            "megabytes": sizes[name],
            "milliseconds": 1000 * median,
            "times_as_fast_as_torch": medians[PEER] / median if PEER in medians else None,
        }
        for name, median in medians.items()
    ]
