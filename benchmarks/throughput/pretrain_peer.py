"""The step that a competent user of `transformers` writes: the peer that ours is timed against.

Written from the description of the best-known PyTorch recipe: generator and discriminator are the
library's own classes sharing one embedding module, the generator's head runs over all positions,
cross-entropy and Gumbel sampling see the masked ones, and the discriminator's binary cross-entropy
counts 50 times. What would only slow it is left out: token types arrive ready in place of being
built from lists, attention gets no mask where nothing is padded, and the optimiser is batched.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from benchmarks.throughput.pretrain_systems import Pool, make_model
from electrify.config.pretrain import PretrainConfig
from model.batch import Counts, Masked, SpecialTokens
from model.devices.device import autocast
from model.electra import ElectraPretrainer
from model.schedule import learning_rate
from model.train.processes import ALONE
from model.train.replay import compile_parts
from model.train.step import AS_WRITTEN
from model.weights.names import to_transformers

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclass(frozen=True)
class PeerLosses:
    """Of one forward pass: means, as the recipe takes them."""

    generator: Tensor
    discriminator: Tensor
    total: Tensor


@dataclass(frozen=True)
class PeerBatch:
    """What the recipe reads: (B, L) int64 both; it draws its own randomness on the device."""

    input_ids: Tensor
    token_type_ids: Tensor
    packed: bool


class HuggingFaceElectra(nn.Module):
    """`ElectraForMaskedLM` and `ElectraForPreTraining` around one embedding module."""

    generator: Any
    discriminator: Any

    def __init__(
        self,
        generator: Any,  # ElectraForMaskedLM, whose parts torch cannot type
        discriminator: Any,  # ElectraForPreTraining
        generator_weight: float,
        discriminator_weight: float,
    ) -> None:
        super().__init__()
        generator.electra.embeddings = discriminator.electra.embeddings
        generator.generator_lm_head.weight = generator.electra.embeddings.word_embeddings.weight
        self.generator, self.discriminator = generator, discriminator
        self.weights = generator_weight, discriminator_weight

    def forward(
        self,
        input_ids: Tensor,  # (B, L), the original text
        masked_ids: Tensor,  # (B, L)
        is_chosen: Tensor,  # (B, L) bool
        token_type_ids: Tensor,  # (B, L)
        attention_mask: Tensor | None,  # (B, L), 1 where there is a token; None: everywhere
        sampled: Tensor | None = None,  # (number chosen,) in the order of the text; None: sample
    ) -> PeerLosses:
        """Losses of a batch; `sampled` takes the place of sampling, for comparisons."""
        logits = self.generator(
            masked_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).logits[is_chosen]
        originals = input_ids[is_chosen]
        generator_loss = F.cross_entropy(_at_least_fp32(logits), originals)
        with torch.no_grad():
            if sampled is None:
                sampled = gumbel_sample(logits)
            corrupted = input_ids.masked_scatter(is_chosen, sampled)
            labels = corrupted != input_ids
        found = self.discriminator(
            corrupted, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).logits
        if attention_mask is not None:
            real = attention_mask.bool()
            found, labels = found[real], labels[real]
        found = _at_least_fp32(found)
        detection_loss = F.binary_cross_entropy_with_logits(found, labels.to(found.dtype))
        first, second = self.weights
        return PeerLosses(
            generator_loss, detection_loss, first * generator_loss + second * detection_loss
        )


def gumbel_sample(logits: Tensor) -> Tensor:
    """argmax of logits plus Gumbel noise: a sample from their softmax, (N, V) to (N,)."""
    uniform = torch.rand_like(logits, dtype=torch.float32).clamp_(min=1e-20)
    return (logits.float() - torch.log(-torch.log(uniform))).argmax(dim=-1)


def _at_least_fp32(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def peer_of(model: ElectraPretrainer) -> HuggingFaceElectra:
    """The peer with the weights of ours, on the CPU, in training mode."""
    config = model.config
    # generators and discriminators of the other objectives are not what the recipe trains
    assert config.objective == "electra"
    assert config.weight_sharing == "embeddings"
    generator, discriminator = (
        _with_sdpa(to_transformers(model, folder)) for folder in ("generator", "discriminator")
    )
    peer = HuggingFaceElectra(generator, discriminator, config.generator_weight, config.main_weight)
    return peer.train()


def _with_sdpa(network: PreTrainedModel) -> PreTrainedModel:
    network.set_attn_implementation("sdpa")
    return network


def choose(
    input_ids: Tensor, special: SpecialTokens, config: PretrainConfig
) -> tuple[Tensor, Tensor]:
    """The recipe's dynamic masking: each token by itself; the generator's input, what is chosen."""
    maskable = (input_ids != special.cls) & (input_ids != special.sep) & (input_ids != special.pad)
    # as many positions as ours chooses, [CLS] and [SEP] being out
    length = input_ids.shape[1]
    share = config.num_masked(length) / (length - 3)
    is_chosen = (torch.rand(input_ids.shape, device=input_ids.device) < share) & maskable
    shown = torch.rand(input_ids.shape, device=input_ids.device) < config.mask_token_fraction
    return input_ids.masked_fill(is_chosen & shown, special.mask), is_chosen


def make_peer_optimizer(
    peer: HuggingFaceElectra, config: PretrainConfig, fused: bool
) -> torch.optim.AdamW:
    """torch's AdamW, batched (`foreach`) or fused; biases and LayerNorms are not decayed."""
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in peer.named_parameters():
        is_plain = name.endswith("bias") or "LayerNorm" in name
        (plain if is_plain else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    how = {"fused": True} if fused else {"foreach": True}
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(groups, config.learning_rate, betas, config.adam_epsilon, **how)


def peer_step(
    peer: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: PeerBatch,
    config: PretrainConfig,
    special: SpecialTokens,
    step: int,
) -> Tensor:
    """One update of the peer (`HuggingFaceElectra`, compiled or not); its total loss."""
    ids = batch.input_ids
    masked_ids, is_chosen = choose(ids, special, config)
    attention_mask = None if batch.packed else (ids != special.pad).long()
    with autocast(config, ids.device):
        losses: PeerLosses = peer(ids, masked_ids, is_chosen, batch.token_type_ids, attention_mask)
    losses.total.backward()  # type: ignore[no-untyped-call]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, config.max_gradient_norm, foreach=True)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, config)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return losses.total.detach()


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
