"""The optimiser equals a literal reference and torch's own; its groups are complete."""

import pytest
import torch
from torch import nn

from electrify.config.pretrain import PretrainConfig
from model import optim
from model.networks.electra import ElectraPretrainer
from model.optim import AdamW, Muon, clip, make_optimizer, set_learning_rate
from tests.model.conftest import VARIANTS, random_model

KINDS = VARIANTS | {"bias-corrected": {"optimizer": "bias-corrected"}}


def pretrainer(name: str, **options: object) -> tuple[ElectraPretrainer, PretrainConfig]:
    model = random_model(**(KINDS[name] | options))
    return model, model.config


def group(parameters, **options: float) -> dict[str, object]:
    return {"params": list(parameters), "weight_decay": 0.01, "lr": 0.005} | options


def draw_gradients(parameters, step: int, seen=lambda number, step: True) -> None:
    """The same for every copy of the parameters; some may have none."""
    torch.manual_seed(step)
    for number, p in enumerate(parameters):
        gradient = torch.randn(p.shape) * 10.0 ** (number % 4 - 2)
        p.grad = gradient if seen(number, step) else None


def tensors() -> list[nn.Parameter]:
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(shape)) for shape in [(4, 3), (3,), (2, 3), ()]]


class Literal:
    """One tensor, one line of google-research/electra model/optimization.py:113-133 at a time."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]

    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self.m[i] = 0.9 * self.m[i] + (1 - 0.9) * p.grad
            self.v[i] = 0.999 * self.v[i] + (1 - 0.999) * p.grad**2
            update = self.m[i] / (self.v[i].sqrt() + 1e-6)
            update = update + 0.01 * p.data
            p.data = p.data - 0.005 * update


SEEN = {
    "always": lambda number, step: True,
    # as of a discriminator that is trained after its generator, and of one stopped then
    "late and stopped": lambda number, step: step < 12 if number % 2 else step >= 7,
    "now and then": lambda number, step: (step + number) % 3 != 0,
}


@pytest.fixture(params=["in one pass", "in passes"])
def way(request, monkeypatch) -> str:
    """By the kernel of this device, and as on a device that has none."""
    if request.param == "in passes":
        monkeypatch.setattr(optim, "_FUSED_DEVICES", ())
    return request.param


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("bias_correction", [False, True])
def test_twenty_steps_equal_the_reference(bias_correction: bool, seen: str, way: str):
    """The literal formula without bias correction, torch's AdamW with it."""
    ours, theirs = tensors(), tensors()
    optimizer = AdamW([group(ours)], (0.9, 0.999), 1e-6, bias_correction)
    reference = (
        torch.optim.AdamW(theirs, lr=0.005, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01)
        if bias_correction
        else Literal(theirs)
    )
    for step in range(20):
        for parameters, updating in ((ours, optimizer), (theirs, reference)):
            draw_gradients(parameters, step, SEEN[seen])
            updating.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for number, parameter in enumerate(ours):
        expected = sum(SEEN[seen](number, step) for step in range(20))
        # without bias correction nothing asks for it
        assert optimizer.tensors({"p": parameter}).get("num_steps/p") == (
            expected if bias_correction else None
        )


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("numbers", [(7.0, 7.0), (7.0, 3.0)])
def test_divisors_are_those_of_the_gradients(numbers, bias_correction: bool, way: str):
    divided, alone = tensors(), tensors()
    optimizers = [
        AdamW([group(of[:2]), group(of[2:])], (0.9, 0.999), 1e-6, bias_correction)
        for of in (divided, alone)
    ]
    by_number = {number: torch.tensor(number) for number in numbers}
    for step in range(3):
        for parameters in (divided, alone):
            draw_gradients(parameters, step)
        optimizers[0].step([by_number[number] for number in numbers])
        for parameter, number in zip(alone, (numbers[0],) * 2 + (numbers[1],) * 2, strict=True):
            parameter.grad /= number
        optimizers[1].step()
    for a, b in zip(divided, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(a.grad, b.grad)  # clipped gradients are there to be looked at


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_is_in_one_group(name: str):
    model, config = pretrainer(name)
    optimizer = make_optimizer(model, config)
    parameters = dict(model.named_parameters())
    names_of = {id(p): name for name, p in parameters.items()}
    groups = [[names_of[id(p)] for p in g["params"]] for g in optimizer.param_groups]
    assert sorted(name for group in groups for name in group) == sorted(parameters)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [config.weight_decay, 0]
    # biases and LayerNorms are the vectors, all else are matrices
    decayed, others = groups
    assert all(parameters[n].ndim == 2 for n in decayed)
    assert all(parameters[n].ndim == 1 for n in others)
    assert optimizer.bias_correction == (config.optimizer == "bias-corrected")


def test_muon_moves_matrices_as_torchs_does_and_the_rest_by_adamw():
    torch.manual_seed(0)
    shapes = [(16, 32), (32, 16), (16, 16), (16, 16)]
    matrices = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    copies = [nn.Parameter(p.detach().clone()) for p in matrices]
    vector, other = (nn.Parameter(torch.ones(5)) for _ in range(2))
    matrix_group, vector_group = (group(of, rate_scale=1.0) for of in (matrices, [vector]))
    vector_group["weight_decay"] = 0.0
    ours = Muon([matrix_group], [vector_group], (0.9, 0.999), 1e-6, torch.bfloat16)
    set_learning_rate(ours, 1e-2)
    references = [
        torch.optim.Muon(copies, 1e-2, 0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([other], 1e-2, (0.9, 0.999), 1e-6, 0.0),
    ]
    for step in range(10):
        for one, same in zip([*matrices, vector], [*copies, other], strict=True):
            one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(step))
            same.grad = one.grad.clone()
        for optimizer in (ours, *references):
            optimizer.step()
    for one, same in zip([*matrices, vector], [*copies, other], strict=True):
        torch.testing.assert_close(one, same, rtol=1e-3, atol=1e-3)  # in bf16


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_matrices_of_a_run_without_bf16_are_multiplied_in_fp32(precision: str):
    model, config = pretrainer("modern", optimizer="muon", precision=precision)
    options = {"weight_decay": 0.0, "matrix_learning_rate": config.learning_rate}
    muon = make_optimizer(model, config.model_copy(update=options))
    set_learning_rate(muon, 1.0)
    before = {p: p.detach().clone() for group in muon.matrix_groups for p in group["params"]}
    for matrix in before:
        matrix.grad = torch.randn_like(matrix)
    muon.step()
    for matrix, was in before.items():
        assert matrix.grad is not None
        wide = matrix.grad if matrix.shape[0] <= matrix.shape[1] else matrix.grad.mT
        exact = optim.orthogonal(wide[None], torch.float64)[0].float()
        moved = 0.2 * wide.shape[1] ** 0.5 * (exact if wide is matrix.grad else exact.mT)
        torch.testing.assert_close(was - matrix, moved, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["electra", "modern"])
def test_muon_has_the_matrices_of_the_layers_and_nothing_else(name: str):
    options = {"optimizer": "muon", "matrix_learning_rate": 4e-3, "max_gradient_norm": 0.5}
    model, config = pretrainer(name, **options)
    names_of = {id(p): name for name, p in model.named_parameters()}
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, config.learning_rate)
    matrices = [names_of[id(p)] for g in optimizer.matrix_groups for p in g["params"]]
    others = [names_of[id(p)] for g in optimizer.param_groups for p in g["params"]]
    assert all(".layers." in n and n.endswith("weight") for n in matrices)
    assert not any(".layers." in n and model.get_parameter(n).dim() == 2 for n in others)
    assert {*matrices, *others} == set(names_of.values())
    rates = [float(group["lr"]) for group in optimizer.matrix_groups]
    assert rates == pytest.approx([4e-3] * len(rates))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    norm, divisors = clip(optimizer, config)
    assert len(divisors) == len(optimizer.param_groups)
    grads = [p.grad.flatten() for g in optimizer.all_groups for p in g["params"]]
    assert norm.item() == pytest.approx(torch.cat(grads).norm().item(), rel=1e-5)


