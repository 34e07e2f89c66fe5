"""The optimiser equals a literal reference and torch's own; its groups are complete."""

import pytest
import torch
from torch import nn

from electrify.config.pretrain import PretrainConfig
from model import optim
from model.networks.electra import ElectraPretrainer
from model.optim import AdamW, Muon, clip, make_optimizer, set_learning_rate
from tests.model.conftest import MODERN, VARIANTS, random_model

MUON = {"optimizer": "muon", "matrix_learning_rate": 4e-3}
KINDS = VARIANTS | {
    "bias-corrected": {"optimizer": "bias-corrected"},
    "muon": MUON,
    "modern muon": MODERN | MUON,
    "own rate": {"generator_learning_rate": 3e-3},
}


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
        counted = optimizer.tensors({"p": parameter}).get("num_steps/p")
        assert counted == (expected if bias_correction else None)


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


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_matrices_of_a_run_without_bf16_are_multiplied_in_fp32(precision: str):
    optimizer = make_optimizer(*pretrainer("muon", precision=precision))
    assert isinstance(optimizer, Muon)
    assert optimizer._products == (torch.bfloat16 if precision == "bf16" else torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_in_one_group_with_its_decay_and_rate(kind: str):
    """Muon has the matrices of the layers; shared tables keep the main rate."""
    model, config = pretrainer(kind)
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, config.learning_rate)
    names_of = {id(p): name for name, p in model.named_parameters()}
    found = [(names_of[id(p)], of) for of in optimizer.all_groups for p in of["params"]]
    assert sorted(name for name, _ in found) == sorted(names_of.values())
    for name, of in found:
        is_matrix = model.get_parameter(name).ndim == 2  # biases and LayerNorms are the vectors
        assert of["weight_decay"] == (config.weight_decay if is_matrix else 0)
        by_muon = config.optimizer == "muon" and ".layers." in name and is_matrix
        assert any(of is group for group in getattr(optimizer, "matrix_groups", ())) == by_muon
        rate = config.generator_learning_rate if name.startswith("generator") else None
        rate = config.matrix_learning_rate if by_muon else rate
        assert of["lr"].item() == pytest.approx(rate or config.learning_rate), name
    assert optimizer.bias_correction == (config.optimizer != "paper")


@pytest.mark.parametrize(
    ("kind", "clipping"), [("electra", "together"), ("electra", "network"), ("muon", "together")]
)
def test_each_clipped_part_has_the_norm_that_is_allowed(kind: str, clipping: str):
    """The matrices of Muon count in the norm that is shown, and are not clipped."""
    model, config = pretrainer(kind, clipping=clipping, max_gradient_norm=0.5)
    optimizer = make_optimizer(model, config)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        scale = 0.0001 if name.startswith("generator") else 1.0
        parameter.grad = torch.randn_like(parameter) * scale

    def norm_of(parameters):
        return torch.cat([p.grad.flatten() for p in parameters]).norm().item()

    whole, divisors = clip(optimizer, config)
    assert whole.item() == pytest.approx(norm_of(model.parameters()), rel=1e-5)
    parts: dict[str, list[nn.Parameter]] = {}
    for group, divisor in zip(optimizer.param_groups, divisors, strict=True):
        for parameter in group["params"]:
            parameter.grad /= divisor
        parts.setdefault(group["network"], []).extend(group["params"])
    assert norm_of(parts["main"]) == pytest.approx(0.5, rel=1e-4)
    if clipping == "network":
        assert norm_of(parts["generator"]) < 0.5  # it was small, and stays as it is
