"""Figures of pretraining, from the outputs of forward passes.

`rtd_auc` is of all text, `ko/rtd_auc` of one language where there are several. What an objective
does not have is absent; what is undefined (a precision where nothing was called replaced) is nan.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.batch import Outputs
from model.devices.device import overwrite, place
from model.devices.xla import add_rows, readable

# means over chosen positions
SLOTS = ("generator_loss", "generator_accuracy", "language_loss", "language_accuracy")
TERMS = ("generator", "discriminator", "baseline")
_TOKEN_COLUMNS = ("tokens", "labelled", "replaced", "judged", "called", "found", "rtd_loss")
_COLUMNS = (*SLOTS, *(f"{name} count" for name in SLOTS), *_TOKEN_COLUMNS)


class MetricsWindow:
    """Sums over all forward passes since the last `reset`, a row a language.

    `count` waits for nothing; `read` copies the sums to the host. The area under the ROC curve
    needs every token's score, so it is of the last `keep` or `add` alone.
    """

    def __init__(self, languages: Sequence[str], device: torch.device | str = "cpu") -> None:
        assert languages
        device = torch.device(device)
        self.languages = tuple(languages)
        shape = len(languages), len(_COLUMNS)
        # fp64: fp32 stops counting at 16.8 M tokens
        self._sums = place(torch.zeros(shape, dtype=torch.float64), device)
        # of each term its total and its count, over all languages
        self._totals = place(torch.zeros(2 * len(TERMS), dtype=torch.float64), device)
        self._weights: dict[str, float] = {}
        self._last: list[tuple[Tensor, ...]] = []

    def add(self, outputs: Iterable[Outputs]) -> None:
        """Count the forward passes of one step, or of all validation batches, as they come."""
        self.keep(self.count([output])[0] for output in outputs)

    def count(
        self, outputs: Sequence[Outputs], add_sums: "AddSums | None" = None
    ) -> Sequence[Outputs]:
        """The device's part of `add`, which may be recorded; `add_sums` may be compiled."""
        for output in outputs:
            (add_sums or add_sums_of)(self._sums, self._totals, output)
        return outputs

    def keep(self, outputs: Iterable[Outputs]) -> None:
        """The host's part: what the next `read` needs of the last step alone."""
        self._last = []
        for output in outputs:
            self._weights |= {name: term.weight for name, term in output.terms.items()}
            if output.detected is not None and output.corrupted is not None:
                labels = output.corrupted.labels
                languages = output.masked.batch.languages[:, None].expand_as(labels)
                scored = (output.detected.logits, labels, output.detected.counted, languages)
                self._last.append(tuple(readable(part) for part in scored))

    def tensors(self) -> list[Tensor]:
        """The sums themselves: with several processes, add each up over them before `read`."""
        return [self._sums, self._totals]

    def detections(self) -> Tensor | None:
        """(4, tokens) fp32 of the last `add`: logit, label, whether it counts, language.

        None where nothing tells replaced tokens. With several processes, concatenate those of all
        along the tokens and hand them to `read`.
        """
        if not self._last:
            return None
        # copied first: on XLA each operator here would have to be compiled
        parts = [
            torch.stack([part.cpu().float().flatten() for part in parts]) for parts in self._last
        ]
        return torch.cat(parts, dim=1)

    def reset(self) -> None:
        self._last = []
        for tensor in self.tensors():
            overwrite(tensor, 0.0)

    def read(self, detections: Tensor | None = None) -> dict[str, float]:
        """All figures of the passes, each token and chosen position counting once.

        * `loss`, `discriminator_loss`, `baseline_loss`: as trained, each term a mean over its unit;
        * `generator_loss`: -log p(original) of the generator at the chosen positions;
          `generator_accuracy`: its first guesses that are right, where the token was hidden.
          `language_loss`, `language_accuracy`: those of the main network;
        * `replaced_fraction`: of the tokens whose detection counts, as is `tokens` of a language;
        * `rtd_*`: detection over the same tokens, with threshold 0.5. `rtd_loss` is the mean binary
          cross-entropy.

        `detections` are by default those of this process.
        """
        detections = self.detections() if detections is None else detections
        scored = None if detections is None else detections.cpu().numpy()
        rows = self._sums.cpu().numpy()
        figures = self._losses() | _figures(rows.sum(0), scored)
        if len(self.languages) > 1:
            for number, language in enumerate(self.languages):
                own = None if scored is None else scored[:, scored[3] == number]
                named = {"tokens": rows[number, _COLUMNS.index("tokens")]}
                named |= _figures(rows[number], own)
                figures |= {f"{language}/{name}": float(v) for name, v in named.items()}
        return figures

    def _losses(self) -> dict[str, float]:
        """The loss, and the terms that no other figure is the mean of, as they are trained."""
        totals = self._totals.cpu().numpy()
        means = {
            name: totals[2 * i] / totals[2 * i + 1]
            for i, name in enumerate(TERMS)
            if name in self._weights and totals[2 * i + 1]
        }
        if not means:
            return {}
        figures = {"loss": float(sum(self._weights[name] * mean for name, mean in means.items()))}
        for name in ("discriminator", "baseline"):
            if name in means:
                figures[f"{name}_loss"] = float(means[name])
        return figures


