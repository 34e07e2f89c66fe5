"""Correct first: ours, as it will be timed, against `transformers` in fp64 on the CPU."""

import torch
from torch import Tensor

from benchmarks.throughput.pretrain_data import Pool
from benchmarks.throughput.pretrain_variants import make_model
from electrify.config_pretrain import PretrainConfig
from model.batch import Masked
from model.device import autocast

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def compare_with_peer(
    config: PretrainConfig, pool: Pool, device: torch.device, num_sequences: int = 4
) -> dict[str, float]:
    """Losses of both on the same weights, text, masks and samples, dropout off.

    Also the relative error of the gradient of the shared word table, in which all of both networks
    meets. The peer computes in fp64; ours as the config and the device say.
    """
    from benchmarks.throughput.pretrain_peer import peer_of

    config = config.model_copy(update=NO_DROPOUT)
    model = make_model(config, pool)
    peer = peer_of(model).double()
    model.to(device)
    batch = pool.batch(0).rows(slice(0, num_sequences))
    masked = model.mask(batch.to(device))
    with autocast(config, device):
        outputs = model(masked)
    outputs.loss().backward()
    assert outputs.sampled is not None
    is_chosen, sampled = in_text_order(masked, outputs.sampled)
    attention_mask = None if batch.packed else (batch.input_ids != pool.special.pad).long()
    losses = peer(
        batch.input_ids, masked.masked_ids.cpu(), is_chosen, batch.token_type_ids, attention_mask,
        sampled,
    )  # fmt: skip
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
