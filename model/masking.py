"""Which positions of a sequence are chosen, what then stands there, and what the labels are.

Pure functions of tensors and of uniform draws in [0, 1); static shapes. B sequences, L positions,
N slots for chosen positions, V pieces. The slots of a sequence have distinct positions. A slot of
weight 0 holds no choice and changes nothing.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from model.ordered import insertion_index, running_maximum, running_sum

_BOUND_SDS = 4  # a Bernoulli count passes its mean by 4 sd once in 30,000 sequences
# the count's sd with whole units over that with tokens, sqrt(E[n^2] / E[n]) for units of n tokens:
# 1.2 to 1.8 on Korean text with 4,000 to 32,000 pieces
_UNIT_SPREAD = 2
_ROUNDS = 4  # of filling slots with whole units; each leaves less room than one more unit takes


def num_slots(config: PretrainConfig, length: int) -> int:
    """Columns N of the chosen positions: what a full sequence has, or with Bernoulli a bound.

    The bound is the mean and 4 standard deviations of Binomial(length, mask_fraction), of 8 where
    units of several tokens are drawn as one, and never above the length. What would go over it is
    left out.
    """
    if config.masking != "bernoulli":
        return config.num_masked(length)
    share = config.mask_fraction
    spread = 1 if config.mask_unit == "token" else _UNIT_SPREAD
    sd = spread * math.sqrt(length * share * (1 - share))
    return min(length, math.ceil(length * share + _BOUND_SDS * sd))


def masked_limits(tokens: Tensor, mask_fraction: float) -> Tensor:
    """How many positions a padded sequence may have masked: (B, L) bool to (B,).

    The fraction of its own tokens, [CLS] and [SEP] included, at least one
    (pretrain_helpers.py:173-175): else a short sequence would lose most of its text.
    """
    return (tokens.sum(dim=1) * mask_fraction).round().clamp(min=1)


def choose_positions(
    maskable: Tensor,
    uniforms: Tensor,
    config: PretrainConfig,
    limits: Tensor | None = None,
    unit_starts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose positions among the maskable ones by `config.masking`.

    `maskable` is (B, L) bool, `uniforms` (B, L) fp32, `limits` (B,) the most positions a sequence
    may have chosen, which Bernoulli draws do without, `unit_starts` (B, L) bool: a unit goes from
    one such token to the next, or to one that is not maskable. Returns positions (B, N) int64 and
    weights (B, N) fp32 in {0, 1}.

    fixed: min(N, limit) distinct positions, each set of them as likely as any other. Whole units
    come in random order; one that does not fit into the slots left is passed over, so that at 19
    slots units of 5 tokens are chosen 0.137 of the time where those of one are 0.164 of it. A
    sequence whose units are all too long has the beginning of one of them.
    bernoulli: each token, or unit, by itself with probability mask_fraction, which may be none.
    """
    slots = num_slots(config, maskable.shape[1])
    most = torch.full_like(maskable[:, 0], slots, dtype=torch.int64)
    if limits is not None and config.masking != "bernoulli":
        most = torch.minimum(most, limits.long())
    if unit_starts is None:
        starts, size, rank = None, None, None
        keys = uniforms
    else:
        starts = unit_starts & maskable | _after_gap(maskable)
        keys, size, rank = _of_units(starts, maskable, uniforms)
    candidates = maskable
    if config.masking == "bernoulli":
        # given that it lies below, a draw is again uniform there: it serves as order too
        candidates = maskable & (keys < config.mask_fraction)
    keys = keys.masked_fill(~candidates, 2.0)
    # stable: equal draws keep the order of the text, so that no device chooses otherwise
    ordered, order = keys.sort(dim=1, stable=True)
    taken = ordered < 2.0
    if size is None or rank is None:
        return order[:, :slots], (taken[:, :slots] & _first(slots, most)).float()
    taken = _fit_units(taken, size.gather(1, order), rank.gather(1, order), most)
    # those taken to the front, in their order
    place = (~taken).sort(dim=1, stable=True).indices[:, :slots]
    return order.gather(1, place), taken.gather(1, place).float()


def _first(slots: int, most: Tensor) -> Tensor:
    """(B, N) bool: the first `most` (B,) slots."""
    return torch.arange(slots, device=most.device) < most[:, None]


def _after_gap(maskable: Tensor) -> Tensor:
    """The maskable tokens that stand first or after one that is not maskable."""
    return maskable & ~F.pad(maskable[:, :-1], (1, 0))


def _of_units(starts: Tensor, maskable: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each token (B, L): its unit's draw and number of tokens, and its own number in the unit.

    What is said of a token that is not maskable has no meaning.
    """
    column = torch.arange(maskable.shape[1], device=maskable.device).expand_as(uniforms)
    first = running_maximum(column.masked_fill(~starts, 0))
    zeros = torch.zeros_like(column, dtype=torch.int32)
    size = zeros.scatter_add(1, first, maskable.int()).gather(1, first)
    return uniforms.gather(1, first), size, column - first


def _fit_units(candidates: Tensor, size: Tensor, rank: Tensor, most: Tensor) -> Tensor:
    """Which tokens fit, units being tried in turn: all (B, L), tokens in the order of their units.

    The greedy rule in rounds: all units up to the first that does not fit, then on without those
    that are larger than the room left, which can only shrink.
    """
    most = most[:, None]
    tried, taken = candidates, torch.zeros_like(candidates)
    for _ in range(_ROUNDS):
        before = running_sum(tried, torch.int32) - 1 - rank
        taken = tried & (before + size <= most)
        room = most - taken.sum(dim=1, keepdim=True)
        tried = taken | (tried & (size <= room))
    cut = candidates & (running_sum(candidates, torch.int32) - 1 == rank) & (rank < most)
    return torch.where(taken.any(dim=1, keepdim=True), taken, cut)


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

    85 % / 15 % in the original (pretrain_helpers.py:192-202); there is no random-token branch.
    `uniforms` (B, N) decide.
    """
    masked = (uniforms < mask_token_fraction) & (weights > 0)
    shown = input_ids.gather(1, positions).masked_fill(masked, mask_id)
    return input_ids.scatter(1, positions, shown)


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

    `insertion_index` of a draw is the first id whose sum exceeds it: one of probability 0 has the
    sum of the id before it and is never drawn.
    """
    cumulative = probabilities.double().cumsum(dim=0)
    assert cumulative[-1] > 0, "no token has a probability"
    return cumulative / cumulative[-1]


def replace_tokens(
    input_ids: Tensor, positions: Tensor, weights: Tensor, sampled: Tensor
) -> tuple[Tensor, Tensor]:
    """The discriminator's input (B, L) and labels (B, L) fp32.

    It starts from the *unmasked* original; every chosen position takes the generator's sample, also
    those left unmasked. The label is 1 where the token now differs from the original, so a sample
    that hits the original counts as original (run_pretraining.py:222-235).
    """
    shown = torch.where(weights > 0, sampled, input_ids.gather(1, positions))
    corrupted = input_ids.scatter(1, positions, shown)
    return corrupted, (corrupted != input_ids).float()
