"""In fp16 the loss is scaled as torch.amp.GradScaler would, gradients are those in fp32 but for
rounding, and an update that is skipped changes nothing but the scale."""

import math

import pytest
import torch
from torch import Tensor, nn

from model.electra import ElectraPretrainer
from model.optim import AdamW, LossScale, make_optimizer
from tests.model.conftest import MODERN, OBJECTIVES, everything, random_batch, train_step
from tests.model.test_step import assert_equal, flat, gradients_of, model_of

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


# --- the scale ------------------------------------------------------------------------------------


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


# --- gradients ------------------------------------------------------------------------------------


ARCHITECTURES = [{}, MODERN | {"optimizer": "muon"}]
CASES = [(objective, options) for objective in OBJECTIVES for options in ARCHITECTURES]


@pytest.mark.parametrize(("objective", "options"), CASES, ids=str)
def test_gradients_are_those_in_fp32_but_for_rounding(objective: str, options: dict[str, object]):
    found, norms = [], []
    for precision in ("fp32", "fp16"):
        model = model_of(objective, **(options | {"precision": precision}))
        norms.append(step(model, scaled(model), 9).item())
        found.append(gradients_of(model))
    assert_equal(found[1], found[0], 0.02)
    assert norms[1] == pytest.approx(norms[0], rel=0.01)
    assert flat(found[1]).dtype == torch.float32
    assert not torch.equal(flat(found[1]), flat(found[0]))  # so it is really on
