"""How a sequence is corrupted: which positions, what stands there, what the labels are.

Pure functions of tensors and a random generator; static shapes. B sequences, L positions, N masked
positions a sequence.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

_BLOCK_TOKENS = 128  # about the root of a usual vocabulary size


def choose_positions(
    maskable: Tensor,
    num_masked: int,
    rng: torch.Generator | None = None,
    limits: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw `num_masked` distinct positions a sequence, uniformly among the maskable ones.

    `maskable` is (B, L) bool. Returns positions (B, N) and weights (B, N) in {0, 1}: where a
    sequence has fewer maskable tokens than N, or a lower limit in `limits` (B,), the surplus has
    weight 0. The original draws *with* replacement (pretrain_helpers.py:188), which wastes 7 % of
    the draws at 15 %; this does not.
    """
    keys = torch.rand(maskable.shape, generator=rng, device=maskable.device)
    keys = keys.masked_fill(~maskable, -1.0)
    top = keys.topk(num_masked, dim=1)
    chosen = top.values >= 0
    if limits is not None:
        chosen &= torch.arange(num_masked, device=maskable.device) < limits[:, None]
    return top.indices, chosen.float()


def masked_limits(tokens: Tensor, mask_fraction: float) -> Tensor:
    """How many positions a padded sequence may have masked: (B, L) bool to (B,).

    The fraction of its own tokens, [CLS] and [SEP] included, at least one
    (pretrain_helpers.py:173-175): else a short sequence would lose most of its text.
    """
    return (tokens.sum(dim=1) * mask_fraction).round().clamp(min=1)


def mask_tokens(
    input_ids: Tensor,
    positions: Tensor,
    weights: Tensor,
    mask_id: int,
    mask_token_fraction: float,
    rng: torch.Generator | None = None,
) -> Tensor:
    """The generator's input: [MASK] at `mask_token_fraction` of the positions, the rest as is.

    85 % / 15 % in the original (pretrain_helpers.py:192-202); there is no random-token branch.
    """
    draws = torch.rand(positions.shape, generator=rng, device=positions.device)
    masked = (draws < mask_token_fraction) & (weights > 0)
    originals = input_ids.gather(1, positions)
    return input_ids.scatter(1, positions, originals.masked_fill(masked, mask_id))


def sample_tokens(
    logits: Tensor, temperature: float = 1.0, rng: torch.Generator | None = None
) -> Tensor:
    """One token from softmax(logits / temperature) a row: (..., V) to (...), without gradient.

    By inversion: the first index whose cumulative probability exceeds a uniform draw; once for the
    block of tokens, once for the token in it. That takes two draws a row in place of the V of the
    Gumbel trick (a third of a CPU step) and sums over V / block and block numbers in place of V.
    The sums run in fp64: in fp32 they would lose tokens rarer than 1e-7.
    """
    probabilities = (logits.detach().float() / temperature).softmax(dim=-1)
    padding = -probabilities.shape[-1] % _BLOCK_TOKENS
    blocks = F.pad(probabilities, (0, padding)).view(*logits.shape[:-1], -1, _BLOCK_TOKENS)
    block = _draw_index(blocks.sum(dim=-1), rng)
    inside = blocks.take_along_dim(block[..., None, None], dim=-2).squeeze(-2)
    token = block * _BLOCK_TOKENS + _draw_index(inside, rng)
    return token.clamp(max=logits.shape[-1] - 1)  # for logits that are not finite


def _draw_index(weights: Tensor, rng: torch.Generator | None) -> Tensor:
    """An index a row with probability in proportion to `weights` (..., K) >= 0: shape (...)."""
    cumulative = weights.cumsum(dim=-1, dtype=torch.float64)
    total = cumulative[..., -1:]
    draws = torch.rand(total.shape, generator=rng, device=weights.device, dtype=torch.float64)
    # a draw lies below 1, so below the total but for rounding, which the clamp takes back
    index = torch.searchsorted(cumulative, draws * total, right=True).squeeze(-1)
    return index.clamp(max=weights.shape[-1] - 1)


def replace_tokens(
    input_ids: Tensor, positions: Tensor, weights: Tensor, sampled: Tensor
) -> tuple[Tensor, Tensor]:
    """The discriminator's input and labels, both (B, L).

    It starts from the *unmasked* original; every chosen position takes the generator's sample, also
    those left unmasked. The label is 1 where the token now differs from the original, so a sample
    that hits the original counts as original (run_pretraining.py:222-235).
    """
    originals = input_ids.gather(1, positions)
    tokens = torch.where(weights > 0, sampled, originals)
    corrupted = input_ids.scatter(1, positions, tokens)
    return corrupted, (corrupted != input_ids).float()
