"""Which of torch's kernels for attention is used: on a GPU the fastest at a run's own shapes.

Which one that is depends on the card, the length, dropout and mask by factors, so it is measured,
for some hundredths of a second, when a run begins or its sequences get another length.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from electrify.config.pretrain import PretrainConfig
from model.devices.cuda_graph import replayed_seconds

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
_TOLERANCE = 0.02  # of bf16's rounding, relative to the norm: measured 0.003 between right ones
_CHECKED_SEQUENCES = 4


@dataclass(frozen=True)
class AttentionWork:
    shape: tuple[int, int, int, int]  # sequences, heads, length, head size
    dropout: float
    mask_shape: tuple[int, int, int, int] | None = None  # of a bool mask, where there is one
    num_layers: int = 1


def works_of(
    config: PretrainConfig, num_sequences: int, length: int, packed: bool
) -> list[AttentionWork]:
    mask_shape = None if packed else (num_sequences, 1, 1, length)
    if config.attention == "document":
        mask_shape = num_sequences, 1, length, length
    dropout = config.attention_probs_dropout_prob
    heads = config.num_attention_heads
    size = config.hidden_size // heads
    shape = num_sequences, heads, length, size
    works = [AttentionWork(shape, dropout, mask_shape, config.num_hidden_layers)]
    if config.has_generator:
        heads, layers = config.generator_num_attention_heads, config.generator_num_hidden_layers
        shape = num_sequences, heads, length, config.generator_hidden_size // heads
        if config.objective == "electric":  # two towers, each with one side of the text
            layers, mask_shape = 2 * layers, mask_shape or (1, 1, length, length)
        works.append(AttentionWork(shape, dropout, mask_shape, layers))
    return works


def attention_pass(
    work: AttentionWork, backend: SDPBackend, device: torch.device, dtype: torch.dtype
) -> Callable[[], list[Tensor]]:
    """Forward and backward of one layer on the same random numbers each time: what attention gives,
    and the gradients of query, key and value."""
    sequences, heads, length, size = work.shape
    rng = torch.Generator(device).manual_seed(0)

    def fresh() -> Tensor:
        # as the model has them: the heads lie inside a row of each token
        made = torch.randn(
            sequences, length, heads, size, device=device, dtype=dtype, generator=rng
        )
        return made.transpose(1, 2)

    query, key, value = (fresh().requires_grad_() for _ in range(3))
    gradient, mask = fresh(), None
    if work.mask_shape is not None:
        mask = torch.ones(work.mask_shape, dtype=torch.bool, device=device)

    def run() -> list[Tensor]:
        with sdpa_kernel(backend):
            attended = F.scaled_dot_product_attention(query, key, value, mask, work.dropout)
        gradients = torch.autograd.grad(attended, (query, key, value), gradient)
        return [attended.detach(), *gradients]

    return run


def backend_seconds(
    works: Sequence[AttentionWork],
    device: torch.device,
    dtype: torch.dtype,
    seconds_of: Callable[[Callable[[], object], torch.device], float] = replayed_seconds,
) -> dict[str, float | None]:
    """Of each backend the seconds in a step's forward and backward pass; None where it refuses, or
    gives something else than the formula."""
    found: dict[str, float | None] = {}
    for name, backend in BACKENDS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # why it refuses
                is_right = all(_is_right(work, backend, device, dtype) for work in works)
                found[name] = None
                if is_right:
                    passes = [attention_pass(work, backend, device, dtype) for work in works]
                    found[name] = sum(
                        work.num_layers * seconds_of(one, device)
                        for work, one in zip(works, passes, strict=True)
                    )
        except RuntimeError:  # not for this card, type, mask or dropout
            found[name] = None
    return found


def _is_right(
    work: AttentionWork, backend: SDPBackend, device: torch.device, dtype: torch.dtype
) -> bool:
    """Against the formula in the same type, without dropout, whose draws differ, and on few
    sequences, since the formula holds all scores in memory."""
    few = min(_CHECKED_SEQUENCES, work.shape[0])
    mask_shape = work.mask_shape
    if mask_shape is not None and mask_shape[0] > 1:
        mask_shape = few, *mask_shape[1:]
    plain = replace(work, shape=(few, *work.shape[1:]), mask_shape=mask_shape, dropout=0.0)
    expected = attention_pass(plain, SDPBackend.MATH, device, dtype)()
    found = attention_pass(plain, backend, device, dtype)()
    return all(
        bool((one - other).float().norm() <= _TOLERANCE * other.float().norm())
        for one, other in zip(found, expected, strict=True)
    )


def fastest(seconds: Mapping[str, float | None]) -> str | None:
    known = {name: of for name, of in seconds.items() if of is not None}
    return min(known, key=lambda name: known[name]) if known else None


def enable(chosen: str | None) -> None:
    """Use one backend for what follows in this process; None leaves it to torch.

    "math", which takes everything, stays on: what the chosen one refuses is left to it, such as the
    last, smaller batch of a validation.
    """
    if chosen is None:
        return
    torch.backends.cuda.enable_flash_sdp(chosen == "flash")
    torch.backends.cuda.enable_cudnn_sdp(chosen == "cudnn")
    torch.backends.cuda.enable_mem_efficient_sdp(chosen == "efficient")
    torch.backends.cuda.enable_math_sdp(True)
    # compiled code is kept between processes, and torch does not see that it was for another choice
    torch.compiler.config.cache_key_tag = f"attention by {chosen}"


def any_backend() -> AbstractContextManager[None]:
    """Around work for which torch shall choose, as if nothing had been enabled here."""
    return sdpa_kernel(list(BACKENDS.values()))


def in_words(chosen: str | None, seconds: Mapping[str, float | None]) -> str:
    """`attention by flash (ms a step: flash 0.41, cudnn refused)`, for a log."""
    told = ", ".join(
        f"{name} {'refused' if of is None else f'{1000 * of:.2f}'}" for name, of in seconds.items()
    )
    return f"attention by {chosen or 'what torch chooses'} (ms a step: {told})"
