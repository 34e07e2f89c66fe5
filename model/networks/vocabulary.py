"""Cross-entropy and samples of a vocabulary head, a chunk of rows at a time.

Written as logits, softmax, loss and draw, a head makes ten tensors of [rows, vocabulary] and goes
through memory for each. Here the logits of a chunk become losses, samples and gradients while they
are at hand: the weights of the rows are known before, so the gradient of the weighted sum of losses
needs nothing that comes later, and the backward pass only scales it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from model.networks.masking import block_sums, draw_tokens

# logits at once: enough for large matrix products, few beside a network's own tensors
# (XLA: all of them, as rows of several devices are not to be cut)
_CHUNK_ELEMENTS = {"cpu": 2**22, "xla": 2**62}
_CHUNK_ELEMENTS_ELSEWHERE = 2**25
# no chunk but the last has a part of a matrix product's tile
_TILE_ROWS = 64
# pieces to which a table is filled up: tensor cores read 16 bytes at once, and 30,522 x 2 is no
# multiple of that. Whole blocks of `block_sums`; the work grows by 1 in 400
_ALIGNMENT = {"cuda": 128}
# In fp16, which holds nothing below 6e-8, the logits' gradients get a factor: a piece of a large
# table may have a probability of 1e-9. Their product with the table cannot overflow while its
# numbers are below 32. That with the states is a sum over rows: smaller states, whose rounding
# (2^-24 / 2^-8) stays below fp16's own of numbers near 1, keep it below 65,504.
_FP16_GRADIENT, _FP16_STATES = 2.0**10, 2.0**-8


@dataclass(frozen=True)
class HeadLoss:
    """What a head makes of rows (...); nothing but `total` has a gradient."""

    total: Tensor  # scalar: the sum of weights x losses
    losses: Tensor  # -log p(target)
    hits: Tensor  # bool, no token is more likely than the target
    sampled: Tensor | None = None  # int64


class _Rows(NamedTuple):
    """What belongs to rows (N,), and how they are sampled from."""

    targets: Tensor
    weights: Tensor
    uniforms: Tensor | None  # (N, 2)

    def part(self, rows: slice) -> "_Rows":
        uniforms = None if self.uniforms is None else self.uniforms[rows]
        return _Rows(self.targets[rows], self.weights[rows], uniforms)


def head_loss(
    states: Tensor,
    table: Tensor,
    bias: Tensor,
    targets: Tensor,
    weights: Tensor,
    uniforms: Tensor | None = None,
) -> HeadLoss:
    """Predict targets (...) by the logits `states` (..., E) x `table` (V, E) transposed + `bias`.

    Products are made in autocast's type, all else in fp32 or wider. `weights` (...) are constants.
    Where no gradient is wanted none is made. By `uniforms` (..., 2), fp64 in [0, 1), a token is
    drawn for each row.
    """
    assert not weights.requires_grad
    kind, shape = states.device.type, targets.shape
    if torch.is_autocast_enabled(kind):
        states = states.to(torch.get_autocast_dtype(kind))
    draws = None if uniforms is None else uniforms.flatten(0, -2)
    rows = _Rows(targets.flatten(), weights.flatten(), draws)
    learned = states.flatten(0, -2), table, bias
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned):
        figures = _HeadLoss.apply(*learned, *rows)  # type: ignore[no-untyped-call]
    else:
        figures, _ = _in_chunks(*learned, rows, with_gradient=False)
    return HeadLoss(figures[0], *(figure.view(shape) for figure in figures[1:]))


class _HeadLoss(torch.autograd.Function):
    """The gradients are made with the loss; `backward` scales them."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor, *rows: Any
    ) -> tuple[Tensor, ...]:
        figures, gradients = _in_chunks(states, table, bias, _Rows(*rows), with_gradient=True)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(*figures[1:])
        return figures

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        of_states, of_table, of_bias = ctx.saved_tensors
        if of_states.dtype == torch.float16:
            scale = scale / _FP16_GRADIENT
            # in fp32: the scale may be below the least number of fp16
            of_states = (of_states.float() * scale).half()
            gradients = of_states, of_table * (scale / _FP16_STATES), of_bias * scale
        else:
            gradients = of_states * scale, of_table * scale, of_bias * scale
        return *gradients, None, None, None