AddSums = Callable[[Tensor, Tensor, Outputs], None]


@torch.no_grad()
def add_sums_of(sums: Tensor, totals: Tensor, output: Outputs) -> None:
    """Add those of a forward pass, in place: `sums` (languages, columns), `totals` (terms)."""
    tokens = torch.stack(_token_columns(output), dim=1).sum(-1)
    rows = torch.cat([_slot_columns(output), tokens], dim=1)
    add_rows(sums, output.masked.batch.languages, rows)
    totals += _term_sums(output)


def _term_sums(output: Outputs) -> Tensor:
    """Of each term its total and its count."""
    counts = output.counts
    values = []
    for name in TERMS:
        term = output.terms.get(name)
        values += [term.total.detach(), term.count(counts)] if term else [counts.new_zeros(())] * 2
    return torch.stack(values).double()


def _slot_columns(output: Outputs) -> Tensor:
    """(B, 2 slots): the sums of each sequence, then their counts."""
    samples, masked = output.samples, output.masked
    weighed: list[tuple[Tensor, Tensor] | None] = []
    for predicted in (samples.predicted if samples else None, output.predicted):
        if predicted is None:
            weighed += [None, None]
        else:
            weighed += [(predicted.losses, masked.weights), (predicted.hits, masked.hidden)]
    nothing = torch.zeros_like(masked.weights)
    values, counts = [], []
    for column in weighed:
        # an unused slot may hold anything, inf too
        values.append(nothing if not column else torch.where(column[1] > 0, column[0], nothing))
        counts.append(column[1] if column else nothing)
    return torch.stack([*(v.float() for v in values), *counts], dim=1).sum(-1)


def _token_columns(output: Outputs) -> list[Tensor]:
    """Of each of `_TOKEN_COLUMNS` the values (B, L) to be summed."""
    corrupted, detected = output.corrupted, output.detected
    tokens = (output.masked.tokens if detected is None else detected.counted).float()
    nothing = torch.zeros_like(tokens)
    if corrupted is None:
        return [tokens] + [nothing] * 6
    replaced = corrupted.labels * tokens
    if detected is None:
        return [tokens, tokens, replaced] + [nothing] * 4
    called = (detected.logits > 0) * tokens
    losses = detected.losses * tokens
    return [tokens, tokens, replaced, tokens, called, called * replaced, losses]


def _figures(row: NDArray[np.float64], scored: NDArray[np.float32] | None) -> dict[str, float]:
    """The figures of one row of sums, absent where they count nothing."""
    sums = dict(zip(_COLUMNS, row.tolist(), strict=True))
    figures = {name: sums[name] / sums[f"{name} count"] for name in SLOTS if sums[f"{name} count"]}
    if sums["labelled"]:
        figures["replaced_fraction"] = sums["replaced"] / sums["labelled"]
    if judged := sums["judged"]:
        replaced, called, right = sums["replaced"], sums["called"], sums["found"]
        figures["rtd_loss"] = sums["rtd_loss"] / judged
        figures["rtd_accuracy"] = (judged - replaced - called + 2 * right) / judged
        figures["rtd_precision"] = right / called if called else float("nan")
        figures["rtd_recall"] = right / replaced if replaced else float("nan")
        figures["rtd_auc"] = float("nan")
    if scored is not None and judged:
        logits, labels = scored[0, scored[2] > 0], scored[1, scored[2] > 0] > 0
        figures["rtd_auc"] = area_under_roc(logits, labels)
    return figures


def area_under_roc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """Fraction of (positive, negative) pairs in the right order, ties half (Mann-Whitney); nan if
    one side is empty."""
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[inverse]  # mean rank of each tie group, from 1
    pairs = ranks[positive].sum() - num_positive * (num_positive + 1) / 2
    return float(pairs / (num_positive * num_negative))
