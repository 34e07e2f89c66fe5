"""What is watched during pretraining, from a forward pass's outputs."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.electra import Outputs


@torch.no_grad()
def batch_metrics(outputs: Sequence[Outputs]) -> dict[str, float]:
    """Losses and metrics over forward passes, each token and masked position counting once.

    `replaced_fraction` is of all tokens; RTD figures are over real tokens, padding left out, with
    threshold 0.5; AUC is that of "replaced" against "original".
    """
    weights = torch.cat([o.weights.flatten() for o in outputs])
    hits = torch.cat([o.generator_hits.flatten() for o in outputs])
    logits = torch.cat([o.discriminator_logits[o.tokens] for o in outputs]).float().cpu()
    labels = torch.cat([o.labels[o.tokens] for o in outputs]).cpu()
    return {
        "loss": _mean([o.loss for o in outputs]),
        "generator_loss": _mean([o.generator_loss for o in outputs]),
        "generator_accuracy": float((hits * weights).sum() / weights.sum().clamp(min=1)),
        "discriminator_loss": _mean([o.discriminator_loss for o in outputs]),
        **detection_metrics(logits.numpy(), labels.numpy() > 0),
    }


def detection_metrics(logits: NDArray[np.float32], replaced: NDArray[np.bool_]) -> dict[str, float]:
    """Replaced token detection over a flat list of tokens; nan where a figure is undefined."""
    called = logits > 0
    hits = float((called & replaced).sum())
    return {
        "replaced_fraction": float(replaced.mean()),
        "rtd_accuracy": float((called == replaced).mean()),
        "rtd_auc": area_under_roc(logits, replaced),
        "rtd_precision": hits / called.sum() if called.any() else float("nan"),
        "rtd_recall": hits / replaced.sum() if replaced.any() else float("nan"),
    }


def area_under_roc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """Share of (positive, negative) pairs in the right order, ties half (Mann-Whitney); nan if
    one side is empty."""
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[inverse]  # mean rank of each tie group, from 1
    pairs = ranks[positive].sum() - num_positive * (num_positive + 1) / 2
    return float(pairs / (num_positive * num_negative))


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack([v.detach().float() for v in values]).mean())
