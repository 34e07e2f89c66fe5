"""Log probabilities of given tokens under logits over the vocabulary, all in fp32."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

_CHUNK_ELEMENTS = 2**25  # of logits at once: 128 MB


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """-log p(target): (..., V), (...) to (...)."""
    losses = F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), reduction="none")
    return losses.view(targets.shape)


def is_most_likely(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether no token is more likely than the target: (..., V), (...) to (...) bool.

    The maximum alone, since on the CPU its place (argmax) takes ten times as long.
    """
    own = logits.gather(-1, targets[..., None]).squeeze(-1)
    return own == logits.amax(dim=-1)


def gathered_log_probs(
    logits_of: Callable[[Tensor], Tensor], states: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(target) and whether it is the most likely token, for every position.

    (B, L, H), (B, L) to twice (B, L). Logits of all positions are never in memory at once: chunks
    are computed again for the backward pass, a third more work for a head's share of the memory.
    """

    def of_chunk(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits_of(states)
        return -token_losses(logits, targets), is_most_likely(logits.detach(), targets)

    flat, flat_targets = states.flatten(0, -2), targets.flatten()
    vocab_size = logits_of(flat[:1].detach()).shape[-1]
    rows = max(1, _CHUNK_ELEMENTS // vocab_size)
    if len(flat) <= rows or flat.device.type == "xla":  # which may have cut the rows already
        log_probs, hits = of_chunk(flat, flat_targets)
        return log_probs.view(targets.shape), hits.view(targets.shape)
    found = [
        checkpoint(of_chunk, part, wanted, use_reentrant=False)
        for part, wanted in zip(
            torch.split(flat, rows), torch.split(flat_targets, rows), strict=True
        )
    ]
    log_probs, hits = (torch.cat(parts).view(targets.shape) for parts in zip(*found, strict=True))
    return log_probs, hits
