"""Where a step of ours spends its time: its own calls, each between two marks of a clock."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.throughput.pretrain_variants import Variant
from model import objectives
from model.devices.device import synchronize
from model.electra import ElectraPretrainer
from model.train.optim import AdamW

OTHER = "all else"
WHOLE = "whole step"


class Stopwatch:
    """Sums by name of the time between marks: of the GPU's own stream, or the clock of a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.spans: list[tuple[str, Any, Any]] = []

    def mark(self) -> Any:
        """A point in the device's work."""
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, timed under a name."""

        def timed(*arguments: Any, **named: Any) -> Any:
            start = self.mark()
            result = call(*arguments, **named)
            self.spans.append((name, start, self.mark()))
            return result

        return timed

    def totals(self) -> dict[str, float]:
        """Seconds by name; empties the watch."""
        synchronize(self.device)
        found: dict[str, float] = {}
        for name, start, end in self.spans:
            is_event = self.device.type == "cuda"
            seconds = start.elapsed_time(end) / 1000 if is_event else end - start
            found[name] = found.get(name, 0.0) + seconds
        self.spans.clear()
        return found


@contextmanager
def watched(model: ElectraPretrainer, watch: Stopwatch) -> Iterator[None]:
    """Time the parts of `train_step` and of the objective, none of them inside another."""
    parts: list[tuple[Any, str, str]] = [
        (model, "mask", "mask"),
        (model, "generator_states", "generator"),
        (objectives, "predict_chosen_tokens", "generator head"),  # loss, samples and gradients too
        (model, "main_states", "discriminator"),
        (model, "detection_logits", "discriminator head"),
        (torch.autograd, "backward", "backward"),
        (torch.nn.utils, "get_total_norm", "gradient norm"),
        (AdamW, "step", "optimizer"),  # and clipping
    ]
    with ExitStack() as stack:
        for owner, attribute, name in parts:
            timed = watch.wrap(name, getattr(owner, attribute))
            stack.enter_context(patch.object(owner, attribute, timed))
        yield


def step_parts(variant: Variant, model: ElectraPretrainer, num_steps: int) -> dict[str, float]:
    """Median seconds of each part of a step of ours, and of what lies between them.

    On a GPU these are times of its stream, idle gaps included, where launches are what it waits
    for; the marks themselves cost little.
    """
    watch = Stopwatch(variant.device)
    found: list[dict[str, float]] = []
    with watched(model, watch):
        for _ in range(num_steps):
            start = watch.mark()
            variant.run(1)
            watch.spans.append((WHOLE, start, watch.mark()))
            totals = watch.totals()
            totals[OTHER] = 2 * totals[WHOLE] - sum(totals.values())
            found.append(totals)
    names = [*(name for name in found[0] if name not in (OTHER, WHOLE)), OTHER, WHOLE]
    return {name: statistics.median(of[name] for of in found) for name in names}
