"""How a sequence is corrupted: what stands at the chosen positions and what the labels are.

Pure functions of tensors and of uniform draws in [0, 1); static shapes. B sequences, L positions,
N slots for chosen positions, V pieces. A slot of weight 0 changes nothing, wherever it points;
several slots may point to one position.
"""

import torch
from torch import Tensor

from model.ordered import insertion_index, running_sum

_BLOCK_TOKENS = 128  # about the root of a usual vocabulary size
_FORBIDDEN = 1000.0  # taken off a logit: its probability is 0 in fp32


def mask_tokens(
    input_ids: Tensor,
    positions: Tensor,
    weights: Tensor,
    uniforms: Tensor,
    mask_id: int,
    mask_token_fraction: float,
) -> Tensor:
    """The generator's input (B, L): [MASK] at `mask_token_fraction` of the positions, else as is.

    85 % / 15 % in the original (pretrain_helpers.py:192-202); there is no random-token branch. A
    position that was drawn several times is masked if any of its draws in `uniforms` (B, N) says
    so, as by the original's scatter.
    """
    masked = (uniforms < mask_token_fraction) & (weights > 0)
    return input_ids.masked_fill(_sums(input_ids, positions, masked) > 0, mask_id)


def forbid_tokens(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits (..., V) with 1000 taken off those of `ids` (...), which are then never sampled.

    `disallow_correct` of the original (run_pretraining.py:223-224).
    """
    there = ids[..., None]
    return logits.scatter(-1, there, logits.gather(-1, there) - _FORBIDDEN)


def sample_tokens(logits: Tensor, uniforms: Tensor, temperature: float = 1.0) -> Tensor:
    """One token from softmax(logits / temperature) a row: (..., V) to (...), without gradient.

    `uniforms` (..., 2) as for `draw_tokens`.
    """
    wide = logits.detach().float()
    probabilities = (wide if temperature == 1 else wide / temperature).softmax(dim=-1)
    return draw_tokens(probabilities, block_sums(probabilities), uniforms)


def block_sums(weights: Tensor) -> Tensor:
    """Sums over blocks of tokens, the last one what is left: (..., V) to (..., blocks)."""
    size = weights.shape[-1]
    whole = size - size % _BLOCK_TOKENS
    sums = torch.unflatten(weights[..., :whole], -1, (-1, _BLOCK_TOKENS)).sum(dim=-1)
    if whole == size:
        return sums
    return torch.cat([sums, weights[..., whole:].sum(dim=-1, keepdim=True)], dim=-1)


def draw_tokens(weights: Tensor, sums: Tensor, uniforms: Tensor) -> Tensor:
    """One token a row with probability in proportion to `weights` (..., V) >= 0: shape (...).

    By inversion: the first index whose cumulative weight exceeds a uniform draw; once for the
    block of tokens, by their `block_sums`, once for the token in it, by the draws `uniforms`
    (..., 2) fp64. That takes two draws a row in place of the V of the Gumbel trick (a third of a
    CPU step) and sums over V / block and block numbers in place of V. The sums run in fp64: in fp32
    they would lose tokens rarer than 1e-7.
    """
    size = weights.shape[-1]
    # a draw lies below the total: the clamps are for weights that are not finite
    block = _draw_index(sums, uniforms[..., :1]).clamp(max=sums.shape[-1] - 1)
    block = block[..., None] * _BLOCK_TOKENS
    ids = block + torch.arange(_BLOCK_TOKENS, device=weights.device)
    inside = weights.gather(-1, ids.clamp(max=size - 1)).masked_fill(ids >= size, 0)
    token = block.squeeze(-1) + _draw_index(inside, uniforms[..., 1:])
    return token.clamp(max=size - 1)


def _draw_index(weights: Tensor, uniforms: Tensor) -> Tensor:
    """An index a row with probability in proportion to `weights` (..., K) >= 0: shape (...), K
    where they are not finite."""
    cumulative = running_sum(weights, torch.float64)
    return insertion_index(cumulative, uniforms * cumulative[..., -1:]).squeeze(-1)


def cumulative_of(probabilities: Tensor) -> Tensor:
    """Sums of probabilities or counts (V,) up to and with each id, over all: fp64, the last is 1.

    `ValueError` if they are not finite and >= 0 with a sum above 0.
    """
    cumulative = probabilities.double().cumsum(dim=0)
    total = float(cumulative[-1])
    if bool((probabilities < 0).any()) or not 0 < total < float("inf"):
        raise ValueError(
            f"probabilities with minimum {float(probabilities.min())} and sum {total}: they must "
            "be finite and >= 0, and one must be above 0"
        )
    return cumulative / total


def sample_from_table(cumulative: Tensor, uniforms: Tensor) -> Tensor:
    """Ids by `cumulative_of` (V,): draws (...) fp64 to ids (...) int64.

    The first id whose sum exceeds the draw: one of probability 0 has the sum of the id before it
    and is never drawn.
    """
    return insertion_index(cumulative, uniforms)


def replace_tokens(
    input_ids: Tensor,
    positions: Tensor,
    weights: Tensor,
    sampled: Tensor,
    average_duplicates: bool = False,
) -> tuple[Tensor, Tensor]:
    """The discriminator's input (B, L) and labels (B, L) fp32.

    It starts from the *unmasked* original; every chosen position takes the generator's sample, also
    those left unmasked. The label is 1 where the token now differs from the original, so a sample
    that hits the original counts as original (run_pretraining.py:222-235).

    A position in several slots takes the sample of the first. The original adds the ids of all its
    samples and divides by their number (pretrain_helpers.py:100-106), which where they differ gives
    a token that nothing proposed: `average_duplicates`.
    """
    chosen = weights > 0
    if average_duplicates:
        number = _sums(input_ids, positions, chosen)
        total = _sums(input_ids, positions, sampled.masked_fill(~chosen, 0))
        replaced = number > 0
        tokens = total // number.clamp(min=1)
    else:
        slots = positions.shape[1]
        slot = torch.arange(slots, device=positions.device, dtype=torch.int32)
        first = torch.full_like(input_ids, slots, dtype=torch.int32).scatter_reduce(
            1, positions, slot.expand_as(positions).masked_fill(~chosen, slots), reduce="amin"
        )
        replaced = first < slots
        tokens = sampled.gather(1, first.clamp(max=slots - 1).long())
    corrupted = torch.where(replaced, tokens, input_ids)
    return corrupted, (corrupted != input_ids).float()


def _sums(input_ids: Tensor, positions: Tensor, values: Tensor) -> Tensor:
    """Sums (B, L) of the values (B, N) that belong to each position, exact: int32."""
    zeros = torch.zeros_like(input_ids, dtype=torch.int32)
    return zeros.scatter_add(1, positions, values.int())
