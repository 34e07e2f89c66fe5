"""One update does what the whole batch at once would, however it is cut, and in the right numbers.

The reference is autograd on the loss of the whole batch. In fp16 the loss is scaled as
torch.amp.GradScaler would, gradients are those in fp32 but for rounding, and an update that is
skipped changes nothing but the scale.
"""

import math
from dataclasses import asdict
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from model.networks.electra import ElectraPretrainer
from model.optim import AdamW, LossScale, make_optimizer
from model.plan import stage_at
from tests.model import conftest
from tests.model.conftest import (
    MODERN,
    OBJECTIVES,
    VARIANTS,
    VOCAB_SIZE,
    everything,
    random_batch,
    random_model,
    train_step,
)

model_of = partial(conftest.model_of, max_gradient_norm=1e9)  # nothing is clipped
STEP = 3  # of 12: the rate is not 0
Gradients = dict[str, Tensor]


def gradients_of(model: ElectraPretrainer) -> Gradients:
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name: of.clone() for name, of in gradients.items() if of is not None}


def flat(gradients: Gradients) -> Tensor:
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])


def assert_equal(found: Gradients, expected: Gradients, tolerance: float = 1e-6) -> None:
    """As vectors, and none of them missing."""
    assert found.keys() == expected.keys()
    difference = (flat(found) - flat(expected)).norm() / flat(expected).norm()
    assert difference < tolerance


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
    parts = [batch.rows(rows) for rows in (slice(3), slice(3, 4), slice(4, 8))]
    _, norm = train_step(model, make_optimizer(model, model.config), parts, number)
    assert_equal(gradients_of(model), expected)
    assert norm.item() == pytest.approx(flat(expected).norm().item(), rel=1e-5)
    for name, parameter in model.named_parameters():  # what has a gradient moves, nothing else
        moved = not torch.equal(parameter, weights[name])
        assert moved == (name in expected and bool(expected[name].any())), name


@pytest.mark.parametrize("name", VARIANTS)
def test_in_bf16_losses_weights_and_the_residual_stream_stay_fp32(name: str):
    """What each LayerNorm reads is the stream with a sublayer's output added."""
    model = random_model(**VARIANTS[name], precision="bf16")
    optimizer = make_optimizer(model, model.config)
    products: list[torch.dtype] = []
    read: list[torch.dtype] = []
    for part, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _, __, output: products.append(output.dtype))
        if isinstance(module, nn.LayerNorm) and part.startswith(("discriminator.", "generator.")):
            module.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].dtype))
    number = 9 if name == "electra-two-stage" else STEP
    outputs, norm = train_step(model, optimizer, [random_batch(model)], number)
    assert set(products) == {torch.bfloat16}  # so it is really on
    assert set(read) == {torch.float32}
    states = list(optimizer.state.values())
    for tensor in (
        *(term.total for term in outputs[0].terms.values()),
        *(of for of in tree_leaves(asdict(outputs[0])) if isinstance(of, Tensor)),
        *model.parameters(),
        *(parameter.grad for parameter in model.parameters() if parameter.grad is not None),
        *(state[name] for state in states for name in ("exp_avg", "exp_avg_sq")),
    ):
        # draws are in fp64
        assert tensor.dtype in (torch.float32, torch.float64) or not tensor.is_floating_point()
    assert math.isfinite(norm.item())


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


# --- fp16 -----------------------------------------------------------------------------------------

CPU, FP16 = torch.device("cpu"), {"precision": "fp16"}
KINDS: dict[str, dict[str, object]] = {
    "paper": {"optimizer": "paper"},
    "bias-corrected": {"optimizer": "bias-corrected", "clipping": "network"},
    "gdes": {"weight_sharing": "gdes"},
    "muon": MODERN | {"optimizer": "muon"},
}
SOUND = 64.0  # a scale at which no gradient of these random weights overflows


def scaled(model: ElectraPretrainer, scale: float = SOUND) -> AdamW:
    optimizer = make_optimizer(model, model.config)
    if optimizer.loss_scale is not None:
        optimizer.loss_scale.scale.fill_(scale)
    return optimizer


def step(model: ElectraPretrainer, optimizer: AdamW, number: int) -> Tensor:
    batch = random_batch(model, rows=8, length=24, seed=1)  # of which no sample flips in fp16
    return train_step(model, optimizer, [batch], number)[1]


def test_the_scale_is_torch_s_over_a_random_sequence():
    """With runs of more than 2,000 sound steps, and some of one."""
    ours, theirs = LossScale(CPU), torch.amp.GradScaler("cpu")
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter])
    theirs.scale(torch.ones(1))  # it makes its state then
    rng, scales = torch.Generator().manual_seed(0), set()
    for draw in torch.rand(6_000, generator=rng).tolist():
        gradient = math.inf if draw < 5e-4 else math.nan if draw < 1e-3 else 1.0
        norm = ours.judge(torch.tensor(gradient))
        parameter.grad = torch.tensor([gradient])
        theirs.step(optimizer)
        theirs.update()
        assert norm.item() == (gradient if math.isfinite(gradient) else 0)
        assert ours.scale.item() == theirs.get_scale()
        assert ours.num_good.item() == theirs._growth_tracker.item()
        scales.add(ours.scale.item())
    assert len(scales) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_with_an_infinite_gradient_changes_nothing_but_the_scale(kind: str):
    model = model_of("electra", **(KINDS[kind] | FP16))
    optimizer = scaled(model)
    for number in (1, 2):
        assert 0 < step(model, optimizer, number).item() < math.inf
    before = everything(model, optimizer)
    # one number of a matrix
    names = [name for name, _ in model.named_parameters() if name.endswith("query.weight")]
    matrices = [model.get_parameter(name) for name in names]
    first = torch.tensor([0])
    hooks = [of.register_hook(lambda of: of.index_fill(0, first, math.inf)) for of in matrices]
    assert step(model, optimizer, 3).item() == 0
    after = everything(model, optimizer)
    for name, of in after.items():
        if not name.startswith("loss_scale/"):
            assert torch.equal(of, before[name]), name
    assert after["loss_scale/scale"] == SOUND / 2
    assert before["loss_scale/num_good_steps"] == 2
    assert after["loss_scale/num_good_steps"] == 0
    for hook in hooks:
        hook.remove()
    assert step(model, optimizer, 4).item() > 0
    later = everything(model, optimizer)
    assert not any(torch.equal(later[name], after[name]) for name in names)


CASES = [*((objective, {}, "fp16") for objective in OBJECTIVES), ("electra", KINDS["muon"], "fp16")]
CASES += [("mlm", {}, "bf16")]  # in others a sample flips


@pytest.mark.parametrize(("objective", "options", "rounded"), CASES, ids=str)
def test_gradients_are_those_in_fp32_but_for_rounding(objective, options, rounded):
    found, norms = [], []
    for precision in ("fp32", rounded):
        model = model_of(objective, **(options | {"precision": precision}))
        norms.append(step(model, scaled(model), 9).item())
        found.append(gradients_of(model))
    assert_equal(found[1], found[0], 0.02 if rounded == "fp16" else 0.05)
    assert norms[1] == pytest.approx(norms[0], rel=0.01)
    assert flat(found[1]).dtype == torch.float32
    assert not torch.equal(flat(found[1]), flat(found[0]))  # so it is really on