def _in_chunks(
    states: Tensor, table: Tensor, bias: Tensor, rows: _Rows, with_gradient: bool
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The tensors of `HeadLoss` for rows (N,), and gradients by states (N, E), table and bias, in
    fp16 with factors that `backward` takes off."""
    matrix, offsets = _filled_up(table, bias, states.dtype)
    figures, of_states = [], []
    of_table = of_bias = None
    for part in _chunks(len(states), len(matrix), states.device):
        own = states[part]
        logits = torch.addmm(offsets, own, matrix.t())
        of_chunk, gradient = _losses(logits, rows.part(part), with_gradient)
        figures.append(of_chunk)
        if gradient is not None:
            of_states.append(gradient @ matrix)
            own = own * _FP16_STATES if own.dtype == torch.float16 else own
            of_table = _add_product(of_table, gradient.t(), own)
            summed = gradient.sum(dim=0, dtype=of_table.dtype)
            of_bias = summed if of_bias is None else of_bias.add_(summed)
    losses, hits, *sampled = map(torch.cat, zip(*figures, strict=True))
    if len(matrix) > len(table):  # for logits that are not finite
        sampled = [ids.clamp(max=len(table) - 1) for ids in sampled]
    total = (losses * rows.weights).sum()
    gradients: tuple[Tensor, ...] = ()
    if of_table is not None and of_bias is not None:
        gradients = torch.cat(of_states), of_table[: len(table)], of_bias[: len(bias)]
    return (total, losses, hits, *sampled), gradients


def _losses(
    logits: Tensor, rows: _Rows, with_gradient: bool
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Figures of a chunk's rows, and the gradient of their share of the total by the logits (n, V),
    in whose memory it is."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    there = rows.targets[:, None]
    own, top = logits.gather(1, there), logits.amax(dim=1, keepdim=True)
    hits = own == top
    own, top = own.to(wide), top.to(wide)
    relative = torch.sub(logits, top).exp_()  # probabilities, but for a division by their sum
    sums = block_sums(relative)
    whole = sums.sum(dim=1, keepdim=True)
    figures = [top - own + whole.log(), hits]
    if rows.uniforms is not None:
        figures.append(draw_tokens(relative, sums, rows.uniforms)[:, None])
    gradient = None
    if with_gradient:
        weights = rows.weights[:, None]
        if logits.dtype == torch.float16:
            weights = weights * _FP16_GRADIENT
        scale = weights / whole
        # the target's apart: rounded to bf16 before 1 is taken off, a sure one would lose it all
        at_target = (own - top).exp() * scale - weights
        gradient = torch.mul(relative, scale, out=logits).scatter_(
            1, there, at_target.to(logits.dtype)
        )
    return tuple(figure.squeeze(1) for figure in figures), gradient


def _filled_up(table: Tensor, bias: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Table and bias in the type of products, with pieces of probability 0 up to the alignment."""
    missing = -len(table) % _ALIGNMENT.get(table.device.type, 1)
    matrix, offsets = table.to(dtype), bias.to(dtype)
    if missing:
        matrix = F.pad(matrix, (0, 0, 0, missing))
        offsets = F.pad(offsets, (0, missing), value=float("-inf"))
    return matrix, offsets


def _chunks(num_rows: int, vocab_size: int, device: torch.device) -> Iterator[slice]:
    """Rows to take at once, chunks of about one size; one for no rows at all."""
    limit = _CHUNK_ELEMENTS.get(device.type, _CHUNK_ELEMENTS_ELSEWHERE)
    number = max(1, -(-num_rows * vocab_size // limit))
    rows = max(1, -(-num_rows // number))
    if number > 1 and rows > _TILE_ROWS:
        rows = -(-rows // _TILE_ROWS) * _TILE_ROWS
    return (slice(start, start + rows) for start in range(0, max(1, num_rows), rows))


def _add_product(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """`total` + left x right, in place, in fp32 or wider; None is zero."""
    if total is None:
        return (left @ right).to(torch.promote_types(left.dtype, torch.float32))
    if total.dtype == left.dtype:
        return torch.addmm(total, left, right, out=total)
    return total.add_(left @ right)


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
