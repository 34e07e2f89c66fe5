"""Correct first: ours, as it will be timed, against `transformers` in fp64 on the CPU."""

import torch
from torch import Tensor

from benchmarks.throughput.pretrain_data import Pool
from benchmarks.throughput.pretrain_variants import make_model
from electrify.config.pretrain import PretrainConfig
from model.batch import Counts, Masked
from model.devices.device import autocast
from model.train.processes import ALONE
from model.train.replay import compile_parts
from model.train.step import AS_WRITTEN

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def compare_with_peer(
    config: PretrainConfig,
    pool: Pool,
    device: torch.device,
    compiled: bool = False,
    num_sequences: int = 4,
) -> dict[str, float]:
    """Losses of both on the same weights, text, masks and samples, dropout off.

    Also the relative error of the gradient of the shared word table, in which all of both networks
    meets. The peer computes in fp64; ours in the type of the config and the device, and where
    steps are compiled by what the compiler makes of it.
    """
    from benchmarks.throughput.pretrain_peer import peer_of

    config = config.model_copy(update=NO_DROPOUT)
    model = make_model(config, pool)
    peer = peer_of(model).double()
    model.to(device)
    batch = pool.batch(0).rows(slice(0, num_sequences))
    parts = compile_parts(model, ALONE)[0] if compiled else AS_WRITTEN
    masked = parts.mask(model, batch.to(device))
    with autocast(config, device):
        loss, outputs = parts.loss_of(model, masked, Counts.of(masked), "joint", None)
    loss.backward()  # type: ignore[no-untyped-call]
    assert outputs.sampled is not None
    is_chosen, sampled = in_text_order(masked, outputs.sampled)
    attention_mask = None if batch.packed else (batch.input_ids != pool.special.pad).long()
    losses = peer(
        batch.input_ids,
        masked.masked_ids.cpu(),
        is_chosen,
        batch.token_type_ids,
        attention_mask,
        sampled,
    )
    losses.total.backward()
    found: dict[str, float] = {}
    for name in ("generator", "discriminator"):
        ours = float(outputs.terms[name].mean(outputs.counts).detach())
        theirs = float(getattr(losses, name).detach())
        found |= {
            f"{name}_loss": ours,
            f"{name}_loss_of_peer": theirs,
            f"{name}_relative_error": abs(ours - theirs) / theirs,
        }
    table = peer.discriminator.electra.embeddings.word_embeddings.weight
    found["word_gradient_relative_error"] = _relative(model.embeddings.word.weight, table)
    return found


def in_text_order(masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """What is chosen (B, L) bool, and the samples there one after the other, both on the CPU."""
    ids, positions = masked.batch.input_ids, masked.positions
    is_chosen = torch.zeros_like(ids).scatter_add(1, positions, masked.weights.long()) > 0
    filled = ids.scatter(1, positions, sampled)
    return is_chosen.cpu(), filled[is_chosen].cpu()


def _relative(ours: Tensor, theirs: Tensor) -> float:
    assert ours.grad is not None
    assert theirs.grad is not None
    difference = ours.grad.cpu().double() - theirs.grad
    return float(difference.norm() / theirs.grad.norm())
