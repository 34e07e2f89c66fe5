"""50 steps of training go as they went when the curve was stored.

Losses have formulas and an update has a reference in other tests; this one sees what those do not:
that the whole, data and draws included, still does what it did. Where a change is meant, write the
curve anew and look at its difference in git:

    GOLDEN=write python -m pytest tests/model/test_golden_curve.py
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model.data import StepData
from model.networks.objectives import make_pretrainer
from model.optim import make_optimizer
from tests.model.conftest import NO_DROPOUT, make_config, train_step, write_tiny_shards
from vocab.shards.files import TokenShards

CURVE = Path(__file__).parents[1] / "fixtures" / "golden_curve.json"
STEPS = (1, 10, 50)
OPTIONS = NO_DROPOUT | {
    "num_steps": 250,
    "warmup_steps": 20,
    "batch_size": 8,
    "micro_batch_size": 4,
    "learning_rate": 5e-4,
    "initializer_range": 0.1,
    "discriminator_weight": 10.0,
    "generator_hidden_fraction": 1.0,
}
Curve = list[dict[str, float]]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    number = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(number)


def train(folder: Path) -> Curve:
    """Figures of the batches of some steps, from the same weights, data and draws each time."""
    write_tiny_shards(folder / "shards")
    config = make_config(folder, **OPTIONS)
    data = StepData(config, TokenShards(folder / "shards"), 0, 1)
    torch.manual_seed(3)
    model = make_pretrainer(config.pretrain, data.last.vocab_size, data.last.special)
    optimizer = make_optimizer(model, config.pretrain)
    curve = []
    for number in range(STEPS[-1]):
        batches = data.micro_batches(number)
        outputs, norm = train_step(model, optimizer, batches, number, seed=config.seed)
        if number + 1 not in STEPS:
            continue
        figures = {"step": number + 1, "gradient_norm": norm.item()}
        for name in ("generator", "discriminator"):
            total = sum(out.terms[name].total.item() for out in outputs)
            count = sum(out.terms[name].count(out.counts).item() for out in outputs)
            figures[name] = total / count
        figures["replaced"] = sum(out.corrupted.labels.sum().item() for out in outputs)
        curve.append(figures)
    return curve


def test_the_curve_is_the_stored_one(tmp_path: Path):
    """Over kernels for AVX-512, AVX2 and neither, one thread and two, rounding changed nothing by
    more than 4e-7. A rate four times as high would make 4e-4 of that, and samples would flip."""
    curve = train(tmp_path)
    if os.environ.get("GOLDEN") == "write":
        lines = ",\n  ".join(json.dumps(figures) for figures in curve)
        CURVE.write_text(f"[\n  {lines}\n]\n")
    stored = json.loads(CURVE.read_text())
    assert [figures["step"] for figures in stored] == list(STEPS)
    for found, expected in zip(curve, stored, strict=True):
        assert found == pytest.approx(expected, rel=1e-4), expected["step"]
    first, last = stored[0], stored[-1]  # and it learns
    assert last["generator"] < 0.8 * first["generator"]
    assert last["discriminator"] < 0.8 * first["discriminator"]
