"""In fp16 the loss is scaled as torch.amp.GradScaler would, gradients are those in fp32 but for
rounding, and an update that is skipped changes nothing but the scale."""

import math

import pytest
import torch
from torch import Tensor, nn

from model.electra import ElectraPretrainer
from model.optim import AdamW, LossScale, make_optimizers
from model.step import Step
from tests.model.conftest import MODERN, OBJECTIVES, everything, random_batch, train_step
from tests.model.test_step import assert_equal, flat, gradients_of, model_of

CPU, FP16 = torch.device("cpu"), {"precision": "fp16"}
KINDS: dict[str, dict[str, object]] = {
    "paper": {"optimizer": "paper"},
    "bias-corrected": {"optimizer": "bias-corrected", "clipping": "network"},
    "decoupled": {"updates": "decoupled", "weight_sharing": "gdes"},
    "muon": MODERN | {"optimizer": "muon"},
    "decoupled muon": {"updates": "decoupled", "optimizer": "muon"},
}
SOUND = 64.0  # a scale at which no gradient of these random weights overflows


def scaled(model: ElectraPretrainer, scale: float = SOUND) -> list[AdamW]:
    optimizers = make_optimizers(model, model.config)
    for optimizer in optimizers:
        if optimizer.loss_scale is not None:
            optimizer.loss_scale.scale.fill_(scale)
    return optimizers


def step(model: ElectraPretrainer, optimizers: list[AdamW], number: int) -> Tensor:
    batch = random_batch(model, rows=8, length=24, padded=True)
    return train_step(model, optimizers, [batch], model.config, Step(number, 0))[1]


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
    optimizers = scaled(model)
    for number in (1, 2):
        assert 0 < step(model, optimizers, number).item() < math.inf
    before = everything(model, optimizers)
    # one number of a matrix of each optimiser; each has a gradient in its own stage alone
    names = [name for name, _ in model.named_parameters() if name.endswith("query.weight")]
    matrices = [model.get_parameter(name) for name in names]
    first = torch.tensor([0])
    hooks = [of.register_hook(lambda of: of.index_fill(0, first, math.inf)) for of in matrices]
    assert step(model, optimizers, 3).item() == 0
    after = everything(model, optimizers)
    for name, of in after.items():
        if "/loss_scale/" not in name:
            assert torch.equal(of, before[name]), name
    for number in range(len(optimizers)):
        assert after[f"{number}/loss_scale/scale"] == SOUND / 2
        assert before[f"{number}/loss_scale/num_good_steps"] == 2
        assert after[f"{number}/loss_scale/num_good_steps"] == 0
    for hook in hooks:
        hook.remove()
    assert step(model, optimizers, 4).item() > 0
    later = everything(model, optimizers)
    assert not any(torch.equal(later[name], after[name]) for name in names)


def test_each_of_two_optimisers_has_its_own_scale():
    model = model_of("electra", **(KINDS["decoupled"] | FP16))
    optimizers = scaled(model)
    model.generator_head.bias.register_hook(lambda of: of * math.inf)
    before = everything(model, optimizers)
    assert 0 < step(model, optimizers, 3).item() < math.inf  # of the other one
    after = everything(model, optimizers)
    assert [of.loss_scale.scale.item() for of in optimizers] == [SOUND / 2, SOUND]
    moved = {name for name in before if not torch.equal(after[name], before[name])}
    assert not any(name.startswith("generator") for name in moved)
    assert any(name.startswith("discriminator") for name in moved)


# --- gradients ------------------------------------------------------------------------------------


ARCHITECTURES = [{}, MODERN | {"optimizer": "muon"}]
CASES = [(objective, options) for objective in OBJECTIVES for options in ARCHITECTURES]
CASES.remove(("electric", ARCHITECTURES[1]))  # its towers are the paper's
CASES += [(name, {"updates": "decoupled"}) for name in ("electra", "replace-mlm", "electric")]


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
