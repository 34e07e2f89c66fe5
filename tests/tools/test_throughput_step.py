"""The counts that a step of pretraining is held to, beside those of the peer."""

from dataclasses import replace

import pytest
import torch

from model.batch import SpecialTokens
from tests.model.operators import Recorded, record
from tools.throughput.pretrain import (
    Pool,
    Settings,
    System,
    make_ours,
    make_peer,
    zipf_pool,
)

CPU = torch.device("cpu")
VOCAB_SIZE, BATCH_SIZE, LENGTH = 300, 4, 32
SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
SETTINGS = Settings(device="cpu", size="tiny", rounds=2, steps=1, vocab_size=VOCAB_SIZE)


def tiny_pool() -> Pool:
    return zipf_pool(SETTINGS.config(), BATCH_SIZE, LENGTH, VOCAB_SIZE, SPECIAL)


def recorded_step(system: System) -> Recorded:
    """A step of a system that has made its moments."""
    system.run_first()
    return record(lambda: system.run(1))


# of both networks' layer, forward and backward: the peer has 129 and 205
@pytest.mark.parametrize(("precision", "most"), [("fp32", 113), ("bf16", 133)])
def test_a_step_of_ours_dispatches_no_more_operators(precision: str, most: int):
    def working(depth: int) -> tuple[int, int]:
        config = replace(SETTINGS, precision=precision).config()
        config = config.model_copy(update={"num_hidden_layers": depth})
        ours = recorded_step(make_ours(config, tiny_pool(), CPU))
        peer = recorded_step(make_peer(config, tiny_pool(), CPU, compiled=False))
        return ours.working, peer.working

    (ours_1, peer_1), (ours_2, peer_2) = working(1), working(2)
    layer, peer_layer = ours_2 - ours_1, peer_2 - peer_1
    assert layer <= most < peer_layer
    # outside the layers stand masking on the device, sampling by two draws, the norm of a step and
    # the sums of its figures, of which the peer has none, a second loss, and a second group that
    # counts its steps
    assert (ours_1 - layer) - (peer_1 - peer_layer) <= 117
