"""The counts that a step of pretraining is held to, beside those of the peer."""

from dataclasses import replace

import pytest
import torch

from model import vocabulary_head as head_loss
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
NUM_SLOTS = 4  # int(0.155 x 32)
SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
SETTINGS = Settings(device="cpu", size="tiny", rounds=2, steps=1, vocab_size=VOCAB_SIZE)


def tiny_pool() -> Pool:
    return zipf_pool(SETTINGS.config(), BATCH_SIZE, LENGTH, VOCAB_SIZE, SPECIAL)


def recorded_step(system: System) -> Recorded:
    """A step of a system that has made its moments."""
    system.run_first()
    return record(lambda: system.run(1))


def rows_over_vocabulary(found: Recorded) -> dict[torch.dtype, list[int]]:
    """Of each tensor as wide as the vocabulary or a little more, by type: its rows."""
    rows: dict[torch.dtype, list[int]] = {}
    for (shape, dtype), count in found.made.items():
        if len(shape) > 1 and VOCAB_SIZE <= shape[-1] < 2 * VOCAB_SIZE:
            rows.setdefault(dtype, []).extend([torch.Size(shape[:-1]).numel()] * count)
    return rows


def test_logits_are_never_there_for_more_than_a_chunk_of_the_masked_positions(monkeypatch):
    """So no tensor of [all positions, vocabulary], and none of [masked ones, vocabulary]."""
    monkeypatch.setitem(head_loss._CHUNK_ELEMENTS, "cpu", 6 * VOCAB_SIZE)
    chunks = [6, 6, 4]
    assert sum(chunks) == BATCH_SIZE * NUM_SLOTS
    fp32, bf16 = (
        rows_over_vocabulary(recorded_step(make_ours(config, tiny_pool(), CPU)))
        for config in (SETTINGS.config(), replace(SETTINGS, precision="bf16").config())
    )
    # two of a chunk: logits, in whose place their gradient is, and probabilities
    assert fp32.keys() == {torch.float32}
    assert sorted(fp32[torch.float32]) == sorted(chunks * 2)
    assert {dtype: sorted(rows) for dtype, rows in bf16.items()} == {
        torch.bfloat16: sorted(chunks),
        torch.float32: sorted(chunks),
    }
    # the recorder does see all positions where they are: the peer's head runs over them
    peer = recorded_step(make_peer(SETTINGS.config(), tiny_pool(), CPU, compiled=False))
    assert max(rows_over_vocabulary(peer)[torch.float32]) == BATCH_SIZE * LENGTH


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
    # the sums of its figures, of which the peer has none, and a second group that counts its steps
    assert (ours_1 - layer) - (peer_1 - peer_layer) <= 114
