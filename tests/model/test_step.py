"""One update does what the whole batch at once would, however it is cut, and in the right numbers.

The reference is autograd on the loss of the whole batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from model.batch import Batch, counts_of
from model.devices.device import seed_dropout
from model.devices.processes import ALONE, Ranks
from model.electra import ElectraPretrainer
from model.optim import make_optimizer
from model.plan import stage_at
from tests.model import formulas
from tests.model.conftest import OBJECTIVES, VOCAB_SIZE, random_batch, train_step

model_of = partial(formulas.model_of, max_gradient_norm=1e9)  # nothing is clipped
STEP = 3  # of 12: the rate is not 0
Gradients = dict[str, Tensor]


def gradients_of(model: ElectraPretrainer) -> Gradients:
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def flat(gradients: Gradients) -> Tensor:
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


def assert_equal(found: Gradients, expected: Gradients, tolerance: float = 1e-6) -> None:
    """As vectors, and none of them missing."""
    assert found.keys() == expected.keys()
    difference = (flat(found) - flat(expected)).norm() / flat(expected).norm()
    assert difference < tolerance


def step_of(
    model: ElectraPretrainer,
    batches: Sequence[Batch],
    number: int = STEP,
    ranks: Ranks = ALONE,
) -> Tensor:
    return train_step(model, make_optimizer(model, model.config), batches, number, ranks)[1]


def cut(batch: Batch, sizes: Sequence[int]) -> list[Batch]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    assert ends[-1] == len(batch.input_ids)
    return [batch.rows(slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


# --- micro-batches and processes ------------------------------------------------------------------


@pytest.mark.parametrize("number", [STEP, 9])  # electra-two-stage: one of each stage
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_micro_batches_have_the_gradient_of_the_whole_batch(objective: str, number: int):
    """Of rows with anything from 6 to 24 tokens, cut into parts of 3, 1 and 4."""
    model = model_of(objective)
    batch = random_batch(model, rows=8, length=24)
    stage = stage_at(model.config, number)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    model(model.mask(batch), stage).loss().backward()
    expected = gradients_of(model)
    norm = step_of(model, cut(batch, [3, 1, 4]), number)
    assert_equal(gradients_of(model), expected)
    assert norm.item() == pytest.approx(flat(expected).norm().item(), rel=1e-5)
    for name, parameter in model.named_parameters():  # what has a gradient moves, nothing else
        moved = not torch.equal(parameter, weights[name])
        assert moved == (name in expected and bool(expected[name].any())), name


@dataclass(frozen=True)
class KnownTotal(Ranks):
    """A process that has been told what all together count."""

    total: Tensor | None = None

    def sum(self, numbers: Tensor) -> Tensor:
        assert self.total is not None
        return self.total


@pytest.mark.parametrize("objective", ["electra", "electra-15"])
def test_the_mean_of_all_processes_gradients_is_the_whole_batch_s(objective: str):
    """Which is what DDP makes of them."""
    model = model_of(objective)
    batch = random_batch(model, rows=6, length=24)
    model(model.mask(batch)).loss().backward()
    expected = gradients_of(model)
    total = counts_of(model.mask(batch))
    sums: Gradients = {}
    for rank in range(3):
        part = model_of(objective)
        ranks = KnownTotal(rank, 3, total)
        step_of(part, cut(batch.rows(slice(rank, None, 3)), [1, 1]), ranks=ranks)
        for name, gradient in gradients_of(part).items():
            sums[name] = sums.get(name, 0) + gradient / 3
    assert_equal(sums, expected)


# --- randomness -----------------------------------------------------------------------------------


def test_dropout_depends_on_where_in_the_run_and_on_nothing_else():
    places = [
        (seed, step, rank) for seed in (0, 1) for step in (0, 1, 2**31, 10**6) for rank in (0, 1, 7)
    ]
    drawn = []
    for place in places:
        seed_dropout(*place)
        drawn.append(tuple(torch.rand(4).tolist()))
        torch.rand(100)
    assert len(set(drawn)) == len(places)  # no two have the same
    seed_dropout(*places[5])
    assert tuple(torch.rand(4).tolist()) == drawn[5]


# --- precision ------------------------------------------------------------------------------------


def tensors_of(record: object) -> list[Tensor]:
    """All tensors in a dataclass, also in those in it."""
    values = vars(record).values() if is_dataclass(record) else []
    return [
        tensor
        for value in values
        for tensor in ([value] if isinstance(value, Tensor) else tensors_of(value))
        if tensor.dtype != torch.float64  # draws
    ]


class DtypesOf(TorchDispatchMode):
    """Which types the operations of losses and of sampling were given."""

    watched = ("_softmax", "_log_softmax", "binary_cross_entropy_with_logits", "cumsum")
    watched += ("log_sigmoid_forward", "logaddexp", "searchsorted", "nll_loss_forward")

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, set[torch.dtype]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        if name in self.watched:
            floating = {a.dtype for a in args if isinstance(a, Tensor) and a.is_floating_point()}
            self.found.setdefault(name, set()).update(floating)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_in_bf16_losses_and_samples_are_computed_in_fp32_and_weights_stay_fp32(objective: str):
    model = model_of(objective, precision="bf16")
    optimizer = make_optimizer(model, model.config)
    products: list[torch.dtype] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _, __, output: products.append(output.dtype))
    number = 9 if objective == "electra-two-stage" else STEP
    with DtypesOf() as dtypes:
        batch = random_batch(model)
        outputs, norm = train_step(model, optimizer, [batch], number)
    assert set(products) == {torch.bfloat16}  # so it is really on
    expected = {"_softmax"} if objective == "mlm" else {"_softmax", "searchsorted", "cumsum"}
    assert expected <= dtypes.found.keys()
    assert set().union(*dtypes.found.values()) <= {torch.float32, torch.float64}
    states = list(optimizer.state.values())
    for tensor in (
        *(term.total for term in outputs[0].terms.values()),
        *tensors_of(outputs[0]),
        *model.parameters(),
        *(parameter.grad for parameter in model.parameters() if parameter.grad is not None),
        *(state[name] for state in states for name in ("exp_avg", "exp_avg_sq")),
    ):
        assert tensor.dtype == torch.float32 or not tensor.is_floating_point()
    assert math.isfinite(norm.item())


# --- corners --------------------------------------------------------------------------------------


def test_a_batch_with_nothing_to_choose_has_a_finite_gradient():
    model = model_of("electra")
    batch = random_batch(model, rows=2)
    batch.input_ids[:, 1:-1] = 3  # nothing but [SEP]
    outputs, norm = train_step(model, make_optimizer(model, model.config), [batch], STEP)
    assert outputs[0].masked.weights.sum() == 0
    assert torch.equal(outputs[0].corrupted.ids, batch.input_ids)
    assert outputs[0].terms["generator"].mean(outputs[0].counts).item() == 0
    assert math.isfinite(norm.item())
    assert (outputs[0].samples.ids < VOCAB_SIZE).all()
