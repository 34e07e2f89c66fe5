"""The head in chunks is cross-entropy, softmax and `sample_tokens`; reference: their own formulas
on all logits, and autograd in fp64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model.networks import vocabulary as head_loss_module
from model.networks.masking import sample_tokens
from model.networks.vocabulary import HeadLoss, head_loss, is_most_likely, token_losses

SHAPE, WIDTH, VOCAB_SIZE = (3, 7), 6, 300
Learned = tuple[Tensor, Tensor, Tensor]


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learned(dtype: torch.dtype = torch.float64, vocab_size: int = VOCAB_SIZE) -> Learned:
    """States, table and bias."""
    shapes = (*SHAPE, WIDTH), (vocab_size, WIDTH), (vocab_size,)
    return tuple(
        torch.randn(shape, generator=rng(seed), dtype=dtype).requires_grad_()
        for seed, shape in enumerate(shapes)
    )


def targets(vocab_size: int = VOCAB_SIZE) -> Tensor:
    return torch.randint(0, vocab_size, SHAPE, generator=rng(5))


def weights() -> Tensor:
    return (torch.rand(SHAPE, generator=rng(6)) - 0.3).clamp(min=0)  # of some rows 0


def uniforms() -> Tensor:
    return torch.rand(*SHAPE, 2, generator=rng(7), dtype=torch.float64)


def gradients(loss: Tensor, of: Learned) -> list[Tensor]:
    return list(torch.autograd.grad(loss, of, retain_graph=True))


@pytest.fixture(params=[1, 4, 21, 1000])
def chunk(request, monkeypatch) -> int:
    """How many of the 21 rows are taken at once."""
    monkeypatch.setitem(head_loss_module._CHUNK_ELEMENTS, "cpu", request.param * VOCAB_SIZE)
    return request.param


@pytest.fixture(params=[1, 128])
def alignment(request, monkeypatch) -> int:
    """As it is, and filled up as for a GPU: 84 pieces more."""
    monkeypatch.setitem(head_loss_module._ALIGNMENT, "cpu", request.param)
    return request.param


BF16, FP16 = torch.bfloat16, torch.float16


def rounding(
    dtype: torch.dtype | None, given: Learned, wanted: Tensor, draws: Tensor | None = None
) -> HeadLoss:
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        return head_loss(*given, wanted, weights(), draws)


@pytest.mark.parametrize(("dtype", "limit"), [(None, 1e-9), (BF16, 0.01), (FP16, 0.001)])
def test_figures_and_gradients_are_those_of_the_logits(dtype, limit, chunk, alignment):
    """Of the rounded ones: as exact as fp32 behind the product, and gradients as exact as the type
    in front of it."""
    own = torch.float32 if dtype else torch.float64
    given = learned(own)
    found = rounding(dtype, given, targets(), uniforms())
    rounded = [of.detach().to(dtype or own) for of in given]
    logits = F.linear(*rounded)
    torch.testing.assert_close(found.losses, cross_entropy(logits.to(own)))
    assert torch.equal(found.hits, is_most_likely(logits, targets()))
    assert torch.equal(found.sampled, sample_tokens(logits, uniforms()))
    assert found.total.dtype == own
    exact = [of.double().requires_grad_() for of in rounded]
    total = (cross_entropy(F.linear(*exact)) * weights()).sum()
    # of what the trainer makes of it: a mean and a factor
    ours, theirs = gradients(50 * found.total / 7, given), gradients(50 * total / 7, exact)
    for gradient, wanted in zip(ours, theirs, strict=True):
        assert gradient.dtype == own
        assert (gradient - wanted).norm() / wanted.norm() < limit
    assert head_loss(*given, targets(), weights()).sampled is None


def cross_entropy(logits: Tensor) -> Tensor:
    losses = F.cross_entropy(logits.flatten(0, 1), targets().flatten(), reduction="none")
    return losses.view(SHAPE)


def test_samples_are_those_of_the_whole_softmax(chunk: int, alignment: int):
    given = learned(torch.float32)
    with torch.no_grad():
        given[2][targets()] += 12.0  # one of them is likely to be drawn, where it may be
    expected = sample_tokens(F.linear(*given), uniforms())
    found = head_loss(*given, targets(), weights(), uniforms())
    assert torch.equal(found.sampled, expected)
    assert len(found.sampled.unique()) > 3
    assert (found.sampled == targets()).any()


def test_in_fp16_gradients_of_unlikely_pieces_do_not_underflow():
    """Of pieces of probability 4e-7, where fp16 holds nothing below 6e-8, and under the factor that
    a mean over a million tokens has."""
    states, table, bias = given = learned(torch.float32)
    with torch.no_grad():
        table.mul_(0.1)
        bias[200:] -= 9.0
    wanted = targets() % 200
    exact = [of.detach().half().double().requires_grad_() for of in given]
    total = (token_losses(F.linear(*exact), wanted) * weights()).sum()
    ours = gradients(rounding(FP16, given, wanted).total / 1e6, given)
    theirs = gradients(total / 1e6, exact)
    assert bias.softmax(0)[200:].median() < 4e-7
    for gradient, of in zip(ours[1:], theirs[1:], strict=True):  # table, bias
        assert (gradient[200:] - of[200:]).norm() / of[200:].norm() < 0.01
    # that of the states goes on in fp16, with the loss scale
    (of_states,) = torch.autograd.grad(rounding(FP16, given, wanted).total * 64 / 1e6, [states])
    assert (of_states / 64 - theirs[0]).norm() / theirs[0].norm() < 0.02


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_the_gradient_of_a_sure_target_is_not_rounded_away(dtype: torch.dtype):
    """p is 0.998, in bf16 1 - 2^-8 or 1: p - 1 made of that would be off by all of itself."""
    _, table, bias = given = learned(torch.float32)
    with torch.no_grad():
        table.zero_()
        bias.zero_()
        bias[4] = 12.0
    everywhere = torch.full(SHAPE, 4)
    (of_bias,) = torch.autograd.grad(rounding(dtype, given, everywhere).total, [bias])
    p = bias.double().softmax(0)
    assert of_bias[4].item() == pytest.approx((p[4] - 1).item() * weights().sum().item(), rel=0.01)
    assert 1 - p[4] < 2e-3


class Made(TorchDispatchMode):
    """Shapes of all tensors that operators give."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[torch.Size] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.shapes |= {of.shape for of in tree_leaves(result) if isinstance(of, Tensor)}
        return result


@pytest.mark.parametrize("bf16", [False, True])
def test_no_tensor_has_more_of_the_vocabulary_than_a_chunk(bf16: bool, monkeypatch):
    monkeypatch.setitem(head_loss_module._CHUNK_ELEMENTS, "cpu", 7 * VOCAB_SIZE)
    given = learned(torch.float32)
    with Made() as made, torch.autocast("cpu", BF16, enabled=bf16):
        head_loss(*given, targets(), weights(), uniforms()).total.backward()
    assert max(of.numel() for of in made.shapes if of[-1:] == (VOCAB_SIZE,)) == 7 * VOCAB_SIZE


def test_logits_that_are_not_finite_still_give_tokens_of_the_vocabulary(alignment: int):
    states, table, bias = learned(torch.float32)
    broken = torch.full_like(states, float("nan"))
    found = head_loss(broken, table, bias, targets(), weights(), uniforms())
    assert not found.losses.isfinite().any()
    assert ((found.sampled >= 0) & (found.sampled < VOCAB_SIZE)).all()
