"""The optimiser equals a literal reference and torch's own; the schedule its formula."""

import pytest
import torch
from torch import nn

from model.electra import ElectraPretrainer
from model.optim import AdamW, learning_rate, make_optimizer, set_learning_rate, split_parameters


def run(optimizer_of, steps: int = 5) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = optimizer_of(list(net.parameters()))
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        net(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def test_bias_corrected_equals_torch_adamw():
    def ours(parameters):
        group = {"params": parameters, "weight_decay": 0.1, "lr": 0.01}
        return AdamW([group], (0.9, 0.99), 1e-6, bias_correction=True)

    def theirs(parameters):
        return torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)

    for a, b in zip(run(ours), run(theirs), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_paper_variant_equals_a_literal_reference():
    class Literal:
        """One tensor, one line of model/optimization.py:113-133 at a time."""

        def __init__(self, parameters):
            self.parameters = parameters
            self.m = [torch.zeros_like(p) for p in parameters]
            self.v = [torch.zeros_like(p) for p in parameters]

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

        def step(self):
            for i, p in enumerate(self.parameters):
                self.m[i] = 0.9 * self.m[i] + (1 - 0.9) * p.grad
                self.v[i] = 0.999 * self.v[i] + (1 - 0.999) * p.grad**2
                update = self.m[i] / (self.v[i].sqrt() + 1e-6)
                update = update + 0.01 * p.data
                p.data = p.data - 0.005 * update

    def ours(parameters):
        group = {"params": parameters, "weight_decay": 0.01, "lr": 0.005}
        return AdamW([group], (0.9, 0.999), 1e-6, bias_correction=False)

    for a, b in zip(run(ours), run(Literal), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_every_parameter_is_in_one_group_and_is_trained(model: ElectraPretrainer, config, data):
    decayed, plain = split_parameters(model)
    assert not set(decayed) & set(plain)
    assert set(decayed) | set(plain) == {name for name, _ in model.named_parameters()}
    assert {"embeddings.word.weight", "discriminator.project.weight"} <= set(decayed)
    assert {"generator_head.bias", "embeddings.norm.weight"} <= set(plain)
    assert all("norm" in name or name.endswith("bias") for name in plain)

    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = make_optimizer(model, config.pretrain)
    batch = data.batch(0, 4)
    out = model(batch.input_ids, batch.token_type_ids, torch.Generator().manual_seed(0))
    out.loss.backward()
    set_learning_rate(optimizer, 1e-2)
    optimizer.step()
    still = [n for n, p in model.named_parameters() if torch.equal(p.detach(), before[n])]
    # a key bias shifts all scores of a query alike, so its gradient is zero up to rounding
    assert not [name for name in still if not name.endswith("key.bias")]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.0), (1, 2e-3 * (11 / 12) / 2), (2, 2e-3 * 10 / 12), (6, 1e-3), (11, 2e-3 / 12)],
)
def test_warmup_and_decay_apply_together(config, step: int, expected: float):
    assert learning_rate(step, config.pretrain) == pytest.approx(expected)
