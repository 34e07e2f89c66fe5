"""Which positions of a sequence are chosen, what then stands there, and who attends to whom.

Pure functions of tensors and of uniform draws in [0, 1); static shapes. B sequences, L positions,
N slots for chosen positions, V pieces. The slots of a sequence have distinct positions. A slot of
weight 0 holds no choice and changes nothing.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from model.devices.xla import insertion_index, put_ids, running_maximum, running_sum


def choose_positions(
    maskable: Tensor, uniforms: Tensor, num_slots: int, number: int
) -> tuple[Tensor, Tensor]:
    """Choose so many distinct positions, at most N = `num_slots`, among the maskable ones of each
    sequence, each set of them as likely as any other.

    `maskable` is (B, L) bool, `uniforms` (B, L) fp32. Returns positions (B, N) int64 and weights
    (B, N) fp32 in {0, 1}.
    """
    # stable: equal draws keep the order of the text, so that no device chooses otherwise
    ordered, order = uniforms.masked_fill(~maskable, 2.0).sort(dim=1, stable=True)
    first = torch.arange(num_slots, device=maskable.device) < number
    return order[:, :num_slots], ((ordered < 2.0)[:, :num_slots] & first).float()


_BLOCK_TOKENS = 128  # about the root of a usual vocabulary size


def mask_tokens(
    input_ids: Tensor,
    positions: Tensor,
    weights: Tensor,
    uniforms: Tensor,
    mask_id: int,
    mask_token_fraction: float,
) -> Tensor:
    """The generator's input (B, L): [MASK] at `mask_token_fraction` of the positions, else as is.

    85 % / 15 % in the original (pretrain_helpers.py:192-202); there is no random-token branch.
    `uniforms` (B, N) decide.
    """
    masked = (uniforms < mask_token_fraction) & (weights > 0)
    shown = input_ids.gather(1, positions).masked_fill(masked, mask_id)
    return put_ids(input_ids, positions, shown)


def sample_tokens(logits: Tensor, uniforms: Tensor) -> Tensor:
    """One token from softmax(logits) a row: (..., V) to (...), without gradient.

    `uniforms` (..., 2) as for `draw_tokens`.
    """
    probabilities = logits.detach().float().softmax(dim=-1)
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


def replace_tokens(
    input_ids: Tensor, positions: Tensor, weights: Tensor, sampled: Tensor
) -> tuple[Tensor, Tensor]:
    """The discriminator's input (B, L) and labels (B, L) fp32.

    It starts from the *unmasked* original; every chosen position takes the generator's sample, also
    those left unmasked. The label is 1 where the token now differs from the original, so a sample
    that hits the original counts as original (run_pretraining.py:222-235).
    """
    shown = torch.where(weights > 0, sampled, input_ids.gather(1, positions))
    corrupted = put_ids(input_ids, positions, shown)
    return corrupted, (corrupted != input_ids).float()


def document_blocks(input_ids: Tensor, token_type_ids: Tensor, sep_id: int) -> Tensor:
    """The number of the document that each token belongs to, from 0 on in every row: (B, L) int64.

    Rows are `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]`; A and B are runs of a stream in which each
    document ends with a [SEP] of its own. The row's own [SEP], the one before the second segment
    and the last token, end no document and belong with the token before them; [CLS] belongs with
    the token after it.
    """
    second = token_type_ids > 0
    own = ~second & F.pad(second[:, 1:], (0, 1))
    own[:, -1] = True
    ends = (input_ids == sep_id) & ~own
    # where the row's own [SEP] comes right behind, the document ends with that one
    own_next = F.pad(own[:, 1:], (0, 1))
    ends_before = F.pad(ends[:, :-1], (1, 0))
    ends = (ends & ~own_next) | (own & ends_before)
    return running_sum(F.pad(ends[:, :-1], (1, 0)), torch.int64)


def document_positions(blocks: Tensor) -> Tensor:
    """Each token's position in its block, from 0 on: (B, L) int64."""
    column = torch.arange(blocks.shape[1], device=blocks.device).expand_as(blocks)
    inside = F.pad(blocks[:, 1:] == blocks[:, :-1], (1, 0))  # the row's first token is not
    return column - running_maximum(column.masked_fill(inside, 0))


def document_mask(blocks: Tensor) -> Tensor:
    """(B, 1, L, L) bool: tokens attend inside their own block."""
    return (blocks[:, :, None] == blocks[:, None, :])[:, None]
