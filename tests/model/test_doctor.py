"""What `electrify doctor --train` says of a run's steps."""

import math

import pytest
import torch

from electrify.system.outcome import UserError
from model.doctor import describe_step_time, measure
from model.plan import phases_of
from tests.model.conftest import MODERN, make_config, make_run

CPU = torch.device("cpu")


@pytest.mark.parametrize("options", [{}, MODERN | {"optimizer": "muon"}], ids=["electra", "modern"])
def test_the_parts_are_the_whole_step_and_products_and_the_optimizer_among_them(tmp_path, options):
    curriculum = ({"steps_fraction": 0.5, "sequence_length": 16},)
    config = make_run(tmp_path / "run", **options, curriculum=curriculum)
    step = measure(config, CPU, seconds=0.1)
    assert math.isclose(step.waited + sum(step.parts.values()), step.total, rel_tol=1e-6)
    assert {"matrix products", "optimizer"} <= set(step.parts)
    assert min(step.parts.values()) >= 0
    last = phases_of(config.pretrain)[-1]
    assert step.num_tokens == last.batch_size * last.sequence_length


def test_a_run_without_shards_is_refused(tmp_path):
    with pytest.raises(UserError, match="electrify encode"):
        list(describe_step_time(make_config(tmp_path)))
