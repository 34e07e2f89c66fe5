"""Choices that only a GPU can settle, timed alone: attention backends, widths of the head.

Sizes and repeats are arguments, so that the CPU can run the same code on little ones.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.throughput.pretrain_timing import seconds_of
from electrify.system.outcome import first_line
from model.devices.attention import BACKENDS, AttentionWork, attention_pass
from model.devices.cuda_graph import replayed_seconds

HEAD_SIZE = 64  # of every size of ELECTRA
LENGTHS = (128, 512)
# BERT's vocabulary, the next multiple of 64, and of 128: what `head_loss` fills it up to
WIDTHS = (30_522, 30_528, 30_592)
_REPEATS = 20
_INNER = 10  # calls between two waits for the device


@dataclass(frozen=True)
class Probe:
    """One thing timed; `seconds` is None where the backend refuses it, and `note` says why."""

    what: str
    choice: str
    detail: str
    seconds: float | None
    flops_per_second: float | None = None
    note: str = ""


def probe_attention(
    device: torch.device,
    dtype: torch.dtype,
    tokens: int = 16_384,
    num_heads: int = 4,
    lengths: Sequence[int] = LENGTHS,
    dropouts: Sequence[float] = (0.1, 0.0),
    repeats: int = _REPEATS,
) -> list[Probe]:
    """Forward and backward of each backend, with and without dropout, no mask.

    The same passes that a run chooses its backend by.
    """
    found = []
    for length in lengths:
        shape = max(1, tokens // length), num_heads, length, HEAD_SIZE
        # 2 products forward and 5 backward, each 2 B h L^2 d; efficient ones compute one anew
        flops = 14.0 * shape[0] * num_heads * length**2 * HEAD_SIZE
        for dropout in dropouts:
            detail = f"{shape[0]} x {num_heads} heads x {length} x {HEAD_SIZE}, dropout {dropout:g}"
            for name, backend in BACKENDS.items():
                work = attention_pass(AttentionWork(shape, dropout), backend, device, dtype)
                probe = _timed("attention", name, detail, work, flops, device, repeats)
                found.append(probe)
    return found


def probe_head(
    device: torch.device,
    dtype: torch.dtype,
    rows: int = 128 * 19,
    embedding_size: int = 128,
    widths: Sequence[int] = WIDTHS,
    repeats: int = _REPEATS,
) -> list[Probe]:
    """The three products of the generator's head: logits, gradient of states, of the table."""
    found = []
    for width in widths:
        states = torch.randn(rows, embedding_size, device=device, dtype=dtype)
        table = torch.randn(width, embedding_size, device=device, dtype=dtype)
        logits = torch.randn(rows, width, device=device, dtype=dtype)
        products: dict[str, Callable[[], Tensor]] = {
            "logits": lambda s=states, t=table: s @ t.T,  # type: ignore[misc]
            "gradient of states": lambda g=logits, t=table: g @ t,  # type: ignore[misc]
            "gradient of the table": lambda g=logits, s=states: g.T @ s,  # type: ignore[misc]
        }
        for name, product in products.items():
            detail = f"{rows} x {embedding_size}, {name}"
            flops = 2.0 * rows * embedding_size * width
            found.append(_timed("head", f"{width:,}", detail, product, flops, device, repeats))
    return found


def _timed(
    what: str,
    choice: str,
    detail: str,
    work: Callable[[], object],
    flops: float,
    device: torch.device,
    repeats: int,
) -> Probe:
    """A backend that refuses raises `RuntimeError`.

    Several calls between two waits; on a GPU as a graph, since the least of them take less time
    there than the host needs to start them.
    """

    def calls() -> None:
        for _ in range(_INNER):
            work()

    try:
        work()
        if device.type == "cuda":
            seconds = replayed_seconds(work, device, _INNER, repeats)
        else:
            seconds = seconds_of(calls, device, repeats) / _INNER
    except RuntimeError as error:
        return Probe(what, choice, detail, None, note=first_line(error)[:120])
    return Probe(what, choice, detail, seconds, flops / seconds)


def run_probes(device: torch.device, seconds_allowed: float = 120.0) -> list[Probe]:
    """Both, at the shapes of ELECTRA-Small's step; `ValueError` where there is no GPU."""
    if device.type != "cuda":
        raise ValueError(
            "--probe on the CPU: its kernels say nothing about a GPU's; use --device cuda"
        )
    started = time.perf_counter()
    found = probe_attention(device, torch.bfloat16)
    if time.perf_counter() - started < seconds_allowed:
        found += probe_head(device, torch.bfloat16)
    return found
