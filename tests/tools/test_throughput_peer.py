"""The peer computes what ours does: same weights, masks and samples, equal losses and gradients."""

import pytest
import torch

from model.networks.batch import SpecialTokens
from tools.throughput.electra_peer import peer_of
from tools.throughput.pretrain import Settings, make_model, zipf_pool

CPU = torch.device("cpu")
SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
CONFIG = Settings(device="cpu", size="tiny", dropout=0.0).config()


def test_losses_and_every_gradient_equal_ours():
    pool = zipf_pool(CONFIG, 4, 32, 300, SPECIAL)
    model = make_model(CONFIG, pool)
    peer = peer_of(model)
    batch = pool.batch(3, CPU)
    masked = model.mask(batch)
    outputs = model(masked)
    outputs.loss().backward()
    is_chosen = torch.zeros_like(batch.input_ids)
    is_chosen = is_chosen.scatter_add(1, masked.positions, masked.weights.long()) > 0
    sampled = batch.input_ids.scatter(1, masked.positions, outputs.samples.ids)[is_chosen]
    losses = peer(batch.input_ids, masked.masked_ids, is_chosen, batch.token_type_ids, sampled)
    losses.total.backward()
    torch.testing.assert_close(losses.total, outputs.loss())
    for name in ("generator", "discriminator"):
        ours = outputs.terms[name].mean(outputs.counts)
        torch.testing.assert_close(getattr(losses, name), ours)
    # as many parameters, and as a multiset of norms the same gradients
    ours, theirs = (
        sorted(float(p.grad.norm()) for p in of.parameters() if p.grad is not None)
        for of in (model, peer)
    )
    assert len(ours) == len(list(model.parameters()))
    assert theirs == pytest.approx(ours, rel=1e-4, abs=1e-6)