@pytest.mark.parametrize("clipping", ["together", "network"])
def test_each_clipped_part_has_the_norm_that_is_allowed(clipping: str):
    model, config = pretrainer("electra", clipping=clipping, max_gradient_norm=0.5)
    optimizer = make_optimizer(model, config)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        scale = 0.0001 if name.startswith("generator") else 1.0
        parameter.grad = torch.randn_like(parameter) * scale

    def norm_of(parameters):
        return torch.cat([p.grad.flatten() for p in parameters]).norm().item()

    whole, divisors = clip(optimizer, config)
    assert whole.item() == pytest.approx(norm_of(model.parameters()), rel=1e-5)
    for group, divisor in zip(optimizer.param_groups, divisors, strict=True):
        for parameter in group["params"]:
            parameter.grad /= divisor
    generator = [p for name, p in model.named_parameters() if name.startswith("generator")]
    others = [p for name, p in model.named_parameters() if not name.startswith("generator")]
    if clipping == "together":
        assert norm_of(model.parameters()) == pytest.approx(0.5, rel=1e-4)
    else:
        assert norm_of(others) == pytest.approx(0.5, rel=1e-4)
        assert norm_of(generator) < 0.5  # it was small, and stays as it is


def test_a_generator_with_a_rate_of_its_own_moves_as_fast_as_that():
    """All else equal, the update is in proportion to the rate; shared tables keep the main one."""
    options = {"num_steps": 10, "warmup_steps": 0, "weight_decay": 0.0}
    moves = {}
    for rate in (None, 3e-3):
        model, config = pretrainer("electra", **options, generator_learning_rate=rate)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer = make_optimizer(model, config)
        set_learning_rate(optimizer, config.learning_rate)
        torch.manual_seed(0)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        moves[rate] = {name: p.detach() - before[name] for name, p in model.named_parameters()}
    for name, moved in moves[3e-3].items():
        ratio = 3e-3 / config.learning_rate if name.startswith("generator") else 1.0
        torch.testing.assert_close(moved, moves[None][name] * ratio, rtol=2e-2, atol=1e-6)
